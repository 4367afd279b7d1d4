"""Pages for a browser: what they are made of (assets.py), the report of a run folder (report.py), and the playground.

The playground: protocol.py says what its page may ask for, lakes.py makes problems and run folders of it, sessions.py
holds a visitor's side of the conversation, server.py is the server.
"""

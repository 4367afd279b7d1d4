"""The playground: a page on which a lake is painted and agents learn it.

protocol.py defines the messages and their limits, lakes.py makes problems and run folders, sessions.py is one visitor,
server.py the server.
"""

"""Pages for a browser.

assets.py (scripts, templates, Plotly), report.py (the report of a run), watch.py (frames of a run), playground/.
"""

"""Pages for a browser: what they are made of (assets.py), and the report of a run folder (report.py)."""

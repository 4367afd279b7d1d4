"""Comparisons of safe learners from files of results, of any software: `everystep leaderboard`.

results.schema.json is the format, results_files.py reads and checks it, measures.py holds the statistics (arrays in,
numbers out), board.py applies them, text.py and figures.py show them; monitor.py writes such files from the episodes of
other software.
"""

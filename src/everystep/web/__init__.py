"""Pages for a browser.

assets.py (scripts, templates, Plotly), report.py (the report of a run), charts.py (its charts, one record each),
watch.py (frames of a run), playground/.
"""

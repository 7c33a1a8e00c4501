"""Charts of the report page as plain plotly dictionaries: the page draws them, so that Python needs no browser.

chart.py says what a chart is (open it first); every other file makes those of one kind, and compose.py imports from
them what the page shows.
"""

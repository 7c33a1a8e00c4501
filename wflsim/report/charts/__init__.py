"""Charts as plain plotly dictionaries: the page draws them, Python never needs to."""

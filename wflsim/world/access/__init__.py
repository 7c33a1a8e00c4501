"""How clients share the radio medium of one cell: dedicated bands, TDMA, OFDMA or a planned split.

Import `Cell`, `CellSpec` and `Broadcast` from `access.py`, `Flow` and `Medium` from `medium.py`; nothing else is used
outside this room. Open `medium.py` first: it says what a flow and a medium are.
"""

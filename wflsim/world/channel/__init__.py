"""The channel: SNR of every client as a function of time, and what it means for rates, power and lost uploads.

`radio.py` holds the scenario's `radio` block and builds both directions from it: channels (`channel.py`, with
`path_loss.py`, `placement.py`, `fading.py`, `traces.py`), rate rules (`rates.py`) and failing uploads (`loss.py`),
joined to a `Link` (`link.py`), which answers how long a transfer takes. Import `Radio` and `RadioSpec` from `radio.py`
and `Link` from `link.py`. Open `channel.py` first.
"""

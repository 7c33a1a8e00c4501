"""The loop: a policy's requests, stepped with a learner and a carrier.

|                | carrier: instant        | carrier: SimPy world                                        |
|----------------|-------------------------|-------------------------------------------------------------|
| learner: torch | rehearse: pure learning | live: needed whenever the world can change the learning     |
| learner: trace | -                       | replay: exact whenever the world cannot change the learning |

Import `drive` from `loop.py`, `Training` from `training.py`, `Replay` from `replay.py`, `StopSpec` from `stop.py`. Open
`loop.py` first; `checkpoint.py` saves a learning state.
"""

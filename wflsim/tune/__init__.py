"""Tuning: which candidate reaches the target for the least energy, time or cost, in one regime or over a map of them.

`study.py` (open it first) asks the question for every policy and regime. `space.py` says what the knobs may be set to,
`attempt.py` which settings are tried: all, those of a search over tau (`growth.py`) or a sample (`sampling.py`).
Candidates are trained once and replayed in all regimes (`curves.py`, `walk.py`), co-simulated (`live.py`), or taken
from a published table (`published.py`, `dry.py`); `physical.py` minimises knobs that change only time and energy.
`search.py` gives up what cannot win any more, `choice.py` and `chance.py` choose and say how sure the choice is.
`folder.py` writes the tables, `words.py` the answer, `picture.py` the map. Import `tune` from `folder.py` and `study`
from `study.py`.
"""

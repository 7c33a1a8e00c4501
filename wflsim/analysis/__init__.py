"""What the rows of finished runs say: costs to the target, intervals, ranking, pairs, stragglers, and sentences.

One rule has one home here, and the terminal, the report page, sweeps and tuning all ask it. `tables.py` (open it first)
turns rows into one line per run and per policy, by the rule of `wflsim.target`; `intervals.py` has the 95 % intervals,
`ranking.py` which policy is best and by how much, `legs.py` stragglers, failures and energy by cause, `joining.py` runs
of several folders, `regimes.py` maps over swept keys, `noise.py` a warning, `answer.py` and `formats.py` the words.
Import any public name from its module. Everything works on pandas frames; nothing here trains or simulates.
"""

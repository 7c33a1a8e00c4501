"""The server's algorithms, one paper per file, each with its client half; equations and pitfalls: docs/policies.md.

A policy is a frozen object of hyper-parameters whose `round` is a generator of requests (`wflsim.exchange`), driven by
`wflsim.simulation`. It knows no clock, no radio, no records. Open `fedavg.py` first, the shortest, then `base.py`: what
every policy is, and what all of them do about lost replies and compression. `registry.py` lists the policies;
`sampling.py`, `dual.py` and `steps.py` are what several of them share. Other rooms import `base.Policy`,
`registry` and `sampling.pick`.
"""

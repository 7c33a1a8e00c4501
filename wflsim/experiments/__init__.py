"""Many runs: the plan (regimes x policies x seeds), one training for all that learn alike, and where it is computed.

`plan.py` (open it first) lists the regimes and runs of a scenario. `compute.py` computes a plan in a
`pool.py` (local processes or Ray) and tries failures once more; `cached.py` trains what the store does not know yet,
and `keepers.py` keeps what is finished, in a folder (`run.py`) or in the store (`sweep.py`). `compare.py` joins
finished folders. Import `run`, `run_sweep`, `compare`, and for other experiments `plan`, `compute` and a keeper.
"""

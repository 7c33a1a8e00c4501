"""Mutation testing: put one small error at a time into wflsim and see whether a test fails (`make mutants`).

Why a script: mutmut 3 mutates function bodies only (every default, limit and published constant here stands in a class
or module body) and cosmic-ray edits the working tree and starts a fresh interpreter, so imports torch, for every
mutant; neither draws a sample by a seed. Start reading in `__main__.py`; `operators.py` lists the kinds of errors,
`draw.py` which are tried, `cover.py` which tests touch which line, `judge.py` decides on one, `trial.py` runs tests on
it, `table.py` writes reports/proof.
"""

"""Science about the paper, the policies and the program itself; no part of the program, and no measurement of speed.

Each file is one study and says on top which question it answers, by which command (`python -m studies.winner`, in the
root of the repository) and which files below reports/ it writes. `paper/` reproduces the DRDM paper, `policies/`
compares the policies, `mutants/` tests the tests. Measurements of speed are in benchmarks/.
"""

"""The reproduction of the DRDM paper's tables, figures and theorem; `make paper` builds its page from committed runs.

`study.py` says what is run and reads the committed runs: open it first. `search.py`, `train.py` and `theory.py` compute
(hours), `tables.py`, `figures.py` and `claims.py` derive tables, pictures and verdicts, and `build.py` writes
reports/paper/ and the README's headline. words.md and theory.template.md hold what was written by hand.
"""

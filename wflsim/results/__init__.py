"""What is written and found again: result folders, and the store of traces and finished runs.

`opening.py` holds a folder for one process while results are written in it, `reader.py` is the one reader of folders,
strict or forgiving, `folders.py` and `rows.py` say what the files of a folder are and when to believe them. `store.py`
keeps traces and records of runs by their `digest.py`, the name of a result by its causes. Import `opened`,
`FolderReader`, `Store`, `learning_digest` and `run_digest`. Open `folders.py` first: it draws a folder.
"""

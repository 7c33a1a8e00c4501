"""Data sets as numpy arrays, and their partition among clients.

`arrays.py` says what a data set is; `sets.py` (open it first) has the specs of all data sets and `load`; `partition.py`
the specs of all partitions and `divide`, with the paper's partition (Zipf sizes, Dirichlet class mixes) in `zipf.py`.
`vision.py` alone imports torchvision. Import `load` and `DataSpec` from `sets.py`, `divide` and `PartitionSpec` from
`partition.py`.
"""

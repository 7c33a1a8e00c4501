"""Real training on real data: data sets and who owns which samples, models and their gradients, clients, the learner.

Other rooms import the specs below, `build.build` (from specs to a learner), `learner.Learner` (trains and evaluates
clients) and `metrics`. Importing this package imports no torch, so that `wflsim check` reads a scenario quickly. Open
`learner.py` first, then `clients.py` (a chunk of clients as their own code sees it); `data/` and `models/` are rooms of
their own.
"""

from wflsim.learning.data.partition import PartitionSpec
from wflsim.learning.data.sets import DataSpec
from wflsim.learning.specs import ModelSpec, TrainSpec

__all__ = ["DataSpec", "ModelSpec", "PartitionSpec", "TrainSpec"]

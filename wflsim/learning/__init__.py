"""Real training on real data. The specs below import no torch: `wflsim check` reads a scenario without it."""

from wflsim.learning.data import DataSpec
from wflsim.learning.partition import PartitionSpec
from wflsim.learning.specs import ModelSpec, TrainSpec

__all__ = ["DataSpec", "ModelSpec", "PartitionSpec", "TrainSpec"]

"""The list of all policies. A new policy is a file, its import here and its name in the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from wflsim.policies.afl import AFL
from wflsim.policies.base import Policy
from wflsim.policies.clustered import ClusteredFL
from wflsim.policies.ditto import Ditto
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fedavgm import FedAvgM
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedopt import FedAdagrad, FedAdam, FedYogi
from wflsim.policies.fedprox import FedProx
from wflsim.policies.fedrobust import FedRobust
from wflsim.policies.ifca import IFCA
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.qffl import QFedAvg, QFedSGD
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD
from wflsim.policies.scallion import SCAFCOM, SCALLION

POLICIES: tuple[type[Policy], ...] = (
    FedAvg, LocalSGD, FedProx, FedDyn, SCAFFOLD, AFL, DRFA, DRDM, LambdaDRDM, SCAFFPD, FedAsync, FedBuff,
    Ditto,
    ClusteredFL,
    FedNova,
    QFedAvg, QFedSGD,
    FedAvgM,
    FedAdagrad, FedAdam, FedYogi,
    SCALLION, SCAFCOM,
    IFCA,
    FedRobust,
)  # fmt: skip
"""In the order in which `wflsim list policies` shows them."""

if TYPE_CHECKING:
    PolicySpec = Policy
else:
    PolicySpec = Annotated[Union[POLICIES], Field(discriminator="name")]  # noqa: UP007 (members of a tuple)
    """Any policy, chosen in a scenario by its `name`."""

"""The list of policies. A new one is a file and a line here (two, for those who check types)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wflsim.policies.afl import AFL
from wflsim.policies.base import Policy
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fedprox import FedProx
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD

PolicySpec = Annotated[
    FedAvg | LocalSGD | FedProx | FedDyn | SCAFFOLD | AFL | DRFA | DRDM | LambdaDRDM | SCAFFPD | FedAsync | FedBuff,
    Field(discriminator="name"),
]
POLICIES: tuple[type[Policy], ...] = (
    FedAvg, LocalSGD, FedProx, FedDyn, SCAFFOLD, AFL, DRFA, DRDM, LambdaDRDM, SCAFFPD, FedAsync, FedBuff,
)  # fmt: skip

"""The list of policies. A new one is a file and a line here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wflsim.policies.base import Policy
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg

POLICIES: tuple[type[Policy], ...] = (FedAvg, DRDM)

PolicySpec = Annotated[FedAvg | DRDM, Field(discriminator="name")]

"""The list of all built-in policies, and the door by which users' policies come in beside them.

A new built-in policy is a file, its import here and its name in the list. One of a user's own is named by its file
(`./mine.py:Mine`), by its module (`my_lab.policies:Mine`), or announced by an installed package as an entry point of
the group `wflsim.policies`; docs/write_a_policy.md says how it is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field

from wflsim.door import Door
from wflsim.policies.afl import AFL
from wflsim.policies.base import Policy
from wflsim.policies.clustered import ClusteredFL
from wflsim.policies.ditto import Ditto
from wflsim.policies.drdm import DRDM
from wflsim.policies.drdsgd import DRDSGD
from wflsim.policies.drfa import DRFA
from wflsim.policies.dsgd import DSGD
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fedavgm import FedAvgM
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedopt import FedAdagrad, FedAdam, FedYogi
from wflsim.policies.fedprox import FedProx
from wflsim.policies.fedrobust import FedRobust
from wflsim.policies.ifca import IFCA, IFCASGD
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
    DSGD, DRDSGD,
    SCALLION, SCAFCOM,
    IFCA, IFCASGD,
    FedRobust,
)  # fmt: skip
"""In the order in which `wflsim list policies` shows them."""

BUILTIN: dict[str, type[Policy]] = {str(policy.model_fields["name"].default): policy for policy in POLICIES}
"""Policies of this package by their names."""


def _wrong(found: type[Any]) -> str | None:
    """What a user's class lacks to be a policy, as a sentence about it; None if it is one."""
    if found in POLICIES:
        return f"is built in; write name: {found.model_fields['name'].default}"
    if missing := [name for name in ("paper", "down", "up") if not getattr(found.about, name)]:
        example = "about = About('my own', down='1v', up='1v')"
        return f"does not say its {' and '.join(missing)}: write into the class, for example, {example}"
    if found.round is Policy.round:
        return "has no method round, which every policy needs"
    for payload in (found.about.down, found.about.up):
        if not _PAYLOAD.fullmatch(payload):
            return f"sends {payload!r}; write the model vectors and scalars of each phase, such as 1v+1s / 1v"
    return None


_PAYLOAD = re.compile(r"\w+[vsc](\+\w+[vsc])*( / \w+[vsc](\+\w+[vsc])*)*")
DOOR = Door("policy", "wflsim.policies", Policy, tuple(BUILTIN), _wrong)

if TYPE_CHECKING:
    PolicySpec = Policy
else:
    PolicySpec = Annotated[Union[POLICIES], Field(discriminator="name"), DOOR]  # noqa: UP007 (members of a tuple)
    """Any policy, chosen in a scenario by its `name`."""


def policy_class(name: str) -> type[Policy]:
    """The policy that a scenario names so, built in or brought; ValueError with a sentence if there is none."""
    return BUILTIN.get(name) or DOOR.find(name)

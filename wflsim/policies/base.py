"""What every policy is: a frozen object of hyper-parameters with a server half and a client half.

A policy says what the server wants; the simulation decides how, when and whether it happens. `fedavg.py` is the
shortest one; the equations of all are in docs/policies.md; docs/write_a_policy.md says how to write your own.
All policies treat lost and late replies alike: their weight goes to those received (`weighted`), server memories count
those received (`total`), a client's memory changes only if its whole upload arrived; without any, the state stays.
Both sides compute with what was exchanged after compression: the client with `me.sent(y)`, the server with
`received(got, "w")`. A model sent whole is `me.sent(y, near=w)`: sparse compressors send its change from w.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from wflsim.exchange import Me, Reply, Request, Weights
from wflsim.policies.adaptive import Tau, adaptation, why_not_adaptive
from wflsim.spec import Spec

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:  # for annotations only: a policy is also a spec, and reading a scenario must not cost an import of torch
    Tensor = Any

State = TypeVar("State")
Round = Generator[Request, Any, State]
Rng = Callable[[str], np.random.Generator]
"""rng("snapshot") is the random stream for that purpose in this round."""
Vector = NDArray[np.float64]
"""[N] one number per client, such as lambda or losses."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Step = Annotated[float, Field(gt=0, le=1e3)]
"""A learning rate."""
Coefficient = Annotated[float, Field(ge=0, le=1e6)]


@dataclass(frozen=True)
class ModelAndCounts:
    """What the server of a policy without memories remembers: the model, and the clients' sample counts."""

    w: Tensor
    d: tuple[int, ...]


@dataclass(frozen=True)
class About:
    """Facts about a policy, shown by `wflsim list policies`; tests hold the policy to `down` and `up`."""

    paper: str = ""
    """Authors, year and arXiv number."""
    down: str = ""
    """What each participant is sent, phase by phase: `1v+1s / 1v` is a model vector and a scalar, then a vector; `1c`
    is a vector that the policy compresses itself."""
    up: str = ""
    """What each participant sends up, phase by phase."""
    needs: str = ""
    """What it needs from clients or the world besides training on demand."""

    @property
    def phases(self) -> int:
        """Number of phases of a round, counted in `down`."""
        return self.down.count("/") + 1


class Policy(Spec):
    """Base class of all policies."""

    about: ClassVar[About] = About()
    """Its paper, what it sends, and what it needs."""
    asynchronous: ClassVar[bool] = False
    """Whether it uses Send and Receive, so that its learning depends on the world and cannot be replayed."""
    decentralised: ClassVar[bool] = False
    """Whether it has no server and uses Gossip: its state's `w` is [N, P], and its learning depends on the graph."""
    unequal_steps: ClassVar[bool] = False
    """Whether clients may take different numbers of local steps (`server.compute_budget`); it then asks by `Allot`."""
    one_model: ClassVar[bool] = True
    """Whether all clients start a round from one model, so that their gradients at it can be compared."""
    name: str = ""
    """Name of the policy."""
    label: str | None = None
    """What the policy is called in folders and tables, to tell two variants of it apart; null: its name."""
    m: Count | None = None
    """Clients drawn per round; null: all of them."""
    tau: Tau = 10
    """Local steps of each client per round: a number, or `{adapt: {budget: 15 s}}`, which chooses one in each round."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Take the facts of a user's class that still says them one by one: `paper: ClassVar[str] = ...`."""
        former = {fact.name: vars(cls)[fact.name] for fact in fields(About) if fact.name in vars(cls)}
        cls.about = replace(cls.about, **former)

    @classmethod
    def why_fixed_tau(cls) -> str | None:
        """Why tau cannot adapt while the policy trains, as the rest of a sentence about it; None if it can."""
        return why_not_adaptive(cls.asynchronous, cls.decentralised, cls.about.phases, cls.one_model)

    @model_validator(mode="after")
    def _adaptable(self) -> Self:
        if adaptation(self.tau) is not None and (why := self.why_fixed_tau()):
            raise ValueError(f"tau: adapt is not for {self.name}: it {why}; give tau as a number")
        return self

    def start(self, w: Tensor, d: Sequence[int]) -> Any:
        """What the server remembers at first: a small dataclass of tensors; d are the clients' sample counts.

        Its fields `lam`, `cluster` and `since`, if it has them, hold a number for each client and are shown in
        clients.csv (`cluster` and `since` below zero: not known yet). By default the model and the counts.
        """
        return ModelAndCounts(w, tuple(d))

    def round(self, x: Any, s: int, rng: Rng) -> Round[Any]:
        """One communication round s from state x: yields requests, returns the next state."""
        raise NotImplementedError

    def model(self, x: Any, me: Me) -> Tensor:
        """Parameters that are evaluated: [P] for everybody, or a row for each client of `me`."""
        return cast("Tensor", x.w)


def received(got: Sequence[Reply], name: str) -> Any:
    """The item that the server sent to all these clients under this name, as they received it after compression."""
    first = got[0].given[name]
    if any(reply.given[name] is not first for reply in got):
        raise ValueError(f"clients were sent different {name!r}: take the replies of one Ask at a time")
    return first


def weighted(w: Tensor, got: Sequence[Reply], name: str, a: Weights) -> Tensor:
    """Weighted sum over the replies received, sum_R a_i x_i with x_i = reply[name], shaped like w.

    Lost replies hand their weight to the others: a_i <- a_i sum_D a / sum_R a. Summed in the order of the cohort. Zero
    if no reply with a positive weight was received.
    """
    heard = sum(a[reply.client] for reply in got)
    scale = sum(a.values()) / heard if heard > 0 else 0.0
    result = w.new_zeros(w.shape)
    for reply in got:
        result.add_(reply[name], alpha=a[reply.client] * scale)
    return result


def average_models(w: Tensor, got: Sequence[Reply], name: str, a: Weights) -> Tensor:
    """New server model w + sum_R a_i (x_i - w), computed as sum_R a_i x_i + (1 - sum a) w.

    The last term is zero for all but the unbiased schemes of drawing, whose weights sum to 1 in expectation only.
    """
    mean, weight = weighted(w, got, name, a), sum(a.values())
    return mean if abs(weight - 1.0) < 1e-12 else mean.add_(w, alpha=1.0 - weight)


def total(w: Tensor, got: Sequence[Reply], name: str) -> Tensor:
    """Plain sum over the replies received, sum_R x_i with x_i = reply[name]: every client once, whatever its weight."""
    result = w.new_zeros(w.shape)
    for reply in got:
        result.add_(reply[name])
    return result


def sum_of_updates(w: Tensor, got: Sequence[Reply], name: str) -> Tensor:
    """Sum of the updates received, sum_R (x_i - w) with x_i = reply[name]: every client once, whatever its weight."""
    return total(w, got, name).sub_(w, alpha=len(got))

"""What every policy is: a frozen object of hyper-parameters with a server half and a client half.

A policy says what the server wants; whoever drives it decides how, when and whether it happens. It knows no clock, no
radio and no recorder. See `fedavg.py` for the shortest one.

What all of them do when the world is unkind: lost and late replies hand their weight to those received (`weighted`),
server memories count those received (`total`), a client's memory moves only with an upload that arrived whole, and a
Gather that brings nothing leaves the state as it is, its time and energy being spent all the same.
Payloads may be compressed, both ways. What is remembered is computed from what was exchanged: by the client from
`me.sent(y)`, which the server will see, by the server from `received(got, "w")`, which the clients have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wflsim.exchange import Me, Reply, Request, Weights
from wflsim.units import Spec

if TYPE_CHECKING:  # a policy is also a spec, and reading a scenario must not cost an import of torch
    from torch import Tensor

State = TypeVar("State")
Round = Generator[Request, Any, State]
Rng = Callable[[str], np.random.Generator]
"""rng("snapshot"): the stream of that purpose in this round."""

Vector = NDArray[np.float64]
"""One number per client: lambda, losses."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Step = Annotated[float, Field(gt=0, le=1e3)]
"""A learning rate."""
Coefficient = Annotated[float, Field(ge=0, le=1e6)]


class Policy(Spec):
    """Base of the registry: `name` is the tag in the scenario, `label` tells two variants of one policy apart."""

    paper: ClassVar[str]
    asynchronous: ClassVar[bool] = False
    """Uses Send and Receive: has no trace independent of the world."""
    down: ClassVar[str] = ""
    """Sent to each participant, phase by phase: `1v+1s / 1v` is a model vector and a scalar, then a model vector."""
    up: ClassVar[str] = ""
    """Sent up by each participant, likewise."""
    phases: ClassVar[int]
    """As many as `down` names."""
    needs: ClassVar[str] = ""
    """What it asks of a client or a world beyond training when told to."""

    name: str
    label: str | None = None
    m: Count | None = None
    """Clients drawn per round; where it may be left out, all of them."""
    tau: Count = 10
    """Local steps per round."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.phases = cls.down.count("/") + 1

    def start(self, w: Tensor, d: Sequence[int]) -> Any:
        """What the server remembers at first: a small dataclass of tensors; d are the clients' sample counts."""
        raise NotImplementedError

    def round(self, x: Any, s: int, rng: Rng) -> Round[Any]:
        """One communication round: yields requests, returns the next state."""
        raise NotImplementedError

    def model(self, x: Any, me: Me) -> Tensor:
        """What is evaluated: [P] for everybody, or a row for each client of `me`."""
        w: Tensor = x.w
        return w


def received(got: Sequence[Reply], name: str) -> Any:
    """What the server sent to all of them under this name, as they received it: itself, unless it was compressed."""
    first = got[0].given[name]
    if any(reply.given[name] is not first for reply in got):
        raise ValueError(f"clients were sent different {name!r}: take the replies of one Ask at a time")
    return first


def weighted(w: Tensor, got: Sequence[Reply], name: str, a: Weights) -> Tensor:
    """sum_R a_i x_i with x_i = reply[name], shaped like w.

    Lost replies hand their weight to the others: a_i <- a_i sum_D a / sum_R a. Accumulated in cohort order, without a
    stack. Zero if nobody with a positive weight was heard.
    """
    heard = sum(a[reply.client] for reply in got)
    scale = sum(a.values()) / heard if heard > 0 else 0.0
    result = w.new_zeros(w.shape)
    for reply in got:
        result.add_(reply[name], alpha=a[reply.client] * scale)
    return result


def moved(w: Tensor, got: Sequence[Reply], name: str, a: Weights) -> Tensor:
    """w + sum_R a_i (x_i - w): averaged first, then moved, as (1 - sum a) is 0 for all but the unbiased schemes."""
    mean, weight = weighted(w, got, name, a), sum(a.values())
    return mean if abs(weight - 1.0) < 1e-12 else mean.add_(w, alpha=1.0 - weight)


def total(w: Tensor, got: Sequence[Reply], name: str) -> Tensor:
    """sum_R x_i: every received client once, whatever its weight."""
    result = w.new_zeros(w.shape)
    for reply in got:
        result.add_(reply[name])
    return result


def shift(w: Tensor, got: Sequence[Reply], name: str) -> Tensor:
    """sum_R (x_i - w), likewise."""
    return total(w, got, name).sub_(w, alpha=len(got))

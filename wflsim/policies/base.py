"""What every policy is: a frozen object of hyper-parameters with a server half and a client half.

A policy says what the server wants; whoever drives it decides how, when and whether it happens. It knows no clock, no
radio and no recorder. See `fedavg.py` for the shortest one.
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

    asynchronous: ClassVar[bool] = False
    """Uses Send and Receive: has no trace independent of the world."""
    paper: ClassVar[str]

    name: str
    label: str | None = None
    m: Count
    """Clients drawn per round."""
    tau: Count = 10
    """Local steps per round."""

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


def moved(w: Tensor, got: Sequence[Reply], name: str, a: Weights) -> Tensor:
    """w + sum_R a_i (x_i - w) with x_i = reply[name].

    Lost replies hand their weight to the others: a_i <- a_i sum_D a / sum_R a. Accumulated in cohort order, without a
    stack; averaged first, then moved, because (1 - sum a) is 0 for all but the unbiased schemes.
    """
    total = sum(a.values())
    scale = total / sum(a[reply.client] for reply in got)
    mean = w.new_zeros(w.shape)
    for reply in got:
        mean.add_(reply[name], alpha=a[reply.client] * scale)
    return mean if abs(total - 1.0) < 1e-12 else mean.add_(w, alpha=1.0 - total)


def shift(w: Tensor, got: Sequence[Reply], name: str) -> Tensor:
    """sum_R (x_i - w): every received client once, whatever its weight."""
    total = w.new_zeros(w.shape)
    for reply in got:
        total.add_(reply[name])
    return total.sub_(w, alpha=len(got))

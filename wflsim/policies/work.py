"""Unequal work: clients of one round that take different numbers of local steps.

    tau = yield Allot(self.allotted(D, len(x.d), rng))                              # the server's half
    got = yield Gather([Ask([*tau], partial(self.local_steps, tau=tau), ...)])
    for _ in me.steps([tau[i] for i in me.clients], y):                             # the client's half

A client counts its own steps: their number costs no bits, unless the policy sends it up. Where the world limits the
time of computing (`server.compute_budget`), `Allot` is answered by fewer steps, and without the clients for whom none
fits: they take no part, and their weights go to the others as those of lost replies do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import model_validator

from wflsim.policies.base import Count, Policy, Rng


class UnequalWork(Policy):
    """A policy whose equations say what to do when clients take different numbers of local steps."""

    unequal_steps = True

    tau_min: Count | None = None
    """Fewest local steps. Each client's number is drawn uniformly from tau_min..tau, anew in every round; none: tau for
    all."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.tau_min is not None and self.tau_min > self.tau:
            raise ValueError(f"tau_min: {self.tau_min} exceeds tau: {self.tau}; a client takes tau_min to tau steps")
        return self

    def allotted(self, D: Sequence[int], N: int, rng: Rng) -> dict[int, int]:
        """tau_i of each client of D, the same whoever else is drawn."""
        if self.tau_min is None:
            return dict.fromkeys(D, self.tau)
        drawn = rng("steps").integers(self.tau_min, self.tau + 1, size=N)
        return {i: int(drawn[i]) for i in D}

"""The controller of tau. S. Wang et al., "Adaptive Federated Learning in Resource Constrained Edge Computing Systems",
IEEE JSAC 37(6), 2019, arXiv:1804.05271, Algorithm 2 and (19): as many local steps as make the most of a time budget R.

    T'     = (R - c - b) tau / (c tau + b)                          local steps that fit into the budget
    h(tau) = delta/beta ((eta beta + 1)^tau - 1) - eta delta tau    how far clients drift apart in tau steps
    G(tau) = (1 + sqrt(1 + 4 T'^2 phi rho eta h/tau)) / (2 T' eta phi) + rho h

The tau of a round has the least G among 1 to min(10 tau of the round before, 100), the smallest if several have it.
Where beta or delta is 0, h is 0 and the bound is taken. Until beta, rho and delta are known, tau is 1.

c and b, in seconds, are those of the rounds so far: c is the time for which the slowest client computes over the
gradient steps that it takes in it (the controller's own included); b is the rest of the time over the rounds, so that
the time so far is c times all tau plus b times the rounds. The paper's last round is kept: tau is cut to what still
fits into R. Deviations: time alone is a resource; the last model is evaluated, not the one with the least loss so far,
so that no aggregation is set aside for it beyond the c + b of T'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wflsim.errors import Exhausted
from wflsim.exchange import Order
from wflsim.questions import Allotment, Pace
from wflsim.records import Leg

GROWTH = 10
"""How many times the tau of the round before may be taken at most."""
MOST = 100
"""Largest tau that is chosen."""


def divergence(tau: int, eta: float, beta: float, delta: float) -> float:
    """h(tau): bound on the distance between local and central descent after tau steps; 0 where beta or delta is 0."""
    if beta <= 0 or delta <= 0:
        return 0.0
    try:
        return max(0.0, delta / beta * math.expm1(tau * math.log1p(eta * beta)) - eta * delta * tau)
    except OverflowError:
        return math.inf


def gap(tau: int, asked: Pace, c_s: float, b_s: float) -> float:
    """G(tau): bound on the loss above the least one at the end of the budget; beta, rho and delta must be known."""
    if asked.beta is None or asked.rho is None or asked.delta is None:
        raise ValueError("beta, rho and delta are not known yet")
    steps = (asked.budget_s - c_s - b_s) / (c_s + b_s / tau)
    rho_h = asked.rho * divergence(tau, asked.eta, asked.beta, asked.delta) if asked.rho else 0.0
    drift = 4 * steps**2 * asked.phi * asked.eta * rho_h / tau
    return (1 + math.sqrt(1 + drift)) / (2 * steps * asked.eta * asked.phi) + rho_h


def best_tau(asked: Pace, c_s: float, b_s: float, most: int = MOST) -> int:
    """The tau of 1 to `most` with the least G, the smallest of several."""
    if not asked.beta or not asked.delta:
        return most
    return min(range(1, most + 1), key=lambda tau: gap(tau, asked, c_s, b_s))


def steps_within(budget_s: float | None, asked: Allotment, step_s: Callable[[int, int], float]) -> dict[int, int]:
    """The local steps that each client can take within its time for computing, without those who can take none.

    `step_s`: seconds that a step on so many samples takes a client. A budget of None limits nobody.
    """
    if budget_s is None:
        return dict(asked.steps)
    fitting = {}
    for client, steps in asked.steps.items():
        one_s = step_s(client, asked.samples[client])
        fitting[client] = steps if steps * one_s <= budget_s else math.floor(budget_s / one_s + 1e-9)
    return {client: steps for client, steps in fitting.items() if steps}


class Pacer:
    """Chooses tau before every round, from what the rounds before it took."""

    def __init__(self) -> None:
        self._tau = 1
        self._rounds = 0
        self._steps = 0
        """Sum of the tau of all rounds."""
        self._computed_s = 0.0
        self._gradients = 0
        """Gradient steps for which the slowest clients computed `_computed_s`."""
        self._orders: dict[int, Order] = {}

    def costs_s(self, now_s: float) -> tuple[float, float]:
        """c and b: seconds of a local step, and of the rest of a round; at least one round must have been."""
        c_s = self._computed_s / self._gradients if self._gradients else 0.0
        return c_s, max(0.0, now_s - c_s * self._steps) / self._rounds

    def tau(self, asked: Pace, now_s: float) -> int:
        """Local steps of the next round; Exhausted where no further one fits into the budget."""
        if not self._rounds:
            return self._tau
        c_s, b_s = self.costs_s(now_s)
        if asked.budget_s <= c_s + b_s:
            raise Exhausted(
                f"tau.adapt.budget: no round fits into {asked.budget_s:g} s: one of a single local step takes "
                f"{c_s + b_s:.6g} s; raise the budget"
            )
        tau = self._tau
        if asked.beta is not None and asked.rho is not None and asked.delta is not None:
            tau = best_tau(asked, c_s, b_s, min(GROWTH * self._tau, MOST))
        left_s = asked.budget_s - now_s - b_s
        if c_s * tau > left_s:
            tau = math.floor(left_s / c_s + 1e-9) if c_s > 0 else 0
        if tau < 1 or left_s < 0:
            raise Exhausted(
                f"tau.adapt.budget: used up: after {self._rounds} rounds {now_s:.6g} s of {asked.budget_s:g} s are "
                f"gone, and one more round takes {c_s + b_s:.6g} s"
            )
        self._tau = tau
        return tau

    def give(self, orders: Sequence[Order]) -> None:
        """Take note of the orders of the round's phase."""
        self._orders = {order.client: order for order in orders}

    def end_round(self, legs: Sequence[Leg]) -> None:
        """Learn from the legs of a finished round how long its slowest client computed."""
        self._rounds += 1
        self._steps += self._tau
        took_s = {
            leg.client: leg.end_s - leg.start_s
            for leg in legs
            if leg.activity == "compute" and leg.outcome == "ok" and leg.client in self._orders
        }
        if took_s:
            slowest = max(took_s, key=lambda client: (took_s[client], -client))
            self._computed_s += took_s[slowest]
            self._gradients += self._orders[slowest].backward_steps
        self._orders = {}

"""A published table of rounds to target stands in for training: cost = S(tau) x the cost of one round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from wflsim.errors import ScenarioError
from wflsim.experiments.plan import world_of
from wflsim.records import FinishedRound, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.scenario.knobs import TauRange
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.tune.choice import choose
from wflsim.tune.costs import cost_of, energy_column
from wflsim.tune.dry import DryRounds
from wflsim.tune.growth import NO_FEWER, ladder
from wflsim.tune.question import Line, Question
from wflsim.tune.space import candidate_taus

LAWS = {"power_law": "a power law", "pchip": "PCHIP"}


def rounds_law(table: Mapping[int, float], interpolate: str) -> Callable[[int], float]:
    """S(tau), not rounded: a power law by least squares on logarithms, or PCHIP through the points."""
    taus = np.array(sorted(table), dtype=np.float64)
    rounds = np.array([table[int(tau)] for tau in taus])
    if interpolate == "pchip":
        through = PchipInterpolator(taus, rounds)
        return lambda tau: float(through(tau))
    slope, offset = np.polyfit(np.log(taus), np.log(rounds), 1)
    return lambda tau: float(np.exp(offset + slope * np.log(tau)))


def answer_from_table(asked: Question) -> None:
    """Choose in every regime from the published table, without training and without data."""
    found = asked.found
    table = found.spec.rounds_to_target or {}
    law = rounds_law(table, found.spec.interpolate)
    costs = PublishedCosts(asked, law)
    given = candidate_taus(found.spec)
    if isinstance(given, TauRange) and found.spec.interpolate == "pchip":  # may have several minima
        given = list(range(given.least, (given.most or max(table)) + 1))
    looked_at: set[int] = set()
    for row, regime in enumerate(found.regimes):
        taus, why = _cheapest(costs, row, given) if isinstance(given, TauRange) else (given, "")
        cost = np.array([[costs.of(tau, row)] for tau in taus])
        choice = choose(taus, cost, np.ones_like(cost, dtype=np.bool_))
        found.choices[asked.label, regime.number] = replace(choice, why_edge=why)
        looked_at |= set(taus)
    found.lines += [Line(asked.label, tau, asked.scenario.seeds[0], law(tau), True) for tau in sorted(looked_at)]
    found.notes.append(
        f"{asked.label}: rounds to target are given, interpolated by {LAWS[found.spec.interpolate]} and not rounded; "
        f"nothing was trained, and no interval can be given"
    )
    inside = range(min(table), max(table) + 1)
    if looked_at - set(inside):
        chosen = [choice.nearest.tau for (label, _), choice in found.choices.items() if label == asked.label]
        beyond = sum(tau not in inside for tau in chosen)
        found.notes.append(
            f"{asked.label}: the table holds tau from {inside[0]} to {inside[-1]}; in {beyond} of {len(chosen)} "
            f"regimes tau* lies beyond it, where the rounds to target are extrapolated"
        )


class PublishedCosts:
    """Cost of every tau in every regime: rounds by the law, times the mean cost of the seeds' first rounds."""

    def __init__(self, asked: Question, law: Callable[[int], float]) -> None:
        self._asked, self._law = asked, law
        self._dry = DryRounds(asked.scenario, asked.policy)
        self._known: dict[tuple[int, int], float] = {}

    def of(self, tau: int, row: int) -> float:
        """What one tau costs in one regime; the round is replayed in that world."""
        if (tau, row) not in self._known:
            spec, world = self._asked.found.spec, self._asked.found.regimes[row].scenario
            total = 0.0
            for seed in self._asked.scenario.seeds:
                dry = self._dry.round(tau, seed)
                one = _one_round(dry.trace, world, seed, dry.flops_per_sample)
                total += cost_of(spec, getattr(one, energy_column(spec)), one.end_s - one.start_s)
            self._known[tau, row] = self._law(tau) * total / len(self._asked.scenario.seeds)
        return self._known[tau, row]


def _cheapest(costs: PublishedCosts, row: int, span: TauRange) -> tuple[list[int], str]:
    """The cheapest whole number of one regime among the taus that were looked at, and why if it is an end of the range.

    A round's cost is made of sums and maxima of straight lines in tau, and S is a power of tau, so that on logarithmic
    axes the cost is convex: it has one minimum, which halving an interval finds.
    """
    rungs = ladder(span)
    best = 0
    while best + 1 < len(rungs) and costs.of(rungs[best + 1], row) < costs.of(rungs[best], row):
        best += 1
    low, high = rungs[max(0, best - 1)], rungs[min(len(rungs) - 1, best + 1)]
    looked_at = {*rungs[: best + 2]}
    while low < high:
        middle = (low + high) // 2
        looked_at |= {middle, middle + 1}
        low, high = (low, middle) if costs.of(middle, row) <= costs.of(middle + 1, row) else (middle + 1, high)
    looked_at |= {low}
    end = "least" if low == span.least else "most" if low == span.most else ""
    return sorted(looked_at), f"tune.knobs.tau.{end} is {low}" if end and low > 1 else NO_FEWER if end else ""


def _one_round(trace: Sequence[TraceRound], scenario: Scenario, seed: int, flops: float) -> RoundRow:
    rounds: list[FinishedRound] = []
    world = world_of(scenario, seed, flops)
    reason = drive(Replay(trace, elsewhere=True), world, rounds.append, lambda row: "one", scenario.clients, seed)
    if not rounds:
        raise ScenarioError(f"tune.rounds_to_target: no round can begin in this world ({reason}), so none has a cost")
    return rounds[-1].row

"""A published table of rounds to target stands in for training: cost = S(tau) x the cost of one round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator

from wflsim.errors import ScenarioError
from wflsim.records import FinishedRound, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.tune.chance import Floats
from wflsim.tune.costs import cost_of, energy_column
from wflsim.world.world import World


def rounds_law(table: Mapping[int, float], interpolate: str) -> Callable[[int], float]:
    """S(tau), not rounded: a power law by least squares on logarithms, or PCHIP through the points."""
    taus = np.array(sorted(table), dtype=np.float64)
    rounds = np.array([table[int(tau)] for tau in taus])
    if interpolate == "pchip":
        through = PchipInterpolator(taus, rounds)
        return lambda tau: float(through(tau))
    slope, offset = np.polyfit(np.log(taus), np.log(rounds), 1)
    return lambda tau: float(np.exp(offset + slope * np.log(tau)))


def published_costs(
    taus: Sequence[int],
    scenarios: Mapping[int, Scenario],
    policy: int,
    worlds: Sequence[Scenario],
    spec: TuneSpec,
    law: Callable[[int], float],
) -> Floats:
    """[regime, tau] costs; a round's cost is the mean over the seeds' first rounds, each replayed in each world."""
    from wflsim.tune.dry import dry_round

    costs = np.zeros((len(worlds), len(taus)))
    for column, tau in enumerate(taus):
        scenario = scenarios[tau]
        for seed in scenario.seeds:
            dry = dry_round(scenario, scenario.policies[policy], seed)
            for row, world in enumerate(worlds):
                one = _one_round(dry.trace, world, seed, dry.flops_per_sample)
                each = cost_of(spec, getattr(one, energy_column(spec)), one.end_s - one.start_s)
                costs[row, column] += law(tau) * each / len(scenario.seeds)
    return costs


def _one_round(trace: Sequence[TraceRound], scenario: Scenario, seed: int, flops: float) -> RoundRow:
    rounds: list[FinishedRound] = []
    world = World(scenario.world, scenario.clients, seed, flops)
    reason = drive(Replay(trace, elsewhere=True), world, rounds.append, lambda row: "one", scenario.clients, seed)
    if not rounds:
        raise ScenarioError(f"tune.rounds_to_target: no round can begin in this world ({reason}), so none has a cost")
    return rounds[-1].row

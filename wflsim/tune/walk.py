"""One learning curve carried through one world by replay: what it has cost there so far, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wflsim.experiments.plan import world_of
from wflsim.records import FinishedRound, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.tune.costs import cost_of, energy_column
from wflsim.world.world import World


class End(NamedTuple):
    """How one curve stands in one regime."""

    cost: float
    """Spent to the target, or so far."""
    reached: bool
    """Within the budgets."""
    diverged: bool
    exhausted: bool
    """stop.energy or stop.time is spent, and the target was not reached."""
    attained: float
    """Accuracy at the last evaluation, in the target's metric; 0 before the first."""
    time_s: float
    """Simulated time to the target, or so far."""
    client_j: float
    """Energy of the whole devices over the number of clients, to the target or so far."""


class Walk:
    """One curve in one world, as far as it has come."""

    def __init__(self, scenario: Scenario, seed: int, flops: float, spec: TuneSpec) -> None:
        self._scenario, self._seed, self._spec = scenario, seed, spec
        self._world: World | None = world_of(scenario, seed, flops)
        self.rounds = 0
        self._energy_j = self._full_j = self._time_s = 0.0
        self._column = energy_column(spec)
        self.broke = False
        """stop.energy or stop.time is spent."""

    @property
    def cost(self) -> float:
        """What the curve has cost in this world so far, in the unit of the objective."""
        return cost_of(self._spec, self._energy_j, self._time_s)

    @property
    def time_s(self) -> float:
        """Simulated time so far."""
        return self._time_s

    @property
    def client_j(self) -> float:
        """Energy of the whole devices so far, over the number of clients."""
        return self._full_j / self._scenario.clients

    def advance(self, trace: Sequence[TraceRound]) -> None:
        """Carry the curve on through the world to the end of this trace, or until a budget is spent."""
        if self._world is not None and self.rounds < len(trace) and not self.broke:

            def enough(row: RoundRow) -> str | None:
                return "known" if self.broke or row.round + 1 >= len(trace) else None

            source, clients = Replay(trace, elsewhere=True), self._scenario.clients
            drive(source, self._world, self._pay, enough, clients, self._seed, start=self.rounds)

    def release_world(self) -> None:
        """Free the memory of the world, when the curve needs to be carried no further."""
        self._world = None

    def _pay(self, finished: FinishedRound) -> None:
        """Add the cost of a finished round."""
        row, stop = finished.row, self._scenario.stop
        self._energy_j += getattr(row, self._column)
        self._full_j += row.energy_j
        self._time_s = row.end_s
        self.rounds = row.round + 1
        self.broke = (stop.energy is not None and self._full_j >= stop.energy) or (
            stop.time is not None and self._time_s >= stop.time
        )

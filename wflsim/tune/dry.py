"""One round of a policy without data and without training, so that its bits and its work are counted, not declared.

The policy's own code runs, server and clients, on a model of the true size; only gradients and losses are zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wflsim.errors import ScenarioError
from wflsim.experiments.plan import without_time
from wflsim.learning.data.arrays import DataSet, Samples
from wflsim.learning.learner import Learner
from wflsim.learning.models.builtin import Model, make_model
from wflsim.learning.models.gradients import Gradients
from wflsim.learning.samples import Shards
from wflsim.policies.base import Policy
from wflsim.records import FinishedRound, TraceRound
from wflsim.scenario import Scenario
from wflsim.simulation.loop import drive
from wflsim.simulation.training import Training
from wflsim.tune.setting import with_tau

REHEARSED = 16
"""Local steps up to which a round is rehearsed step by step."""
WORK = ("forward_samples", "backward_samples", "forward_steps", "backward_steps")
"""Fields of an order that grow with its local steps."""


class DryRound(NamedTuple):
    """One round as the world sees it."""

    trace: list[TraceRound]
    flops_per_sample: float


class DryRounds:
    """First rounds of one policy for any tau. Beyond `REHEARSED` local steps their work follows a straight line.

    The clients' work grows in a straight line with tau and nothing else in a round changes. Whether that is so is seen
    from three rehearsed rounds; where it is not, every tau is rehearsed.
    """

    def __init__(self, scenario: Scenario, policy: int) -> None:
        self._scenario, self._policy = scenario, policy
        self._known: dict[tuple[int, int], DryRound] = {}

    def round(self, tau: int, seed: int) -> DryRound:
        """The first round with so many local steps."""
        if (tau, seed) not in self._known:
            found = self._extrapolated(tau, seed) if tau > REHEARSED else None
            if found is None:
                variant = with_tau(self._scenario, self._policy, tau)
                found = dry_round(variant, variant.policies[self._policy], seed)
            self._known[tau, seed] = found
        return self._known[tau, seed]

    def _extrapolated(self, tau: int, seed: int) -> DryRound | None:
        """The round by a straight line through the rehearsed ones; None where they do not lie on one."""
        for last in (REHEARSED, REHEARSED - 1, REHEARSED - 2):
            first, middle, end = (self.round(steps, seed) for steps in (last - 8, last - 4, last))
            if _line(first, end, last - 4, last) == middle.trace:
                line = _line(first, end, tau, last)
                return None if line is None else DryRound(line, end.flops_per_sample)
        return None


def _line(first: DryRound, end: DryRound, tau: int, last: int) -> list[TraceRound] | None:
    """The trace at tau by a straight line through those at last - 8 and at last; None where they differ otherwise."""
    entry, steps = end.trace[0], []
    if [len(step.orders) for step in first.trace[0].steps] != [len(step.orders) for step in entry.steps]:
        return None
    for early, late in zip(first.trace[0].steps, entry.steps, strict=True):
        orders = []
        for one, other in zip(early.orders, late.orders, strict=True):
            before, after = ([getattr(order, field) for field in WORK] for order in (one, other))
            if one != other._replace(**dict(zip(WORK, before, strict=True))):
                return None
            work = (_at(*pair, tau, last) for pair in zip(before, after, strict=True))
            orders.append(other._replace(**dict(zip(WORK, work, strict=True))))
        steps.append(late._replace(orders=orders))
    return [entry._replace(steps=steps)]


def _at(early: int, late: int, tau: int, last: int) -> int:
    return late + (late - early) * (tau - last) // 8


class _Idle(Gradients):
    """Takes no time and learns nothing."""

    chunk = 1

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return y.new_zeros(len(y))

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return y.new_zeros(()).expand_as(y), y.new_zeros(len(y))


def dry_round(scenario: Scenario, policy: Policy, seed: int) -> DryRound:
    """The trace of a first round, every client holding an equal part of the data."""
    known = scenario.data.known
    if known is None:
        raise ScenarioError(
            f"tune.rounds_to_target: the size of the model depends on the data, and that of {scenario.data.name!r} is "
            f"not known without loading it; use a data set of wflsim, such as digits or mnist"
        )
    nothing = np.zeros((1, *known.shape), dtype=np.float32)
    labels = np.zeros(1, dtype=np.int64)
    data = DataSet(Samples("train", nothing, labels), Samples("test", nothing, labels), known.classes)
    model = make_model(scenario.model, data, seed)
    learner = Learner(
        _Idle(model), _shards(model, nothing, max(1, known.samples // scenario.clients), scenario.clients),
        _shards(model, nothing, 1, scenario.clients), scenario.train, seed, threads=1,
    )  # fmt: skip
    rounds: list[FinishedRound] = []
    training = Training(policy, learner, seed, evaluate_every=2)  # round 0 is not evaluated
    drive(training, without_time(scenario, policy, seed), rounds.append, lambda row: "one", scenario.clients, seed)
    return DryRound([finished.trace for finished in rounds], learner.flops_per_sample)


def _shards(model: Model, sample: np.ndarray[tuple[int, ...], np.dtype[np.float32]], each: int, clients: int) -> Shards:
    """As many samples as wanted, all one and the same piece of memory."""
    one = model.inputs(model.represent(sample), torch.float32)
    total = each * clients
    x = one.expand(total, *one.shape[1:])
    starts = [client * each for client in range(clients)]
    return Shards(x, torch.zeros(1, dtype=torch.int64).expand(total), starts, [each] * clients)

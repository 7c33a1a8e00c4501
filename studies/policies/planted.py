"""Clients in planted groups: digits whose labels are turned by three in every second client, so no one model fits."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from wflsim.exchange import Ask, Me
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.learner import Learner
from wflsim.learning.specs import LinearSpec, TrainSpec
from wflsim.simulation.training import Training

CLIENTS = 10
GROUPS = [i % 2 for i in range(CLIENTS)]


def planted(seed: int, alpha: float = 10.0) -> Learner:
    """A learner on ten clients, the odd ones with other labels; within a group data is divided by Dirichlet(alpha)."""
    partition, spec = ZipfDirichletSpec(alpha=alpha, sigma=0.3), TrainSpec(batch=16)
    made = build(DigitsSpec(name="digits"), partition, LinearSpec(name="linear"), spec, CLIENTS, seed)
    for shards in (made._train, made._test):
        for i in range(1, CLIENTS, 2):
            own = shards.y[shards.starts[i] : shards.starts[i] + shards.sizes[i]]
            own.copy_((own + 3) % 10)
    return made


def average(training: Training) -> float:
    """Accuracy of each client with its own model, averaged over clients."""
    accuracy, _ = training.learner.evaluate(lambda me: training.policy.model(training.state, me))
    known = [value for value in accuracy if value is not None]
    return sum(known) / len(known)


def training_loss(training: Training) -> float:
    """Loss of each client's training samples with its own model, averaged over clients."""

    def work(me: Me) -> Mapping[str, Tensor]:
        return {"f": me.f(training.policy.model(training.state, me), on=me.everything)}

    done = training.learner.run(Ask(list(range(CLIENTS)), work), [(0, 0)] * CLIENTS)
    return sum(float(result.items["f"]) for result in done.results) / CLIENTS

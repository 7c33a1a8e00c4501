"""IFCA. A. Ghosh, J. Chung, D. Yin, K. Ramchandran, "An Efficient Framework for Clustered Federated Learning", NeurIPS
2020, arXiv:2006.04088, Algorithm 1: with model averaging (`ifca`), and with gradient averaging (`ifca_sgd`).

The server holds the models theta_1..k of k clusters and sends all of them. A client joins the cluster whose model has
the least loss on all its samples (of equals the lowest number). Then, with j the cluster's number,

    models:     it trains theta_j for tau steps and sends the result y_i;   theta_j <- the mean of its members' y_i
    gradients:  it sends g_i, one gradient at theta_j;   theta_j <- theta_j - (eta/m) sum of its members' g_i

where m counts all clients heard, not those of the cluster. A cluster without members stays.
Readings: equal starts would stay equal for ever, so each theta_j has a start of its own, the initial model with normal
noise of `apart` times the root mean square of its values; one cluster (k: 1) has none. A client that was never heard is
evaluated with the model of least loss on its training samples. Where a start fails the paper starts anew: run seeds.
Deviations: the paper's starts are noise alone; minibatches; no shared layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wflsim.exchange import Ask, Draw, Gather, Me, Reply
from wflsim.policies.base import About, Coefficient, Policy, Rng, Round, Step, Tensor, total


@dataclass(frozen=True)
class State:
    """What the server remembers: a model for each cluster, and which client joined which."""

    w: Tensor
    """[k, P]: the models theta_j."""
    cluster: NDArray[np.int64]
    """The cluster that each client joined last; -1: it was never heard."""
    since: NDArray[np.int64]
    """The round in which it joined that cluster; -1: it was never heard."""


class IFCA(Policy):
    """Each client trains whichever of k models fits its data best; clients that choose alike form a cluster."""

    name: Literal["ifca"] = "ifca"
    about = About("Ghosh et al. 2020, arXiv:2006.04088", down="kv", up="1v+1s",
                  needs="loss of k models on all local samples")
    one_model = False

    eta: Step = 0.05
    """Learning rate."""
    k: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of clusters."""
    apart: Coefficient = 1.0
    """Noise that sets the first models apart, in units of the root mean square of the initial model's values."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        unknown = np.full(len(d), -1, np.int64)
        return State(w.expand(self.k, -1), unknown, unknown)

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, _ = yield Draw(self.m or len(x.cluster))
        theta = x.w if (x.cluster >= 0).any() else self.first_models(x.w, rng("models"))
        got = yield Gather([Ask(D, self.local_steps, shared={"theta": theta}, models_up=1)])
        if not got:
            return x
        w, cluster, since = theta.clone(), x.cluster.copy(), x.since.copy()
        for j in range(self.k):
            members = [reply for reply in got if int(reply["j"]) == j]
            clients = [reply.client for reply in members]
            if members:
                w[j] = self.moved(theta[j], members, len(got))
            joined = [i for i in clients if cluster[i] != j]
            cluster[joined], since[joined] = j, s
        return replace(x, w=w, cluster=cluster, since=since)

    def moved(self, theta: Tensor, members: Sequence[Reply], heard: int) -> Tensor:
        """theta_j after a round: the mean of its members' models."""
        return total(theta, members, "y") / len(members)

    def first_models(self, theta: Tensor, rng: np.random.Generator) -> Tensor:
        """[k, P] models apart from each other, each with noise of its own."""
        if self.k == 1:
            return theta
        size = float(theta[0].square().mean().sqrt()) or 1.0
        return theta + self.apart * size * theta.new_tensor(rng.normal(size=tuple(theta.shape)))

    def model(self, x: State, me: Me) -> Tensor:
        known = x.cluster[list(me.clients)]
        return x.w[np.where(known >= 0, known, self.best(me, x.w) if (known < 0).any() else known)]

    def best(self, me: Me, theta: Tensor) -> list[int]:
        """For each client the model with the least loss on all its samples; of equals, the lowest number."""
        losses = [me.f(model, on=me.everything).tolist() for model in theta]
        return [min(range(len(theta)), key=lambda j: losses[j][i]) for i in range(len(me.clients))]

    def local_steps(self, me: Me, theta: Tensor) -> Mapping[str, Tensor]:
        j = self.best(me, theta)
        start = theta[j]
        y = me.copies_of(start)
        for _ in range(self.tau):
            me.descend(y, self.eta)
        return {"y": me.sent(y, near=start), "j": me.samples.new_tensor(j)}


class IFCASGD(IFCA):
    """IFCA whose clients send one gradient each, which the server divides by all clients heard."""

    name: Literal["ifca_sgd"] = "ifca_sgd"  # type: ignore[assignment]
    tau: Literal[1] = 1
    """One gradient per round."""

    def moved(self, theta: Tensor, members: Sequence[Reply], heard: int) -> Tensor:
        return theta - self.eta / heard * total(theta, members, "g")

    def local_steps(self, me: Me, theta: Tensor) -> Mapping[str, Tensor]:
        j = self.best(me, theta)
        return {"g": me.g(me.copies_of(theta[j])), "j": me.samples.new_tensor(j)}

"""Clustered FL. F. Sattler, K.-R. Mueller, W. Samek, "Clustered Federated Learning: Model-Agnostic Distributed
Multi-Task Optimization under Privacy Constraints", IEEE TNNLS 2021, arXiv:1910.01991.

All clients begin in one cluster. A cluster of more than two, with updates Delta_i = y_i - w_c, is split in round s if

    s >= warmup,   |mean Delta_i| < eps1 (its model has settled)   and   max |Delta_i| > eps2 (its clients have not),

into the two halves whose largest cosine similarity across is least (single linkage of 1 - cosine: the paper's optimal
bipartition; the released code uses `complete`). Each half goes on from w_c with the mean of its own updates, and the
one with the lowest client keeps the number c. eps1 and eps2 scale with eta, tau and the model; the defaults are those
of the released EMNIST run. `gamma_max` is the paper's last check, off by default.
Deviations: tau plain SGD steps (the code: an epoch with momentum 0.9, eta times 0.99 per round). The mean is plain as
in the code, `weights: data` is the paper's. With m < N or lost replies, of which the paper does not speak, the mean is
over those received, and a cluster is split only in a round in which all its clients were heard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wflsim.exchange import Ask, Draw, Gather, Me, Reply, Weights
from wflsim.policies.base import About, Coefficient, Policy, Rng, Round, Step, Tensor, weighted
from wflsim.policies.sampling import shares


@dataclass(frozen=True)
class State:
    """What the server remembers: a model for each cluster, and who is in which."""

    w: Tensor
    """[C, P]: the model of each cluster."""
    cluster: NDArray[np.int64]
    """The cluster of each client."""
    since: NDArray[np.int64]
    """The round in which that cluster was split off."""
    d: tuple[int, ...]


class ClusteredFL(Policy):
    """FedAvg that splits the clients whose updates contradict each other, and trains a model for each group."""

    name: Literal["clustered"] = "clustered"
    about = About("Sattler et al. 2021, arXiv:1910.01991", down="1v", up="1v",
                  needs="a round in which all clients of a cluster are heard, to split it")
    one_model = False

    eta: Step = 0.05
    """Learning rate."""
    eps1: Coefficient = 0.4
    """Length below which the mean update of a cluster must have fallen before the cluster may be split; 0: never."""
    eps2: Coefficient = 1.6
    """Length that the longest update of a cluster must exceed before the cluster may be split."""
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 20
    """Number of rounds before the first split."""
    linkage: Literal["single", "complete"] = "single"
    """Linkage of the hierarchical clustering that finds the two halves."""
    gamma_max: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Least sqrt((1 - s) / 2) for a split, s being the largest cosine similarity between its halves; 0: any."""
    weights: Literal["uniform", "data"] = "uniform"
    """Weights of the updates in the mean of a cluster: uniform, or in proportion to the clients' samples."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w.unsqueeze(0), np.zeros(len(d), np.int64), np.zeros(len(d), np.int64), tuple(d))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, _ = yield Draw(self.m or len(x.d))
        asked = [(w, [i for i in sorted(D) if x.cluster[i] == c]) for c, w in enumerate(x.w)]
        got = yield Gather([Ask(own, self.local_steps, shared={"w": w}, models_up=1) for w, own in asked if own])
        if not got:
            return x
        parents, groups = list(range(len(x.w))), [list[Reply]()] * len(x.w)
        for c in range(len(x.w)):
            heard = [reply for reply in got if x.cluster[reply.client] == c]
            whole = len(heard) == (x.cluster == c).sum() > 2
            groups[c], *other = self.halves(heard, x) if whole and s >= self.warmup else [heard]
            parents, groups = parents + [c] * len(other), groups + other
        w, cluster, since = x.w[parents], x.cluster.copy(), x.since.copy()
        for c, group in enumerate(groups):
            clients = [reply.client for reply in group]
            w[c] += weighted(w[c], group, "dw", self.shares(group, x))
            cluster[clients] = c
            since[clients] = s if parents.count(parents[c]) > 1 else x.since[clients]
        return State(w, cluster, since, x.d)

    def shares(self, got: Sequence[Reply], x: State) -> Weights:
        """Weights of these replies in the mean of their cluster."""
        return shares([reply.client for reply in got], x.d if self.weights == "data" else [1] * len(x.d))

    def halves(self, got: Sequence[Reply], x: State) -> list[list[Reply]]:
        """The updates of a cluster, in two lists if it is to be split and otherwise in one."""
        from scipy.cluster.hierarchy import linkage, to_tree  # here: reading a scenario must not wait for it

        lengths = np.array([float(reply["dw"].norm()) for reply in got])
        mean = weighted(got[0]["dw"], got, "dw", self.shares(got, x))
        if not (float(mean.norm()) < self.eps1 and lengths.max() > self.eps2):
            return [list(got)]
        U = np.stack([reply["dw"].cpu().numpy() for reply in got]) / np.maximum(lengths, 1e-300)[:, None]
        S = np.minimum(U @ U.T, 1.0)
        i, j = np.triu_indices(len(got), 1)
        tree = to_tree(linkage(1 - S[i, j], self.linkage))
        one, two = sorted((sorted(tree.left.pre_order()), sorted(tree.right.pre_order())))
        apart = np.sqrt((1 - S[np.ix_(one, two)].max()) / 2) > self.gamma_max
        return [[got[k] for k in one], [got[k] for k in two]] if apart else [list(got)]

    def model(self, x: State, me: Me) -> Tensor:
        return x.w[x.cluster[list(me.clients)]]

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for _ in range(self.tau):
            me.descend(y, self.eta)
        return {"dw": y - w}

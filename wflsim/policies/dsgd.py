"""Decentralised SGD. X. Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for
Decentralized Parallel Stochastic Gradient Descent", NeurIPS 2017, arXiv:1705.09056, in its form "adapt, then combine":

    phi_i = theta_i - eta grad f_i(theta_i)                  (the printed algorithm mixes theta_i, then subtracts)
    theta_i = sum_j W_ij phi_j                               over the neighbours j that were heard, and i itself

There is no server: every node has a model of its own and is evaluated with it. W: Metropolis
weights, W_ij = 1 / (1 + max(degree_i, degree_j)) for neighbours, W_ii = 1 - sum_j W_ij: symmetric, and its rows and
columns sum to 1 (doubly stochastic), so that mixing leaves the mean over the nodes where it is. A lost link gives its
weight back to the receiver. If both directions count or neither, W stays doubly stochastic; if only one was lost, its
rows still sum to 1 but its columns do not, and mixing moves the mean.
Deviations: tau steps between two exchanges, by default 1 as printed; the gradient step before the mixing, so that it
differs from DR-DSGD in nothing but the weight of the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from wflsim.exchange import Ask, Gossip, Me, Met
from wflsim.policies.adaptive import Tau
from wflsim.policies.base import About, Policy, Rng, Round, Step, Tensor, Vector


@dataclass(frozen=True)
class State:
    """What the nodes hold between two rounds; there is no server."""

    w: Tensor
    """[N, P]: theta_i, the model of each node."""


class DSGD(Policy):
    """SGD on every node and averaging with its neighbours, device to device."""

    name: Literal["dsgd"] = "dsgd"
    about = About("Lian et al. 2017, arXiv:1705.09056", down="0v", up="1v",
                  needs="links between clients (d2d); all take part, none is a server")
    decentralised = True

    m: None = None
    """All nodes, always."""
    tau: Tau = 1
    """Local steps of each node between two exchanges with its neighbours."""
    eta: Step = 0.05
    """Learning rate."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w.repeat(len(d), 1))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        met = yield Gossip(Ask(range(len(x.w)), partial(self.adapt, theta=x.w), models_up=1))
        return State(combine(x.w, met, "phi"))

    def model(self, x: State, me: Me) -> Tensor:
        return x.w[list(me.clients)]

    def adapt(self, me: Me, theta: Tensor) -> Mapping[str, Tensor]:
        phi = me.copies_of(theta[list(me.clients)])
        for _ in range(self.tau):
            me.descend(phi, self.eta)
        return {"phi": phi}


def metropolis(met: Met, nodes: int) -> Vector:
    """[N, N] weights of this exchange: row i holds what node i takes of each node."""
    degree = np.bincount([sender for sender, _ in met.edges], minlength=nodes)
    W = np.zeros((nodes, nodes))
    for j, i in met.heard:
        W[i, j] = 1 / (1 + max(degree[i], degree[j]))
    np.fill_diagonal(W, 1 - W.sum(axis=1))
    return W


def combine(theta: Tensor, met: Met, name: str) -> Tensor:
    """New models theta_i = sum_j W_ij phi_j, phi_j = what node j sent under this name; [N, P].

    A node that did not finish computing keeps its model.
    """
    phi = theta.clone()
    for node, reply in met.sent.items():
        phi[node] = reply[name]
    W = theta.new_tensor(metropolis(met, len(theta)))
    return W @ phi

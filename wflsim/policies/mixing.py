"""Mixing with neighbours, for policies without a server: Metropolis weights, and what lost links do to them.

W_ij = 1 / (1 + max(degree_i, degree_j)) for neighbours, W_ii = 1 - sum_j W_ij: symmetric, and its rows and columns sum
to 1 (doubly stochastic), so that mixing leaves the mean over the nodes where it is. A lost link gives its weight back
to the receiver. If both directions count or neither, W stays doubly stochastic; if only one was lost, its rows still
sum to 1 but its columns do not, and mixing moves the mean.
"""

from __future__ import annotations

import numpy as np

from wflsim.exchange import Met
from wflsim.policies.base import Tensor, Vector


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

"""The graph of peers: which clients are neighbours when there is no server, and in which order they take turns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from wflsim.errors import ScenarioError
from wflsim.exchange import Edges
from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import Metres
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.rates import by_name

PEERS_AT_MOST = 2_000
"""Most nodes of a graph of peers: their links are counted in pairs, and each has a channel of its own."""


class Ring(Spec):
    """Each node with the next one and the one before; needs three nodes."""

    name: Literal["ring"]


class Torus(Spec):
    """A grid that is closed in both directions, as nearly square as the number of nodes can be divided."""

    name: Literal["torus"]


class Complete(Spec):
    """Every node with every other."""

    name: Literal["complete"]


class ErdosRenyi(Spec):
    """Every pair with the same probability, drawn anew for each seed; the graph must come out connected."""

    name: Literal["erdos_renyi"]
    probability: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Probability that two nodes are neighbours."""


class WithinDistance(Spec):
    """Nodes that are near each other at the beginning, where the block cell places them; they must be connected."""

    name: Literal["distance"]
    within: Annotated[Metres, Field(gt=0)] = 300.0
    """Largest distance between two neighbours."""


TopologySpec = Annotated[
    Ring | Torus | Complete | ErdosRenyi | WithinDistance, Field(discriminator="name"), BeforeValidator(by_name)
]


def peers(topology: TopologySpec, clients: int, placement: Placement, seed: int) -> Edges:
    """The links of the graph in both directions; a ScenarioError names what the graph lacks."""
    if not 2 <= clients <= PEERS_AT_MOST:
        raise ScenarioError(f"clients: a graph of peers has 2 to {PEERS_AT_MOST} nodes, got {clients}")
    if isinstance(topology, Ring):
        return ring(clients)
    if isinstance(topology, Torus):
        return torus(clients)
    i, j = np.triu_indices(clients, 1)
    if isinstance(topology, ErdosRenyi):
        near = stream(seed, "peers").random(len(i)) < topology.probability
        cure = "raise d2d.topology.probability, or choose other seeds"
    elif isinstance(topology, WithinDistance):
        start_s = np.zeros(1)
        x, y = np.array([placement.position(client, start_s) for client in range(clients)])[:, :, 0].T
        near = np.hypot(x[i] - x[j], y[i] - y[j]) <= topology.within
        cure = "raise d2d.topology.within, or make cell.radius smaller"
    else:
        near = np.ones(len(i), dtype=np.bool_)
        cure = ""
    edges = both_ways(zip(i[near].tolist(), j[near].tolist(), strict=True))
    apart = clients - len(reached(edges))
    if apart:
        raise ScenarioError(
            f"d2d.topology: the {topology.name} graph of seed {seed} is not connected: {apart} of {clients} nodes "
            f"cannot be reached from node 0, so they would never agree; {cure}"
        )
    return edges


def ring(clients: int) -> Edges:
    """Each node with its two neighbours in a circle."""
    if clients < 3:
        raise ScenarioError(
            f"d2d.topology: a ring needs at least three nodes, got clients: {clients}; use complete for two"
        )
    return both_ways((node, (node + 1) % clients) for node in range(clients))


def torus(clients: int) -> Edges:
    """Nodes in rows and columns, each with the next in its row and in its column, closed in both directions."""
    rows = max(divisor for divisor in range(1, math.isqrt(clients) + 1) if clients % divisor == 0)
    if rows == 1:
        raise ScenarioError(
            f"d2d.topology: a torus needs rows and columns, but {clients} is a prime number of clients; use a ring, or "
            f"one client more or fewer"
        )
    columns = clients // rows
    right = ((node, node - node % columns + (node + 1) % columns) for node in range(clients))
    below = ((node, (node + columns) % clients) for node in range(clients))
    return both_ways([*right, *below])


def both_ways(links: Iterable[tuple[int, int]]) -> Edges:
    """Each link once in either direction, sorted."""
    pairs = list(links)
    return tuple(sorted({*pairs, *((j, i) for i, j in pairs)}))


def neighbours_of(edges: Edges) -> dict[int, list[int]]:
    """Node -> its neighbours, in order of their numbers."""
    found: dict[int, list[int]] = {}
    for sender, receiver in edges:
        found.setdefault(sender, []).append(receiver)
    return found


def reached(edges: Edges) -> set[int]:
    """All nodes to which a path leads from node 0."""
    neighbours, found, todo = neighbours_of(edges), {0}, [0]
    while todo:
        new = [node for node in neighbours.get(todo.pop(), []) if node not in found]
        found.update(new)
        todo += new
    return found


def colours(edges: Edges) -> list[list[int]]:
    """Groups of nodes of which no two are neighbours: greedy colouring, the nodes in order of their numbers."""
    chosen: dict[int, int] = {}
    for node, neighbours in sorted(neighbours_of(edges).items()):
        taken = {chosen[other] for other in neighbours if other in chosen}
        chosen[node] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    return [[node for node, own in chosen.items() if own == colour] for colour in sorted(set(chosen.values()))]

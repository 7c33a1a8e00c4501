"""Sentences about a scenario that a user should read before a long run: those about its world, and about peers."""

from __future__ import annotations

from wflsim.scenario.schema import Scenario
from wflsim.world import spec as world
from wflsim.world.access.d2d import D2dSpec
from wflsim.world.access.graph import colours
from wflsim.world.server import ServerSpec

ONLY_SERVERS = ("deadline", "first", "quorum", "loss_detection", "selector", "over_selection")
"""Keys of the block server that mean nothing where there is no server."""


def remarks(scenario: Scenario) -> list[str]:
    """Slow combinations, idle keys, and how devices talk to each other where a policy has no server."""
    found = world.remarks(scenario.world)
    alone = [policy.decentralised for policy in scenario.policies]
    if not any(alone):
        return found + ([] if scenario.d2d == D2dSpec() else ["d2d has no effect here: every policy has a server"])
    d2d, seed = scenario.d2d, scenario.seeds[0]
    edges = world.graph_of(scenario.world, scenario.clients, seed)
    turns = f"in {len(colours(edges))} turns" if d2d.duplex == "half" else "all at once"
    found.append(
        f"device to device: {d2d.topology.name} graph of {scenario.clients} nodes with {len(edges) // 2} links "
        f"(seed {seed}), {d2d.sending}, {d2d.duplex} duplex: nodes send {turns}"
    )
    if all(alone):
        default = ServerSpec()
        idle = [key for key in ONLY_SERVERS if getattr(scenario.server, key) != getattr(default, key)]
        found += [f"server.{key} has no effect here: no policy has a server" for key in idle]
    return found

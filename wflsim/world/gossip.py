"""One gossip in simulated time: all nodes compute, then send to their neighbours, turn by turn.

A round lasts as long as the slowest computation and, for every turn, the slowest sender of it. Nobody coordinates the
nodes but the clock: who fails or is away is missed by its neighbours, who do without its model.
"""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from wflsim.exchange import Edges, Fate, Order, Outcome
from wflsim.world.access.d2d import PeerLinks, Transfer
from wflsim.world.access.graph import neighbours_of
from wflsim.world.fleet.device import Process
from wflsim.world.fleet.peer import Peer


class Meeting:
    """The nodes of one gossip, with what each sends and hears."""

    def __init__(
        self, env: simpy.Environment, peers: Sequence[Peer], links: PeerLinks, orders: Sequence[Order]
    ) -> None:
        self._env = env
        self._peers = [peers[order.client] for order in orders]
        self._links = links
        self._orders = {order.client: order for order in orders}
        self._present = {peer.client: peer for peer in self._peers if peer.ready(env.now)}
        """Nodes that can take part."""

    def hold(self, edges: Edges) -> list[Outcome]:
        """Let the gossip take place; one outcome per link, in their order."""
        for peer in self._peers:
            peer.meet()
        self._run([peer.adapt(self._orders[node]) for node, peer in self._present.items()])
        neighbours, transfers = neighbours_of(edges), list[Transfer]()
        for turn in self._links.turns(edges):
            transfers += self._turn([node for node in turn if node in self._present], neighbours)
        through = {
            (transfer.sender, receiver)
            for transfer in transfers
            if not transfer.cut
            for receiver in transfer.receivers
            if receiver in self._present and transfer.sender in self._present[receiver].heard
        }
        if self._links.both:
            through = {(i, j) for i, j in through if (j, i) in through}
        peers = {peer.client: peer for peer in self._peers}
        return [
            Outcome(i, "delivered" if (i, j) in through else self._fate(peers[i]), peers[i].computed, j)
            for i, j in edges
        ]

    def _turn(self, turn: list[int], neighbours: dict[int, list[int]]) -> list[Transfer]:
        """Let these nodes send at the same time, and their neighbours listen, until the slowest is through."""
        taking_part = {node: peer for node, peer in self._present.items() if not peer.out}
        own: dict[int, list[Transfer]] = {}
        coming: dict[int, list[Transfer]] = {}
        for node in turn:
            if node not in taking_part:
                continue
            awake = [taking_part[other] for other in (node, *neighbours[node]) if other in taking_part]
            start_s = self._env.now + max(peer.wake_s() for peer in awake)
            own[node] = self._links.transfers(self._orders[node], neighbours[node], start_s)
            for transfer in own[node]:
                for receiver in transfer.receivers:
                    coming.setdefault(receiver, []).append(transfer)
        senders = [taking_part[i].tell(self._orders[i], parts) for i, parts in own.items() if parts]
        listeners = [
            taking_part[j].listen(self._orders[j], parts) for j, parts in coming.items() if j in taking_part
        ]
        self._run([*senders, *listeners])
        return [transfer for parts in own.values() for transfer in parts]

    def _run(self, parts: Sequence[Process]) -> None:
        """Let these parts run side by side until the last has ended; charge the others' waiting."""
        if parts:
            self._env.run(simpy.AllOf(self._env, [self._env.process(part) for part in parts]))
        for node, peer in self._present.items():
            if not peer.out:
                order = self._orders[node]
                peer.meter.charge_idle(order.round, order.phase, self._env.now, peer.traits.modem.listen_w)

    def _fate(self, sender: Peer) -> Fate:
        """Why a link did not deliver, as far as its sender is the cause."""
        if sender.client in self._present and not sender.out:
            return "lost"
        return "dropped" if sender.ready(self._env.now) else sender.why_not(self._env.now)

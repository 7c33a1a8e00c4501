"""Device to device: the block d2d of a scenario, and what a node's transmissions to its neighbours take.

Each node sends on a band of its own, so that senders do not disturb each other; neighbours take turns if devices cannot
send and receive at once. No server, no access to the cell's band.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from wflsim.exchange import Edges, Order
from wflsim.rng import stream
from wflsim.spec import Spec, choices
from wflsim.units import Hertz, Ratio
from wflsim.world.access.graph import Ring, TopologySpec, colours, neighbours_of
from wflsim.world.channel.link import REFERENCE_HZ
from wflsim.world.channel.loss import Trial, failure_probability, send_attempts
from wflsim.world.channel.peers import peer_link
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.radio import Dealt, Radio, RadioSpec

Sending = Annotated[
    Literal["broadcast", "unicast"],
    choices(
        broadcast="once for all neighbours, at the rate of the worst of them",
        unicast="once for each neighbour, one after the other in order of their numbers, each at its own rate",
    ),
]
Duplex = Annotated[
    Literal["half", "full"],
    choices(
        half="a device sends or receives: neighbours take turns by a greedy colouring in order of their numbers",
        full="a device sends and receives at once: all nodes send at the same time",
    ),
]
EdgeLoss = Annotated[
    Literal["both", "one_way"],
    choices(
        both="a link counts only if it delivered in both directions, so that the mixing matrix stays doubly stochastic",
        one_way="each direction counts by itself; the mixing matrix is then no longer doubly stochastic",
    ),
]


class D2dSpec(Spec):
    """Links between the clients, for policies without a server; radio gives rate rule, power, fading and losses."""

    topology: TopologySpec = Ring(name="ring")
    """Graph of peers: which clients are neighbours; `wflsim list topology` describes each."""
    snr: Dealt[Ratio] | None = None
    """Constant SNR of the links, or a list dealt out to the links in turn, in order of their lower, then their higher
    client. Null: from radio; that is with path_loss by the distance between the two clients and the sender's power,
    else the lower of the SNRs of the two ends."""
    bandwidth: Hertz | None = None
    """Bandwidth on which a client sends to its neighbours; null: radio.bandwidth."""
    sending: Sending = "broadcast"
    """How a client sends to its neighbours; `wflsim list sending` describes each."""
    duplex: Duplex = "half"
    """Whether a client can send and receive at once; `wflsim list duplex` describes each."""
    edge_loss: EdgeLoss = "both"
    """What becomes of a link that delivered in one direction only; `wflsim list edge_loss` describes each."""


@dataclass(slots=True)
class Transfer:
    """One transmission of a node to one or several neighbours, as it will be if neither end fails."""

    sender: int
    receivers: tuple[int, ...]
    start_s: float
    end_s: float
    bits: int
    """Bits of the payload."""
    air_bits: float
    """Bits on the air, attempts that fail included."""
    attempts: int
    radiated_w: float
    snr_db: dict[int, float | None]
    """SNR in dB at each receiver when it begins."""
    in_vain: dict[int, str] = field(default_factory=dict)
    """Receiver -> why it does not get the payload although both ends do their part: lost or outage."""
    cut: bool = False
    """Whether the sender failed before the end."""


class PeerLinks:
    """The links of one world between its clients."""

    def __init__(
        self, d2d: D2dSpec, spec: RadioSpec, radio: Radio, place: Placement, clients: int, seed: int, edges: Edges
    ) -> None:  # seven: two blocks, what is built of them, and the graph
        self.edges = edges
        self.band_hz = spec.bandwidth if d2d.bandwidth is None else d2d.bandwidth
        self.both = d2d.edge_loss == "both"
        self._half = d2d.duplex == "half"
        self._broadcasts = d2d.sending == "broadcast"
        self._clients = clients
        self._seed = seed
        self._spec = spec
        pairs = [(i, j) for i, j in edges if i < j]
        given = None
        if d2d.snr is not None:
            dealt = {pair: d2d.snr[k % len(d2d.snr)] for k, pair in enumerate(pairs)}
            given = {self.number(i, j): dealt[min(i, j), max(i, j)] for i, j in edges}
        self.link = peer_link(spec, radio, place, clients, seed, given)
        self._for_snr = spec.reading == "power_for_snr" and (spec.path_loss is None or given is not None)
        self._lossless = radio.lossless

    def number(self, sender: int, receiver: int) -> int:
        """The number of a link in the channel."""
        return sender * self._clients + receiver

    def turns(self, edges: Edges) -> list[list[int]]:
        """Nodes that send at the same time, turn by turn."""
        return colours(edges) if self._half else [sorted(neighbours_of(edges))]

    def transfers(self, order: Order, receivers: list[int], start_s: float) -> list[Transfer]:
        """What a node sends to these neighbours from this instant on; nothing to those in outage, who hear nothing."""
        reached = [j for j in receivers if self.link.rate_bps(self.number(order.client, j), self.band_hz, start_s) > 0]
        groups = [reached] if self._broadcasts else [[j] for j in reached]
        found: list[Transfer] = []
        for group in groups:
            if group:
                found.append(self._transfer(order, group, found[-1].end_s if found else start_s))
        return found

    def _transfer(self, order: Order, receivers: list[int], start_s: float) -> Transfer:
        sender, link = order.client, self.link
        numbers = [self.number(sender, j) for j in receivers]
        snr = {j: link.snr(number, self.band_hz, start_s) for j, number in zip(receivers, numbers, strict=True)}
        snr_db = {j: link.snr_db(number, self.band_hz, start_s) for j, number in zip(receivers, numbers, strict=True)}
        air_bits, attempts, in_vain = float(order.up_bits), 1, dict[int, str]()
        if not self._lossless:
            trials = {j: self._trial(order, j, snr[j]) for j in receivers}
            air_bits, attempts = until_the_last(list(trials.values()))
            in_vain = {j: "lost" for j, trial in trials.items() if not trial.delivered}
        duration_s, arrives = link.transfer_s(numbers, air_bits, self.band_hz, start_s)
        if not arrives:
            in_vain = dict.fromkeys(receivers, "outage")
        power_w = self._spec.power[sender % len(self._spec.power)]
        if self._for_snr:
            power_w *= min(snr.values()) * self.band_hz / REFERENCE_HZ
        return Transfer(
            sender, tuple(receivers), start_s, start_s + duration_s, order.up_bits, air_bits, attempts, power_w, snr_db,
            in_vain,
        )  # fmt: skip

    def _trial(self, order: Order, receiver: int, snr: float) -> Trial:
        """Attempts to bring the payload to one neighbour, keyed by link and order."""
        rng = stream(self._seed, "edge loss", order.client, receiver, order.round, order.phase)
        probability = failure_probability(self._spec.loss, snr)
        return send_attempts(self._spec.loss, order.up_bits, probability, rng)


def until_the_last(trials: list[Trial]) -> tuple[float, int]:
    """(bits on the air, attempts) of a broadcast: each block is sent as often as the neediest receiver takes."""
    longest = max(trials, key=lambda trial: len(trial.tries))
    tries = np.zeros(len(longest.tries), dtype=np.int64)
    for trial in trials:
        tries[: len(trial.tries)] = np.maximum(tries[: len(trial.tries)], trial.tries)
    return float(tries @ longest.sizes), int(tries.sum())

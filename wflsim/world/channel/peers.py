"""Channels between clients: the SNR of every link of a graph of peers, by the same models as the uplink's.

A link from i to j of N clients has the number i N + j, which stands where other channels have the client's number.
Both directions of a link fade alike and have the same gain; their SNR differs only if the powers of the two ends do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wflsim.world.channel.channel import Channel, FadingChannel, Terrain, TerrainChannel, noise_w
from wflsim.world.channel.fading import Fading
from wflsim.world.channel.link import REFERENCE_HZ, Link
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.radio import Radio, RadioSpec, rate_rule
from wflsim.world.channel.rates import Floats


class GivenLinks:
    """Constant SNRs, by the number of the link."""

    steady = True
    step_s = np.inf

    def __init__(self, snr: Mapping[int, float]) -> None:
        self._snr = snr

    def snr(self, client: int, at_s: Floats) -> Floats:
        return np.full(len(at_s), self._snr[client])

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, np.inf])

    def highest_snr(self, client: int) -> float:
        return self._snr[client]


class LowerEnd:
    """The lower of the SNRs that the two ends of a link have towards the base station, where those are given."""

    def __init__(self, up: Channel, clients: int) -> None:
        self._up = up
        self._clients = clients
        self.steady = up.steady
        self.step_s = up.step_s

    def snr(self, client: int, at_s: Floats) -> Floats:
        one, two = divmod(client, self._clients)
        return np.minimum(self._up.snr(one, at_s), self._up.snr(two, at_s))

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        return self._up.changes_s(start_s, blocks)

    def highest_snr(self, client: int) -> float:
        return min(self._up.highest_snr(end) for end in divmod(client, self._clients))


class TerrainLinks(TerrainChannel):
    """SNR that follows from the sender's power, the terrain between the two ends and the receiver's noise."""

    def __init__(self, terrain: Terrain, power_w: list[float], noise_w: float, clients: int) -> None:
        super().__init__(terrain, power_w, [noise_w])
        self._clients = clients

    def snr(self, client: int, at_s: Floats) -> Floats:
        sender, receiver = divmod(client, self._clients)
        gain = self.terrain.gain_between(sender, receiver, at_s)
        return np.asarray(self.most_w(sender) * gain / self.noise_w(receiver))

    def highest_snr(self, client: int) -> float:
        return super().highest_snr(client // self._clients)


class PairFading(Fading):
    """Fading of links, the same in both directions."""

    clients = 0

    def gain(self, client: int, at_s: Floats) -> Floats:
        one, two = sorted(divmod(client, self.clients))
        return super().gain(one * self.clients + two, at_s)


def peer_link(
    spec: RadioSpec, radio: Radio, place: Placement, clients: int, seed: int, given: Mapping[int, float] | None
) -> Link:
    """Rates between clients. `given`: constant SNR of each link, by number; None: as the block radio says."""
    channel: Channel
    if given is not None:
        channel = GivenLinks(given)
    elif spec.path_loss is not None:
        terrain = Terrain(spec.path_loss, place, spec.carrier, seed)
        noise = noise_w(REFERENCE_HZ, spec.downlink.noise_figure, spec.interference_margin)
        channel = TerrainLinks(terrain, spec.power, noise, clients)
    else:
        channel = LowerEnd(radio.mean_up, clients)
    if spec.fading is not None and spec.fading.time == "block":
        fading = PairFading(spec.fading, spec.carrier, seed, "d2d")
        fading.clients = clients
        channel = FadingChannel(channel, fading)
    follows = spec.reading == "snr_at_1mhz" if given is not None else spec.noise_follows_band
    return Link(channel, rate_rule(spec), follows, spec.patience)

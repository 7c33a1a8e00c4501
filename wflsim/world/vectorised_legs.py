"""Legs as arrays: what each activity of each order of a trace costs, and what comes together in a round.

The story is that of `fleet.device.Device`, told for all orders at once, for worlds in which nothing fails. Each kind of
leg is one `LegArrays` with an entry per order, those that do not exist included: they have no length and no joules.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wflsim.records import Activity
from wflsim.world.channel.rates import Floats
from wflsim.world.fleet.meter import resting_s
from wflsim.world.fleet.traits import paper_transmit_j
from wflsim.world.trace_arrays import NOBODY, Integers, TraceArrays

BEGIN, TURN, HEARD, WOKEN, RECEIVED, COMPUTED, AWAKE, SENT = range(8)
"""Instants of an order, each a duration after the one before it: its phase begins; its broadcast begins, is through;
the modem is awake for what is the client's own, which is through; computed; awake again; sent."""
Flags = NDArray[np.bool_]


class Physics(NamedTuple):
    """What a world says about every order, as arrays."""

    device: Any
    """`Traits` whose fields are arrays with an entry per order."""
    everybody: Any
    """`Traits` whose fields are arrays with an entry per client."""
    broadcast_s: Floats
    each_s: Floats
    compute_s: Floats
    up_s: Floats
    radiated_w: Floats
    sending_w: Floats
    aggregation_s: float


class Times(NamedTuple):
    """The simulated time of everything that happens."""

    instants_s: Floats
    """[instant, order]"""
    phase_ends_s: Floats
    """[phase]"""
    round_ends_s: Floats
    """[round]"""


class LegArrays(NamedTuple):
    """Legs of one kind."""

    activity: Activity
    row: Integers
    """Ordinal of the round in the trace."""
    phase: Integers | Floats
    """Phase in the round."""
    client: Integers
    start_s: Floats
    end_s: Floats
    exists: Flags
    energy_j: Floats
    bits: Floats | float = 0.0
    radiated_j: Floats | float = 0.0
    paper_j: Floats | float = 0.0


class Costs(NamedTuple):
    """What each round of a trace costs; an entry per round."""

    end_s: Floats
    """Simulated time at the end of the round."""
    energy_j: Floats
    """Joules of all devices in the round, by the full accounting."""
    paper_j: Floats
    """Joules in the round by the paper's formula."""
    radiated_j: Floats
    """Joules in the round that left antennas."""


def costs_of(times: Times, legs: list[LegArrays]) -> Costs:
    """The costs of each round: the sums over its legs."""
    rounds = len(times.round_ends_s)
    sums = np.zeros((3, rounds))
    for leg in legs:
        for total, part in zip(sums, (leg.energy_j, leg.paper_j, leg.radiated_j), strict=True):
            if isinstance(part, np.ndarray):
                total += np.bincount(leg.row, weights=part, minlength=rounds)
    return Costs(times.round_ends_s, *sums)


def legs_of(trace: TraceArrays, physics: Physics, times: Times, idle_counts: bool) -> list[LegArrays]:
    """Every leg of every order; where all idle time counts, those of the clients between their orders as well."""
    end_s = transfer_ends_s(trace, times.instants_s)
    before_s = (
        times.phase_ends_s[trace.phase[trace.previous]] * (trace.previous != NOBODY) if len(trace.phase) else end_s
    )
    if idle_counts:
        before_s = np.maximum(before_s, np.append(0.0, times.round_ends_s)[trace.row])
    begun_s = np.where(trace.transferred == NOBODY, 0.0, end_s[trace.transferred]) if len(trace.phase) else end_s
    order = trace.order
    story = _Story(physics.device, (trace.row, order.phase, order.client), begun_s, before_s)
    _serve(story, trace, physics, times, before_s if idle_counts else None)
    if not idle_counts:
        return story.legs
    return story.legs + _rest(trace, physics, times, end_s)


class _Story:
    """The legs of many orders, or of many clients between orders, and how their modems stand."""

    def __init__(self, device: Any, labels: tuple[Any, Any, Any], begun_s: Floats, charged_s: Floats) -> None:
        """`labels`: row, phase and client. `begun_s`: when the last tail began; `charged_s`: until when it is paid."""
        self.legs: list[LegArrays] = []
        self._device, self._labels = device, labels
        self._tailed: Flags = device.modem.tail_s > 0
        self._any = bool(self._tailed.any())
        self.asleep_s: Floats = self._tailed * (begun_s > 0) * (begun_s + device.modem.tail_s)
        self._written_s: Floats = np.maximum(self._tailed * begun_s, np.minimum(charged_s, self.asleep_s))

    def add(
        self, activity: Activity, start_s: Floats, end_s: Floats, exists: Flags, energy_j: Floats, **more: Any
    ) -> None:
        """Note legs; those that do not exist cost nothing."""
        self.legs.append(LegArrays(activity, *self._labels, start_s, end_s, exists, energy_j, **more))

    def transfer(
        self, activity: Activity, start_s: Floats, end_s: Floats, exists: Flags, energy_j: Floats, **more: Any
    ) -> None:
        """Note transfers; where they exist, the tail of the modem begins at their end."""
        self.add(activity, start_s, end_s, exists, energy_j, **more)
        if self._any:
            begins = exists & self._tailed
            self.asleep_s = np.where(begins, end_s + self._device.modem.tail_s, self.asleep_s)
            self._written_s = np.where(begins, end_s, self._written_s)

    def wake(self, activity: Activity, start_s: Floats, end_s: Floats, exists: Flags) -> None:
        """Note that modems wake."""
        self.transfer(activity, start_s, end_s, exists, self._device.waking_w * (end_s - start_s))

    def charge_tail(self, now_s: Floats) -> None:
        """Note the tails as far as they have come."""
        if self._any:
            start_s, end_s = self._written_s, np.minimum(now_s, self.asleep_s)
            exists = end_s > start_s
            self.add("tail", start_s, end_s, exists, exists * self._device.modem.tail_w * (end_s - start_s))
            self._written_s = np.maximum(start_s, end_s)

    def resting_j(self, start_s: Floats, end_s: Floats, rest_w: Floats) -> Floats:
        """Joules of modems that rest at this power between two instants, without those of their tails."""
        return np.asarray(rest_w * resting_s(start_s, end_s, self.asleep_s, np.maximum))

    def idle(self, start_s: Floats, end_s: Floats, rest_w: Floats, even_free: bool = False) -> None:
        """Note idle legs; `even_free`: those that cost nothing, too."""
        self.charge_tail(end_s)
        energy_j = self._device.processor.idle_w * (end_s - start_s) + self.resting_j(start_s, end_s, rest_w)
        self.add("idle", start_s, end_s, end_s > start_s if even_free else energy_j > 0, energy_j)


def _serve(story: _Story, trace: TraceArrays, physics: Physics, times: Times, idle_since_s: Floats | None) -> None:
    """Tell the story of all orders, each from the beginning of its phase to the end of it."""
    at_s, order, device = times.instants_s, trace.order, physics.device
    processor, modem = device.processor, device.modem
    heard, alone, works, sends = (
        part > 0 for part in (order.shared_bits, order.each_bits, order.forward_samples, order.up_bits)
    )
    if idle_since_s is None:
        story.charge_tail(at_s[BEGIN])
    else:
        story.idle(idle_since_s, at_s[BEGIN], modem.sleep_w)
    if modem.wake_s.any():
        wakes_s = heard * (at_s[BEGIN] >= story.asleep_s) * modem.wake_s
        own_s = at_s[BEGIN] + wakes_s
        story.wake("receive", at_s[BEGIN], own_s, wakes_s > 0)
        story.idle(own_s, at_s[TURN], modem.listen_w, even_free=True)
    duration_s = at_s[HEARD] - at_s[TURN]
    energy_j = device.receive_j(duration_s, order.shared_bits)
    story.transfer("receive", at_s[TURN], at_s[HEARD], heard, energy_j, bits=order.shared_bits)
    if alone.any():
        story.wake("receive", at_s[HEARD], at_s[WOKEN], at_s[WOKEN] > at_s[HEARD])
        duration_s = at_s[RECEIVED] - at_s[WOKEN]
        energy_j = device.receive_j(duration_s, order.each_bits)
        story.transfer("receive", at_s[WOKEN], at_s[RECEIVED], alone, energy_j, bits=order.each_bits)
    story.charge_tail(at_s[COMPUTED])
    computing_j = processor.active_w * physics.compute_s
    energy_j = computing_j + story.resting_j(at_s[RECEIVED], at_s[COMPUTED], modem.sleep_w)
    paper_j = computing_j * (order.paper_bits > 0)
    story.add("compute", at_s[RECEIVED], at_s[COMPUTED], works, energy_j, paper_j=paper_j)
    if modem.wake_s.any():
        story.wake("transmit", at_s[COMPUTED], at_s[AWAKE], at_s[AWAKE] > at_s[COMPUTED])
    duration_s = at_s[SENT] - at_s[AWAKE]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate_bps = np.where(sends & (duration_s > 0), order.up_bits / duration_s, np.inf)
    story.transfer(
        "transmit", at_s[AWAKE], at_s[SENT], sends, device.transmit_j(physics.sending_w, duration_s, order.up_bits),
        bits=order.up_bits, radiated_j=physics.radiated_w * duration_s,
        paper_j=paper_transmit_j(physics.radiated_w, order.paper_bits, rate_bps),
    )  # fmt: skip
    story.idle(at_s[SENT], times.phase_ends_s[trace.phase], modem.listen_w)


def _rest(trace: TraceArrays, physics: Physics, times: Times, ended_s: Floats) -> list[LegArrays]:
    """The idle time of all clients until the end of each round, since their last order or the round before."""
    clients = len(physics.everybody.modem.tail_s)
    who, row = np.tile(np.arange(clients), trace.rounds), np.repeat(np.arange(trace.rounds), clients)
    last, moved = trace.latest(clients)
    since_s, begun_s = np.append(0.0, times.round_ends_s)[row], np.zeros(len(who))
    served, spoke = last != NOBODY, moved != NOBODY
    since_s[served] = np.maximum(since_s[served], times.phase_ends_s[trace.phase[last[served]]])
    begun_s[spoke] = ended_s[moved[spoke]]
    device = devices_of(physics.everybody, who)
    story = _Story(device, (row, np.zeros(len(who)), who), begun_s, since_s)
    story.idle(since_s, times.round_ends_s[row], device.modem.sleep_w)
    return story.legs


def devices_of(everybody: Any, clients: Integers) -> Any:
    """Of devices whose fields are arrays with an entry per client: an entry for each of these clients."""
    processor, modem = (
        type(part)(**{field.name: getattr(part, field.name)[clients] for field in fields(part)})
        for part in (everybody.processor, everybody.modem)
    )
    return replace(everybody, processor=processor, modem=modem)


def transfer_ends_s(trace: TraceArrays, instants_s: Floats) -> Floats:
    """When the last transfer of each order ended; without one, whenever."""
    order = trace.order
    before_s = np.where(order.each_bits > 0, instants_s[RECEIVED], instants_s[HEARD])
    return np.asarray(np.where(order.up_bits > 0, instants_s[SENT], before_s))

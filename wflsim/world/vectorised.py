"""Vectorised replay: times and joules of a whole trace by arrays, without the event queue, where nobody waits.

It applies where every client has a band of its own at a rate that never changes and every order is delivered: then
each leg's duration is known beforehand, and only the ends of the phases follow one from the other. The formulas are
those of the devices and the radio (`fleet`, `channel`), called with arrays, and additions are made in the order in
which SimPy's clock makes them. For searches only: what is printed was replayed by SimPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from wflsim.errors import ReplayRefused
from wflsim.world.bounds import refuse_centuries
from wflsim.world.channel.radio import Radio
from wflsim.world.channel.rates import Floats
from wflsim.world.fleet.compute import REFERENCE_FLOPS
from wflsim.world.fleet.roster import Roster, call_roster
from wflsim.world.fleet.traits import Traits
from wflsim.world.plausible import refuse_power
from wflsim.world.spec import WorldSpec, influences
from wflsim.world.trace_arrays import NOBODY, TraceArrays
from wflsim.world.vectorised_legs import (
    AWAKE,
    BEGIN,
    COMPUTED,
    HEARD,
    RECEIVED,
    SENT,
    TURN,
    WOKEN,
    Costs,
    LegArrays,
    Physics,
    Times,
    costs_of,
    devices_of,
    legs_of,
    transfer_ends_s,
)


def forbidding_keys(spec: WorldSpec) -> list[str]:
    """Key paths because of which a vectorised replay does not apply in this world; empty if it does."""
    radio, fading = spec.radio, spec.radio.fading
    found = {
        "devices.dvfs": any(kind.dvfs == "just_in_time" for kind in spec.devices),
        "cell.access": spec.cell.access != "dedicated",
        "radio.trace": radio.trace is not None,
        "radio.fading": fading is not None
        and fading.time == "block"
        and (fading.speed > 0 or fading.block is not None),
        "fleet.correlation": spec.fleet is not None and spec.fleet.needs_samples,
        "cell.speed": radio.path_loss is not None and spec.cell.speed > 0,
    }
    return influences(spec) + [key for key, present in found.items() if present]


def vectorised(
    trace: TraceArrays,
    spec: WorldSpec,
    clients: int,
    seed: int,
    flops_per_sample: float = REFERENCE_FLOPS,
    samples: Sequence[int] | None = None,
) -> Costs:
    """Costs of each round of a trace in this world; ReplayRefused where it does not apply, naming the key.

    The arguments after the trace are those of `World`.
    """
    return costs_of(*timed_legs(trace, spec, clients, seed, flops_per_sample, samples))


def timed_legs(
    trace: TraceArrays,
    spec: WorldSpec,
    clients: int,
    seed: int,
    flops_per_sample: float = REFERENCE_FLOPS,
    samples: Sequence[int] | None = None,
) -> tuple[Times, list[LegArrays]]:
    """Every leg of a trace in this world as arrays, and when phases and rounds end."""
    if keys := forbidding_keys(spec):
        raise ReplayRefused(f"{keys[0]}: in such a world clients wait or orders fail, so it is replayed by events")
    roster = call_roster(spec, clients, seed, flops_per_sample, samples)
    physics = _physics(trace, spec, roster, seed)
    times = _clock(trace, physics)
    return times, legs_of(trace, physics, times, spec.server.idle == "all")


def _physics(trace: TraceArrays, spec: WorldSpec, roster: Roster, seed: int) -> Physics:
    """Durations and powers of all orders, by the same fleet and radio as in `World`."""
    fleet, place, powers_w = roster
    radio = Radio(spec.radio, place, seed, powers_w)
    refuse_power(fleet, spec, radio)
    who, order = range(len(fleet)), trace.order
    # One by one, as SimPy's world asks: an average over fading of many clients at once differs in its last digit.
    up_bps, down_bps = (
        np.array([link.rate_bps(client, band_hz, 0.0) for client in who])
        for link, band_hz in ((radio.up, radio.up_hz), (radio.down, radio.down_hz))
    )
    if not (up_bps.all() and down_bps.all()):
        raise ReplayRefused("radio: a client cannot send or receive at all, so that orders fail; replay it by events")
    radiated_w = np.array([radio.radiated_w(client, radio.up_hz, 0.0) for client in who])
    sending_w = np.array([traits.sending_w(float(w)) for traits, w in zip(fleet, radiated_w, strict=True)])
    everybody = _arrays(fleet)
    device = devices_of(everybody, order.client)
    worst_bps = np.minimum.reduceat(down_bps[order.client], trace.ask_starts) if len(order.client) else np.ones(1)
    return Physics(
        device=device,
        everybody=everybody,
        broadcast_s=order.shared_bits / worst_bps[trace.ask],
        each_s=order.each_bits / down_bps[order.client],
        compute_s=np.asarray(device.processor.order_s(order)),
        up_s=order.up_bits / up_bps[order.client],
        radiated_w=radiated_w[order.client],
        sending_w=sending_w[order.client],
        aggregation_s=spec.server.aggregation,
    )


def _clock(trace: TraceArrays, physics: Physics) -> Times:
    """When everything happens.

    Which modems sleep when an order comes depends on the instants, and they on who has to wake. So both are computed in
    turn until they agree: each time at least one phase more is right for good, and mostly all of them are.
    """
    steps_s = np.zeros((8, len(trace.phase)))
    steps_s[HEARD], steps_s[RECEIVED] = physics.broadcast_s, physics.each_s
    steps_s[COMPUTED], steps_s[SENT] = physics.compute_s, physics.up_s
    wake_s = physics.device.modem.wake_s
    refuse_centuries(max(float(steps_s.max(initial=0.0)), float(wake_s.max(initial=0.0)), physics.aggregation_s))
    times = _run(trace, steps_s, physics.aggregation_s)
    while wake_s.any():
        waits_s = _wakes_s(trace, physics, times.instants_s)
        if np.array_equal(waits_s, steps_s[[TURN, WOKEN, AWAKE]]):
            break
        steps_s[[TURN, WOKEN, AWAKE]] = waits_s
        times = _run(trace, steps_s, physics.aggregation_s)
    return times


def _run(trace: TraceArrays, steps_s: Floats, aggregation_s: float) -> Times:
    """Let the clock run from phase to phase, each of which begins when the last order before it has ended."""
    instants_s = np.empty_like(steps_s)
    phase_ends_s, round_ends_s = np.empty(len(trace.starts) - 1), np.empty(trace.rounds)
    starts, now_s, begin = trace.starts.tolist(), 0.0, 0
    for row, end in enumerate(trace.ends.tolist()):
        for phase in range(begin, end):
            here = slice(starts[phase], starts[phase + 1])
            if here.stop > here.start:
                steps_s[BEGIN, here] = now_s
                instants = np.add.accumulate(steps_s[:, here], axis=0, out=instants_s[:, here])
                now_s = float(instants[SENT].max())
            phase_ends_s[phase] = now_s
        begin = end
        now_s += aggregation_s
        round_ends_s[row] = now_s
    return Times(instants_s, phase_ends_s, round_ends_s)


def _wakes_s(trace: TraceArrays, physics: Physics, instants_s: Floats) -> Floats:
    """[turn, woken, awake; order] How long orders wait for modems to wake, if everything happens at these instants."""
    order, modem, at_s = trace.order, physics.device.modem, instants_s
    heard, alone, sends = (bits > 0 for bits in (order.shared_bits, order.each_bits, order.up_bits))
    tailed = modem.tail_s > 0
    ended_s = transfer_ends_s(trace, at_s)[trace.transferred]
    asleep_s = (tailed & (trace.transferred != NOBODY)) * (ended_s + modem.tail_s)
    wakes_s = heard * (at_s[BEGIN] >= asleep_s) * modem.wake_s
    turn_s = heard * np.maximum.reduceat(wakes_s, trace.ask_starts)[trace.ask]
    asleep_s = np.where(heard & tailed, at_s[HEARD] + modem.tail_s, asleep_s)
    woken_s = alone * (at_s[HEARD] >= asleep_s) * modem.wake_s
    asleep_s = np.where(alone & tailed, at_s[RECEIVED] + modem.tail_s, asleep_s)
    return np.array([turn_s, woken_s, sends * (at_s[COMPUTED] >= asleep_s) * modem.wake_s])


def _arrays(fleet: Sequence[Traits]) -> Traits:
    """A device whose processor and modem have arrays for fields, with an entry per client."""
    parts: list[Any] = []
    for each in ([traits.processor for traits in fleet], [traits.modem for traits in fleet]):
        names = [field.name for field in fields(each[0])]
        columns: Any = {name: np.array([getattr(one, name) for one in each], np.float64) for name in names}
        parts.append(type(each[0])(**columns))
    return replace(fleet[0], processor=parts[0], modem=parts[1])

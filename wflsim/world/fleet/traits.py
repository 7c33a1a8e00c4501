"""Each client's device in plain SI numbers, and which client has which kind of device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from wflsim.errors import ScenarioError
from wflsim.rng import stream
from wflsim.world.fleet.availability import OutagesSpec, hours_of
from wflsim.world.fleet.compute import TRAINING_FLOPS, Processor
from wflsim.world.fleet.draw import shares_to_counts
from wflsim.world.fleet.harvest import harvest_of
from wflsim.world.fleet.hours import Hours
from wflsim.world.fleet.modem import Modem
from wflsim.world.fleet.series import Series
from wflsim.world.fleet.spec import DeviceSpec

Number = TypeVar("Number", float, NDArray[np.float64])
"""A number, or one for each of many orders."""


@dataclass(frozen=True, slots=True)
class Traits:
    """One client's device; see the keys of `DeviceSpec`.

    Its formulas, except `sending_w`, take arrays as well as numbers: the vectorised replay puts those of all orders in.
    """

    kind: int
    """Ordinal of its kind in the scenario's list of devices."""
    processor: Processor
    modem: Modem
    radiated_w: float | None
    """Watts that it radiates; None: those of radio.power."""
    battery_j: float | None
    """Joules in its battery at the beginning; None: it is on mains."""
    harvest: Series | None
    """Watts that flow into its battery over time; None: none."""
    hours: Hours | None
    """Windows in which it can be asked; None: always."""
    dropout: float
    """Probability that it drops an order."""

    @property
    def receiving_w(self) -> float:
        """Watts that the device draws while it receives."""
        return self.processor.idle_w + self.modem.receive_w

    @property
    def waking_w(self) -> float:
        """Watts that the device draws while its modem wakes."""
        return self.processor.idle_w + self.modem.wake_w

    def sending_w(self, radiated_w: float) -> float:
        """Watts that the device draws while it sends and its antenna radiates this many."""
        return self.processor.idle_w + self.modem.sending_w(radiated_w)

    def receive_j(self, duration_s: float, bits: float) -> float:
        """Joules to receive so many bits in so many seconds."""
        return self.receiving_w * duration_s + self.modem.receive_j_per_bit * bits

    def transmit_j(self, power_w: float, duration_s: float, air_bits: float) -> float:
        """Joules to send so many bits in so many seconds, while the device draws this power."""
        return power_w * duration_s + self.modem.transmit_j_per_bit * air_bits


class Pooled(NamedTuple):
    """A device that some client will have."""

    kind: int
    """Ordinal of its kind in the scenario's list of devices."""
    processor: Processor


def pool_devices(
    specs: Sequence[DeviceSpec], clients: int, seed: int, flops_per_sample: float, drawn: bool = False
) -> list[Pooled]:
    """As many devices as clients, each with its own draw of `spread`.

    Where they are drawn, shares are exact by largest remainder; else kinds take turns in proportion to their shares.
    """
    if drawn:
        counts = shares_to_counts([spec.share for spec in specs], clients)
        kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
    else:
        kinds = _in_turn([spec.share for spec in specs], clients)
    return [
        Pooled(kind, processor_of(specs[kind], flops_per_sample, _slowness(specs[kind], number, seed)))
        for number, kind in enumerate(kinds)
    ]


def build_fleet(
    specs: Sequence[DeviceSpec],
    pool: Sequence[Pooled],
    devices: Sequence[int],
    seed: int,
    outages: OutagesSpec | None = None,
) -> list[Traits]:
    """The devices of all clients. `devices`: by client, the number of its device in the pool."""
    fleet, harvests = [], [harvest_of(spec.harvest) for spec in specs]
    for client, (kind, processor) in enumerate(pool[number] for number in devices):
        spec = specs[kind]
        fleet.append(
            Traits(
                kind=kind,
                processor=processor,
                modem=modem_of(spec),
                radiated_w=spec.radiated_power,
                battery_j=spec.battery,
                harvest=harvests[kind],
                hours=hours_of(spec.availability, outages, seed, client),
                dropout=spec.dropout,
            )
        )
    return fleet


def _in_turn(shares: Sequence[float], clients: int) -> list[int]:
    """Kinds of the first so many devices, dealt out in turn in proportion to their shares."""
    total, kinds = sum(shares), list[int]()
    dealt = [0] * len(shares)
    for number in range(clients):
        owed = [share / total * (number + 1) - n for share, n in zip(shares, dealt, strict=True)]
        kinds.append(owed.index(max(owed)))
        dealt[kinds[-1]] += 1
    return kinds


def _slowness(spec: DeviceSpec, number: int, seed: int) -> float:
    """Factor by which the device of this number computes more slowly than its kind."""
    return float(stream(seed, "speed", number).lognormal(0.0, spec.spread)) if spec.spread > 0 else 1.0


def radiated_powers_w(fleet: Sequence[Traits], power_w: Sequence[float]) -> list[float]:
    """Watts that each client radiates: those of its kind of device, or those of radio.power, dealt out in turn."""
    return [
        power_w[client % len(power_w)] if traits.radiated_w is None else traits.radiated_w
        for client, traits in enumerate(fleet)
    ]


def paper_transmit_j(radiated_w: Number, paper_bits: Number, rate_bps: Number) -> Number:
    """Joules that the paper's formula charges for an upload: radiated power x paper bits / rate."""
    return radiated_w * paper_bits / rate_bps


def processor_of(spec: DeviceSpec, flops_per_sample: float, slowness: float = 1.0) -> Processor:
    """The processor of a kind of device at its clock, for a model of so many forward FLOPs per sample; all its times
    are multiplied by `slowness`."""
    # One of the two is given (DeviceSpec sees to it), and so is one of kappa and compute_active_power.
    full_hz = spec.max_frequency or spec.frequency or 0.0
    clock, least_hz = (spec.frequency or full_hz) / full_hz, spec.min_frequency
    if spec.cycles_per_sample is not None:
        full_s = spec.cycles_per_sample / full_hz
    elif flops_per_sample <= 0:
        raise ScenarioError(
            "devices: computing time follows from the model's FLOPs, which are not known for this model; "
            "give devices.cycles_per_sample"
        )
    else:
        full_s = TRAINING_FLOPS * flops_per_sample / (full_hz if spec.speed is None else spec.speed)
    idle_w = spec.compute_idle_power
    if spec.compute_active_power is None:
        full_w = (spec.kappa or 0.0) * full_hz**3
    else:
        full_w = spec.compute_active_power - idle_w
    return Processor(
        idle_w=idle_w,
        active_w=idle_w + full_w * math.pow(clock, spec.clock_exponent),
        s_per_call=spec.call_overhead * slowness,
        s_per_step=spec.step_overhead * slowness,
        s_per_sample=full_s * (spec.memory_share + (1 - spec.memory_share) / clock) * slowness,
        memory_share=spec.memory_share / (spec.memory_share + (1 - spec.memory_share) / clock),
        clock_exponent=spec.clock_exponent,
        least_clock=least_hz / (clock * full_hz) if spec.dvfs == "just_in_time" and least_hz else 1.0,
    )


def modem_of(spec: DeviceSpec) -> Modem:
    """The modem of a kind of device."""
    return Modem(
        circuit_w=spec.circuit_power,
        max_w=spec.max_power,
        amplifier_efficiency=spec.amplifier_efficiency,
        amplifier_exponent=spec.amplifier_exponent,
        transmit_j_per_bit=spec.transmit_energy_per_bit,
        receive_w=spec.receive_power,
        receive_j_per_bit=spec.receive_energy_per_bit,
        listen_w=spec.listen_power,
        sleep_w=spec.sleep_power,
        wake_s=spec.wake,
        wake_w=spec.wake_power,
        tail_s=spec.tail,
        tail_w=spec.tail_power,
    )

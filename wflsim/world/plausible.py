"""Plausibility: values that are allowed but far from what anybody uses, each remarked upon with its usual range.

A remark is no refusal: who means the value accepts the remark by its name (`accept: [bandwidth]`). The ranges are those
of standards and data sheets as far as they were found; [M] marks those from memory.
A radiated power above that of a modem is refused, whatever key it comes from (`too_strong`, `refuse_power`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from wflsim.errors import ScenarioError
from wflsim.spec import choices
from wflsim.units import ratio_to_db
from wflsim.world.channel.radio import Radio
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.fleet.traits import Traits, modem_of, processor_of

if TYPE_CHECKING:
    from wflsim.world.spec import WorldSpec


Remark = Annotated[
    Literal[
        "bandwidth", "power", "frequency", "chip_power", "joules_per_gflop", "amplifier_efficiency", "battery",
        "battery_life", "free_computing", "free_radio",
    ],
    choices(
        bandwidth="the band is wider or narrower than those of this modem's standard",
        power="more is radiated than by any phone, or nothing at all",
        frequency="the clock is outside 16 MHz to 6 GHz",
        chip_power="the processor draws less than 1 mW, or more than its supply gives",
        joules_per_gflop="computing costs less than 0.005 or more than 6 J per training GFLOP",
        amplifier_efficiency="the amplifier's efficiency is outside 0.02 to 0.6, and not the ideal 1",
        battery="the battery holds less than 1 kJ or more than 1 MJ",
        battery_life="the battery lasts less than an hour of doing nothing",
        free_computing="computing takes no time, or no energy",
        free_radio="sending or receiving takes no energy",
    ),
]  # fmt: skip
"""Name of a remark that a scenario can accept."""

BANDS_HZ: dict[str, tuple[float, float, float]] = {
    "lte": (180e3, 1.4e6, 20e6), "lte_2012": (180e3, 1.4e6, 20e6), "nr_low": (180e3, 5e6, 100e6),
    "nr_mmwave": (180e3, 50e6, 400e6), "wifi_nic": (2e6, 20e6, 160e6), "wifi_phone": (2e6, 20e6, 160e6),
    "nb_iot": (3.75e3, 3.75e3, 180e3), "lora": (125e3, 125e3, 500e3), "ble": (1e6, 1e6, 2e6),
    "ideal": (3.75e3, 3.75e3, 400e6),
}  # fmt: skip
"""By modem: the least part of a band that one client can have, and the narrowest and widest band of a cell, in Hz.
LTE's are found, the others and all least parts from memory [M]."""
STRONGEST_W = 0.8
"""Watts of the strongest class of phones, 29 dBm."""
ONE_GFLOP = 1e9 / 3
"""Forward FLOPs of a sample that takes one GFLOP to train on."""


class Finding(NamedTuple):
    """One value that is outside its usual range."""

    name: str
    """Name by which it is accepted."""
    words: str


def implausible(spec: WorldSpec) -> list[str]:
    """A sentence for every implausible value that the scenario does not accept, and for what it accepts in vain."""
    findings = list(dict.fromkeys(_findings(spec)))
    said = [
        f"{finding.words}; if that is meant, write accept: [{finding.name}]"
        for finding in findings
        if finding.name not in spec.accept
    ]
    names = {finding.name for finding in findings}
    vain = [name for name in spec.accept if name not in names]
    return said + [f"accept: {name} has no effect here: nothing calls for it" for name in vain]


def _findings(spec: WorldSpec) -> Iterator[Finding]:
    for number, kind in enumerate(spec.devices):
        block = "devices" if len(spec.devices) == 1 else f"devices.{number}"
        yield from _band(spec, kind)
        yield from _power(spec, kind, block)
        yield from _processor(kind, block)
        yield from _battery(kind, block)


def _band(spec: WorldSpec, kind: DeviceSpec) -> Iterator[Finding]:
    part_hz, narrow_hz, wide_hz = BANDS_HZ[kind.modem]
    low_hz = part_hz if spec.cell.access == "dedicated" else narrow_hz
    bands_hz = {"radio.bandwidth": spec.radio.bandwidth, "radio.downlink.bandwidth": spec.radio.downlink.bandwidth}
    for key, band_hz in bands_hz.items():
        if band_hz is not None and not low_hz <= band_hz <= wide_hz:
            usual = f"{low_hz / 1e6:g} to {wide_hz / 1e6:g} MHz"
            whose = "a radio" if kind.modem == "ideal" else kind.modem
            yield Finding("bandwidth", f"{key} is {band_hz / 1e6:g} MHz, usual for {whose} are {usual}")


def _power(spec: WorldSpec, kind: DeviceSpec, block: str) -> Iterator[Finding]:
    powers_w = spec.radio.power if kind.radiated_power is None else [kind.radiated_power]
    key = "radio.power" if kind.radiated_power is None else f"{block}.radiated_power"
    for power_w in powers_w:
        if not 0 < power_w <= STRONGEST_W:
            usual = "usual is up to 0.2 W (23 dBm), in the strongest phones 0.8 W"
            yield Finding("power", f"{key} is {power_w:g} W, {usual}")
    modem = modem_of(kind)
    efficiency = modem.amplifier_efficiency
    if not (0.02 <= efficiency <= 0.6 or efficiency == 1):
        usual = "usual are 0.02 to 0.6 (1 is the ideal)"
        yield Finding("amplifier_efficiency", f"{block}.amplifier_efficiency is {efficiency:g}, {usual}")
    if modem.sending_w(min(powers_w)) == 0 or modem.receive_w == 0:
        yield Finding("free_radio", f"{block}: sending or receiving takes no energy (radio.power, receive_power)")


def _processor(kind: DeviceSpec, block: str) -> Iterator[Finding]:
    clock_hz = kind.frequency or kind.max_frequency or 0.0
    if not 16e6 <= clock_hz <= 6e9:
        yield Finding("frequency", f"{block}.frequency is {clock_hz:g} Hz, usual are 16 MHz to 6 GHz")
    made = processor_of(kind, ONE_GFLOP)
    if made.active_w == 0 or made.step_s(1) == 0:
        yield Finding("free_computing", f"{block}: computing takes no time or no energy (cycles_per_sample, kappa)")
        return
    most_w = 500.0 if kind.battery is None else 15.0
    if not 1e-3 <= made.active_w <= most_w:
        usual = f"usual {'on mains' if kind.battery is None else 'on a battery'} are 0.001 to {most_w:g} W"
        yield Finding("chip_power", f"{block}: computing draws {made.active_w:.3g} W, {usual}")
    if kind.cycles_per_sample is None:
        gflop_j = made.active_w * made.s_per_sample
        if not 0.005 <= gflop_j <= 6:  # mcu_m7, the thirstiest of the named processors, takes 5.8 J
            usual = "usual are 0.005 to 6 J (compute_active_power, kappa, speed)"
            yield Finding("joules_per_gflop", f"{block}: a training GFLOP takes {gflop_j:.3g} J, {usual}")


def _battery(kind: DeviceSpec, block: str) -> Iterator[Finding]:
    if kind.battery is None:
        return
    if not 1e3 <= kind.battery <= 1e6:
        yield Finding("battery", f"{block}.battery is {kind.battery:g} J, usual are 1 kJ (a coin cell) to 1 MJ")
    idle_w = kind.compute_idle_power + kind.sleep_power
    life_s = kind.battery / idle_w if idle_w > 0 else math.inf
    if life_s < 3600:
        usual = "usual is more than an hour (compute_idle_power, sleep_power)"
        yield Finding("battery_life", f"{block}.battery lasts {life_s:.3g} s of doing nothing, {usual}")


def too_strong(spec: WorldSpec) -> list[str]:
    """A sentence for every kind of device whose modem can radiate none of the powers that the scenario names."""
    found = []
    for number, kind in enumerate(spec.devices):
        power_w = min(spec.radio.power) if kind.radiated_power is None else kind.radiated_power
        if spec.radio.reading != "power_for_snr" and not modem_of(kind).can_radiate(power_w):
            found.append(_sentence(spec, number, power_w, ""))
    return found


def refuse_power(fleet: Sequence[Traits], spec: WorldSpec, radio: Radio) -> None:
    """Raise a ScenarioError if a client would radiate more than its modem can. Under power control it radiates at most
    what the scenario gives it, so that is compared."""
    for client, traits in enumerate(fleet):
        power_w = radio.most_w(client)
        if not traits.modem.can_radiate(power_w):
            raise ScenarioError(_sentence(spec, traits.kind, power_w, f" of client {client}"))


def _sentence(spec: WorldSpec, kind: int, power_w: float, whose: str) -> str:
    """Why a radiated power is refused, and what to do."""
    device: DeviceSpec = spec.devices[kind]
    block = "devices" if len(spec.devices) == 1 else f"devices.{kind}"
    key = f"{block}.radiated_power" if device.radiated_power is not None else "radio.power"
    if device.radiated_power is None and spec.radio.reading == "power_for_snr":
        key = "radio.snr (reading power_for_snr)"
    most_w = device.max_power or 0.0
    return (
        f"{key} asks for {_dbm(power_w)} ({power_w:.3g} W), but the modem{whose} ({device.modem}) radiates at most "
        f"{_dbm(most_w)} ({block}.max_power): lower it, give this kind of device a radiated_power of its own, or "
        f"choose another modem"
    )


def _dbm(power_w: float) -> str:
    return f"{ratio_to_db(power_w / 1e-3):.4g} dBm"

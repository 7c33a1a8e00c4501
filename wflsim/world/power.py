"""The limits of modems: a radiated power above that of a modem is refused, whatever key it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wflsim.errors import ScenarioError
from wflsim.units import ratio_to_db
from wflsim.world.channel.radio import Radio
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.fleet.traits import Traits, modem_of

if TYPE_CHECKING:
    from wflsim.world.spec import WorldSpec


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

"""The devices block of a scenario: processors, radios' appetite, batteries, habits. One kind, or a mixture of kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from wflsim.units import Hertz, Joules, Spec, Watts


class DeviceSpec(Spec):
    """One kind of device.

    Compute, cycles model: a sample takes C/f seconds and kappa C f^2 joules.
    """

    cycles_per_sample: Annotated[float, Field(ge=0, le=1e15)] = 1.083e7
    """C, to train on one sample once; a loss alone costs a third. The default is the paper's CNN."""
    frequency: Hertz = 1e9
    """f"""
    kappa: Annotated[float, Field(ge=0, le=1)] = 1e-28
    """Effective switched capacitance."""
    receive_power: Watts = 0.1
    """Of the whole device while it receives. A round figure, as is the next: measure yours."""
    idle_power: Watts = 0.01
    """While it waits for others."""
    amplifier_efficiency: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sending costs radiated power / efficiency + circuit power."""
    circuit_power: Watts = 0.0
    battery: Joules | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """One client's device in plain numbers."""

    s_per_sample: float
    j_per_sample: float
    receive_w: float
    idle_w: float
    amplifier_efficiency: float
    circuit_w: float
    battery_j: float | None


def build_fleet(specs: list[DeviceSpec], clients: int, seed: int, flops_per_sample: float) -> list[Traits]:
    """The devices of all clients."""
    return [_traits(specs[client % len(specs)]) for client in range(clients)]


def _traits(spec: DeviceSpec) -> Traits:
    return Traits(
        s_per_sample=spec.cycles_per_sample / spec.frequency,
        j_per_sample=spec.kappa * spec.cycles_per_sample * spec.frequency**2,
        receive_w=spec.receive_power,
        idle_w=spec.idle_power,
        amplifier_efficiency=spec.amplifier_efficiency,
        circuit_w=spec.circuit_power,
        battery_j=spec.battery,
    )

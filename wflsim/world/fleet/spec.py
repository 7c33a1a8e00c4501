"""The devices block of a scenario: processors, power of radios, batteries, availability; one kind, or a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from wflsim.errors import ScenarioError
from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import FlopsPerSecond, Hertz, Joules, Seconds, Share, Watts
from wflsim.world.fleet.availability import AvailabilitySpec, Hours, hours_of
from wflsim.world.fleet.profiles import PROFILES, ProfileName

TRAINING_FLOPS = 3
"""FLOPs of training on a sample, in those of its forward pass: once forward, twice as much backward."""


class DeviceSpec(Spec):
    """One kind of device; `profile` fills in keys that are not given.

    Cycles model: a sample takes C/f seconds and kappa C f^2 joules. FLOP model (as soon as `speed` is given): a sample
    takes 3 x the model's forward FLOPs / (speed x utilisation) seconds at `compute_power`.
    """

    profile: ProfileName = "generic"
    """Named device whose keys hold where they are not given here; `wflsim list profile` describes each."""
    share: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """Weight of this kind of device in a mixture of several."""
    cycles_per_sample: Annotated[float, Field(ge=0, le=1e15)] = 1.083e7
    """Processor cycles C to train on one sample once (a loss costs a third); by default the paper's CNN."""
    frequency: Hertz = 1e9
    """Processor frequency f: training on a sample takes C/f seconds."""
    kappa: Annotated[float, Field(ge=0, le=1)] = 1e-28
    """Effective switched capacitance of the processor in farads: training on a sample takes kappa C f^2 joules."""
    speed: FlopsPerSecond | None = None
    """Peak speed of the processor; giving it chooses the FLOP model. Null: the cycles model."""
    utilisation: Annotated[Share, Field(ge=1e-9)] = 1.0
    """Share of the peak speed that training attains, in the FLOP model."""
    compute_power: Watts = 0.0
    """Power of the whole device while it computes, in the FLOP model."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Sigma of a log-normal factor (median 1) on each client's time and energy per sample; 0: all alike."""
    receive_power: Watts = 0.1
    """Power of the whole device while it receives; the default is a round figure, measure yours."""
    receive_energy_per_bit: Joules = 0.0
    """Energy per received bit, added to that of receive_power."""
    idle_power: Watts = 0.01
    """Power of the whole device while it waits; the default is a round figure, measure yours."""
    amplifier_efficiency: Annotated[Share, Field(ge=1e-9)] = 1.0
    """Efficiency of the power amplifier: sending takes radiated power / efficiency + circuit_power."""
    circuit_power: Watts = 0.0
    """Power of the transmitting circuits, added to that of the amplifier."""
    transmit_power: Watts | None = None
    """Power of the whole device while it sends, as measured; null: that of amplifier and circuits."""
    transmit_energy_per_bit: Joules = 0.0
    """Energy per bit sent, added to that of the power while sending."""
    promotion: Seconds = 0.0
    """Time to wake a sleeping radio, before it receives or sends."""
    promotion_power: Watts = 0.0
    """Power of the whole device while its radio wakes."""
    tail: Seconds = 0.0
    """How long the radio stays awake after its last transfer."""
    tail_power: Watts = 0.0
    """Power of the radio alone during its tail, added to whatever else the device does meanwhile."""
    battery: Annotated[Joules, Field(gt=0)] | None = None
    """Energy that the device can spend before it dies; null: it is on mains."""
    availability: AvailabilitySpec | None = None
    """Windows of time in which the device can be asked; null: at all times."""
    dropout: Share = 0.0
    """Probability that an order is dropped at some point of its computation."""

    @model_validator(mode="wrap")
    @classmethod
    def _fill_in(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        profile = given.get("profile", "generic") if isinstance(given, dict) else None
        if not isinstance(profile, str) or profile not in PROFILES:
            return validate(given)
        device = validate({**PROFILES[profile], **given})
        device.model_fields_set.intersection_update(given)  # what the profile says was not said by the user
        return device


@dataclass(frozen=True, slots=True)
class Traits:
    """One client's device in plain SI numbers; see the keys of `DeviceSpec`."""

    s_per_sample: float
    """Seconds to train on one sample."""
    j_per_sample: float
    """Joules to train on one sample."""
    receive_w: float
    receive_j_per_bit: float
    idle_w: float
    amplifier_efficiency: float
    circuit_w: float
    transmit_w: float | None
    transmit_j_per_bit: float
    promotion_s: float
    promotion_w: float
    tail_s: float
    tail_w: float
    battery_j: float | None
    hours: Hours | None
    dropout: float

    def sending_w(self, radiated_w: float) -> float:
        """Power in watts of the whole device while its antenna radiates this many watts."""
        return radiated_w / self.amplifier_efficiency + self.circuit_w if self.transmit_w is None else self.transmit_w


def build_fleet(specs: list[DeviceSpec], clients: int, seed: int, flops_per_sample: float) -> list[Traits]:
    """The devices of all clients; kinds are dealt out in turn, in proportion to their shares."""
    total = sum(spec.share for spec in specs)
    dealt = [0] * len(specs)
    fleet = []
    for client in range(clients):
        owed = [spec.share / total * (client + 1) - n for spec, n in zip(specs, dealt, strict=True)]
        kind = owed.index(max(owed))
        dealt[kind] += 1
        fleet.append(_traits(specs[kind], client, seed, flops_per_sample))
    return fleet


def _traits(spec: DeviceSpec, client: int, seed: int, flops_per_sample: float) -> Traits:
    """The device of one client, with its own draw of `spread`."""
    if spec.speed is None:
        s_per_sample = spec.cycles_per_sample / spec.frequency
        j_per_sample = spec.kappa * spec.cycles_per_sample * spec.frequency**2
    else:
        if flops_per_sample <= 0:
            raise ScenarioError(
                "devices.speed: the FLOP model needs a model whose FLOPs are known; use cycles_per_sample"
            )
        s_per_sample = TRAINING_FLOPS * flops_per_sample / (spec.speed * spec.utilisation)
        j_per_sample = spec.compute_power * s_per_sample
    slowness = float(stream(seed, "speed", client).lognormal(0.0, spec.spread)) if spec.spread > 0 else 1.0
    return Traits(
        s_per_sample=s_per_sample * slowness,
        j_per_sample=j_per_sample * slowness,
        receive_w=spec.receive_power,
        receive_j_per_bit=spec.receive_energy_per_bit,
        idle_w=spec.idle_power,
        amplifier_efficiency=spec.amplifier_efficiency,
        circuit_w=spec.circuit_power,
        transmit_w=spec.transmit_power,
        transmit_j_per_bit=spec.transmit_energy_per_bit,
        promotion_s=spec.promotion,
        promotion_w=spec.promotion_power,
        tail_s=spec.tail,
        tail_w=spec.tail_power,
        battery_j=spec.battery,
        hours=hours_of(spec.availability, seed, client),
        dropout=spec.dropout,
    )

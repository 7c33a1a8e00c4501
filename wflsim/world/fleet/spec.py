"""The devices block of a scenario: processor, modem, battery and availability of one kind of device."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from wflsim.spec import Spec, choices
from wflsim.units import FlopsPerSecond, Hertz, Joules, Seconds, Share, Watts, Weight
from wflsim.world.fleet.availability import AvailabilitySpec
from wflsim.world.fleet.compute import COMPUTE, ComputeName
from wflsim.world.fleet.harvest import HarvestSpec
from wflsim.world.fleet.modem import MODEMS, ModemName

Dvfs = Annotated[
    Literal["fixed", "just_in_time"],
    choices(
        fixed="always the clock of the scenario",
        just_in_time="down to min_frequency, so that the upload ends with the slowest of the phase, where that saves",
    ),
]
EITHER = (("speed", "cycles_per_sample"), ("compute_active_power", "kappa"))
"""Pairs of keys that say the same thing in two ways: of each, a scenario gives one at most."""


class DeviceSpec(Spec):
    """One kind of device: any processor with any modem. `compute` and `modem` fill in keys that are not given.

    What the device draws is what its processor draws (idle or active) plus what its modem draws (asleep, listening,
    receiving, sending, waking or in its tail).
    """

    compute: ComputeName = "generic"
    """Named processor whose keys hold where they are not given here; `wflsim list compute` describes each."""
    modem: ModemName = "ideal"
    """Named modem whose keys hold where they are not given here; `wflsim list modem` describes each."""
    share: Weight = 1.0
    """Weight of this kind of device in a mixture of several, as a number or in percent; only proportions count."""
    speed: FlopsPerSecond | None = None
    """Speed that training attains at full clock; null: that of cycles_per_sample."""
    cycles_per_sample: Annotated[float, Field(ge=0, le=1e15)] | None = None
    """Processor cycles to train on one sample once (a loss costs a third), instead of speed. Null, without speed: one
    cycle for each of the model's FLOPs."""
    max_frequency: Hertz | None = None
    """Full clock of the processor, which frequency cannot exceed; null: frequency is the full clock."""
    frequency: Hertz | None = None
    """Clock at which the processor runs; null: its full clock."""
    min_frequency: Hertz | None = None
    """Lowest clock at which the processor can run, for dvfs just_in_time; null: it runs at one clock only."""
    dvfs: Dvfs = "fixed"
    """How the clock is chosen (dynamic voltage and frequency scaling); `wflsim list dvfs` describes each."""
    step_overhead: Seconds = 0.0
    """Time that every local step takes beside the work on its samples, at any clock."""
    call_overhead: Seconds = 0.0
    """Time that every order takes beside its local steps, to load model and data, say."""
    memory_share: Share = 0.0
    """Share of the computing time at full clock that waits for memory and does not follow the clock."""
    compute_idle_power: Watts = 0.0
    """Power of the device without its modem while it does not compute."""
    compute_active_power: Watts | None = None
    """Power of the device without its modem while it computes at full clock; null: that of kappa."""
    kappa: Annotated[float, Field(ge=0, le=1)] | None = None
    """Effective switched capacitance of the processor in farads, instead of compute_active_power: computing takes kappa
    x full clock^3 watts more than idling."""
    clock_exponent: Annotated[float, Field(ge=0, le=4)] = 3.0
    """Exponent by which the power of computing, beyond that of idling, follows the clock."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Sigma of a log-normal factor (median 1) on each client's computing time, and so its energy; 0: all alike."""
    radiated_power: Watts | None = None
    """Power that this kind of device radiates while it sends, at most that where there is power control; null:
    radio.power."""
    max_power: Watts | None = None
    """Most power that the modem can radiate; more is refused. Null: no limit."""
    amplifier_efficiency: Annotated[Share, Field(ge=1e-9)] = 1.0
    """Efficiency of the power amplifier when it radiates max_power."""
    amplifier_exponent: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Exponent by which the amplifier's power follows the radiated one: 1 linear, 0.5 class B, 0 class A."""
    circuit_power: Watts = 0.0
    """Power of the modem while it sends, beside that of its amplifier."""
    transmit_energy_per_bit: Joules = 0.0
    """Energy per bit sent, added to that of the power while sending."""
    receive_power: Watts = 0.1
    """Power of the modem while it receives; the default is a round figure, measure yours."""
    receive_energy_per_bit: Joules = 0.0
    """Energy per received bit, added to that of receive_power."""
    listen_power: Watts = 0.01
    """Power of the modem while a selected client waits in a phase; the default is a round figure, measure yours."""
    sleep_power: Watts = 0.0
    """Power of the modem while the client computes, or is not selected."""
    wake: Seconds = 0.0
    """Time to wake a sleeping modem, before it receives or sends."""
    wake_power: Watts = 0.0
    """Power of the modem while it wakes."""
    tail: Seconds = 0.0
    """How long the modem stays awake after its last transfer, before it listens or sleeps."""
    tail_power: Watts = 0.0
    """Power of the modem during its tail."""
    battery: Annotated[Joules, Field(gt=0)] | None = None
    """Energy that a full battery holds, as at the beginning (4410 mAh at 3.85 V, say); null: it is on mains. A device
    whose battery is empty is off, for ever if it does not harvest."""
    harvest: HarvestSpec | None = None
    """Power that flows into the battery over time; null: none. What a full battery cannot take is lost; one that was
    empty works again above 5 %."""
    availability: AvailabilitySpec | None = None
    """Windows of time in which the device can be asked; null: at all times."""
    dropout: Share = 0.0
    """Probability that an order is dropped at some point of its computation."""

    @model_validator(mode="wrap")
    @classmethod
    def _fill_in(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict):
            return validate(given)
        names = given.get("compute", "generic"), given.get("modem", "ideal")
        if not all(isinstance(name, str) for name in names):
            return validate(given)
        filled = {**COMPUTE.get(names[0], {}), **MODEMS.get(names[1], {})}
        for one, other in EITHER:
            for mine, its in ((one, other), (other, one)):
                if given.get(mine) is not None:
                    filled.pop(its, None)
        device = validate({**filled, **given})
        device.model_fields_set.intersection_update(given)  # what a named part says was not said by the user
        return device

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for one, other in EITHER:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} contradict each other: they say the same thing; remove one")
        if self.kappa is None and self.compute_active_power is None:
            raise ValueError("give compute_active_power or kappa, or name a processor with `compute`")
        if self.compute_active_power is not None and self.compute_active_power < self.compute_idle_power:
            raise ValueError(
                f"compute_active_power ({self.compute_active_power:g} W) is less than compute_idle_power "
                f"({self.compute_idle_power:g} W): computing must not draw less than idling"
            )
        full_hz = self.max_frequency
        if full_hz is None and self.frequency is None:
            raise ValueError("give frequency or max_frequency, or name a processor with `compute`")
        if full_hz is not None and self.frequency is not None and self.frequency > full_hz:
            raise ValueError(
                f"frequency is {self.frequency / 1e9:g} GHz, but this processor's full clock (max_frequency) is "
                f"{full_hz / 1e9:g} GHz: lower frequency, or describe another processor"
            )
        if self.dvfs == "just_in_time" and self.min_frequency is None:
            raise ValueError(
                "dvfs just_in_time needs a range of clocks: give min_frequency, the lowest clock of this processor"
            )
        runs_hz = self.frequency or full_hz or 0.0
        if self.min_frequency is not None and self.min_frequency > runs_hz:
            raise ValueError(
                f"min_frequency is {self.min_frequency / 1e9:g} GHz, above the clock of {runs_hz / 1e9:g} GHz: "
                f"change one of them"
            )
        if self.max_power is None and self.amplifier_exponent != 1:
            raise ValueError("amplifier_exponent needs max_power, the power at which amplifier_efficiency holds")
        if self.harvest is not None and self.battery is None:
            raise ValueError("harvest fills a battery, and there is none: give battery, or remove harvest")
        if self.max_power == 0:
            raise ValueError("max_power is 0: a modem that cannot radiate cannot send; give its greatest power")
        return self

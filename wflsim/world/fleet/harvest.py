"""Harvesting: power that flows into a device's battery, constant, by the sun of every day, or from a file."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from wflsim.errors import ScenarioError
from wflsim.spec import Spec
from wflsim.units import Seconds, Watts
from wflsim.world.fleet.hours import DAY_S
from wflsim.world.fleet.series import FileSeries, Series, series_of, summary

DAY_STEPS = 96
"""Steps in which the sun of a day rises and sets: a quarter of an hour each."""
RESTART_SHARE = 0.05
"""A battery that was empty works again when it holds this share of its capacity."""


class ConstantHarvest(Spec):
    """The same power at all times."""

    name: Literal["constant"]
    power: Annotated[Watts, Field(gt=0)]
    """Power that flows into the battery."""


class DiurnalHarvest(Spec):
    """Half a sine from sunrise to sunset, in quarters of an hour, the same every day; runs begin at midnight."""

    name: Literal["diurnal"]
    peak: Annotated[Watts, Field(gt=0)]
    """Power at noon, half way between sunrise and sunset."""
    sunrise: Annotated[Seconds, Field(lt=DAY_S)] = 6 * 3600.0
    """Time of day from which on there is any."""
    sunset: Annotated[Seconds, Field(le=DAY_S)] = 18 * 3600.0
    """Time of day from which on there is none."""

    @model_validator(mode="after")
    def _after_sunrise(self) -> DiurnalHarvest:
        if self.sunset <= self.sunrise:
            raise ValueError(
                f"sunset ({self.sunset / 3600:g} h) must come after sunrise ({self.sunrise / 3600:g} h) of the same day"
            )
        return self


class FileHarvest(FileSeries):
    """As a file says, such as measured irradiance; negative numbers, which sensors give at night, count as 0."""

    name: Literal["file"]
    scale: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """Watts per unit of the file: 1 if it is in watts, area x efficiency if it is in W/m^2."""

    @model_validator(mode="after")
    def _readable(self) -> FileHarvest:
        try:
            series_of(self, self.scale, least=0.0)
        except ScenarioError as error:
            raise ValueError(str(error)) from None
        return self


HarvestSpec = Annotated[ConstantHarvest | DiurnalHarvest | FileHarvest, Field(discriminator="name")]


def harvest_of(spec: ConstantHarvest | DiurnalHarvest | FileHarvest | None) -> Series | None:
    """Watts as a function of simulated time; None without harvesting."""
    if spec is None:
        return None
    if isinstance(spec, ConstantHarvest):
        return Series([0.0], [spec.power], DAY_S)
    if isinstance(spec, FileHarvest):
        return series_of(spec, spec.scale, least=0.0)
    step_s = DAY_S / DAY_STEPS
    edges_s = sorted({0.0, spec.sunrise, spec.sunset, *(step * step_s for step in range(DAY_STEPS))} - {DAY_S})
    ends_s = [*edges_s[1:], DAY_S]
    return Series(edges_s, [_mean_w(spec, *span) for span in zip(edges_s, ends_s, strict=True)], DAY_S)


def _mean_w(spec: DiurnalHarvest, start_s: float, end_s: float) -> float:
    """Mean of the half sine over one step, so that a day's energy is exact: 2/pi x peak x length of the day."""
    if not spec.sunrise <= start_s < end_s <= spec.sunset:
        return 0.0
    day_s = spec.sunset - spec.sunrise
    one, two = (math.cos(math.pi * (at_s - spec.sunrise) / day_s) for at_s in (start_s, end_s))
    return spec.peak * day_s / math.pi * (one - two) / (end_s - start_s)


def describe(spec: ConstantHarvest | DiurnalHarvest | FileHarvest) -> str:
    """One line about a file of power; empty for what the scenario itself says."""
    return f"devices.harvest.file {summary(spec)}" if isinstance(spec, FileHarvest) else ""

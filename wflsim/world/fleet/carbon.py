"""Carbon: grams of CO2 equivalent for the joules of every leg, by the grid's intensity at that time of the day."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from wflsim.errors import ScenarioError
from wflsim.spec import InputFile, Spec
from wflsim.units import GramsPerKwh, Seconds
from wflsim.world.fleet.hours import DAY_S
from wflsim.world.fleet.series import FileSeries, Series, series_of, summary

JOULES_PER_KWH = 3.6e6


class CarbonSpec(Spec):
    """Carbon intensity of the electricity that devices draw: one number, or a file over time.

    It changes nothing in the run but one column. A joule counts at the intensity of the time when it is drawn, also
    where a battery was charged earlier; joules that a device has harvested count nothing.
    """

    intensity: GramsPerKwh | None = None
    """Grams of CO2 equivalent per kWh at all times; null: those of the file."""
    file: InputFile | None = None
    """CSV file with the intensity in g/kWh over time; null: it does not change."""
    column: Annotated[str, Field(min_length=1, max_length=200)] = "carbon_intensity"
    """Name of the column of the file with the intensity in g/kWh."""
    time: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("UTC time",)
    """Names of the column of the file with the times, in seconds or as dates, or of two with date and time of day."""
    start: Seconds = 0.0
    """Time after the file's first line at which the run begins."""

    @model_validator(mode="after")
    def _one_of_two(self) -> CarbonSpec:
        if (self.intensity is None) == (self.file is None):
            raise ValueError("give intensity, such as 400 g/kWh, or a file with it over time: one of the two")
        try:
            intensity_of(self)
        except ScenarioError as error:
            raise ValueError(str(error)) from None
        return self

    def in_file(self) -> FileSeries | None:
        """The series of the file; None without one."""
        if self.file is None:
            return None
        return FileSeries(file=self.file, column=self.column, time=self.time, start=self.start)


def intensity_of(spec: CarbonSpec | None) -> Series | None:
    """Grams per joule as a function of simulated time; None if nobody asks for it."""
    if spec is None:
        return None
    held = spec.in_file()
    if held is None:
        return Series([0.0], [(spec.intensity or 0.0) / JOULES_PER_KWH], DAY_S)
    return series_of(held, 1 / JOULES_PER_KWH)


def describe(spec: CarbonSpec | None) -> list[str]:
    """One line about a file of intensities, if there is one."""
    held = None if spec is None else spec.in_file()
    return [] if held is None else [f"carbon.file {summary(held)}"]

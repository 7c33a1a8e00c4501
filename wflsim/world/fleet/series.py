"""Quantities that change with the time of day: given, as a half sine, or read from a file of times and numbers.

A series holds each value until the next, and starts over at its end; a run begins at its beginning, plus `start`. Files
are CSV with a header. Times are seconds, or dates such as 2021-07-01 00:00:00 (with or without +00:00) and 01/31/2021
00:00, which may stand in two columns.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from wflsim.errors import ScenarioError
from wflsim.spec import InputFile, Spec
from wflsim.units import Seconds

DATES = ("%Y-%m-%d %H:%M:%S%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")
"""Ways to write an instant that are understood; a zone is read and a missing one taken as UTC."""
MOST_ROWS = 2_000_000


class FileSeries(Spec):
    """A column of a CSV file over time, which holds each value until the next and starts over at its end."""

    file: InputFile
    """CSV file with a header line, a time and a number in each line."""
    column: Annotated[str, Field(min_length=1, max_length=200)]
    """Name of the column with the numbers."""
    time: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("time",)
    """Names of the column with the times, in seconds or as dates, or of two columns with date and time of day."""
    start: Seconds = 0.0
    """Time after the file's first line at which the run begins."""


class Series:
    """A quantity as a function of simulated time in steps, over and over."""

    def __init__(
        self, starts_s: Sequence[float], values: Sequence[float], period_s: float, shift_s: float = 0.0
    ) -> None:
        """`starts_s`: when each step begins, the first at 0. `shift_s`: where the run begins in the first lap."""
        self.values = list(values)
        self.period_s = period_s
        self._starts_s = list(starts_s)
        self._shift_s = shift_s
        spans_s = [later - earlier for earlier, later in pairwise([*self._starts_s, period_s])]
        sums = accumulate((value * span_s for value, span_s in zip(values, spans_s, strict=True)), initial=0.0)
        self._sums = list(sums)
        self.constant = len(set(self.values)) == 1

    def at(self, at_s: float) -> float:
        """Its value at an instant."""
        return self.values[self._place(at_s)[1]]

    def total(self, start_s: float, end_s: float) -> float:
        """Its integral over time between two instants."""
        if self.constant:
            return self.values[0] * (end_s - start_s)
        return self._sum(end_s) - self._sum(start_s)

    def mean(self, start_s: float, end_s: float) -> float:
        """Its mean between two instants; its value, if they are the same."""
        return self.total(start_s, end_s) / (end_s - start_s) if end_s > start_s else self.at(start_s)

    def changes_s(self, at_s: float) -> float:
        """The next instant at which it may change; inf if it never does."""
        if self.constant:
            return math.inf
        lap, place, _ = self._place(at_s)
        following = self._starts_s[place + 1] if place + 1 < len(self._starts_s) else self.period_s
        return max(lap * self.period_s + following - self._shift_s, math.nextafter(at_s, math.inf))

    def reaches_s(self, start_s: float, amount: float) -> float:
        """The instant up to which its integral from `start_s` on is `amount`; inf if it never is."""
        if amount <= 0:
            return start_s
        if self._sums[-1] <= 0:
            return math.inf
        if self.constant:
            return start_s + amount / self.values[0]
        wanted = self._sum(start_s) + amount
        laps, rest = divmod(wanted, self._sums[-1])
        if rest == 0:  # already when the lap before ends, or earlier
            laps, rest = laps - 1, self._sums[-1]
        place = bisect_left(self._sums, rest) - 1
        within_s = self._starts_s[place] + (rest - self._sums[place]) / self.values[place]
        return max(start_s, laps * self.period_s + within_s - self._shift_s)

    def _place(self, at_s: float) -> tuple[float, int, float]:
        """Lap, step and seconds since the beginning of the lap at an instant."""
        lap, within_s = divmod(at_s + self._shift_s, self.period_s)
        return lap, bisect_right(self._starts_s, within_s) - 1, within_s

    def _sum(self, at_s: float) -> float:
        """Integral from the beginning of the first lap to this instant."""
        lap, place, within_s = self._place(at_s)
        return lap * self._sums[-1] + self._sums[place] + self.values[place] * (within_s - self._starts_s[place])


class Read(NamedTuple):
    """What a file says: when each value begins, in seconds since the first, and for how long all of it lasts."""

    starts_s: tuple[float, ...]
    values: tuple[float, ...]
    lines: tuple[int, ...]
    period_s: float


def series_of(spec: FileSeries, scale: float = 1.0, least: float | None = None) -> Series:
    """The series that a file holds, each number times `scale`. `least`: what is below becomes this (None: refused, if
    negative)."""
    read = read_series(spec.file, spec.column, spec.time)
    if least is None and min(read.values) < 0:
        line, value = next((at, value) for at, value in zip(read.lines, read.values, strict=True) if value < 0)
        raise ScenarioError(f"{spec.file}:{line}: {spec.column} is {value:g}, and must not be negative")
    values = [scale * (value if least is None else max(least, value)) for value in read.values]
    return Series(read.starts_s, values, read.period_s, spec.start)


def summary(spec: FileSeries) -> str:
    """The extent of a file in words: lines, hours, least, mean and greatest number."""
    read = read_series(spec.file, spec.column, spec.time)
    series = Series(read.starts_s, read.values, read.period_s)
    return (
        f"{Path(spec.file).name}, {spec.column}: {len(read.values)} values over {read.period_s / 3600:.4g} h, "
        f"{min(read.values):.4g} to {max(read.values):.4g}, mean {series.mean(0.0, read.period_s):.4g}; it starts over "
        f"at its end"
    )


@lru_cache(maxsize=16)
def read_series(file: str, column: str, time: tuple[str, ...]) -> Read:
    """Read a file of times and numbers; ScenarioError with file and line if it is malformed."""
    path = Path(file)
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()[:MOST_ROWS]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{path} cannot be read as CSV: {error}") from None
    header = [name.strip() for name in rows[0]] if rows else []
    for name in (column, *time):
        if name not in header:
            raise ScenarioError(f"{path}:1: there is no column {name!r}; there are {', '.join(filter(None, header))}")
    places, where = [header.index(name) for name in time], header.index(column)
    starts_s, values, lines = list[float](), list[float](), list[int]()
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            at_s, value = _instant_s(" ".join(row[place].strip() for place in places)), float(row[where])
        except (ValueError, IndexError):
            raise ScenarioError(f"{path}:{line}: expected a time and a number, got {row[:6]}") from None
        if not math.isfinite(value) or not math.isfinite(at_s):
            raise ScenarioError(f"{path}:{line}: {column} is {value}, at the time {at_s}; both must be finite")
        if starts_s and at_s <= starts_s[-1]:
            raise ScenarioError(f"{path}:{line}: its time is not later than that of the line before")
        starts_s.append(at_s)
        values.append(value)
        lines.append(line)
    if len(values) < 2:
        raise ScenarioError(f"{path} holds {len(values)} values; a series needs at least two")
    spans_s = sorted(later - earlier for earlier, later in pairwise(starts_s))
    period_s = starts_s[-1] - starts_s[0] + spans_s[len(spans_s) // 2]  # the last value lasts as long as most others
    return Read(tuple(at_s - starts_s[0] for at_s in starts_s), tuple(values), tuple(lines), period_s)


def _instant_s(text: str) -> float:
    """Seconds of a time that is written as a number or as a date; ValueError if it is neither."""
    try:
        return float(text)
    except ValueError:
        pass
    for way in DATES:
        try:
            instant = datetime.strptime(text, way)
        except ValueError:
            continue
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    raise ValueError(text)

"""Quantities at the YAML edge: `10 MHz`, `20 dBm`, `-5 dB`, `30 min` come in, linear SI floats go on.

A spec declares `bandwidth: Hertz`; a scenario may then say `10 MHz` or `1e7`. Ratios (SNR, gains, losses) must say
their unit, `10 dB` or `10 linear`: a bare 10 is read as dB by half of all people and as linear by the other half.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema


class Spec(BaseModel):
    """Base of every block of a scenario: frozen, no unknown keys, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Converter = float | Callable[[float], float]


def db_to_ratio(value_db: float) -> float:
    """10^(x/10)."""
    return math.pow(10.0, value_db / 10.0)


def ratio_to_db(ratio: float) -> float:
    """10 lg x; minus infinity for 0."""
    return 10.0 * math.log10(ratio) if ratio > 0 else -math.inf


def dbm_to_w(power_dbm: float) -> float:
    """0 dBm is one milliwatt."""
    return 1e-3 * db_to_ratio(power_dbm)


UNITS: dict[str, dict[str, Converter]] = {
    "Hz": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "W": {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "kW": 1e3, "dBm": dbm_to_w, "dBW": db_to_ratio},
    "J": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "mWh": 3.6},
    "m": {"m": 1.0, "km": 1e3, "cm": 1e-2},
    "m/s": {"m/s": 1.0, "km/h": 1 / 3.6},
    "bit": {"bit": 1.0, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "B": 8.0, "kB": 8e3, "MB": 8e6},
    "bit/s": {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "bps": 1.0, "kbps": 1e3, "Mbps": 1e6},
    "FLOP/s": {"FLOP/s": 1.0, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12},
    "dB": {"dB": db_to_ratio, "linear": 1.0},
}
LIMIT = 1e30
"""Larger than any quantity that means something here; catches 1e300 before it becomes inf somewhere deep."""

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*")


def parse_quantity(given: Any, unit: str) -> float:
    """`given` (a number in SI, or a string with a unit of the same kind) as a linear SI float."""
    table = UNITS[unit]
    names = ", ".join(table)
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"expected a number or a quantity in one of {names}, got {type(given).__name__}")
    if isinstance(given, str):
        match = _QUANTITY.fullmatch(given)
        if not match:
            raise ValueError(f"cannot read {given[:60]!r} as a quantity; write a number and a unit out of {names}")
        number, suffix = float(match[1]), match[2]
    else:
        try:
            number, suffix = float(given), None
        except OverflowError:
            raise ValueError("the number is too large to be a quantity") from None
    if suffix is None and unit == "dB":
        raise ValueError(f"a bare number is ambiguous here: write '{given} dB' or '{given} linear'")
    if suffix is not None and suffix not in table:
        same = [name for name in table if name.lower() == suffix.lower()]
        raise ValueError(f"unknown unit {suffix[:20]!r}; " + (f"did you mean {same[0]!r}?" if same else f"use {names}"))
    convert = table[suffix or unit]
    try:
        value = convert(number) if callable(convert) else number * convert
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or abs(value) > LIMIT:
        raise ValueError(f"{given!r} is not a finite, sensible quantity")
    return value


def _reader(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda given: parse_quantity(given, unit))


def _schema(unit: str) -> WithJsonSchema:
    either = [{"type": "number"}, {"type": "string"}] if unit != "dB" else [{"type": "string"}]
    words = f"a quantity in {', '.join(UNITS[unit])}"
    return WithJsonSchema({"anyOf": either, "description": words}, mode="validation")


# Written back with its unit, because a bare number would be refused; `linear` keeps every digit.
_linear = PlainSerializer(lambda ratio: f"{ratio!r} linear", return_type=str, when_used="json")

BASE: ContextVar[Path] = ContextVar("BASE", default=Path())
"""The folder of the scenario being read: files named in it are looked for beside it."""


def _input_file(given: Any) -> str:
    if not isinstance(given, str | Path) or not str(given).strip() or "\0" in str(given):
        raise ValueError(f"expected the name of a file, got {given!r}")
    path = BASE.get() / given
    try:
        found = path.is_file()
    except OSError:  # a name longer than the system allows
        found = False
    if not found:
        raise ValueError(f"no such file: {str(path)[:200]}; names are relative to the scenario file")
    return str(path.resolve())


InputFile = Annotated[str, BeforeValidator(_input_file)]

Hertz = Annotated[float, Field(ge=1e-3), _reader("Hz"), _schema("Hz")]
Seconds = Annotated[float, Field(ge=0), _reader("s"), _schema("s")]
Watts = Annotated[float, Field(ge=0), _reader("W"), _schema("W")]
Joules = Annotated[float, Field(ge=0), _reader("J"), _schema("J")]
Metres = Annotated[float, Field(ge=0), _reader("m"), _schema("m")]
MetresPerSecond = Annotated[float, Field(ge=0), _reader("m/s"), _schema("m/s")]
Bits = Annotated[float, Field(gt=0), _reader("bit"), _schema("bit")]
BitsPerSecond = Annotated[float, Field(gt=0), _reader("bit/s"), _schema("bit/s")]
FlopsPerSecond = Annotated[float, Field(ge=1), _reader("FLOP/s"), _schema("FLOP/s")]
Ratio = Annotated[float, Field(ge=0), _reader("dB"), _linear, _schema("dB")]

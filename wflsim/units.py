"""Quantities as scenarios write them (`10 MHz`, `20 dBm`, `-5 dB`, `30 min`, `75 %`), read as linear SI floats.

A spec declares `bandwidth: Hertz`; a scenario may then say `10 MHz` or `1e7`. Ratios (SNR, gains, losses) must say
their unit, `10 dB` or `10 linear`: a bare 10 is read as dB by half of all people and as linear by the other half.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from wflsim.spec import Means

Converter = float | Callable[[float], float]


def db_to_ratio(value_db: float) -> float:
    """The linear ratio 10^(x/10) of x dB."""
    return math.pow(10.0, value_db / 10.0)


def ratio_to_db(ratio: float) -> float:
    """Decibels 10 lg x of a linear ratio x; minus infinity for 0."""
    return 10.0 * math.log10(ratio) if ratio > 0 else -math.inf


def dbm_to_w(power_dbm: float) -> float:
    """Watts of a power in dBm; 0 dBm is one milliwatt."""
    return 1e-3 * db_to_ratio(power_dbm)


# By base unit: the units that a quantity of this kind may have, each with its factor or function to the base unit.
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
    "g/kWh": {"g/kWh": 1.0, "kg/MWh": 1.0, "kg/kWh": 1e3, "lb/MWh": 0.45359237},
    "dB": {"dB": db_to_ratio, "linear": 1.0},
}
LIMIT = 1e30
"""Bound on quantities, larger than any that means something here: 1e300 is refused before it becomes inf somewhere."""

_NUMBER = r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
_QUANTITY = re.compile(_NUMBER + r"(\S.*?)?\s*")
_CHARGE = re.compile(_NUMBER + r"(mAh|Ah)(?:\s+at\s+" + _NUMBER + r"V)?\s*")
COULOMBS = {"mAh": 3.6, "Ah": 3600.0}
"""Coulombs in one unit of charge."""


def parse_quantity(given: Any, unit: str) -> float:
    """A number in SI, or text with a unit of the same kind as `unit`, as a linear SI float; else a ValueError."""
    table = UNITS[unit]
    names = ", ".join(table)
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"must be a number or a quantity in one of {names}")
    if isinstance(given, str):
        if unit == "J" and (charge := _CHARGE.fullmatch(given)):
            if charge[3] is None:
                raise ValueError(
                    f"a charge becomes an energy with the battery's voltage: write '{given.strip()} at 3.7 V', "
                    f"with the voltage of yours, or a quantity in one of {names}"
                )
            return parse_quantity(float(charge[1]) * COULOMBS[charge[2]] * float(charge[3]), unit)
        match = _QUANTITY.fullmatch(given)
        if not match:
            raise ValueError(f"cannot read {given[:60]!r} as a quantity; write a number and a unit out of {names}")
        number, suffix = float(match[1]), match[2]
    else:
        try:
            number, suffix = float(given), None
        except OverflowError:
            raise ValueError("the number is too large to be a quantity; write a smaller one") from None
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
        raise ValueError(f"must be a finite quantity, less than {LIMIT:g} {'' if unit == 'dB' else unit}".rstrip())
    return value


def parse_share(given: Any) -> Any:
    """`75 %` as 0.75; anything else unchanged, to be checked as a number."""
    match = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
    return float(match[1]) / 100 if match and match[2] == "%" else given


def _reader(unit: str) -> BeforeValidator:
    """The validator that reads quantities of this kind."""
    return BeforeValidator(lambda given: parse_quantity(given, unit))


def _words(unit: str) -> str:
    """What a quantity of this kind is, finishing the sentence `must be ...`."""
    names = ", ".join(UNITS[unit])
    if unit == "dB":
        return f"a ratio in one of {names}"
    return f"a quantity in one of {names}" + (", or a charge such as 4410 mAh at 3.85 V" if unit == "J" else "")


def _means(unit: str) -> Means:
    return Means(_words(unit), "linear" if unit == "dB" else unit)


def _schema(unit: str) -> WithJsonSchema:
    """JSON Schema of a quantity; the description of the key that has it is left free."""
    text = {"type": "string", "description": _words(unit)}
    either = [{"type": "number"}, text] if unit != "dB" else [text]
    return WithJsonSchema({"anyOf": either, "unit": unit}, mode="validation")


# A ratio is written back with its unit, because a bare number would be refused; `linear` keeps every digit.
_linear = PlainSerializer(lambda ratio: f"{ratio!r} linear", return_type=str, when_used="json")

Hertz = Annotated[float, Field(ge=1e-3), _reader("Hz"), _schema("Hz"), _means("Hz")]
Seconds = Annotated[float, Field(ge=0), _reader("s"), _schema("s"), _means("s")]
Watts = Annotated[float, Field(ge=0), _reader("W"), _schema("W"), _means("W")]
Joules = Annotated[float, Field(ge=0), _reader("J"), _schema("J"), _means("J")]
Metres = Annotated[float, Field(ge=0), _reader("m"), _schema("m"), _means("m")]
MetresPerSecond = Annotated[float, Field(ge=0), _reader("m/s"), _schema("m/s"), _means("m/s")]
Bits = Annotated[float, Field(gt=0), _reader("bit"), _schema("bit"), _means("bit")]
BitsPerSecond = Annotated[float, Field(gt=0), _reader("bit/s"), _schema("bit/s"), _means("bit/s")]
FlopsPerSecond = Annotated[float, Field(ge=1), _reader("FLOP/s"), _schema("FLOP/s"), _means("FLOP/s")]
GramsPerKwh = Annotated[float, Field(ge=0), _reader("g/kWh"), _schema("g/kWh"), _means("g/kWh")]
Ratio = Annotated[float, Field(ge=0), _reader("dB"), _linear, _schema("dB"), _means("dB")]
SHARE_WORDS = "a share, as a number (0.75) or in percent (75 %)"
"""What a share is, for error messages."""
WEIGHT_WORDS = "a weight, as a number (2) or in percent (30 %)"
"""What a weight is, for error messages."""
Weight = Annotated[
    float,
    Field(ge=1e-6, le=1e6),
    BeforeValidator(parse_share),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "description": WEIGHT_WORDS}]}, mode="validation"),
    Means(WEIGHT_WORDS),
]
"""What counts in proportion to others of its kind: 30 % is 0.3."""
Share = Annotated[
    float,
    Field(ge=0, le=1),
    BeforeValidator(parse_share),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "description": SHARE_WORDS}]}, mode="validation"),
    Means(SHARE_WORDS),
]
"""A probability, an accuracy or an efficiency: from 0 to 1, or in percent."""

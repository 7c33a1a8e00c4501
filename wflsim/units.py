"""Quantities at the YAML edge: `10 MHz`, `20 dBm`, `-5 dB`, `30 min`, `75 %` come in, linear SI floats go on.

A spec declares `bandwidth: Hertz`; a scenario may then say `10 MHz` or `1e7`. Ratios (SNR, gains, losses) must say
their unit, `10 dB` or `10 linear`: a bare 10 is read as dB by half of all people and as linear by the other half.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)


@dataclass(frozen=True)
class Means:
    """What a value of an annotated type is, in the words that error messages use."""

    words: str
    unit: str = ""
    """Of the bounds that the annotation sets."""


@dataclass(frozen=True)
class Choices:
    """A line about each value of a Literal, for `wflsim list`."""

    lines: tuple[tuple[str, str], ...]


def choices(**lines: str) -> Choices:
    """The values of a Literal as keywords, each with the line that describes it."""
    return Choices(tuple(lines.items()))


class Spec(BaseModel):
    """Base of every block of a scenario: frozen, no unknown keys, no NaN, and true is not the number 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_for_numbers(cls, given: Any) -> Any:
        """Make words of true and false where a number stands: pydantic would read them as 1 and 0.

        Nobody who writes `clients: true` means one client; as a word it is refused like any other.
        """
        if not isinstance(given, dict):
            return given
        numbers = _number_keys(cls)
        wrong = {key: _as_words(value) for key, value in given.items() if key in numbers and _holds_truth(value)}
        return {**given, **wrong} if wrong else given


def _holds_truth(given: Any) -> bool:
    return any(map(_holds_truth, given)) if isinstance(given, list) else isinstance(given, bool)


def _as_words(given: Any) -> Any:
    if isinstance(given, list):
        return [_as_words(item) for item in given]
    return ("true" if given else "false") if isinstance(given, bool) else given


@cache
def _number_keys(spec: type[BaseModel]) -> frozenset[str]:
    """Keys at which numbers stand, and nothing that may be true or false."""
    parts = {key: _parts(field.annotation) for key, field in spec.model_fields.items()}
    return frozenset(key for key, found in parts.items() if found & {int, float} and not found & {bool, Any})


def _parts(annotation: Any) -> set[Any]:
    """The plain types that an annotation mentions."""
    if isinstance(annotation, type):
        return {annotation}
    return {Any} if annotation is Any else set().union(*(_parts(part) for part in get_args(annotation)))


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

_NUMBER = r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
_QUANTITY = re.compile(_NUMBER + r"(\S.*?)?\s*")
_CHARGE = re.compile(_NUMBER + r"(mAh|Ah)(?:\s+at\s+" + _NUMBER + r"V)?\s*")
COULOMBS = {"mAh": 3.6, "Ah": 3600.0}


def parse_quantity(given: Any, unit: str) -> float:
    """`given` (a number in SI, or a string with a unit of the same kind) as a linear SI float."""
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
    """`75 %` as 0.75; anything else as it is, for the number's own checks."""
    match = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
    return float(match[1]) / 100 if match and match[2] == "%" else given


def _reader(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda given: parse_quantity(given, unit))


def _words(unit: str) -> str:
    names = ", ".join(UNITS[unit])
    if unit == "dB":
        return f"a ratio in one of {names}"
    return f"a quantity in one of {names}" + (", or a charge such as 4410 mAh at 3.85 V" if unit == "J" else "")


def _means(unit: str) -> Means:
    return Means(_words(unit), "linear" if unit == "dB" else unit)


def _schema(unit: str) -> WithJsonSchema:
    either = [{"type": "number"}, {"type": "string"}] if unit != "dB" else [{"type": "string"}]
    return WithJsonSchema({"anyOf": either, "description": _words(unit), "unit": unit}, mode="validation")


# Written back with its unit, because a bare number would be refused; `linear` keeps every digit.
_linear = PlainSerializer(lambda ratio: f"{ratio!r} linear", return_type=str, when_used="json")

BASE: ContextVar[Path] = ContextVar("BASE", default=Path())
"""The folder of the scenario being read: files named in it are looked for beside it."""


def _input_file(given: Any) -> str:
    if not isinstance(given, str | Path) or not str(given).strip() or "\0" in str(given):
        raise ValueError("must be the name of a file")
    path = BASE.get() / given
    try:
        found = path.is_file()
    except OSError:  # a name longer than the system allows
        found = False
    if not found:
        raise ValueError(f"no such file: {str(path)[:200]}; names are relative to the scenario file")
    return str(path.resolve())


InputFile = Annotated[str, BeforeValidator(_input_file), Means("the name of a file beside the scenario file")]

Hertz = Annotated[float, Field(ge=1e-3), _reader("Hz"), _schema("Hz"), _means("Hz")]
Seconds = Annotated[float, Field(ge=0), _reader("s"), _schema("s"), _means("s")]
Watts = Annotated[float, Field(ge=0), _reader("W"), _schema("W"), _means("W")]
Joules = Annotated[float, Field(ge=0), _reader("J"), _schema("J"), _means("J")]
Metres = Annotated[float, Field(ge=0), _reader("m"), _schema("m"), _means("m")]
MetresPerSecond = Annotated[float, Field(ge=0), _reader("m/s"), _schema("m/s"), _means("m/s")]
Bits = Annotated[float, Field(gt=0), _reader("bit"), _schema("bit"), _means("bit")]
BitsPerSecond = Annotated[float, Field(gt=0), _reader("bit/s"), _schema("bit/s"), _means("bit/s")]
FlopsPerSecond = Annotated[float, Field(ge=1), _reader("FLOP/s"), _schema("FLOP/s"), _means("FLOP/s")]
Ratio = Annotated[float, Field(ge=0), _reader("dB"), _linear, _schema("dB"), _means("dB")]
SHARE_WORDS = "a share, as a number (0.75) or in percent (75 %)"
Share = Annotated[
    float,
    Field(ge=0, le=1),
    BeforeValidator(parse_share),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "description": SHARE_WORDS}, mode="validation"),
    Means(SHARE_WORDS),
]
"""A probability, an accuracy, an efficiency: from 0 to 1, or in percent."""

"""The knobs that `wflsim tune` may set: local steps tau, and any other key of the scenario, by lists or ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from wflsim.spec import Spec

Tau = Annotated[int, Field(ge=1, le=1_000_000)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Bound = Annotated[float, Field(gt=0)] | Annotated[str, Field(max_length=60)]
ENDS = {"least", "most"}


class TauRange(Spec):
    """Range of the local steps tau, in which the search chooses its candidates itself."""

    least: Tau = 1
    """Smallest number of local steps that may be tried."""
    most: Tau | None = None
    """Largest number of local steps that may be tried; null: as far as more local steps save rounds."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.most is not None and self.most < self.least:
            raise ValueError(f"no tau is at least {self.least} and at most {self.most}; exchange least and most")
        return self


class KnobRange(Spec):
    """Range of a knob. One that changes only time and energy may take any value in it; of one that changes the
    learning, five values are tried, evenly spaced by their ratio."""

    least: Bound | None = None
    """Smallest value, a number or a quantity with its unit; null: that of the modem or the processor."""
    most: Bound | None = None
    """Largest value, a number or a quantity with its unit; null: that of the modem or the processor."""


KnobValues = Literal["auto"] | Annotated[tuple[Any, ...], Field(min_length=1, max_length=1000)] | KnobRange
"""What a knob may be set to."""


class KnobsSpec(Spec):
    """What `wflsim tune` may set, each by a list of values or a range.

    Keys other than tau may stand beside it: `m: [5, 10]` is a key of every policy, `radio.power: {least: 1 mW, most:
    200 mW}` one of the scenario, dotted as for --set.
    """

    tau: Literal["auto"] | Annotated[tuple[Tau, ...], Field(min_length=1, max_length=1000)] | TauRange = "auto"
    """Numbers of local steps to compare: a list, a range {least, most} that is searched, or auto for a range from 1
    without an end. With rounds_to_target, auto means every whole number in the range of that table."""
    others: dict[Key, KnobValues] = Field(default_factory=dict)
    """The other knobs by their keys, which may also be written directly into knobs: a list of values, a range, or auto
    (m, radio.power and devices.frequency only). A key without a dot is one of every policy, such as m or eta."""

    @model_validator(mode="before")
    @classmethod
    def _gather_other_knobs(cls, given: Any) -> Any:
        """Move all keys but tau into `others`, and write nested ones, as --set makes them, with dots."""
        if not isinstance(given, Mapping):
            return given
        beside = {key: value for key, value in given.items() if key not in ("tau", "others")}
        listed = given.get("others", {})
        if not isinstance(listed, Mapping):
            return given
        flat = dict(_dotted({**listed, **beside}))
        return {**{key: given[key] for key in ("tau",) if key in given}, **({"others": flat} if flat else {})}

    @model_validator(mode="after")
    def _different(self) -> Self:
        if isinstance(self.tau, tuple) and len(set(self.tau)) < len(self.tau):
            raise ValueError("the same tau is given twice")
        for key, values in self.others.items():
            if isinstance(values, tuple) and any(value in values[:i] for i, value in enumerate(values)):
                raise ValueError(f"the same value of {key} is given twice")
        return self


def _dotted(given: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every knob with its dotted key: a mapping that is no range holds further keys."""
    for key, value in given.items():
        if isinstance(value, Mapping) and value and not set(value) <= ENDS:
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value

"""The blocks that ask many questions of one scenario: `sweep` names the regimes, `tune` how tau is chosen in each."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from wflsim.scenario.knobs import Key, KnobsSpec, Tau, TauRange
from wflsim.spec import BASE, Spec
from wflsim.units import Joules, Seconds, Share

Objective = Literal["energy", "time", "cost", "pareto"]
Accounting = Literal["full", "paper"]
Values = Annotated[tuple[Any, ...], Field(min_length=1, max_length=10_000)]
KEPT = ("name", "description", "seeds", "sweep", "tune")
"""What a regime cannot change: seeds are crossed with all regimes anyway."""


class SweepSpec(Spec):
    """Regimes: `grid` crosses its keys, `zip` walks its keys in step, `list` names overrides one by one; all three are
    crossed with each other, and with the seeds. Keys are dotted, as for --set."""

    grid: dict[Key, Values] = Field(default_factory=dict)
    """Dotted keys, each with a list of values; every combination of values is a regime."""
    zip: dict[Key, Values] = Field(default_factory=dict)
    """Dotted keys, each with equally many values; the n-th values together are a regime."""
    list: Annotated[tuple[dict[Key, Any], ...], Field(max_length=10_000)] = ()
    """Regimes one by one, each a table of dotted keys with their values."""
    folder: str | None = None
    """Folder in which files that swept values name are looked for; null: that of the scenario file."""

    @model_validator(mode="before")
    @classmethod
    def _settle_the_folder(cls, given: Any) -> Any:
        """Settle the folder while the scenario is read, if a swept value names a file: who reads the copy of the
        scenario in a result folder, or calls from another working directory, must find the same file."""
        if not isinstance(given, dict):
            return given
        asked = given.get("folder")
        if asked is None and not any(_names_a_file(given.get(kind)) for kind in ("grid", "zip", "list")):
            return given
        if isinstance(asked, str) and "\0" in asked:
            raise ValueError("folder: must be the name of a folder; remove the NUL character from it")
        if asked is None or isinstance(asked, str):
            return {**given, "folder": str((BASE.get() / (asked or "")).resolve())}
        return given  # what is no text is refused at its own key

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if any(not case for case in self.list):
            raise ValueError("an item of list changes no key; remove it, or give it one")
        if not self.keys:
            raise ValueError("a sweep needs at least one of grid, zip, list")
        if len({len(values) for values in self.zip.values()}) > 1:
            lengths = ", ".join(f"{key}: {len(values)}" for key, values in self.zip.items())
            raise ValueError(f"zip walks its keys in step, so they need equally many values; got {lengths}")
        given = [*self.grid, *self.zip, *dict.fromkeys(key for case in self.list for key in case)]
        if twice := [key for key in dict.fromkeys(given) if given.count(key) > 1]:
            raise ValueError(f"{twice[0]} is swept twice; keep it in one of grid, zip, list")
        if kept := [key for key in self.keys if key.split(".")[0] in KEPT]:
            raise ValueError(f"{kept[0]} cannot be swept; remove it (seeds are crossed with every regime anyway)")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that some regime changes."""
        return tuple(dict.fromkeys([*self.grid, *self.zip, *(key for case in self.list for key in case)]))


def _names_a_file(given: Any) -> bool:
    """Whether some text in it looks like the name of a file (snr.csv, traces/snr) or of a class in one (models:Net)."""
    if isinstance(given, dict):
        return any(map(_names_a_file, given.values()))
    if isinstance(given, list | tuple):
        return any(map(_names_a_file, given))
    return isinstance(given, str) and bool(re.search(r"\.[A-Za-z]\w*$|^[^\d+.-].*/|^\.\.?/|:", given))


class CostSpec(Spec):
    """Price of energy and of time in one currency, for the objective cost."""

    per_joule: Annotated[float, Field(ge=0)] = 0.0
    """Price of one joule."""
    per_second: Annotated[float, Field(ge=0)] = 0.0
    """Price of one simulated second."""


def _by_number(given: Any) -> Any:
    """A table with whole numbers as keys, which are text in YAML: "5": 48 means tau 5."""
    if not isinstance(given, dict):
        return given
    return {int(key) if isinstance(key, str) and key.isdecimal() else key: value for key, value in given.items()}


class SubjectTo(Spec):
    """Limits that the answer of `wflsim tune` must keep; a candidate that misses one cannot win."""

    time: Seconds | None = None
    """Largest simulated time to the target, on average over the seeds; null: no limit."""
    energy_per_client: Joules | None = None
    """Largest energy of all devices to the target divided by the number of clients, on average over the seeds; null: no
    limit."""
    reach: Annotated[Share, Field(gt=0, le=1)] | None = None
    """Smallest share of seeds that must reach the target. Candidates that keep to it are compared by cost alone, a run
    that missed counting with all it spent; null: the surest candidate is preferred, then the cheapest."""


class TuneSpec(Spec):
    """How `wflsim tune` chooses the local steps tau, and other knobs, that reach the target for the least energy, time
    or cost."""

    knobs: KnobsSpec = KnobsSpec()
    """Knobs that are set, each with the values it may take."""
    trainings: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    """Largest number of trainings of one policy (one per candidate and seed; where the world changes the learning, one
    per candidate, seed and regime) that a search over a range of tau or over several knobs may ask for. A list of tau
    alone is trained whole."""
    objective: Objective = "energy"
    """What is to be least when the target is reached: energy, simulated time, or a cost made of both; pareto: energy,
    with the front of energy against time beside it."""
    accounting: Accounting = "full"
    """Energy that counts: that of the whole devices, or that of the paper's formula."""
    subject_to: SubjectTo | None = None
    """Limits on time, energy of a client and P(reach) that the chosen candidate must keep; null: none."""
    cost: CostSpec | None = None
    """Prices for the objective cost; null: none."""
    rounds_to_target: Annotated[
        dict[Tau, Annotated[float, Field(gt=0, le=1e9)]] | None, BeforeValidator(_by_number)
    ] = None
    """Table of published rounds to the target by tau, which stands in for training; null: training is simulated."""
    interpolate: Literal["power_law", "pchip"] = "power_law"
    """How rounds are interpolated between the values of tau in rounds_to_target."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.objective == "cost" and (self.cost is None or not (self.cost.per_joule or self.cost.per_second)):
            raise ValueError("objective cost needs cost: {per_joule: ..., per_second: ...}, not both zero")
        if self.rounds_to_target is not None and len(self.rounds_to_target) < 2:
            raise ValueError("rounds_to_target needs at least two values of tau to interpolate between")
        if self.rounds_to_target is not None and (self.knobs.others or self.objective == "pareto"):
            raise ValueError("rounds_to_target is a table over tau alone; remove it, or the other knobs and pareto")
        if self.rounds_to_target is not None and self.subject_to is not None:
            raise ValueError("rounds_to_target holds no runs that could keep to subject_to; remove one of the two")
        if self.rounds_to_target is not None and isinstance(self.knobs.tau, TauRange):
            inside = range(min(self.rounds_to_target), max(self.rounds_to_target) + 1)
            given = self.knobs.tau
            open_end = given.most is None or given.least not in inside or given.most not in inside
            if self.interpolate != "power_law" and open_end:
                raise ValueError(
                    f"knobs.tau goes beyond the taus {inside[0]} to {inside[-1]} of rounds_to_target, and only "
                    f"interpolate: power_law says anything about those; write it, or stay within the table"
                )
        return self

"""What is drawn as one line: a policy of a folder, over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd

from wflsim.report.palette import Style, style
from wflsim.report.source import Folder
from wflsim.tables import cumulated, hit


@dataclass(frozen=True)
class Series:
    """One policy of one folder."""

    policy: str
    folder: Folder
    where: str
    """The folder's name among several; empty if there is only one."""
    style: Style

    @property
    def label(self) -> str:
        return f"{self.policy} · {self.where}" if self.where else self.policy

    @property
    def markup(self) -> str:
        """For plotly, which reads a little HTML in texts."""
        return escape(self.label, quote=False)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The summary's line."""
        return self.folder.policies[self.policy]

    @property
    def seeds(self) -> list[int]:
        return [seed for policy, seed in self.folder.cells if policy == self.policy]

    @cached_property
    def rounds(self) -> dict[int, pd.DataFrame]:
        """seed -> its rounds."""
        mine = self.folder.rounds[self.folder.rounds["policy"] == self.policy]
        return {int(str(seed)): rounds.reset_index(drop=True) for seed, rounds in mine.groupby("seed")}

    @cached_property
    def runs(self) -> pd.DataFrame:
        return self.folder.runs[self.folder.runs["policy"] == self.policy]

    @cached_property
    def costs(self) -> dict[int, pd.DataFrame]:
        """seed -> what each round had taken in all, bits of both directions together too."""
        sums = {seed: cumulated(rounds) for seed, rounds in self.rounds.items()}
        return {seed: frame.assign(bits=frame["up_bits"] + frame["down_bits"]) for seed, frame in sums.items()}

    def last_round(self, seed: int) -> int:
        """The round that reached the target; the last one, if none did."""
        rounds = self.rounds[seed]
        at = hit(rounds, self.folder.target) if self.folder.target else None
        return int(rounds["round"].iloc[-1 if at is None else at])


def series_of(folders: Sequence[Folder]) -> list[Series]:
    """Every policy of every run folder; the same policy keeps its colour in all of them."""
    policies = list(dict.fromkeys(policy for folder in folders for policy, _ in folder.cells))
    names = short_names(folders)
    return [
        Series(policy, folder, names[i] if len(folders) > 1 else "", style(policies.index(policy), i))
        for i, folder in enumerate(folders)
        for policy in dict.fromkeys(policy for policy, _ in folder.cells)
    ]


def short_names(folders: Sequence[Folder]) -> list[str]:
    """Scenario names if they tell the folders apart, folder names if those do, else both with a number."""
    for names in ([folder.name for folder in folders], [folder.folder.resolve().name for folder in folders]):
        if len(set(names)) == len(names):
            return names
    return [f"{folder.folder.resolve().name} ({i + 1})" for i, folder in enumerate(folders)]

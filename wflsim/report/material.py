"""Everything read and derived from the folders of one report, once; the page and the figures both draw from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd

from wflsim.errors import StoreError
from wflsim.joining import Comparison, Part, join
from wflsim.report.legs import Story, story
from wflsim.report.regimes import Sweep, Tune, read_sweep, read_tune
from wflsim.report.series import Series, series_of
from wflsim.report.source import Folder
from wflsim.report.timeline import within_budget

T = TypeVar("T")


@dataclass
class Material:
    """Folders by kind, and what they hold."""

    folders: list[Folder] = field(default_factory=list)
    runs: list[Folder] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    stories: dict[Series, Story] = field(default_factory=dict)
    sweeps: list[tuple[Folder, Sweep]] = field(default_factory=list)
    tunes: list[tuple[Folder, Tune]] = field(default_factory=list)
    joined: Comparison | None = None
    """The run folders as `wflsim compare` joins them, where there are several."""
    missing: list[str] = field(default_factory=list)
    """Folders of which nothing could be used."""


def gather(paths: Sequence[Path]) -> Material:
    """Read all folders; StoreError, naming every reason, if none of them has anything to show."""
    held = Material()
    for path in paths:
        try:
            folder = Folder(path)
        except StoreError as error:
            held.missing.append(str(error))
            continue
        if folder.kind == "sweep":
            useful = _keep(held.sweeps, folder, read_sweep(folder))
        elif folder.kind == "tune":
            useful = _keep(held.tunes, folder, read_tune(folder))
        else:
            useful = bool(folder.cells)
            if useful:
                held.runs.append(folder)
        if useful:
            held.folders.append(folder)
        else:
            held.missing += [f"{path}: nothing to show", *folder.missing]
    if not held.folders:
        raise StoreError("nothing to report: " + "; ".join(held.missing[:8] or ["no folder was given"]))
    held.series = series_of(held.runs)
    if parts := [part for folder in held.runs for part in _parts(folder)] if len(held.runs) > 1 else []:
        held.joined = join(parts)
    held.stories = {each: told for each in held.series if (told := story(each))}
    for folder in held.runs:
        rows = [row for each, told in held.stories.items() if each.folder is folder for row in told.world]
        if rows:
            folder.world = pd.DataFrame(rows)
    for told, kept in zip(
        held.stories.values(), within_budget([s.windows for s in held.stories.values()]), strict=True
    ):
        told.windows = kept
    return held


def _parts(folder: Folder) -> Iterator[Part]:
    """The folder's policies; none if its scenario is lost, because then nobody knows which regime it is."""
    policies = folder.scenario.get("policies")
    named = isinstance(policies, list) and len(policies) == len(folder.labels)
    known = dict(zip(folder.labels, policies, strict=True)) if named and policies else {}
    for label, runs in folder.runs.groupby("policy", sort=False):
        if folder.scenario:
            yield Part(folder.folder.resolve().name, folder.scenario, str(label), known.get(str(label), {}), runs)


def _keep(kept: list[tuple[Folder, T]], folder: Folder, read: T | None) -> bool:
    if read is not None:
        kept.append((folder, read))
    return read is not None

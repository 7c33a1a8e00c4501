"""From folders to a page: everything is read and derived once, then charts and tables in the order a reader asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd

from wflsim.analysis.joining import Comparison, Part, identified, join
from wflsim.analysis.tables import Folder
from wflsim.errors import StoreError
from wflsim.report.cautions import tune_warnings
from wflsim.report.charts import accuracy, clients, devices, peers, regimes, tuning
from wflsim.report.charts.chart import Chart
from wflsim.report.charts.front import front_chart
from wflsim.report.page import Headline, Page, Section, crumbs, source
from wflsim.report.series import Series, series_of, short_names
from wflsim.report.story import Story, story, within_budget
from wflsim.report.sweep import Sweep, read_sweep, sweep_opening, sweep_warnings
from wflsim.report.tabular import Table, comparison, pairs, sweep_table, tune_table
from wflsim.report.tuning import Tune, read_tune, tune_opening
from wflsim.report.wording import missing, opening, warnings

T = TypeVar("T")


@dataclass
class Material:
    """Everything read and derived from the folders of one report; the page and the figures both draw from it."""

    folders: list[Folder] = field(default_factory=list)
    """All folders that have something to show."""
    runs: list[Folder] = field(default_factory=list)
    """Those of them that hold the runs of one regime."""
    series: list[Series] = field(default_factory=list)
    """The policies of those folders."""
    stories: dict[Series, Story] = field(default_factory=dict)
    """What the legs of each policy say, where it has legs."""
    sweeps: list[tuple[Folder, Sweep]] = field(default_factory=list)
    tunes: list[tuple[Folder, Tune]] = field(default_factory=list)
    joined: Comparison | None = None
    """The run folders as `wflsim compare` joins them, where there are several."""
    missing: list[str] = field(default_factory=list)
    """Sentences about folders of which nothing could be used."""


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
            useful = bool(folder.run_folders)
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
            policy = identified(known.get(str(label), {}), folder.about.get("code", {}).get(str(label)))
            yield Part(folder.folder.resolve().name, folder.scenario, str(label), policy, runs)


def _keep(kept: list[tuple[Folder, T]], folder: Folder, read: T | None) -> bool:
    if read is not None:
        kept.append((folder, read))
    return read is not None


def compose(material: Material) -> Page:
    """Make the page of one folder, or of several side by side."""
    names = dict(zip(material.folders, short_names(material.folders), strict=True))
    several = len(names) > 1
    page = Page(" · ".join(dict.fromkeys(names.values())), crumbs(material.folders))
    for folder in material.runs:
        mine = [each for each in material.series if each.folder is folder]
        page.openings.append(Headline.of(names[folder] if several else "", opening(folder, mine)))
        page.warnings += [f"{names[folder]}: {line}" if several else line for line in warnings(folder)]
    if material.runs:
        page.sections += _run_sections(material)
    for i, (folder, sweep) in enumerate(material.sweeps):
        page.openings.append(Headline.of(names[folder] if several else "", sweep_opening(folder, sweep)))
        page.warnings += sweep_warnings(sweep)
        prefix = f"sweep{i}-" if several else ""
        page.sections += _sections(
            [
                ("Regimes", [regimes.sweep_map(sweep, prefix)]),
                ("Energy and time", [regimes.sweep_pareto(sweep, prefix)]),
                ("Table", [sweep_table(sweep, prefix)]),
            ],
            prefix,
        )
    for i, (folder, tune) in enumerate(material.tunes):
        page.openings.append(Headline.of(names[folder] if several else "", tune_opening(folder, tune)))
        page.warnings += tune_warnings(tune)
        prefix = f"tune{i}-" if several else ""
        costs = [tuning.tau_costs(tune, prefix), tuning.tau_rounds(tune, prefix)]
        page.sections += _sections(
            [
                ("Map of τ*", [tuning.tau_map(tune, prefix)]),
                ("Energy and time", [front_chart(tune, prefix)]),
                ("Costs", costs),
                ("Table", [tune_table(tune, prefix)]),
            ],
            prefix,
        )
    page.sources = [source(folder) for folder in material.folders]
    page.missing = [*material.missing, *missing(material.folders)]
    page.colophon = (
        "Made by wflsim from the CSV files in the folder; every number here can be derived from them again. "
        "Energy counts every bit, phase, reception, idle and tail joule unless it says “paper's formula”. "
        "This file needs no network."
    )
    return page


def _run_sections(material: Material) -> list[Section]:
    stories = material.stories
    with_legs = [devices.energy_by_cause(stories), devices.energy_by_client(stories)] if stories else []
    slow = [devices.latency(stories), devices.stragglers(stories)] if stories else []
    over = [clients.timeline(stories), clients.clients_over_rounds(stories)] if stories else []
    partition = clients.partition(next((folder.partitions for folder in material.runs if folder.partitions), {}))
    paired = pairs(material.joined) if material.joined and len(material.joined.pairs) else None
    return _sections(
        [
            ("Comparison", [comparison(material.series), paired]),
            ("Accuracy", [accuracy.accuracy(material.series)]),
            ("Energy", [accuracy.pareto(material.series), *with_legs]),
            ("Latency", slow),
            ("Peers", [peers.links(material.series), peers.consensus(material.series)] if stories else []),
            ("Clients", [peers.selection(stories), *over, partition]),
        ],
        "",
    )


def _sections(parts: Iterable[tuple[str, Sequence[Chart | Table | None]]], prefix: str) -> list[Section]:
    found = []
    for title, items in parts:
        shown: list[Chart | Table] = [item for item in items if item is not None]
        if shown:
            found.append(Section(prefix + title.lower().replace(" ", "-").replace("*", ""), title, shown))
    return found

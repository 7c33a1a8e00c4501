"""Which charts and tables make the page, in the order a reader asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wflsim.report.charts import accuracy, clients, energy, latency, regimes, tuning
from wflsim.report.charts.chart import Chart
from wflsim.report.material import Material
from wflsim.report.page import Headline, Page, Section, crumbs, source
from wflsim.report.regime_words import sweep_opening, sweep_warnings, tune_opening, tune_warnings
from wflsim.report.series import short_names
from wflsim.report.tabular import Table, comparison, pairs, sweep_table, tune_table
from wflsim.report.wording import missing, opening, warnings


def compose(material: Material) -> Page:
    """The page of one folder, or of several side by side."""
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
            [("Map of τ*", [tuning.tau_map(tune, prefix)]), ("Costs", costs), ("Table", [tune_table(tune, prefix)])],
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
    with_legs = [energy.energy_by_cause(stories), energy.energy_by_client(stories)] if stories else []
    slow = [latency.latency(stories), latency.stragglers(stories)] if stories else []
    over = [clients.timeline(stories), clients.clients_over_rounds(stories)] if stories else []
    partition = clients.partition(next((folder.partitions for folder in material.runs if folder.partitions), {}))
    paired = pairs(material.joined) if material.joined and len(material.joined.pairs) else None
    return _sections(
        [
            ("Comparison", [comparison(material.series), paired]),
            ("Accuracy", [accuracy.accuracy(material.series)]),
            ("Energy", [energy.pareto(material.series), *with_legs]),
            ("Latency", slow),
            ("Clients", [*over, partition]),
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

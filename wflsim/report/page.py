"""The page itself: what it consists of, and how it is rendered into one self-contained file."""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wflsim.analysis.tables import Folder
from wflsim.report.charts.chart import Chart, to_json
from wflsim.report.tabular import Entry, Table
from wflsim.report.wording import Fact, Opening

ASSETS = Path(__file__).parent / "assets"
ROWS = 400
"""Rows of one table that the page shows; a longer one would be slow to open and nobody would read it."""
COLUMNS = 10
"""Columns of a table that fits a page 1080 pixels wide, intervals included."""
SPLIT_ROWS = 12
"""Rows of the longest table that is shown in parts."""


@dataclass(frozen=True)
class Section:
    """Charts and tables under one entry of the contents."""

    id: str
    title: str
    items: list[Chart | Table]


@dataclass(frozen=True)
class Part:
    """Columns of a table that stand side by side."""

    heads: list[str]
    rows: list[list[Entry]]


def parts(table: Table) -> list[Part]:
    """A short table with more columns than a page is wide, as several below each other that begin alike.

    A long one stays whole and is scrolled: its rows would be too far apart.
    """
    first = table.spread.index(True) if True in table.spread else 0
    if len(table.heads) <= COLUMNS or len(table.rows) > SPLIT_ROWS:
        return [Part(table.heads, table.rows[:ROWS])]
    wide = max(COLUMNS - first, 1)
    starts = range(first, len(table.heads), wide)
    columns = [[*range(first), *range(start, min(start + wide, len(table.heads)))] for start in starts]
    return [Part([table.heads[c] for c in part], [[row[c] for c in part] for row in table.rows]) for part in columns]


@dataclass(frozen=True)
class Headline:
    """An opening, and which folder it is about if there are several."""

    where: str
    answer: str
    sure: str
    facts: list[Fact]

    @classmethod
    def of(cls, where: str, opening: Opening) -> Headline:
        return cls(where, opening.answer, opening.sure, opening.facts)


@dataclass(frozen=True)
class Source:
    """Where the numbers of one folder come from."""

    name: str
    facts: list[Fact]
    endings: list[dict[str, str]]
    scenario: str


@dataclass
class Page:
    """Everything that the template page.html.j2 shows."""

    title: str
    crumbs: str
    openings: list[Headline] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    colophon: str = ""

    @property
    def charts(self) -> list[Chart]:
        """All charts of the page, in their order."""
        return [item for section in self.sections for item in section.items if isinstance(item, Chart)]

    @property
    def tables(self) -> list[Table]:
        """All tables of the page, in their order."""
        return [item for section in self.sections for item in section.items if isinstance(item, Table)]


def source(folder: Folder) -> Source:
    """Collect versions, seeds, status, learner and carrier, and the resolved scenario of one folder."""
    about = folder.about
    versions = about.get("versions")
    facts = [
        Fact("folder", str(folder.folder)),
        Fact("kind", f"{folder.kind}, {about.get('status', 'status unknown')}"),
        Fact("policies", ", ".join(folder.labels) or "-"),
        Fact("seeds", ", ".join(map(str, about["seeds"])) if isinstance(about.get("seeds"), list) else "-"),
        Fact("versions", ", ".join(f"{k} {v}" for k, v in versions.items()) if isinstance(versions, dict) else "-"),
        Fact("git", str(about.get("git") or "-")),
    ]
    endings = [
        {key: str(row.get(key, "")) for key in ("policy", "seed", "status", "reason")} | {"mode": _mode(row)}
        for row in (folder.status.to_dict("records") if folder.kind == "run" else [])
    ]
    if modes := sorted({row["mode"] for row in endings if row["mode"]}):
        facts.append(Fact("learner and carrier", "; ".join(modes)))
    return Source(folder.name, facts, endings, _text(folder.folder / "scenario.yaml"))


def render(page: Page) -> str:
    """The page as one HTML text that needs no other file and no network."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["unbroken"] = unbroken
    environment.filters["parts"] = parts
    # our own files and plotly's: the only text that goes in as it is
    return environment.get_template("page.html.j2").render(
        page=page,
        rows_shown=ROWS,
        css=Markup(_text(ASSETS / "report.css")),
        theme_js=Markup(_text(ASSETS / "theme.js")),
        js=Markup(_text(ASSETS / "report.js")),
        plotly_js=Markup(packed(get_plotlyjs())),
        charts=Markup(to_json([chart.spec() for chart in page.charts])),
    )


def packed(script: str) -> str:
    """A script as gzip in base64, which the page unpacks: plotly is 4.8 MB as text and 2 MB like this."""
    return b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()


def unbroken(text: str) -> str:
    """Text in which a number and its unit stay on one line."""
    text = text.replace("τ = ", "τ\u00a0=\u00a0")
    return re.sub(r"(?<=\d) (?=(?:%|[GMkmu]?(?:J|s|bit|Hz|W)|min|h|d|dBm?)(?![A-Za-z]))", "\u00a0", text)


def crumbs(folders: Sequence[Folder]) -> str:
    """What the page is about in a few words, for example "run · 2 policies · 5 seeds"."""
    if len(folders) > 1:
        return f"comparison of {len(folders)} folders"
    folder = folders[0]
    seeds = folder.about.get("seeds")
    parts = [folder.kind, _many(len(folder.labels), "policy", "policies")]
    return " · ".join([*parts, _many(len(seeds), "seed", "seeds")] if isinstance(seeds, list) else parts)


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _mode(row: Mapping[Any, Any]) -> str:
    mode = row.get("mode")
    return mode if isinstance(mode, str) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

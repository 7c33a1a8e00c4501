"""Sphinx extension: writes the reference pages from the code before the pages are read.

Everything under docs/reference/ is made here and ignored by git, so a new scenario key, policy, column, command or
error is on its page with the next `make docs`. Links to files of the repository outside docs/ lead to copies of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wflsim_reference import commands, models, policies, scenario, tables, validation
from wflsim_reference.dead_links import dead_links
from wflsim_reference.links import copy_linked, point_outside, root_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/reference/."""
    makers = (scenario.pages, policies.pages, models.pages, tables.pages, commands.pages, validation.pages, root_pages)
    return {name: text for make in makers for name, text in make().items()}


def write_pages(folder: Path) -> None:
    """Write the pages that have changed, and remove those that are not made any more."""
    made = pages()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in made:
            path.unlink()


def refuse_dead_links(app: Sphinx, error: Exception | None) -> None:
    """End the build with an error if a link of the site leads nowhere."""
    if error is None and app.builder.name == "html" and (dead := dead_links(Path(app.outdir))):
        raise RuntimeError("dead links:\n" + "\n".join(dead))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference"), priority=100)
    app.connect("source-read", point_outside)
    app.connect("build-finished", copy_linked)
    app.connect("build-finished", refuse_dead_links, priority=900)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}


__all__ = ["pages", "setup", "write_pages"]

"""Pages that live at the root of the repository, and links to files outside docs/: the site carries copies of them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[3]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
FOLDER = "_repository"
"""Where the copies are, below the site."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
outside_files: set[Path] = set()
"""Files outside docs/ that some page links to."""


def root_pages() -> dict[str, str]:
    """CHANGELOG.md and CONTRIBUTING.md as pages below docs/reference/, with links as seen from there."""
    found = {}
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        moved = LINK.sub(lambda link: f"[{link[1]}](../../{link[2]}{link[3] or ''})", text)
        found[name.lower()] = moved if moved.strip() else f"# {name.removesuffix('.md').capitalize()}\n"
    return found


def point_outside(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links of a page to files of the repository outside docs/ lead to the copies on the site."""
    docs = Path(app.srcdir).resolve()
    here = (docs / page).parent

    def moved(link: re.Match[str]) -> str:
        path = (here / link[2]).resolve()
        if path in (ROOT / name for name in ROOT_PAGES):
            path = docs / "reference" / path.name.lower()
        if path.is_relative_to(docs):
            return f"[{link[1]}]({os.path.relpath(path, here)}{link[3] or ''})"
        if not path.exists() or not path.is_relative_to(ROOT):
            return link[0]
        outside_files.add(path)
        return f'<a class="reference" href="{"../" * page.count("/")}{FOLDER}/{path.relative_to(ROOT)}">{link[1]}</a>'

    if page.startswith("tutorials/"):
        return
    parts = re.split(r"(^```.*?^```$)", source[0], flags=re.DOTALL | re.MULTILINE)
    source[0] = "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def copy_linked(app: Sphinx, error: Exception | None) -> None:
    """Put the files that pages link to into the site."""
    if error is not None or app.builder.format != "html":
        return
    for source in sorted(outside_files):
        target = Path(app.outdir) / FOLDER / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)

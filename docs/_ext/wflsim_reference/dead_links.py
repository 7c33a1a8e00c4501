"""Finds links of the built site that lead nowhere: a missing page, file or anchor. `make docs` fails on one."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

GENERATED = ("genindex.html", "search.html")
"""Pages that a script fills in the reader's browser."""


class _Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.add(value)


def dead_links(site: Path) -> list[str]:
    """Every internal link of the HTML files below `site` that leads nowhere, as `page -> link`."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html")) if "_repository" not in path.parts}
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name in GENERATED:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = pages.get(target)
            if not target.exists() or (anchor and known is not None and anchor not in known.anchors):
                dead.append(f"{path.relative_to(site.resolve())} -> {link}")
    return dead


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page

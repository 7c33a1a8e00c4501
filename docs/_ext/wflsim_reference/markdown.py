"""Small pieces of Markdown: escaped prose, tables, docstrings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import cleandoc

_CODE = re.compile(r"(`+[^`]*`+)")


def prose(text: str) -> str:
    """Text of a docstring with nothing read as Markdown except its `code`."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]$#|~])", r"\\\1", part) for part in parts)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; entries are Markdown already and stand on one line each."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_entry(entry) for entry in line) + " |" for line in lines) + "\n"


def _entry(text: str) -> str:
    text = " ".join(text.split())
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def docstring(text: str) -> str:
    """A docstring as Markdown: indented parts and trees are code, everything else prose."""
    blocks = cleandoc(text).split("\n\n")
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: str) -> str:
    lines = block.split("\n")
    if all(line.startswith("    ") for line in lines) or "├──" in block:
        return "```text\n" + cleandoc(block) + "\n```"
    listed = [re.sub(r"^- ", "\n- ", prose(line)) if line.startswith("- ") else prose(line) for line in lines]
    return "\n".join(listed).strip()


def code(text: str) -> str:
    """Text as a code span; empty stays empty."""
    return f"`{text}`" if text else ""

"""A chart of the page: views to switch between, and the numbers cut to what a screen can show."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DIGITS = 5
"""Significant digits of the numbers of a chart: more than a screen can show."""


@dataclass(frozen=True)
class Control:
    """A row of buttons that switches the view of a chart, or a list if there are many."""

    name: str
    options: dict[str, str]
    """Text of each button, by the key of its views."""


@dataclass(frozen=True)
class Chart:
    """One chart of the page. `views` are keyed by the chosen options joined with `|`, in the order of `controls`."""

    id: str
    title: str
    note: str
    views: dict[str, dict[str, Any]]
    controls: list[Control] = field(default_factory=list)
    height: int = 420
    zoom: bool = False
    """Dragging zooms even on a touch screen, where it otherwise scrolls the page."""

    def spec(self) -> dict[str, Any]:
        """What the page's script needs to draw it."""
        return {
            "id": self.id,
            "controls": [[control.name, list(control.options)] for control in self.controls],
            "views": self.views,
            "height": self.height,
            "zoom": self.zoom,
        }


def view(data: Sequence[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    """One view of a chart: plotly's data and layout."""
    return {"data": list(data), "layout": layout}


def to_json(value: Any) -> str:
    """JSON for a script element: short numbers, no NaN, and no `<` that could end the element."""
    text = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return _short(float(value))
    return value


def _short(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short

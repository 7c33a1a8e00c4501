"""Energy against time: who is beaten in neither."""

from __future__ import annotations

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other one beats in both coordinates (smaller is better), by the first one."""
    order = sorted(range(len(points)), key=lambda i: points[i])
    kept: list[int] = []
    for i in order:
        if not kept or points[i][1] < points[kept[-1]][1]:
            kept.append(i)
    return kept

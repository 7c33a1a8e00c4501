"""How far noise can move the round in which a policy seems to reach its target, and a warning where that is unfair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.tables import hit

LOOK_BACK = 20
"""Evaluations before the target was reached from which noise and slope of the curve are estimated."""
CLEARLY = 2.0
"""How many times further one policy's hitting round must be moved by noise than another's to be clearly so."""
FEW_ROUNDS = 5.0
"""Uncertainty of the hitting round, in rounds, up to which no warning is given."""


def unequal_noise(rounds: pd.DataFrame, target: Mapping[str, Any]) -> str | None:
    """A warning where single evaluations decide when the target is reached and policies of unequal noise are compared.

    `rounds`: the rows of all runs. None where nothing needs to be said; means over a window need no warning.
    """
    if target.get("window", 1) > 1:
        return None
    moved = {
        str(label): jitter_rounds([own for _, own in runs.groupby("seed")], target)
        for label, runs in rounds.groupby("policy", sort=False)
    }
    known = {label: value for label, value in moved.items() if value is not None}
    if len(known) < 2:
        return None
    loud, quiet = max(known, key=lambda name: known[name]), min(known, key=lambda name: known[name])
    if known[loud] < FEW_ROUNDS or known[loud] < CLEARLY * known[quiet]:
        return None
    size = f"about {known[loud]:.0f} rounds" if known[loud] < 1000 else "more rounds than can be told"
    return (
        f"near the target, noise moves the round in which the {target['metric']} accuracy of {loud} shows it by "
        f"{size}, that of {quiet} by {known[quiet]:.1f}; with single evaluations (hold: {target.get('hold', 1)}) the "
        f"comparison then depends on evaluate_every. stop.target.window: 20 instead of hold judges means over 20 "
        f"rounds, which do not"
    )


def jitter_rounds(runs: list[pd.DataFrame], target: Mapping[str, Any]) -> float | None:
    """Noise of one evaluation over the slope of the curve, in rounds, on the way to the target.

    Of runs that reached it; None where they have too few evaluations. Noise is told from the curve by second
    differences, whose variance is six times that of one evaluation.
    """
    bends, slopes = [], []
    for run in runs:
        run = run.reset_index(drop=True)
        at = hit(run, target)
        seen = run.iloc[: 0 if at is None else at + 1].dropna(subset=[target["metric"]]).tail(LOOK_BACK)
        if len(seen) >= 5:
            values = seen[target["metric"]].to_numpy(float)
            bends.append(np.diff(values, 2))
            slopes.append(np.polyfit(seen["round"].to_numpy(float), values, 1)[0])
    if not slopes:
        return None
    noise, slope = float(np.sqrt((np.concatenate(bends) ** 2).mean() / 6)), float(np.mean(slopes))
    return noise / slope if slope > 0 else np.inf

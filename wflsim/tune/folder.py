"""What tuning leaves behind: map.csv, costs.csv, curves.csv, map.png, and the answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wflsim.experiments.compute import Watch
from wflsim.experiments.run import RUNS
from wflsim.files import write
from wflsim.results.opening import opened
from wflsim.scenario import Scenario, slug
from wflsim.tune.candidate import Candidate, Choice
from wflsim.tune.question import Say, Study
from wflsim.tune.setting import Knobs, texts
from wflsim.tune.study import study
from wflsim.tune.words import answer


def tune(
    scenario: Scenario,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    pool: str = "local",
    say: Say = lambda words: None,
    watch: Watch = lambda tick: None,
) -> tuple[Path, Study]:
    """Answer the scenario's tune block and write the answer down. What was trained once is not trained again."""
    folder = Path(out) if out is not None else RUNS / f"{slug(scenario.name)}-tune"
    spec, target = scenario.tune, scenario.stop.target
    keys = scenario.sweep.keys if scenario.sweep else ()
    with opened(
        scenario, folder, fresh, kind="tune", keys=list(keys), objective=spec.objective if spec else "energy",
        accounting=spec.accounting if spec else "full", target=target.model_dump() if target else None,
    ):  # fmt: skip
        found = study(scenario, workers, pool, say, watch)
        for name, frame in tables(found).items():
            write(folder / name, frame.to_csv(index=False))
        write(folder / "answer.txt", "\n".join([answer(found), *found.notes]) + "\n")
        from wflsim.tune.picture import draw

        draw(found, folder / "map.png")
    return folder, found


def tables(found: Study) -> dict[str, pd.DataFrame]:
    """The tables. Where no tau reaches the target, map.csv has neither tau_star nor cost, and p_reach is 0.

    Knobs besides tau have a column each, named knobs. and their key; a front has a table of its own.
    """
    maps, costs = [], []
    for (policy, number), choice in found.choices.items():
        values = found.regimes[number].values
        maps.append({"policy": policy, "regime": number, **values, **_map_row(found, choice)})
        costs += [
            {"policy": policy, "regime": number, "tau": one.tau, **_columns(one.knobs),
             "cost": one.cost.mean, "cost_low": one.cost.low, "cost_high": one.cost.high,
             "p_best": one.p_best, "regret": one.regret, "p_reach": one.p_reach,
             "stopped": one.stopped, "p_best_most": one.p_best_most, "censored": one.censored,
             "diverged": one.diverged, "could_win": one.could_win, "attained": one.attained}
            for one in choice.candidates
        ]  # fmt: skip
    curves = [
        {"policy": line.policy, "tau": line.tau, **_columns(line.knobs), "seed": line.seed,
         "rounds_to_target": line.rounds_to_target, "reached": line.reached, "diverged": line.diverged}
        for line in found.lines
    ]  # fmt: skip
    frame = pd.DataFrame(maps).astype({"tau_star": "Int64"})
    result = {"map.csv": frame, "costs.csv": pd.DataFrame(costs), "curves.csv": pd.DataFrame(curves)}
    return {**result, "front.csv": _front(found)} if found.spec.objective == "pareto" else result


FRONT = (
    "policy", "regime", "tau", "energy_j", "energy_j_low", "energy_j_high",
    "time_s", "time_s_low", "time_s_high", "p_reach",
)  # fmt: skip


def _front(found: Study) -> pd.DataFrame:
    """One row per point of the front, the fastest first."""
    rows = [
        {"policy": policy, "regime": number, **found.regimes[number].values, "tau": one.tau, **_columns(one.knobs),
         "energy_j": one.energy.mean, "energy_j_low": one.energy.low, "energy_j_high": one.energy.high,
         "time_s": one.time.mean, "time_s_low": one.time.low, "time_s_high": one.time.high, "p_reach": one.p_reach}
        for (policy, number), points in found.front.items()
        for one in points
    ]  # fmt: skip
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=FRONT)


def _columns(knobs: Knobs) -> dict[str, str]:
    """The other knobs as columns of a table."""
    return {f"knobs.{key}": text for key, text in texts(knobs).items()}


def _map_row(found: Study, choice: Choice) -> dict[str, Any]:
    """One regime: tau* and its cost; `censored` and `diverged` count its seeds, or those of the nearest tau."""
    best, one = choice.best, choice.nearest
    cost = best.cost if best is not None else choice.unseen
    return {
        "tau_star": best.tau if best is not None else None,
        **(_columns(best.knobs) if best is not None else dict.fromkeys(_columns(one.knobs), "")),
        "cost": cost.mean,
        "cost_low": cost.low,
        "cost_high": cost.high,
        "unit": found.unit,
        "p_reach": one.p_reach,
        "within5": _listed(choice.as_good),
        "edge": choice.edge,
        "why_edge": choice.why_edge,
        "cost_unseen": choice.unseen.mean,
        "cost_unseen_low": choice.unseen.low,
        "cost_unseen_high": choice.unseen.high,
        "p_best": best.p_best if best is not None else np.nan,
        "could_win": _listed(choice.cut_off),
        "censored": one.censored,
        "diverged": one.diverged,
    }


def _listed(candidates: Sequence[Candidate]) -> str:
    """Taus separated by blanks; with other knobs whole settings, separated by semicolons."""
    if any(one.knobs for one in candidates):
        return "; ".join(one.name for one in candidates)
    return " ".join(str(one.tau) for one in candidates)

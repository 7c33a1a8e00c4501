"""What tuning leaves behind: map.csv, costs.csv, curves.csv, map.png, and the answer in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from wflsim.answer import percent
from wflsim.experiment import RUNS, opened
from wflsim.files import write
from wflsim.scenario import Scenario, slug
from wflsim.tune.choice import Choice
from wflsim.tune.costs import shown
from wflsim.tune.study import Say, Study, study


def tune(
    scenario: Scenario,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    engine_name: str = "local",
    say: Say = lambda words: None,
    watch: Say = lambda words: None,
) -> tuple[Path, Study]:
    """Answer the scenario's tune block and write the answer down. What was trained once is not trained again."""
    folder = Path(out) if out is not None else RUNS / f"{slug(scenario.name)}-tune"
    spec, target = scenario.tune, scenario.stop.target
    keys = scenario.sweep.keys if scenario.sweep else ()
    with opened(
        scenario, folder, fresh, kind="tune", keys=list(keys), objective=spec.objective if spec else "energy",
        accounting=spec.accounting if spec else "full", target=target.model_dump() if target else None,
    ):  # fmt: skip
        found = study(scenario, workers, engine_name, say, watch)
        for name, frame in tables(found).items():
            write(folder / name, frame.to_csv(index=False))
        write(folder / "answer.txt", "\n".join([answer(found), *found.notes]) + "\n")
        from wflsim.tune.picture import draw

        draw(found, folder / "map.png")
    return folder, found


def tables(found: Study) -> dict[str, pd.DataFrame]:
    """The three tables."""
    maps, costs = [], []
    for (policy, number), choice in found.choices.items():
        best = choice.best
        values = found.regimes[number].values
        maps.append(
            {"policy": policy, "regime": number, **values, "tau_star": best.tau, "cost": best.cost.mean,
             "cost_low": best.cost.low, "cost_high": best.cost.high, "unit": found.unit, "p_reach": best.p_reach,
             "within5": " ".join(map(str, choice.within5)), "edge": choice.edge}
        )  # fmt: skip
        costs += [
            {"policy": policy, "regime": number, "tau": one.tau, "cost": one.cost.mean, "cost_low": one.cost.low,
             "cost_high": one.cost.high, "p_best": one.p_best, "regret": one.regret, "p_reach": one.p_reach,
             "stopped": one.stopped}
            for one in choice.candidates
        ]  # fmt: skip
    curves = [
        {"policy": line.policy, "tau": line.tau, "seed": line.seed, "rounds_to_target": line.rounds_to_target,
         "reached": line.reached}
        for line in found.lines
    ]  # fmt: skip
    return {"map.csv": pd.DataFrame(maps), "costs.csv": pd.DataFrame(costs), "curves.csv": pd.DataFrame(curves)}


def answer(found: Study) -> str:
    """Which tau, for how much, and how sure; over a map, from where to where."""
    goal = f"{percent(found.target.accuracy)} {found.target.metric} accuracy"
    sentences = []
    for policy in dict.fromkeys(policy for policy, _ in found.choices):
        own = {number: choice for (name, number), choice in found.choices.items() if name == policy}
        low, high = (pick(own, key=lambda number: own[number].best.tau) for pick in (min, max))
        if len(own) == 1:
            sentences.append(f"{policy} reaches {goal} with {_one(found, own[low])}.")
        else:
            sentences.append(
                f"{policy}, {goal}: tau* from {own[low].best.tau} ({_where(found, low)}: {_one(found, own[low])}) to "
                f"{own[high].best.tau} ({_where(found, high)}: {_one(found, own[high])})."
            )
        edges = sum(bool(choice.edge) for choice in own.values())
        if edges:
            sentences.append(f"In {edges} of {len(own)} regimes tau* is the first or last candidate: try beyond.")
        missed = [choice.best.p_reach for choice in own.values() if choice.best.p_reach < 1]
        if missed:
            sentences.append(f"In {len(missed)} of {len(own)} regimes even the best tau misses it on some seeds.")
    return " ".join(sentences)


def _one(found: Study, choice: Choice) -> str:
    best = choice.best
    low, high = shown(found.spec, best.cost.low), shown(found.spec, best.cost.high)
    bounds = f" [{low}, {high}]" if np.isfinite(best.cost.low) else ""
    others = f", within 5 %: {' '.join(map(str, choice.within5))}" if len(choice.within5) > 1 else ""
    sure = f", best in {best.p_best:.0%} of resamples".replace("%", " %") if np.isfinite(best.p_best) else ""
    return f"tau={best.tau} for {shown(found.spec, best.cost.mean)}{bounds}{others}{sure}"


def _where(found: Study, number: int) -> str:
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in found.regimes[number].values.items())


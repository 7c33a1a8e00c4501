"""The paper's six tables beside ours: one CSV of all 330 entries, one page of tables, and how far they are apart.

    python -m studies.paper.tables    # reports/paper/runs_*.csv -> entries.csv, differences.csv, tables.md

Ours is the mean over seeds after the last round, with a 95 % t interval from two seeds on. A run that diverged has no
accuracy: means are over the others, and its entry says how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

import numpy as np
import pandas as pd

from studies.paper import study
from wflsim.analysis.tables import Interval

TITLES = {"average": "average", "worst": "worst client", "std": "standard deviation"}


def published() -> pd.DataFrame:
    """The paper's entries, in its order, with our names of data set and algorithm beside them."""
    table = pd.read_csv(study.REPORT / "published.csv")
    data = {value: key for key, value in study.DATA_SETS.items()}
    policies = {value: key for key, value in study.ALGORITHMS.items()}
    table["data"], table["policy"] = table["dataset"].map(data), table["algorithm"].map(policies)
    return table


def final(entry: study.Entry) -> pd.DataFrame:
    """Per seed, in percent, after the last round; NaN where it diverged, empty without runs."""
    last = study.runs(entry).sort_values("round").groupby("seed").tail(1).sort_values("seed")
    last[list(study.MEASURES)] *= 100
    return last[["seed", *study.MEASURES]].reset_index(drop=True)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % t interval; no interval from one value, no mean from none."""
    return astuple(Interval.of(list(values))) if len(values) else (np.nan, np.nan, np.nan)


def beside() -> pd.DataFrame:
    """All published entries with ours, low, high, seeds and diverged runs."""
    table = published()
    entries = [study.Entry(row.data, row.alpha, row.sigma, row.policy) for row in table.itertuples()]
    finals = {entry: final(entry) for entry in dict.fromkeys(entries)}
    rows = []
    for entry, measure in zip(entries, table["metric"], strict=True):
        runs = finals[entry]
        mean, low, high = interval(runs[measure].dropna().to_numpy())
        counts = {"seeds": len(runs), "diverged": int(runs["worst"].isna().sum())}
        rows.append({"ours": mean, "low": low, "high": high, **counts})
    return pd.concat([table, pd.DataFrame(rows)], axis=1)


def of(table: pd.DataFrame, entry: study.Entry) -> pd.DataFrame:
    """An entry's rows, by metric."""
    place = (table["data"] == entry.data) & (table["alpha"] == entry.alpha) & (table["sigma"] == entry.sigma)
    return table[place & (table["policy"] == entry.policy)].set_index("metric")


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Per table: mean absolute difference of average and worst, and who has the best worst accuracy how often."""
    rows = []
    for name, one in table.groupby("table", sort=False):
        known = one.dropna(subset=["ours"])
        gaps = (known["ours"] - known["value_percent"]).abs()
        worst = one[one["metric"] == "worst"]
        rows.append({
            "table": name, "data": one["dataset"].iloc[0], "settings": len(worst.groupby(["alpha", "sigma"])),
            "settings_run": sum((setting["seeds"] > 0).all() for _, setting in worst.groupby(["alpha", "sigma"])),
            **{f"gap_{m}": gaps[known["metric"] == m].mean() for m in ("average", "worst")},
            "drdm_best_worst_paper": wins(worst, "value_percent"), "drdm_best_worst_ours": wins(worst, "ours"),
            "least_seeds": int(one["seeds"].min()), "most_seeds": int(one["seeds"].max()),
        })  # fmt: skip
    return pd.DataFrame(rows)


def wins(rows: pd.DataFrame, column: str, policy: str = "drdm", most: bool = True) -> int:
    """In how many settings, all of them run, a policy has the greatest (least) value of a measure."""
    won = 0
    for _, setting in rows.groupby(["data", "alpha", "sigma"]):
        if column == "value_percent" or (setting["seeds"] > 0).all():
            place = setting[column].idxmax() if most else setting[column].idxmin()
            won += setting.loc[place, "policy"] == policy
    return won


def lead(data: str, alpha: float, sigma: float, measure: str = "worst") -> tuple[str, float, float, float] | None:
    """DRDM against its best baseline in one setting: its name, and the difference with a paired interval over seeds."""
    runs = {policy: final(study.Entry(data, alpha, sigma, policy)).set_index("seed") for policy in study.ALGORITHMS}
    if any(one.empty for one in runs.values()) or runs["drdm"][measure].isna().all():
        return None
    means = {policy: one[measure].mean() for policy, one in runs.items() if policy != "drdm" and one[measure].any()}
    rival = max(means, key=lambda policy: means[policy])
    paired = (runs["drdm"][measure] - runs[rival][measure]).dropna().to_numpy()
    return rival, *interval(paired)


def markdown(table: pd.DataFrame) -> Iterator[str]:
    """Six tables: ours with its interval, the paper's, the difference."""
    for name, one in table.groupby("table", sort=False):
        places = list(dict.fromkeys(zip(one["alpha"], one["sigma"], strict=True)))
        yield f"\n## {one['dataset'].iloc[0]}, {one['model'].iloc[0]} ({str(name).removeprefix('table:')})\n"
        yield "ours (95 % interval; seeds) | paper | difference, in percent\n"
        yield "| | | " + " | ".join(f"alpha {a:g}, sigma {s:g}" for a, s in places) + " |"
        yield "|---|---|" + "---|" * len(places)
        for policy, label in study.ALGORITHMS.items():
            for measure, title in TITLES.items():
                mine = one[(one["policy"] == policy) & (one["metric"] == measure)]
                shown = [_shown(mine[(mine["alpha"] == a) & (mine["sigma"] == s)].iloc[0]) for a, s in places]
                yield f"| {label if measure == 'average' else ''} | {title} | " + " | ".join(shown) + " |"


def _shown(entry: pd.Series) -> str:  # type: ignore[type-arg]
    if entry["seeds"] == entry["diverged"]:
        return f"{'all diverged' if entry['seeds'] else 'not run yet'}; {entry['value_percent']:.2f}"
    span = f"{entry['low']:.1f} to {entry['high']:.1f}; " if entry["seeds"] - entry["diverged"] > 1 else ""
    span = f" ({span}{entry['seeds']})"
    flag = f" **{entry['diverged']} diverged**" if entry["diverged"] else ""
    ours, theirs = entry["ours"], entry["value_percent"]
    return f"{ours:.2f}{span}{flag}; {theirs:.2f}; {ours - theirs:+.2f}"


def main() -> None:
    table = beside()
    own = table.drop(columns=["data", "policy"])
    own.round(4).to_csv(study.REPORT / "entries.csv", index=False)
    differences(table).round(3).to_csv(study.REPORT / "differences.csv", index=False)
    head = ["# The paper's six tables, ours beside theirs", "", "`make paper` builds this page from `runs_*.csv`."]
    (study.REPORT / "tables.md").write_text("\n".join([*head, *markdown(table)]) + "\n")


if __name__ == "__main__":
    main()

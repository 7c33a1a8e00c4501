"""Why do policies differ on digits? One switch at a time, same seeds, differences taken seed by seed.

    python -m studies.policies.ablation    # about 4 minutes on two cores; writes reports/policies/ablation.md

Scenario: scenarios/policies.yaml with other policies, and once with equal devices. DRDM: its dual step (gamma 0, 5e-4,
5e-3) against its memories (freeze_g, freeze_c). Asynchronous: uneven against equal processors, staleness weights on or
off, and who actually contributes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import wflsim
from studies.policies.trials import LATE_S, ROOT

BASE = "m: 6, tau: 10, eta: 0.1"
DUAL = [
    f"{{name: drdm, label: drdm, {BASE}, mu: 0.5, gamma: 5.0e-4}}",
    f"{{name: drdm, label: drdm-gamma0, {BASE}, mu: 0.5, gamma: 0}}",
    f"{{name: drdm, label: drdm-gamma5e-3, {BASE}, mu: 0.5, gamma: 5.0e-3}}",
    f"{{name: drdm, label: drdm-no-memory, {BASE}, mu: 0.5, gamma: 5.0e-4, freeze_g: true, freeze_c: true}}",
]
ASYNC = [
    f"{{name: fedavg, label: fedavg, {BASE}}}",
    f"{{name: fedasync, label: fedasync, {BASE}, alpha: 0.4}}",
    f"{{name: fedasync, label: fedasync-const, {BASE}, alpha: 0.4, staleness: constant}}",
    f"{{name: fedasync, label: fedasync-alpha0.1, {BASE}, alpha: 0.1}}",
    f"{{name: fedbuff, label: fedbuff, {BASE}, K: 3}}",
]
EQUAL = "devices=[{frequency: 500 MHz, cycles_per_sample: 1.0e7}]"


def runs(name: str, policies: list[str], *more: str) -> Any:
    overrides = [f"policies=[{', '.join(policies)}]", f"name={name}", *more]
    return wflsim.run(wflsim.load(ROOT / "scenarios" / "policies.yaml", overrides), ROOT / "runs" / name)


def late_worst(results: Any, policy: str) -> Any:
    """Per seed: mean worst accuracy of the last LATE_S seconds."""
    rounds = results.rounds[results.rounds["policy"] == policy]
    return np.array(
        [one.loc[one["end_s"] >= one["end_s"].max() - LATE_S, "worst"].mean() for _, one in rounds.groupby("seed")]
    )


def line(results: Any, policy: str, against: str) -> str:
    own, other = late_worst(results, policy), late_worst(results, against)
    runs = results.runs.set_index(["policy", "seed"])
    energy, reached = runs["energy_j"], runs["reached"]
    cost = f"{'' if reached[policy].all() else '>'}{energy[policy].mean():.0f}"
    text = f"| {policy} | {reached[policy].sum():.0f}/{len(own)} | {cost} | {own.mean():.1%} "
    if policy == against:
        return text + "| | |"
    joules = bounded(energy[policy] - energy[against], reached[policy].all(), reached[against].all())
    return text + f"| {interval(own - other, 100)} | {joules} |"


def bounded(differences: Any, own_reached: bool, other_reached: bool) -> str:
    """The mean difference of two costs: with its interval where all runs reached the target, else what bounds it."""
    if own_reached and other_reached:
        return interval(differences)
    if own_reached == other_reached:
        return "not known"
    return f"{'<' if own_reached else '>'} {np.mean(differences):+.1f}"


def interval(differences: Any, scale: float = 1.0) -> str:
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return f"{np.mean(differences) * scale:+.1f} +- {half * scale:.1f}"


def slow_share(results: Any, policy: str) -> float:
    """Delivered uploads that came from odd clients, the slow ones."""
    legs = results.legs
    sent = legs[(legs["policy"] == policy) & (legs["activity"] == "transmit") & (legs["outcome"] == "ok")]
    return float((sent["client"] % 2 == 1).mean())


def block(title: str, results: Any, against: str) -> list[str]:
    head = f"| policy | reached | J to target | late worst accuracy | minus {against}, points | J minus {against} |"
    labels = list(dict.fromkeys(results.runs["policy"]))
    return ["", f"## {title}", "", head, "|---|---|---|---|---|---|", *(line(results, n, against) for n in labels)]


def main() -> None:
    dual = runs("policies-dual", DUAL)
    uneven, equal = runs("policies-async", ASYNC), runs("policies-async-equal", ASYNC, EQUAL)
    lines = [
        "# One switch at a time",
        "",
        "`python -m studies.policies.ablation`. Five seeds; differences seed by seed, with 95 % t intervals.",
        "A run that missed the target counts with all it spent: its cost is at least that (`>`), and a difference of",
        "costs is bounded from one side (`>`, `<`) or, where runs of both missed it, not known.",
        *block("DRDM: dual step against memories", dual, "drdm"),
        *block("Asynchronous, processors at 1 GHz and 333 MHz", uneven, "fedavg"),
        "",
        "Uploads from the slow half: "
        + ", ".join(f"{n} {slow_share(uneven, n):.0%}" for n in ("fedavg", "fedasync", "fedbuff")) + ".",
        *block("Asynchronous, all processors at 500 MHz", equal, "fedavg"),
        "",
        "FedAsync without its staleness weights minus with them, points of late worst accuracy: "
        + ", ".join(
            f"{words} {interval(late_worst(r, 'fedasync-const') - late_worst(r, 'fedasync'), 100)}"
            for words, r in (("uneven processors", uneven), ("equal ones", equal))
        ) + ".",
        "",
    ]  # fmt: skip
    Path(ROOT / "reports" / "policies" / "ablation.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

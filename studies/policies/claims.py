"""What papers say of their policies, tried on digits: fewer bits, robustness to shifted images, groups that are found.

    python -m studies.policies.claims                 # about 10 minutes on one core; writes reports/policies/claims.*
    python -m studies.policies.claims --claim bits    # measures one of them anew and keeps the others

One step size for all policies. What was tried beside the tables is said in reports/policies/README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter
from scipy import stats

from studies.policies.planted import CLIENTS, GROUPS, average, planted, training_loss
from studies.policies.shifts import change_images, changed_accuracy, shifted_accuracy
from wflsim.compress.compressors import CompressSpec
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.learner import Learner
from wflsim.learning.specs import ModelSpec, TrainSpec
from wflsim.policies.base import Policy
from wflsim.policies.clustered import ClusteredFL
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fedrobust import FedRobust
from wflsim.policies.ifca import IFCA, IFCASGD
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scallion import SCAFCOM, SCALLION
from wflsim.records import FinishedRound, RoundRow
from wflsim.simulation.loop import Instant, drive
from wflsim.simulation.training import Training

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(5)
GROUP_SEEDS = range(20)
TARGET = 0.85
"""Average accuracy that three evaluations in a row must reach."""
MOST = 300
"""Rounds after which a run gives up."""
AFFINE_SEEDS = range(200, 210)
"""Seeds that nobody had looked at before FedRobust was measured on clients with affine changes of their own."""
TIMES = (0.0, 1.0, 2.0, 4.0)
"""Sizes of the affine change of test images, relative to those in which the clients' own images differ."""
STARTS = 5
"""Starts of IFCA of which the one with the least training loss is kept."""
SHIFTS = (0.0, 0.5, 1.0, 1.5)
"""Euclidean lengths of the shift of test images; an image of digits has a length of about 3.5."""
PLAIN = CompressSpec()
TOP = CompressSpec.model_validate({"up": {"name": "top_k", "share": 0.01}})
STEP = {"m": 5, "tau": 10, "eta_l": 0.1}
SENDERS: dict[str, tuple[Policy, CompressSpec]] = {
    "FedAvg": (FedAvg(m=5, tau=10, eta=0.1), PLAIN),
    "FedAvg, train.compress.up: top_k 1 %": (FedAvg(m=5, tau=10, eta=0.1), TOP),
    "SCAFFOLD": (SCAFFOLD(**STEP), PLAIN),
    "SCAFFOLD, compact_uplink": (SCAFFOLD(compact_uplink=True, **STEP), PLAIN),
    "SCALLION, dithering, 16 levels": (SCALLION(**STEP), PLAIN),
    "SCAFCOM, top_k 1 %": (SCAFCOM(**STEP), PLAIN),
}
TRAINERS: dict[str, Policy] = {
    "FedAvg": FedAvg(tau=5, eta=0.1),
    "FedRobust, shift": FedRobust(tau=5, eta=0.1, affine="shift"),
    "FedRobust, shift, lambda_0 0.3": FedRobust(tau=5, eta=0.1, affine="shift", lambda_0=0.3),
    "FedRobust, full": FedRobust(tau=5, eta=0.1, affine="full"),
}
IN_PROPORTION = {"lambda_0": 0.55, "eta_delta": 0.14}
"""The released code's constants for a shift, from MNIST's images (length 9.2) to those of digits (length 3.5): a shift
that is 9.2/3.5 times shorter has the same penalty, and is found in as many steps."""
AFFINE: dict[str, Policy] = {
    "FedAvg": FedAvg(tau=5, eta=0.1),
    "FedRobust, full": FedRobust(tau=5, eta=0.1, affine="full"),
    "FedRobust, full, in proportion": FedRobust(tau=5, eta=0.1, affine="full", **IN_PROPORTION),
}
SEEKERS: dict[str, Policy] = {
    "Clustered FL": ClusteredFL(tau=5, eta=0.1, eps1=0.08, eps2=0.25),
    "IFCA": IFCA(tau=5, eta=0.1),
    "IFCA with gradients": IFCASGD(eta=0.1),
}


def digits(seed: int, model: dict[str, Any], alpha: float, compress: CompressSpec = PLAIN) -> Learner:
    """Ten clients with digits divided by Dirichlet(alpha)."""
    spec = TypeAdapter(ModelSpec).validate_python(model)
    partition = ZipfDirichletSpec(alpha=alpha, sigma=0.3)
    return build(DigitsSpec(name="digits"), partition, spec, TrainSpec(batch=16, compress=compress), CLIENTS, seed)


def bits_to_target(policy: Policy, learner: Learner, seed: int) -> dict[str, float]:
    """Rounds, and bits up and down, until the average accuracy has been TARGET three times; NaN if it never was."""
    rows: list[RoundRow] = []

    def sink(finished: FinishedRound) -> None:
        rows.append(finished.row)

    def stop(row: RoundRow) -> str | None:
        reached = len(rows) >= 3 and all((one.average or 0) >= TARGET for one in rows[-3:])
        return "target" if reached else "rounds" if len(rows) >= MOST else None

    ended = drive(Training(policy, learner, seed), Instant(CLIENTS), sink, stop, CLIENTS, seed)
    up, down = (sum(getattr(row, name) for row in rows) / 1e6 for name in ("up_bits", "down_bits"))
    missed = np.nan if ended == "rounds" else 1.0
    return {"rounds": len(rows) * missed, "Mbit up": up * missed, "Mbit up and down": (up + down) * missed}


def trained(policy: Policy, learner: Learner, seed: int, rounds: int) -> Training:
    """The policy after so many rounds."""
    training = Training(policy, learner, seed, evaluate_every=rounds)

    def stop(row: RoundRow) -> str | None:
        return "end" if row.round + 1 == rounds else None

    drive(training, Instant(CLIENTS), lambda _: None, stop, CLIENTS, seed)
    return training


Measured = Iterator[tuple[str, int, str, float]]
"""Policy, seed, measure and value, one by one."""


def bits() -> Measured:
    for name, (policy, compress) in SENDERS.items():
        for seed in SEEDS:
            for measure, value in bits_to_target(policy, digits(seed, {"name": "mlp"}, 0.5, compress), seed).items():
                yield name, seed, measure, value


def shift(model: str) -> Measured:
    for name, policy in TRAINERS.items():
        for seed in SEEDS:
            training = trained(policy, digits(seed, {"name": model}, 10.0), seed, 100)
            for length in SHIFTS:
                yield name, seed, f"{length:g}", shifted_accuracy(training, length)


def affine(model: str) -> Measured:
    for name, policy in AFFINE.items():
        for seed in AFFINE_SEEDS:
            training = trained(policy, change_images(digits(seed, {"name": model}, 10.0), seed), seed, 100)
            for times in TIMES:
                yield name, seed, f"{times:g} times", changed_accuracy(training, seed + 1000, times)
            for length in SHIFTS[1:3]:
                yield name, seed, f"length {length:g}", shifted_accuracy(training, length)


def groups() -> Measured:
    for name, policy in SEEKERS.items():
        for seed in GROUP_SEEDS:
            starts = STARTS if isinstance(policy, IFCA) else 1
            tried = [trained(policy, planted(seed), seed + 1000 * start, 40) for start in range(starts)]
            yield from found(name, seed, tried[0])
            if starts > 1:
                yield from found(f"{name}, best of {starts} starts", seed, min(tried, key=training_loss))


def found(name: str, seed: int, training: Training) -> Measured:
    """Whether the clusters are the planted groups, and the accuracy."""
    alike = training.state.cluster.tolist() in (GROUPS, [1 - group for group in GROUPS])
    yield name, seed, "found", float(alike)
    yield name, seed, "accuracy", average(training)


CLAIMS: dict[str, Callable[[], Measured]] = {
    "bits": bits,
    "shift linear": partial(shift, "linear"),
    "shift mlp": partial(shift, "mlp"),
    "affine linear": partial(affine, "linear"),
    "affine mlp": partial(affine, "mlp"),
    "groups": groups,
}


def interval(values: Sequence[float], form: str) -> str:
    """Mean and half of the 95 % t interval over seeds; how many were missing, if some were."""
    known = np.array([value for value in values if not np.isnan(value)])
    if len(known) < len(values):
        return f"missed by {len(values) - len(known)} of {len(values)}"
    half = stats.t.ppf(0.975, len(known) - 1) * stats.sem(known)
    return f"{known.mean():{form}} +- {half:{form.lstrip('+')}}"


def page(rows: pd.DataFrame) -> str:
    """The report: three tables."""

    def values(claim: str, policy: str, measure: str) -> list[float]:
        chosen = rows[(rows["claim"] == claim) & (rows["policy"] == policy) & (rows["measure"] == measure)]
        return [float(value) for value in chosen.sort_values("seed")["value"]]

    costs = ("rounds", "Mbit up", "Mbit up and down")
    base = {measure: np.array(values("bits", "SCAFFOLD", measure)) for measure in costs}
    lines = [
        "# Three claims, tried on digits",
        "",
        "`python -m studies.policies.claims`. One step size for all; what was tried beside these tables "
        "stands in README.md. Means over seeds +- half of the 95 % t interval.",
        "",
        f"## Bits to {TARGET:.0%} average accuracy",
        "",
        f"Ten clients, Dirichlet(0.5), 64 hidden units (4,810 parameters), m=5, tau=10, step 0.1, {len(SEEDS)} seeds, "
        f"at most {MOST} rounds. The last columns are bits relative to SCAFFOLD's with the same seed.",
        "",
        "| policy | rounds | Mbit up | Mbit up and down | up / SCAFFOLD's | all / SCAFFOLD's |",
        "|---|---|---|---|---|---|",
    ]
    for name in SENDERS:
        cells = [interval(values("bits", name, measure), ".3g") for measure in costs]
        cells += [interval(list(np.array(values("bits", name, m)) / base[m]), ".3g") for m in costs[1:]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Accuracy under shifted test images",
        "",
        f"Ten clients, Dirichlet(10), all of them in every round, tau=5, step 0.1, 100 rounds, {len(SEEDS)} seeds. "
        "Each client's test images are shifted by one vector of the given length, chosen against the model.",
        "",
        "| model | policy | " + " | ".join(f"length {length:g}" for length in SHIFTS) + " |",
        "|---|---|" + "---|" * len(SHIFTS),
    ]
    for model, words in {"linear": "softmax regression", "mlp": "64 hidden units"}.items():
        for name in TRAINERS:
            cells = [interval(values(f"shift {model}", name, f"{length:g}"), ".1%") for length in SHIFTS]
            lines.append(f"| {words} | {name} | " + " | ".join(cells) + " |")
    lines += affine_table(values)
    lines += [
        "",
        "## Two planted groups",
        "",
        f"Ten clients, of which every second has its labels turned by three; tau=5 (`ifca_sgd`: 1), step 0.1, "
        f"40 rounds, {len(GROUP_SEEDS)} seeds. Of {STARTS} starts the one with the least training loss is kept. FedAvg "
        "serves neither group (`tests/policies/test_clustered.py`).",
        "",
        "| policy | groups found | average accuracy where found | where not |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(rows.loc[rows["claim"] == "groups", "policy"]):
        found, accuracy = (np.array(values("groups", name, measure)) for measure in ("found", "accuracy"))
        where = [f"{accuracy[found == yes].mean():.1%}" if (found == yes).any() else "" for yes in (1.0, 0.0)]
        lines.append(f"| {name} | {int(found.sum())} of {len(found)} | {where[0]} | {where[1]} |")
    return "\n".join(lines) + "\n"


def affine_table(values: Callable[[str, str, str], list[float]]) -> list[str]:
    """The section on clients whose images differ by affine changes."""
    measures = [f"{times:g} times" for times in TIMES] + [f"length {length:g}" for length in SHIFTS[1:3]]
    lines = [
        "",
        "## Accuracy where clients' images differ by affine changes",
        "",
        "As above, but each client's images, for training and testing, have an affine change of their own, "
        f"x + Lambda x + delta of normal numbers, of which each part moves an image by 20 % of its length; "
        f"{len(AFFINE_SEEDS)} seeds. Test images get one more such change, a new one for each client, of 0, 1, 2 or 4 "
        "times that size, or a shift of the given length chosen against the model. In brackets the difference from "
        "FedAvg with the same seed in points.",
        "",
        "| model | policy | " + " | ".join(measures) + " |",
        "|---|---|" + "---|" * len(measures),
    ]
    for model, words in {"linear": "softmax regression", "mlp": "64 hidden units"}.items():
        base = {measure: np.array(values(f"affine {model}", "FedAvg", measure)) for measure in measures}
        for name in AFFINE:
            cells = []
            for measure in measures:
                own = values(f"affine {model}", name, measure)
                less = f" ({interval(list(100 * (np.array(own) - base[measure])), '+.1f')})" if name != "FedAvg" else ""
                cells.append(interval(own, ".1%") + less)
            lines.append(f"| {words} | {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "policies")
    parser.add_argument("--claim", choices=list(CLAIMS), action="append")
    args = parser.parse_args()
    file, chosen = args.out / "claims.csv", args.claim or list(CLAIMS)
    columns = ["claim", "policy", "seed", "measure", "value"]
    before = pd.read_csv(file, dtype={"measure": str}) if file.exists() else pd.DataFrame(columns=columns)
    found = {name: before[before["claim"] == name] for name in CLAIMS}
    for claim in chosen:
        rows = []
        for row in CLAIMS[claim]():
            rows.append((claim, *row))
            print(*rows[-1], flush=True)
        found[claim] = pd.DataFrame(rows, columns=columns)
    pd.concat([rows for rows in found.values() if len(rows)]).to_csv(file, index=False, float_format="%.6g")
    (args.out / "claims.md").write_text(page(pd.read_csv(file, dtype={"measure": str})))


if __name__ == "__main__":
    main()

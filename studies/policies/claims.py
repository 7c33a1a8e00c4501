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
import torch
from pydantic import TypeAdapter
from scipy import stats

from studies.policies.planted import CLIENTS, GROUPS, average, planted
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
from wflsim.policies.ifca import IFCA
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
SEEKERS: dict[str, Policy] = {
    "Clustered FL": ClusteredFL(tau=5, eta=0.1, eps1=0.08, eps2=0.25),
    "IFCA": IFCA(tau=5, eta=0.1),
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


def shifted_accuracy(training: Training, length: float, steps: int = 50) -> float:
    """Accuracy, averaged over clients, when each client's test images are shifted by one vector of at most this length,
    chosen against the model by ascent on the test loss."""
    gradients, test = training.learner._gradients, training.learner._test
    right = []
    for client, count in enumerate(test.sizes):
        if not count:
            continue
        (x, labels), *_ = test.pieces(client)
        data, delta = gradients.model.data_part(x), 0 * gradients.model.data_part(x[:1])
        w = training.state.w
        for _ in range(steps if length else 0):
            moved = gradients.model.with_data(x, data + delta)
            _, g_x = gradients.with_inputs(w[None], moved[None], labels[None], None)
            uphill = gradients.model.data_part(g_x[0]).sum(0, keepdim=True)
            delta = delta + 0.1 * length * uphill / uphill.norm().clamp(min=1e-12)
            delta = delta * min(1.0, length / float(delta.norm()))
        with torch.no_grad():
            logits = gradients.model.forward(gradients.model.split(w), gradients.model.with_data(x, data + delta))
        right.append(float((logits.argmax(-1) == labels).double().mean()))
    return float(np.mean(right))


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


def groups() -> Measured:
    for name, policy in SEEKERS.items():
        for seed in GROUP_SEEDS:
            training = trained(policy, planted(seed), seed, 40)
            found = training.state.cluster.tolist() in (GROUPS, [1 - group for group in GROUPS])
            for measure, value in {"found": float(found), "accuracy": average(training)}.items():
                yield name, seed, measure, value


CLAIMS: dict[str, Callable[[], Measured]] = {
    "bits": bits,
    "shift linear": partial(shift, "linear"),
    "shift mlp": partial(shift, "mlp"),
    "groups": groups,
}


def interval(values: Sequence[float], form: str) -> str:
    """Mean and half of the 95 % t interval over seeds; how many were missing, if some were."""
    known = np.array([value for value in values if not np.isnan(value)])
    if len(known) < len(values):
        return f"missed by {len(values) - len(known)} of {len(values)}"
    return f"{known.mean():{form}} +- {stats.t.ppf(0.975, len(known) - 1) * stats.sem(known):{form}}"


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
    lines += [
        "",
        "## Two planted groups",
        "",
        f"Ten clients, of which every second has its labels turned by three; tau=5, step 0.1, 40 rounds, "
        f"{len(GROUP_SEEDS)} seeds. FedAvg serves neither group (`tests/policies/test_clustered.py`).",
        "",
        "| policy | groups found | average accuracy where found | where not |",
        "|---|---|---|---|",
    ]
    for name in SEEKERS:
        found, accuracy = (np.array(values("groups", name, measure)) for measure in ("found", "accuracy"))
        where = [f"{accuracy[found == yes].mean():.1%}" if (found == yes).any() else "" for yes in (1.0, 0.0)]
        lines.append(f"| {name} | {int(found.sum())} of {len(found)} | {where[0]} | {where[1]} |")
    return "\n".join(lines) + "\n"


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

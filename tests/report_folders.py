"""Results folders made of rows, without training: what the report is shown in its tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from wflsim.records import ClientRow, Leg, RoundRow, csv_lines

TARGET = {"metric": "worst", "accuracy": 0.8, "hold": 2}
SNR = ["-5 dB", "5 dB", "15 dB"]
BANDWIDTH = ["180 kHz", "1 MHz"]
TAUS = [5, 10, 20]


def about(folder: Path, name: str, labels: Sequence[str], seeds: Sequence[int], target: Any = TARGET, **more: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.yaml").write_text(yaml.safe_dump({"name": name, "stop": {"rounds": 100, "target": target}}))
    facts = {"name": name, "labels": list(labels), "seeds": list(seeds), "versions": {"python": "3.11"}, "git": "abc"}
    (folder / "run.json").write_text(json.dumps({**facts, "status": "done", **more}))


def run_folder(
    folder: Path, name: str = "rows", labels: Sequence[str] = ("fedavg", "drdm"), seeds: int = 3, rounds: int = 30,
    clients: int = 6, lossy: float = 0.0, target: Any = TARGET, partitions: bool = True,
) -> Path:  # fmt: skip
    """A run folder as `wflsim run` leaves it, with plausible curves."""
    about(folder, name, labels, range(seeds), target)
    for p, label in enumerate(labels):
        for seed in range(seeds):
            cell(folder / label / f"seed-{seed}", p, seed, rounds, clients, lossy)
    for seed in range(seeds if partitions else 0):
        counts = np.random.default_rng(seed).integers(0, 60, (clients, 4))
        rows = [(i, c, counts[i, c], counts[i, c] // 4 + 1) for i in range(clients) for c in range(4)]
        (folder / f"partition-seed-{seed}.csv").write_text("client,class,samples,test_samples\n" + csv_lines(rows))
    return folder


def cell(path: Path, p: int, seed: int, rounds: int, clients: int, lossy: float) -> None:
    """One policy with one seed; the p-th policy learns the faster, and costs the more per round."""
    rng = np.random.default_rng([p, seed])
    path.mkdir(parents=True)
    tables: dict[str, list[tuple[Any, ...]]] = {"rounds": [], "clients": [], "legs": []}
    now = 0.0
    for s in range(rounds):
        legs, end = [], now
        for i in range(clients):
            at = now
            for activity, length in (("receive", 0.1), ("compute", 0.3 + 0.02 * i), ("transmit", 0.1 * (p + 1))):
                last = activity == "transmit"
                outcome = "lost" if last and rng.random() < lossy else "ok"
                joules = length * (0.2 + 0.1 * p)
                bits = 0 if activity == "compute" else 1000
                legs.append(Leg(s, 0, i, activity, at, at + length, bits, 10.0, 1e4, 1, joules, joules / 2, joules, outcome))  # type: ignore[arg-type]
                at += length
            end = max(end, at)
        delivered = sum(leg.outcome == "ok" for leg in legs if leg.activity == "transmit")
        level = 1 - np.exp(-(s + 1) * (0.1 + 0.08 * p)) * (1 + 0.1 * rng.standard_normal())
        accuracy = np.clip(level - 0.02 * rng.random(clients), 0, 1).tolist()
        joules = sum(leg.energy_j for leg in legs)
        spread = (float(np.mean(accuracy)), min(accuracy), float(np.std(accuracy)), min(accuracy), 0.99, 1.0)
        tables["rounds"].append(RoundRow(
            s, now, end, clients, delivered, joules, joules / 2, sum(leg.paper_j for leg in legs), 1000 * clients,
            1000 * clients, *spread,
        ))  # fmt: skip
        lam = (rng.dirichlet([5.0] * clients)).tolist() if p else [None] * clients
        tables["clients"] += [ClientRow(s, i, accuracy[i], 1.0, lam[i]) for i in range(clients)]
        tables["legs"] += legs
        now = end
    for name, kind in (("rounds", RoundRow), ("clients", ClientRow), ("legs", Leg)):
        (path / f"{name}.csv").write_text(",".join(kind._fields) + "\n" + csv_lines(tables[name]))
    (path / "status.json").write_text(json.dumps({"status": "done", "reason": "target reached", "mode": "live: losses"}))


def asynchronous_folder(folder: Path) -> Path:
    """A lossy run whose orders outlive the rounds they were given in."""
    run_folder(folder, "lossy asynchronous", ["fedasync", "fedbuff"], seeds=2, rounds=24, lossy=0.3)
    for path in folder.glob("*/seed-*/legs.csv"):
        legs = pd.read_csv(path)
        legs["round"] = (legs["round"] - legs["client"] % 3).clip(lower=0)
        legs.to_csv(path, index=False)
    return folder


def sweep_folder(folder: Path, keys: int = 2) -> Path:
    """runs.csv over SNR, or over SNR and bandwidth."""
    names = ["radio.snr", "radio.bandwidth"][:keys]
    about(folder, "sweep", ["fedavg", "drdm"], range(4), kind="sweep", keys=names)
    rng, rows = np.random.default_rng(0), []
    for regime, (a, b) in enumerate((a, b) for a in range(len(SNR)) for b in range(len(BANDWIDTH) if keys > 1 else 1)):
        for p, policy in enumerate(("fedavg", "drdm")):
            for seed in range(4):
                rounds = (60, 25)[p] * np.exp(0.1 * rng.standard_normal())
                joules = rounds * (0.3 + (p + 1) / (1 + a + 2 * b))
                values = dict(zip(names, (SNR[a], BANDWIDTH[b]), strict=False))
                rows.append({
                    "regime": regime, **values, "policy": policy, "seed": seed, "reached": float(bool(regime or seed or p)),
                    "rounds": rounds, "energy_j": joules, "paper_energy_j": 0.8 * joules, "time_s": 2 * joules,
                    "up_bits": 1e6, "down_bits": 1e6, "final_average": 0.9, "final_worst": 0.8, "final_std": 0.05,
                    "final_worst10": 0.8, "final_jain": 0.99, "latency_p50_s": 1.0, "latency_p95_s": 1.2, "asked": 9.0,
                    "delivered": 9.0, "status": "done", "reason": "target reached",
                })  # fmt: skip
    pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    return folder


def tune_folder(folder: Path, keys: int = 2) -> Path:
    """map.csv, costs.csv and curves.csv; the optimum of the first regime lies at the edge."""
    names = ["radio.snr", "radio.bandwidth"][:keys]
    about(folder, "tune", ["drdm", "fedavg"], range(4), kind="tune", keys=names, objective="energy", accounting="full", target=TARGET)
    rng = np.random.default_rng(0)
    curves = [
        {"policy": policy, "tau": tau, "seed": seed, "rounds_to_target": round((20, 50)[p] * (1 + 20 / tau) * np.exp(0.1 * rng.standard_normal())),
         "reached": bool(seed or tau > 5)}
        for p, policy in enumerate(("drdm", "fedavg")) for tau in TAUS for seed in range(4)
    ]  # fmt: skip
    frame, maps, costs = pd.DataFrame(curves), [], []
    for regime, (a, b) in enumerate((a, b) for a in range(len(SNR) if keys else 1) for b in range(len(BANDWIDTH) if keys > 1 else 1)):
        values = dict(zip(names, (SNR[a], BANDWIDTH[b]), strict=False))
        for policy in ("drdm", "fedavg"):
            means = []
            for tau in TAUS:
                rounds = frame[(frame["policy"] == policy) & (frame["tau"] == tau)]["rounds_to_target"]
                means.append(float((rounds * (tau * 0.05 * (1 + a + b) + 2 / (1 + a))).mean()))
            best = int(np.argmin(means))
            costs += [
                {"policy": policy, "regime": regime, "tau": tau, "cost": mean, "cost_low": 0.9 * mean, "cost_high": 1.1 * mean,
                 "p_best": 0.9 if i == best else 0.05, "regret": mean / means[best] - 1, "p_reach": 1.0, "stopped": False}
                for i, (tau, mean) in enumerate(zip(TAUS, means, strict=True))
            ]  # fmt: skip
            within = " ".join(str(tau) for tau, mean in zip(TAUS, means, strict=True) if mean <= 1.05 * means[best])
            maps.append({
                "policy": policy, "regime": regime, **values, "tau_star": TAUS[best], "cost": means[best],
                "cost_low": 0.9 * means[best], "cost_high": 1.1 * means[best], "unit": "J", "p_reach": 1.0, "within5": within,
                "edge": {0: "low", len(TAUS) - 1: "high"}.get(best, ""),
            })  # fmt: skip
    for name, table in (("map", pd.DataFrame(maps)), ("costs", pd.DataFrame(costs)), ("curves", frame)):
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder

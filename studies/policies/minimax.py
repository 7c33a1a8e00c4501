"""Who finds the minimax point? A convex problem whose answer scipy knows, to the digit.

    python -m studies.policies.minimax                 # 8,000 rounds; writes reports/policies/minimax.{csv,md,png}
    python -m studies.policies.minimax --rounds 2000   # a look

Eight least-squares clients with optima of their own, full batches: what is random is who takes part and the snapshot.
ERM minimises the mean loss, minimax the largest one. A policy closes (ERM - policy)/(ERM - minimax) of the gap between
their worst losses. The robust ones run with scheme C (uniform_weighted, the unbiased one), decaying steps and the
average iterate, as their theorems ask; DRDM and FedDyn as they are.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tests.quadratics import Problem, run
from wflsim.policies.afl import AFL
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD
from wflsim.policies.steps import Decay
from wflsim.rng import stream

ROOT = Path(__file__).resolve().parents[2]
N, P, M, TAU = 8, 3, 5, 5


def the_problem() -> Problem:
    """Curvatures around 1; the last clients sit far from the others and have noisier targets."""
    draw = stream(4, "minimax")
    A = [draw.normal(size=(30, P)) for _ in range(N)]
    centres = [draw.normal(size=P) * (1.0 if i < N - 2 else 3.0) for i in range(N)]
    b = [A[i] @ centres[i] + draw.normal(size=30) * (0.3 + 0.2 * i) for i in range(N)]
    return Problem(A, b, start=np.zeros(P))


def worst(p: Problem, w: Any) -> float:
    return max(float(p.f(i, w)) for i in range(p.N))


def erm(p: Problem) -> Any:
    """Where the mean of the clients' losses is least."""
    H = sum(p.A[i].T @ p.A[i] / p.d[i] for i in range(p.N))
    h = sum(p.A[i].T @ p.b[i] / p.d[i] for i in range(p.N))
    return np.linalg.solve(H, h)


def minimax(p: Problem) -> tuple[Any, float]:
    """min t subject to f_i(w) <= t, by SLSQP; and a certificate: the same value from the dual side."""
    w0 = erm(p)
    bounds = [
        {
            "type": "ineq",
            "fun": lambda z, i=i: z[-1] - p.f(i, z[:-1]),
            "jac": lambda z, i=i: np.append(-p.grad(i, z[:-1]), 1.0),
        }
        for i in range(p.N)
    ]
    unit = np.append(np.zeros(p.P), 1.0)
    start = np.append(w0, worst(p, w0))
    options = {"ftol": 1e-15, "maxiter": 1000}
    primal = minimize(lambda z: z[-1], start, jac=lambda z: unit, constraints=bounds, method="SLSQP", options=options)

    def mixture(lam: Any) -> tuple[float, Any]:
        H = sum(l * p.A[i].T @ p.A[i] / p.d[i] for i, l in enumerate(lam))
        h = sum(l * p.A[i].T @ p.b[i] / p.d[i] for i, l in enumerate(lam))
        losses = np.array([p.f(i, np.linalg.solve(H, h)) for i in range(p.N)])
        return -float(lam @ losses), -losses

    simplex = {"type": "eq", "fun": lambda lam: lam.sum() - 1}
    dual = minimize(
        mixture, np.full(p.N, 1 / p.N), jac=True, bounds=[(0, 1)] * p.N, constraints=simplex, method="SLSQP",
        options=options,
    )  # fmt: skip
    if abs(-dual.fun - primal.fun) > 1e-6 * primal.fun:
        raise RuntimeError(f"primal {primal.fun} and dual {-dual.fun} disagree")
    return primal.x[:-1], float(primal.fun)


def contestants(rounds: int) -> dict[str, Any]:
    """Steps decay so that the last is about a quarter of the first, whatever the number of rounds."""
    after = max(1, rounds // 16)
    eta, gamma = Decay(start=0.05, after=after), Decay(start=0.004, after=after)
    both = {"m": M, "tau": TAU, "eta": eta, "gamma": gamma, "floor": 0, "dual_loss": "full", "eval_model": "average"}
    one = {"eta_w": Decay(start=0.2, after=after), "eta_lambda": Decay(start=0.02, after=after)}
    pd = {"tau": TAU, "eta_l": eta, "sigma": Decay(start=0.02, after=after), "eval_model": "average"}
    return {
        "FedAvg": FedAvg(m=M, tau=TAU),
        "SCAFFOLD": SCAFFOLD(m=M, tau=TAU),
        "FedDyn": FedDyn(m=M, tau=TAU, mu=1.0),
        "DRDM": DRDM(m=M, tau=TAU, mu=1.0, gamma=1e-3, dual_loss="full"),
        "DRDM, gamma=0": DRDM(m=M, tau=TAU, mu=1.0, gamma=0),
        "DRFA, scheme B": DRFA(**{**both, "floor": 0.03}),
        "DRFA, scheme C": DRFA(scheme="uniform_weighted", **both),
        "AFL": AFL(**one),
        f"AFL, m={M}": AFL(m=M, **one),
        "SCAFF-PD": SCAFFPD(**pd),
        f"SCAFF-PD, m={M}": SCAFFPD(m=M, **pd),
        "lambda-consistent DRDM": LambdaDRDM(mu=1.0, **{**both, "gamma": Decay(start=0.001, after=after)}),
    }


ROBUST = ("DRFA, scheme C", "AFL", "SCAFF-PD", "lambda-consistent DRDM")
AT_ERM = ("FedDyn", "DRDM", "DRDM, gamma=0")


def study(rounds: int, names: tuple[str, ...] | None = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One row per policy, and the path of the worst loss of what it would evaluate."""
    p = the_problem()
    at_erm, best = worst(p, erm(p)), minimax(p)[1]
    rows, paths = [], {}
    for name, policy in contestants(rounds).items():
        if names and name not in names:
            continue
        training, kept = run(policy, p.learner(), rounds)
        shown = [np.asarray(policy.model(state, None)) for state in kept.states]
        paths[name] = np.array([worst(p, w) for w in shown])
        lam = getattr(training.state, "lam", np.full(N, 1 / N))
        rows.append(
            {
                "policy": name,
                "worst": worst(p, shown[-1]),
                "closed": (at_erm - worst(p, shown[-1])) / (at_erm - best),
                "worst of last iterate": worst(p, training.state.w.numpy()),
                "mean": float(np.mean([p.f(i, shown[-1]) for i in range(N)])),
                "lambda max": float(np.max(lam)),
            }
        )
    return rows, {"ERM": at_erm, "minimax": best, "paths": paths}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8000)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "policies")
    args = parser.parse_args()
    rows, facts = study(args.rounds)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "minimax.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    text = table(rows, facts, args.rounds)
    (args.out / "minimax.md").write_text(text)
    figure(facts, args.rounds, args.out / "minimax.png")
    print(text)


def table(rows: list[dict[str, Any]], facts: dict[str, Any], rounds: int) -> str:
    lines = [
        "# Who finds the minimax point?",
        "",
        f"`python -m studies.policies.minimax --rounds {rounds}`: {N} least-squares clients, m={M}, tau={TAU}, full "
        f"batches. Worst loss at uniform ERM {facts['ERM']:.4f}, at the minimax point (scipy, primal and dual agree) "
        f"{facts['minimax']:.4f}.",
        "",
        "| policy | worst loss | gap closed | of the last iterate | mean loss | largest lambda_i |",
        "|---|---|---|---|---|---|",
    ]
    span = facts["ERM"] - facts["minimax"]
    for row in rows:
        last = (facts["ERM"] - row["worst of last iterate"]) / span
        shares = " | ".join(f"{round(share, 3) + 0.0:.1%}" for share in (row["closed"], last))  # + 0.0: never -0.0 %
        lines.append(
            f"| {row['policy']} | {row['worst']:.4f} | {shares} | {row['mean']:.4f} "
            f"| {row['lambda max']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def figure(facts: dict[str, Any], rounds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    chart, axes = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained")
    groups = (
        ("not robust, or robust by visits alone", [n for n in facts["paths"] if n not in robust(facts)]),
        ("robust: scheme C or all clients, decaying steps, average iterate", robust(facts)),
    )
    at = np.unique(np.geomspace(1, rounds, 160).astype(int)) - 1
    styles = ["-", "--", "-.", ":", (0, (3, 1, 1, 1)), (0, (5, 3))]
    for ax, (title, names) in zip(axes, groups, strict=True):
        for name, style in zip(names, styles, strict=True):
            quiet = {"color": "0.75", "linewidth": 0.9} if name == "FedAvg" else {"linewidth": 1.6}
            ax.plot(at + 1, facts["paths"][name][at], linestyle=style, label=name, **quiet)
        for name, side in (("ERM", "bottom"), ("minimax", "top")):
            ax.axhline(facts[name], color="0.4", linewidth=0.8)
            ax.text(rounds, facts[name], name, va=side, ha="right", color="0.3", fontsize=8)
        ax.set(xscale="log", xlabel="round")
        ax.set_title(title, fontsize=10)
        ax.legend(fontsize=8, frameon=False, loc="upper right", ncols=2)
    span = facts["ERM"] - facts["minimax"]
    axes[0].set(ylabel="worst client loss", ylim=(facts["minimax"] - 0.15 * span, facts["ERM"] + 1.1 * span))
    chart.savefig(path, dpi=110)
    plt.close(chart)


def robust(facts: dict[str, Any]) -> list[str]:
    return [n for n in facts["paths"] if n.startswith(("AFL", "SCAFF-PD", "lambda")) or n == "DRFA, scheme C"]


if __name__ == "__main__":
    main()

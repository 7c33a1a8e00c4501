"""Does the duality gap of DRDM fall as Theorem 1 of the paper says, like T^(-3/8)?

    nice -n 5 python -m studies.paper.theory   # goes on where reports/paper/theory.csv ends (15 min of CPU), draws
    python -m studies.paper.theory --draw      # theory.md and theory.png from the committed theory.csv alone

Thirty least-squares clients with optima of their own and noisy minibatches; tau, eta, gamma and mu are Theorem 1's, so
is what is averaged. The policies are the product's own, driven by the contract of `exchange`, without meters and traces
twice as fast as by the loop; `check` holds that against the loop first. The words are in theory.template.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from studies.policies.minimax import erm, minimax, worst
from tests.quadratics import Problem, Squares, run
from wflsim.analysis.tables import Interval
from wflsim.exchange import Draw, Reply
from wflsim.learning.models.gradients import Descent
from wflsim.policies.base import Policy
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.sampling import pick
from wflsim.rng import stream

ROOT = Path(__file__).resolve().parents[2]
Vector = NDArray[np.float64]
REPORT = ROOT / "reports" / "paper"
CSV = REPORT / "theory.csv"
N, M, P, SAMPLES, BATCH, SEEDS = 30, 20, 5, 100, 8, 10
HORIZONS = [round(250 * 10 ** (k / 4)) for k in range(9)]  # T, total local steps
VARIANTS = {
    "drdm": ("DRDM", HORIZONS),
    "lambda_drdm": ("lambda-consistent DRDM", HORIZONS),
    "lambda_drdm_slow": ("lambda-consistent DRDM, gamma/N", HORIZONS[::2]),
    "drfa": ("DRFA, unbiased draw (control)", HORIZONS[::2]),
}


def the_problem() -> Problem:
    """Curvatures at most L = 1, optima the farther from 0 the higher the client's number, losses of order one."""
    draw = stream(1, "theory")
    A = [draw.normal(size=(SAMPLES, P)) for _ in range(N)]
    root_L = np.sqrt(max(np.linalg.eigvalsh(rows.T @ rows / SAMPLES)[-1] for rows in A))
    A = [rows / root_L for rows in A]
    optima = [draw.normal(size=P) * (0.3 + 0.9 * i / (N - 1)) for i in range(N)]
    return Problem(A, [A[i] @ optima[i] + 0.5 * draw.normal(size=SAMPLES) for i in range(N)], start=np.ones(P))


def policy_of(variant: str, T: int) -> Any:
    """With the steps of Theorem 1 for L = 1; tau to the nearest whole step."""
    tau, mu = max(1, round(T**0.25 / M**0.5)), 2 * (N / M) ** 0.5
    steps: dict[str, Any] = {"m": M, "tau": tau, "eta": 1 / (4 * T**0.5), "gamma": T**-0.625}
    if variant == "drdm":
        return DRDM(mu=mu, floor=1e-6, **steps)  # the theorem knows no floor, a draw of m distinct clients needs one
    if variant == "drfa":
        return DRFA(scheme="uniform_weighted", floor=0, **steps)
    if variant == "lambda_drdm_slow":
        steps["gamma"] /= N  # what multiplies a gradient is N lambda_i: this moves with gamma, not with N gamma
    return LambdaDRDM(mu=mu, **steps)


class Bench:
    """Steps a policy; towards its client half it is `exchange.Me` of the cohort at work. `batch` None: all samples."""

    def __init__(self, p: Problem, batch: int | None, seed: int) -> None:
        self._x, self._b = torch.from_numpy(np.stack(p.A)), torch.from_numpy(np.stack(p.b))
        self._gradients, self._g, self.memory = Squares(p.start), torch.zeros(N, P, dtype=torch.float64), self
        self._batch, self._seed, self._rng = batch, seed, stream(seed, "theory batches")
        self.visited: list[Vector] = []  # [k, P] models at which gradients were taken in this round

    def round(self, policy: Policy, x: Any, s: int) -> tuple[Any, list[int], dict[int, float]]:
        """(next state, D, a)."""
        self.visited, draws, answer = [], [], None
        flow = policy.round(x, s, lambda name: stream(self._seed, "policy", name, s))
        while True:
            try:
                request: Any = flow.send(answer)
            except StopIteration as done:
                return done.value, *draws[0]
            if isinstance(request, Draw):
                race = [stream(self._seed, "select", s, len(draws), 0).exponential(size=N)]  # one vector is enough here
                answer = pick(request, race.__getitem__, range(N))
                draws.append(answer)
            else:
                (ask,) = request.asks
                self._D = torch.tensor(ask.cohort)
                sent = {name: rows.unbind() for name, rows in ask.work(self, **ask.shared, **ask.each).items()}
                rows = [{name: sent[name][k] for name in sent} for k in range(len(ask.cohort))]
                answer = [Reply(i, row, ask.shared) for i, row in zip(ask.cohort, rows, strict=True)]

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._g[self._D]

    def __setitem__(self, name: str, rows: torch.Tensor) -> None:
        self._g[self._D] = rows  # everything arrives, so what is assigned is kept at once

    def copies_of(self, w: torch.Tensor) -> torch.Tensor:
        return w.repeat(len(self._D), 1)

    def sent(self, *items: torch.Tensor) -> Any:
        return items if len(items) > 1 else items[0]

    def g(self, y: torch.Tensor) -> torch.Tensor:
        self.visited.append(y.numpy().copy())
        return self._gradients.gradient(y, *self._samples())[0]

    def f(self, y: torch.Tensor) -> torch.Tensor:
        return self._gradients.loss(y, *self._samples())

    def descend(self, y: torch.Tensor, eta: float, anchor: torch.Tensor | None = None, pull: float = 0.0) -> None:
        self.visited.append(y.numpy().copy())
        self._gradients.descend(y, *self._samples(), Descent(eta, anchor, pull))

    def _samples(self) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Independent draws with replacement, as the theorem's unbiased gradients ask."""
        if self._batch is None:
            return self._x[self._D], self._b[self._D], None
        drawn = torch.from_numpy(self._rng.integers(SAMPLES, size=(len(self._D), self._batch)))
        return self._x[self._D[:, None], drawn], self._b[self._D[:, None], drawn], None


def trained(p: Problem, policy: Any, rounds: int, batch: int | None, seed: int) -> tuple[Any, Vector, Vector, float]:
    """(last state, mean of w^(t) over t = 1..T, mean of lambda^(s) over s < S, norm of the farthest model)."""
    bench, x = Bench(p, batch, seed), policy.start(torch.from_numpy(p.start), p.d)
    w_sum, lam_sum, far = np.zeros(P), np.zeros(N), 0.0
    for s in range(rounds):
        old, (x, D, a) = x, bench.round(policy, x, s)
        w, memory = old.w.numpy(), hasattr(old, "c")
        # w^(t) inside a round is what the server would make of the local models after k < tau steps: lines 17, 19.
        weights = np.array([a[i] + memory / N for i in D])
        base = w - old.c.numpy() / policy.mu if memory else w
        for y in bench.visited[1:]:
            w_sum += base + weights @ (y - w)
        w_sum, lam_sum = w_sum + x.w.numpy(), lam_sum + old.lam
        far = max(far, *((y * y).sum(1).max() for y in bench.visited))
    return x, w_sum / (rounds * policy.tau), lam_sum / rounds, far**0.5


def check(p: Problem) -> None:
    """The bench against the product's loop and learner, on full batches, which need no common random numbers."""
    for variant in VARIANTS:
        policy = policy_of(variant, HORIZONS[-1])
        mine, theirs = trained(p, policy, 100, None, 3)[0], run(policy, p.learner(), 100, seed=3)[0].state
        if not (torch.allclose(mine.w, theirs.w, atol=1e-10) and np.allclose(mine.lam, theirs.lam, atol=1e-10)):
            raise RuntimeError(f"{variant}: the bench does not do what the loop does")


def best(p: Problem, lam: Vector) -> float:
    """min_w F(w, lambda), exactly."""
    H = sum(l * p.A[i].T @ p.A[i] / p.d[i] for i, l in enumerate(lam))
    w = np.linalg.solve(H, sum(l * p.A[i].T @ p.b[i] / p.d[i] for i, l in enumerate(lam)))
    return float(lam @ [p.f(i, w) for i in range(N)])


def compute() -> None:
    """One row per variant, T and seed, appended as it is found; rows that are there stay."""
    check(p := the_problem())
    done = set(pd.read_csv(CSV)[["variant", "T", "seed"]].itertuples(index=False, name=None)) if CSV.exists() else ()
    wanted = [(v, T, seed) for seed in range(SEEDS) for T in HORIZONS for v in VARIANTS if T in VARIANTS[v][1]]
    for variant, T, seed in (one for one in wanted if one not in done):
        policy = policy_of(variant, T)
        _, w, lam, far = trained(p, policy, round(T / policy.tau), BATCH, seed)
        primal, dual = worst(p, w), best(p, lam)
        row = {"variant": variant, "T": T, "seed": seed, "tau": policy.tau, "eta": policy.eta}
        row |= {"gamma": policy.gamma, "gap": primal - dual, "primal": primal, "dual": dual, "farthest": far}
        row |= {"w_hat": " ".join(f"{v:.6g}" for v in w), "lambda_hat": " ".join(f"{v:.6g}" for v in lam)}
        pd.DataFrame([row]).to_csv(CSV, mode="a", header=not CSV.exists(), index=False, float_format="%.9g")
        print(f"{variant} T={T} seed={seed}: gap {primal - dual:.4f}", flush=True)


def mean(values: Vector) -> tuple[float, float]:
    """Mean, and half the width of its 95 % t interval."""
    found = Interval.of(list(values))
    return found.mean, found.high - found.mean


def collect(p: Problem, V: float) -> dict[str, dict[str, Any]]:
    """Per variant: T; gap and excess of the worst loss over minimax [seed, T] of complete seeds; slopes."""
    rows, found = pd.read_csv(CSV), {}
    for variant, (name, T) in VARIANTS.items():
        mine = rows[rows.variant == variant].pivot(index="seed", columns="T").dropna()  # seeds that are complete
        if len(mine) < 2 or len(mine["gap"].T) < len(T):
            continue
        w, lam = (mine[key].map(lambda numbers: np.array(numbers.split(), float)) for key in ("w_hat", "lambda_hat"))
        # As the theorem writes it, expectations inside: max_lambda E[F(w_hat, lambda)] - min_w E[F(w, lambda_hat)].
        inside = [max(np.mean([p.f(i, v) for v in w[t]]) for i in range(N)) - best(p, sum(lam[t]) / len(w)) for t in T]
        slopes = np.polyfit(np.log(T), np.log(np.vstack([mine["gap"], inside])).T, 1)[0]
        one = {"name": name, "T": T, "gap": mine["gap"].to_numpy(), "excess": mine["primal"].to_numpy() - V}
        found[variant] = one | {"slope": mean(slopes[:-1]), "inside": slopes[-1], "far": mine["farthest"].max().max()}
    return found


def verdict(slope: float, half: float) -> str:
    if slope + half >= 0:
        return "rises" if slope > half else "no fall shown"
    return "falls faster" if slope + half < -3 / 8 else "falls slower" if slope - half > -3 / 8 else "agrees"


def draw() -> None:
    p = the_problem()
    V, at_erm = minimax(p)[1], erm(p)
    found, high = collect(p, V), worst(p, at_erm)
    # Once w_hat is the ERM optimum, lambda climbs to the client that is worst there, and stays.
    limit = high - best(p, np.eye(N)[np.argmax([p.f(i, at_erm) for i in range(N)])])
    figure(found, {"least gap at uniform ERM": high - V, "DRDM's limit": limit})
    table = [
        f"| {one['name']} | {len(one['gap'])} | {'{:+.3f} ± {:.3f}'.format(*one['slope'])} | {one['inside']:+.3f} "
        f"| {verdict(*one['slope'])} | {one['gap'][:, 0].mean():.3f} "
        + "".join("| {:.3f} ± {:.3f} ".format(*mean(one[key][:, -1])) for key in ("gap", "excess")) + "|"
        for one in found.values()
    ]  # fmt: skip
    study = pd.read_csv(ROOT / "reports" / "policies" / "minimax.csv").set_index("policy").round(3) + 0.0  # no -0.0
    facts = {"V": V, "erm": high, "floor": high - V, "limit": limit, "far": max(one["far"] for one in found.values())}
    story = Path(__file__).with_name("theory.template.md").read_text()
    (REPORT / "theory.md").write_text(story.format(table="\n".join(table), T=HORIZONS, study=study.T, **facts))


def figure(found: dict[str, dict[str, Any]], levels: dict[str, float]) -> None:
    chart = Figure(figsize=(6.8, 4.6), layout="constrained")
    ax, T = chart.subplots(), np.array(HORIZONS)
    for one, marker, style in zip(found.values(), "osD^", ("-", "--", "-.", ":"), strict=False):
        centre, half = np.array([mean(column) for column in one["gap"].T]).T
        ax.errorbar(one["T"], centre, half, marker=marker, linestyle=style, capsize=2, ms=5, label=one["name"])
    ax.plot(T, (T / T[0]) ** -0.375, color="0.5", linewidth=1.2, label="slope -3/8")
    for (name, level), side in zip(levels.items(), ("top", "bottom"), strict=True):
        ax.axhline(level, color="0.3", linestyle=(0, (1, 3)), linewidth=1)
        ax.text(T[-1], level, name, va=side, ha="right", fontsize=8, color="0.3")
    ax.set(xscale="log", yscale="log", xlabel="T, local steps", ylabel="duality gap of the averaged iterates")
    ax.legend(fontsize=8, frameon=False, loc="lower left")
    chart.savefig(REPORT / "theory.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="from the CSV, nothing is computed again")
    if not parser.parse_args().draw:
        compute()
    draw()


if __name__ == "__main__":
    main()

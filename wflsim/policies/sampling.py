"""Draws of clients by lambda, and the aggregation weight of each: selection as a race.

Client i draws E_i ~ Exp(1) from a stream of its own; the m smallest E_i/lambda_i are a draw without replacement in
proportion to lambda, and the uniform draw is lambda = 1. So renaming clients renames the cohort and changes nothing
else, and two policies that should select the same cohort do: DRDM with uniform lambda selects exactly FedDyn's.

| scheme             | cohort                                   | a_i                       |
|--------------------|------------------------------------------|---------------------------|
| `sequential`       | one by one without replacement, by lambda | 1/m                       |
| `with_replacement` | m independent draws by lambda             | (times drawn)/m           |
| `uniform_weighted` | uniform without replacement               | N lambda_i/m (unbiased)   |
| `systematic`       | Madow: inclusion pi_i = min(1, m lambda_i)| lambda_i/pi_i (unbiased)  |
| `bernoulli`        | each by itself with that pi_i, at least 1 | 1/(how many were drawn)   |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wflsim.exchange import Draw, Weights

Vector = NDArray[np.float64]
"""[N] one number per client."""
Race = Callable[[int], Vector]
"""race(j) is the j-th vector of N standard exponentials of this Draw; entry i belongs to client i."""
NOTHING = 1e-15
"""Shares of lambda up to this are rounding errors and count as zero."""


def pick(draw: Draw, race: Race, eligible: Sequence[int]) -> tuple[list[int], Weights]:
    """Carry out a Draw among the eligible clients: (D, a), the sorted cohort and the weight of each client in it.

    D has fewer than m clients if lambda is positive for fewer.
    """
    E = race(0)
    N = len(E)
    there = list(eligible)
    lam = np.zeros(N)
    lam[there] = 1.0 if draw.by is None else np.asarray(draw.by, dtype=np.float64)[there]
    whole = lam.sum()
    lam = lam / whole if whole > 0 else lam
    lam = np.where(lam > NOTHING, lam, 0.0)
    if not lam.any():
        return [], {}
    if draw.scheme == "uniform_weighted":
        D = fastest(E, (lam > 0).astype(np.float64), draw.m)
        return D, {i: float((lam > 0).sum() * lam[i] / len(D)) for i in D}
    if draw.scheme == "with_replacement":
        drawn = Counter(fastest(race(j), lam, 1)[0] for j in range(draw.m))
        return sorted(drawn), {i: drawn[i] / draw.m for i in sorted(drawn)}
    if draw.scheme == "systematic":
        pi = inclusion(lam, draw.m)
        D = madow(pi, E, start=float(np.exp(-race(1)[np.argmin(E)])))  # exp(-Exp(1)) is uniform on (0, 1)
        return D, {i: float(lam[i] / pi[i]) for i in D}
    if draw.scheme == "bernoulli":
        D = [int(i) for i in np.flatnonzero(-np.expm1(-E) < inclusion(lam, draw.m))]  # 1 - exp(-Exp(1)): as well
        D = D or fastest(E, lam, 1)
    else:
        D = fastest(E, lam, draw.m)
    return D, {i: 1.0 / len(D) for i in D}


def shares(D: Sequence[int], d: Sequence[int]) -> Weights:
    """Weights of the clients of D in proportion to their samples: d_i over the sum of d over D."""
    return {i: d[i] / sum(d[j] for j in D) for i in D}


def fastest(E: Vector, lam: Vector, m: int) -> list[int]:
    """The m clients with the smallest E_i/lambda_i, sorted; clients with lambda_i = 0 are never among them."""
    runners = np.flatnonzero(lam > 0)
    finish = E[runners] / lam[runners]
    return sorted(runners[np.argsort(finish, kind="stable")[:m]].tolist())


def inclusion(lam: Vector, m: int) -> Vector:
    """Inclusion probabilities pi_i = min(1, m lambda_i); what is cut off goes to the others in proportion."""
    m = min(m, int((lam > 0).sum()))
    sure = np.zeros(len(lam), dtype=bool)
    while True:
        free = lam * ~sure
        pi: Vector = sure + free * ((m - sure.sum()) / free.sum() if free.sum() > 0 else 0.0)
        # A hair above 1 is rounding: without the tolerance the last clients could be capped for ever.
        over = (pi > 1 + 1e-12) & ~sure
        if not over.any():
            return np.clip(pi, 0.0, 1.0)
        sure |= over


def madow(pi: Vector, E: Vector, start: float) -> list[int]:
    """Madow's systematic sampling: intervals of length pi_i in the order of E, hit once per unit from `start` on."""
    order = np.argsort(E, kind="stable")
    ends = np.cumsum(pi[order])
    m = round(float(ends[-1]))
    hits = np.searchsorted(ends * (m / ends[-1]), start + np.arange(m), side="right")
    return sorted(int(order[hit]) for hit in hits)

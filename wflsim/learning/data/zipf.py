"""The paper's partition: Zipf sizes and Dirichlet class mixes, the same mix for a client's train and test samples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from wflsim.errors import DataError
from wflsim.learning.data.arrays import Labels
from wflsim.rng import stream
from wflsim.spec import Spec

Counts = NDArray[np.int64]
"""Whole numbers of samples: [clients], [classes] or [clients, classes]."""
Matrix = NDArray[np.float64]


def _infinity_by_name(given: Any) -> Any:
    """Infinity as the word that JSON and YAML can carry."""
    return "inf" if given == float("inf") else given


class ZipfDirichletSpec(Spec):
    """The paper's partition: d_i proportional to i^-sigma, class mix q_i ~ Dirichlet(alpha)."""

    name: Literal["zipf_dirichlet"] = "zipf_dirichlet"
    """Chooses the paper's partition, which is also the default."""
    alpha: Annotated[Annotated[float, Field(ge=0)] | Literal["inf"], BeforeValidator(_infinity_by_name)] = 0.5
    """Parameter of the Dirichlet distribution of class mixes. 0: one class per client; inf: every client has the mix of
    the whole set."""
    sigma: Annotated[float, Field(ge=0)] = 0.0
    """Exponent of Zipf's law of sample counts; 0: clients of equal size."""


def zipf_dirichlet_counts(spec: ZipfDirichletSpec, labels: Labels, classes: int, clients: int, seed: int) -> Counts:
    """[clients, classes] number of samples. Mixes depend on the seed alone, so both halves of a data set share them."""
    mix = _mix(spec, clients, classes, seed)
    rows = zipf_sizes(len(labels), clients, spec.sigma)
    columns = np.bincount(labels, minlength=classes)
    return _cap(mix, rows, columns) if spec.alpha == 0 else fit_to_sums(mix, rows, columns)


def zipf_sizes(total: int, clients: int, sigma: float) -> Counts:
    """[clients] samples d_i proportional to i^-sigma, rounded by largest remainder to sum `total`; at least 1."""
    share = np.arange(1, clients + 1, dtype=np.float64) ** -sigma
    # One sample is set aside for each client first, so that none is empty however steep the law.
    ideal = np.maximum(total * share / share.sum() - 1, 0)
    return 1 + round_to_total(ideal * ((total - clients) / max(ideal.sum(), 1e-300)), total - clients)


def round_to_total(ideal: Matrix, total: int) -> Counts:
    """Integers that sum to `total` and differ from `ideal` (which sums to it) by less than one."""
    rounded = np.floor(ideal).astype(np.int64)
    largest = np.argsort(rounded - ideal, kind="stable")
    rounded[largest[: total - int(rounded.sum())]] += 1
    return rounded


def fit_to_sums(mix: Matrix, rows: Counts, columns: Counts) -> Counts:
    """Integer table with these row and column sums, nearest in mix to `mix` (iterative proportional fitting)."""
    # The floor keeps the support complete: with exact zeros the sums may be out of reach.
    table: Matrix = np.maximum(mix, 1e-12) * rows[:, None]
    for _ in range(1000):
        table *= columns / np.maximum(table.sum(axis=0), 1e-300)
        sums = table.sum(axis=1)
        table *= (rows / sums)[:, None]
        if np.abs(sums - rows).max() < 1e-6:
            break
    table *= np.minimum(1, columns / np.maximum(table.sum(axis=0), 1e-300))
    return _round_table(table, rows, columns)


def _mix(spec: ZipfDirichletSpec, clients: int, classes: int, seed: int) -> Matrix:
    """[clients, classes] share of each class in each client's samples."""
    if spec.alpha == "inf":
        return np.full((clients, classes), 1 / classes)
    if spec.alpha == 0:
        return np.eye(classes)[_one_class_each(clients, classes, spec.sigma, seed)]
    draws = [stream(seed, "mix", i).dirichlet(np.full(classes, spec.alpha)) for i in range(clients)]
    return np.stack(draws)


def _one_class_each(clients: int, classes: int, sigma: float, seed: int) -> Counts:
    """[clients] class of each: the largest first, always the class least asked for, so that sizes stay near Zipf's."""
    demand = np.zeros(classes)
    order = stream(seed, "mix").permutation(classes)
    chosen = np.empty(clients, dtype=np.int64)
    for i in range(clients):
        chosen[i] = order[np.argmin(demand[order])]
        demand[chosen[i]] += (i + 1) ** -sigma
    return chosen


def _cap(one_hot: Matrix, rows: Counts, columns: Counts) -> Counts:
    """Counts of single-class clients, which cannot meet both sums: a class in excess demand is shared in proportion."""
    counts = np.zeros(one_hot.shape, dtype=np.int64)
    for c, column in enumerate(columns):
        own = np.flatnonzero(one_hot[:, c])
        wanted = rows[own]
        if wanted.sum() <= column:
            counts[own, c] = wanted
        elif len(own) > column:
            raise DataError(f"class {c}: {column} samples for {len(own)} single-class clients; use partition.alpha > 0")
        else:
            spare = wanted - 1
            counts[own, c] = 1 + round_to_total(spare * ((column - len(own)) / spare.sum()), int(column) - len(own))
    return counts


def _round_table(table: Matrix, rows: Counts, columns: Counts) -> Counts:
    """Whole numbers near `table` with these row and column sums, by largest remainder; `table` exceeds neither."""
    counts = np.floor(table + 1e-9).astype(np.int64)
    missing, spare = rows - counts.sum(axis=1), columns - counts.sum(axis=0)
    by_remainder = np.argsort((counts - table).ravel(), kind="stable")
    by_size = np.argsort(-table.ravel(), kind="stable")
    # First pass: at most one unit per entry, as largest remainder has it; second pass: whatever the sums still lack.
    for entries, most in ((by_remainder, 1), (by_size, len(by_size) * int(rows.max()))):
        for i, c in zip(*np.unravel_index(entries, table.shape), strict=True):
            give = min(missing[i], spare[c], most)
            counts[i, c] += give
            missing[i] -= give
            spare[c] -= give
    return counts

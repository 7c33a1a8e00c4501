"""Clients x classes, to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wflsim.learning.zipf import Counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def clients_by_classes(counts: Counts, title: str) -> Figure:
    """Samples of each class at each client as discs (area = samples), and each client's total above."""
    from matplotlib.figure import Figure

    clients, classes = counts.shape
    figure = Figure(figsize=(2 + 0.28 * clients, 1.8 + 0.28 * classes), layout="constrained")
    totals, discs = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.5])
    totals.bar(np.arange(clients), counts.sum(axis=1), color="0.6")
    totals.set_ylabel("samples")
    totals.set_title(title)
    client, label = np.nonzero(counts)
    sizes = counts[client, label]
    discs.scatter(client, label, s=160 * sizes / counts.max(), c=label, cmap="tab10", vmin=0, vmax=max(9, classes - 1))
    discs.set(xlabel="client", ylabel="class", yticks=range(classes), ylim=(-0.7, classes - 0.3))
    return figure

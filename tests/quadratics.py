"""Least-squares clients in float64 for exact statements about policies: the shipped ones, and two more helpers."""

from __future__ import annotations

import numpy as np
import torch

from wflsim.rng import stream
from wflsim.testing.quadratics import Kept, LeastSquares, Problem, Rough, Squares, models, problem, run

__all__ = ["Kept", "LeastSquares", "Problem", "Rough", "Squares", "memories", "models", "problem", "run", "snapshot_step"]

torch.set_num_threads(1)


def snapshot_step(seed, s, tau):
    """The t' that DRFA and its relatives draw in round s."""
    return int(stream(seed, "policy", "snapshot", s).integers(1, tau + 1))


def memories(training, name, N, P):
    """[N, P]: what each client remembers, zeros where nothing."""
    rows = training.learner.rows("memory", name)
    return np.stack([rows[i].numpy() if i in rows else np.zeros(P) for i in range(N)])

"""Least-squares clients in float64 for exact statements about policies: the shipped ones, and two more helpers."""

from __future__ import annotations

import numpy as np
import torch

from wflsim.compress.compressors import Compressor
from wflsim.rng import stream
from wflsim.testing.quadratics import Kept, LeastSquares, Problem, Rough, Squares, models, problem, run

__all__ = ["Kept", "LeastSquares", "Problem", "Rough", "Squares", "both_ways", "code", "memories", "models", "problem", "run", "snapshot_step"]

torch.set_num_threads(1)


def snapshot_step(seed, s, tau):
    """The t' that DRFA and its relatives draw in round s."""
    return int(stream(seed, "policy", "snapshot", s).integers(1, tau + 1))


def memories(training, name, N, P):
    """[N, P]: what each client remembers, zeros where nothing."""
    rows = training.learner.rows("memory", name)
    return np.stack([rows[i].numpy() if i in rows else np.zeros(P) for i in range(N)])


def both_ways(bits):
    """Options of a TrainSpec that quantise what is sent in either direction; None: nothing is compressed."""
    return {} if bits is None else {"compress": {way: {"name": "quantise", "bits": bits} for way in ("up", "down")}}


def code(learner, encoder):
    """Let everything that is sent pass through a function of (rows, rngs), in either direction."""

    class Function(Compressor):
        name: str = "function"

        def __call__(self, rows, rngs):
            return encoder(rows, rngs)

    learner._compress = dict.fromkeys(learner._compress, Function())

"""What a numpy reference of a policy is made of: the run it is held against, local steps, the path of a policy, and the ascent of lambda."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import Rough, memories, problem, run

from wflsim.rng import stream

TAU, ETA = 3, 0.05
"""Local steps and learning rate of the references, unless told otherwise."""
LOSSES = pytest.mark.parametrize(("loss", "rounds"), [(0.0, 2), (0.3, 4)])
"""Two rounds without losses, four with 30 % of them."""


class Trip:
    """A run, and the pieces a reference needs."""

    def __init__(self, policy, loss, rounds, N=5):
        self.p = problem(N)
        self.carrier = Rough(N, loss)
        self.training, self.kept = run(policy, self.p.learner(), rounds, self.carrier)
        self.state = self.training.state
        self.rounds = rounds
        self._phases = iter(self.carrier.gathered)

    def phase(self):
        """(D, R) of the next Gather."""
        return next(self._phases)

    def check(self, **expected):
        for name, value in expected.items():
            np.testing.assert_allclose(np.asarray(getattr(self.state, name)), value, rtol=0, atol=1e-12)
        assert next(self._phases, None) is None

    def check_memory(self, name, rows):
        np.testing.assert_allclose(memories(self.training, name, self.p.N, self.p.P), rows, rtol=0, atol=1e-12)


def local(w, direction, steps=TAU, eta=ETA):
    """Iterates y_0 = w, y_1, ..., y_steps."""
    ys = [w]
    for _ in range(steps):
        ys.append(ys[-1] - eta * direction(ys[-1]))
    return ys


def drawn(s, low, high, N):
    """Steps of every client in round s under `tau_min: low, tau: high`, seed 0."""
    return stream(0, "policy", "steps", s).integers(low, high + 1, size=N)


def path(policy, rounds=6, batch=10_000, given=None, carrier=None, field="w"):
    """Server models after each round, [rounds, P]."""
    _, kept = run(policy, (given or problem()).learner(batch), rounds, carrier)
    return np.stack([np.asarray(getattr(state, field)) for state in kept.states])


def descent(gradient, step, rounds, start):
    """Plain gradient descent."""
    w, steps = start, []
    for _ in range(rounds):
        w = w - step * gradient(w)
        steps.append(w)
    return np.stack(steps)


def same(left, right):
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-12)


def simplex(v, floor=0.0):
    """Projection by bisection on the multiplier: independent of the sorted formula."""
    low, high = v.min() - 2, v.max() + 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, floor).sum() > 1 else (low, middle)
    return np.maximum(v - low, floor)


def ascend(p, lam, z, heard, step, floor):
    """lambda + step * v with v_i = (N/heard) f_i(z)."""
    v = np.zeros(p.N)
    for i in heard:
        v[i] = p.N / len(heard) * p.f(i, z)
    return simplex(lam + step * v, floor)

"""FedRobust against plain numpy, its identities, and the gradients with respect to inputs that it needs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratics import Rough, Squares, problem, run
from references import Journey, same
from rigs import learner

from wflsim.exchange import Ask
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import ModuleSpec, TrainSpec
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fedrobust import FedRobust

TAU, ETA = 3, 0.05
STEPS = {"eta_delta": 0.01, "eta_lambda": 0.004, "lambda_0": 20.0, "lambda_1": 40.0}
"""Steps and penalties at which least-squares clients, whose losses grow with the square of a shift, stay bounded."""
affine = pytest.mark.parametrize("affine", ["shift", "diag", "full"])


@pytest.mark.parametrize(("loss", "rounds"), [(0.0, 4), (0.3, 12)])
@pytest.mark.parametrize("batch", [10_000, 3])
@pytest.mark.parametrize("coded", [False, True])
@affine
def test_against_numpy(loss, rounds, batch, coded, affine):
    """Everything at the old point; perturbations move when the client has computed, heard or not."""
    trip = Journey(FedRobust(m=4, tau=TAU, eta=ETA, affine=affine, **STEPS), loss, rounds, batch, coded=coded)
    p, Q = trip.p, trip.Q
    w, delta, Lam = p.start, np.zeros((p.N, p.P)), np.stack([np.eye(p.P)] * p.N)
    for s, computed, heard in trip.rounds():
        ys, x = [], Q(w)
        for i in computed:
            y = x
            for _, (A, b) in zip(range(TAU), trip.samples(i, s), strict=False):
                moved = A @ Lam[i].T + delta[i]
                pull = (moved @ y - b) / len(b)
                g_x = np.outer(pull, y)
                g_delta = g_x.sum(axis=0) - 2 * 20.0 * delta[i]
                g_Lam = g_x.T @ A - 2 * 40.0 * (Lam[i] - np.eye(p.P))
                if affine != "full":
                    g_Lam = np.diag(np.diag(g_Lam)) if affine == "diag" else 0.0
                y = y - ETA * moved.T @ pull
                delta[i], Lam[i] = delta[i] + 0.01 * g_delta, Lam[i] + 0.004 * g_Lam
            if i in heard:
                ys.append(Q(y))
        if heard:
            w = np.mean(ys, axis=0)
    trip.check(w=w)
    same(trip.personal("delta", np.zeros(p.P)), delta)
    assert np.abs(delta).max() > 1e-3
    away = Lam - np.eye(p.P)
    if affine == "full":
        same(trip.personal("Lambda - I", np.zeros(p.P**2)), away.reshape(p.N, -1))
    elif affine == "diag":
        same(trip.personal("Lambda - I", np.zeros(p.P)), np.diagonal(away, axis1=1, axis2=2))
    else:
        assert not trip.training.learner.rows("personal", "Lambda - I")


# I17


@affine
def test_without_steps_of_the_perturbations_it_is_fedavg(affine):
    ours, _ = run(FedRobust(m=4, tau=TAU, affine=affine, eta_delta=0, eta_lambda=0), problem().learner(3), 8, Rough(5, 0.3))
    fedavg, _ = run(FedAvg(m=4, tau=TAU), problem().learner(3), 8, Rough(5, 0.3))
    same(ours.state.w, fedavg.state.w)


@affine
def test_without_steps_of_the_perturbations_it_is_fedavg_on_images(affine):
    options = {"m": 4, "tau": TAU, "eta": 0.1}
    ours, _ = run(FedRobust(affine=affine, eta_delta=0, eta_lambda=0, **options), learner(dtype="float64"), 3)
    fedavg, _ = run(FedAvg(**options), learner(dtype="float64"), 3)
    same(ours.state.w, fedavg.state.w)


def on_digits(work, model="linear", **train):
    """Results of three clients (of which one has fewer samples than a minibatch) that do this work."""
    if model == "module":
        spec = ModuleSpec(name="module", module="learning_modules:Small")
        ours = build(DigitsSpec(name="digits"), ZipfDirichletSpec(), spec, TrainSpec(dtype="float64", **train), 10, 1)
    else:
        ours = learner(model=model, dtype="float64", **{"batch": 120, **train})
    return ours, ours.run(Ask([0, 3, 4], work, shared={"w": ours.initial()}), [(0, 0)] * 3)


def test_a_shift_of_the_inputs_of_a_linear_model_is_a_shift_of_its_bias():
    """W (x + delta) + b = W x + (b + W delta): same logits, same gradients of W x + b's own parameters but W's by delta."""
    delta = torch.linspace(-1, 1, 64, dtype=torch.float64)

    def work(me, w):
        y, xi = me.copies_of(w), me.batch()
        matrix = w.view(10, 65).clone()
        matrix[:, -1] += matrix[:, :-1] @ delta
        plain, at_shift = me.g_inputs(me.copies_of(matrix.flatten()), me.inputs(xi), on=xi), me.g_inputs(y, me.inputs(xi) + delta, on=xi)
        torch.testing.assert_close(plain[1], at_shift[1])
        bias = plain[0].view(-1, 10, 65)[:, :, -1]
        torch.testing.assert_close(bias, at_shift[0].view(-1, 10, 65)[:, :, -1])
        expected = plain[0].view(-1, 10, 65)[:, :, :-1] + bias.unsqueeze(-1) * delta
        torch.testing.assert_close(expected, at_shift[0].view(-1, 10, 65)[:, :, :-1])
        return {"y": y}

    on_digits(work)


@pytest.mark.parametrize(
    ("model", "gradients"),
    [("linear", "auto"), ("linear", "vmap"), ("linear", "threads"), ("mlp", "auto"), ("mlp", "vmap"), ("cnn", "auto"), ("cnn", "vmap"), ("module", "auto")],
)
def test_gradients_of_inputs_are_those_of_the_loss_with_every_model(model, gradients):
    """Against differences of losses at the inputs; gradients of parameters and the meter are those of me.g."""
    seen = []

    def work(me, w):
        y, xi = me.copies_of(w), me.batch()
        x = me.inputs(xi)
        assert x.shape[:2] == xi.labels.shape
        assert x.shape[2] == 64
        g, _ = me.g_inputs(y, x, on=xi)
        torch.testing.assert_close(g, me.g(y, on=xi), rtol=0, atol=1e-12)
        assert me.forward_samples == me.backward_samples == [2 * count for count in xi.counts]
        way = torch.sin(torch.arange(x.numel(), dtype=torch.float64)).view(x.shape)
        x = x + 0.3 * torch.cos(7 * way)  # off the background of digits, where the largest of four pixels is a tie
        _, g_x = me.g_inputs(y, x, on=xi)
        h, losses = 1e-7, []  # so small that few ReLU and pools change sides within it
        for sign in (1, -1):
            moved = me._gradients.model.with_data(xi.x.flatten(0, 1), (x + sign * h * way).flatten(0, 1)).view(xi.x.shape)
            losses.append(me._gradients.loss(y, moved, xi.labels, xi.weight))
        slope = (losses[0] - losses[1]) / (2 * h)
        torch.testing.assert_close((g_x * way).sum((1, 2)), slope, rtol=1e-4, atol=1e-7)
        for row, count in enumerate(xi.counts):
            assert not g_x[row, count:].any(), "what fills up a short minibatch does not count"
        seen.extend(xi.counts)
        return {"y": y}

    on_digits(work, model, gradients=gradients)
    assert len(seen) == 3


def test_under_a_constant_gradient_the_shift_tends_to_the_gradient_over_twice_the_penalty():
    g = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)

    class Constant(Squares):
        def with_inputs(self, y, x, labels, weight):
            return torch.zeros_like(y), (g / x.shape[1]).expand(x.shape)

    ours = problem().learner()
    ours._gradients = Constant(problem().start)
    training, _ = run(FedRobust(tau=50, eta_delta=1.0, lambda_0=0.08, affine="shift"), ours, 2)
    for row in training.learner.rows("personal", "delta").values():
        same(row, g / 0.16 * (1 - (1 - 0.16) ** 100))
        np.testing.assert_allclose(row, g / 0.16, rtol=1e-6)


def test_one_client_alone_or_with_resting_ones():
    """me.inputs and me.g_inputs have a row for every client, zeros for those that rest."""

    def work(me, w):
        y = me.copies_of(w)
        for _ in me.steps([0, 1, 2], y):
            xi = me.batch()
            x = me.inputs(xi)
            g, g_x = me.g_inputs(y, x, on=xi)
            assert x.shape == g_x.shape
            assert len(x) == 3
            assert not g[0].any()
            y.sub_(g, alpha=0.1)
        return {"y": y}

    ours, done = on_digits(work)
    assert [result.backward_samples for result in done.results] == [0, done.results[1].backward_samples, 2 * min(120, ours.samples[4])]

"""Compressors: what the receiver sees, what it costs, how far it is off; and what is compressed of a model."""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from quadratics import Rough, memories, problem, run
from references import Journey, same, slope

from wflsim.compress.compressors import AnyCompressor, CompressSpec
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.rng import stream

MAKE = TypeAdapter(AnyCompressor).validate_python
LOSSY = {
    "quantise": {"name": "quantise", "bits": 4}, "dithering": {"name": "dithering", "levels": 3},
    "rand_k": {"name": "rand_k", "share": 0.3}, "top_k": {"name": "top_k", "share": 0.3},
}  # fmt: skip


def vector(n, seed=0):
    return torch.from_numpy(stream(seed, "vector").normal(size=n) ** 3)


def often(compressor, x, times=4000):
    """[times, n]: as many receptions of one vector."""
    return compressor(x.expand(times, -1), [stream(i, "t") for i in range(times)])[0]


@pytest.mark.parametrize("name", ["quantise", "dithering", "rand_k"])
def test_unbiased_ones_are_right_on_average_and_as_far_off_as_omega_says(name):
    compressor, x = MAKE(LOSSY[name]), vector(20)
    seen = often(compressor, x)
    error = seen - x
    assert error.mean(0).abs().max() < 5 * error.std(0).max() / len(seen) ** 0.5
    relative = float(error.square().sum(1).mean() / x.square().sum())
    assert compressor.unbiased
    assert 0 < relative <= compressor.omega(20) * 1.05
    if name == "rand_k":
        assert relative == pytest.approx(compressor.omega(20), rel=0.05)
        assert compressor.omega(20) == pytest.approx(20 / 6 - 1)


def test_top_k_keeps_the_largest_and_is_biased():
    compressor, x = MAKE(LOSSY["top_k"]), vector(20)
    seen, _ = compressor(torch.stack([x, -x]), [])
    kept = np.argsort(-np.abs(x.numpy()))[:6]
    expected = np.where(np.isin(np.arange(20), kept), x.numpy(), 0.0)
    same(seen, np.stack([expected, -expected]))
    assert not compressor.unbiased
    assert float((seen[0] - x).square().sum()) <= compressor.omega(20) * float(x.square().sum())
    assert compressor.omega(20) == pytest.approx(0.7)


@pytest.mark.parametrize(("n", "share", "k"), [(1000, 0.01, 10), (7850, 0.01, 78), (20, 0.01, 1), (3, 0.001, 1), (64, 1.0, 64), (64, 0.9, 58)])
@pytest.mark.parametrize("name", ["rand_k", "top_k"])
def test_sparse_ones_send_k_values_with_their_places_but_never_more_than_all(name, n, share, k):
    x = vector(n)
    seen, bits = MAKE({"name": name, "share": share})(x[None], [stream(0, "t")])
    assert int((seen != 0).sum()) == k
    assert bits == min(k * (32 + ceil(log2(n))), 32 * n)
    if k == n:
        same(seen[0], x)


@pytest.mark.parametrize(("levels", "each"), [(1, 2), (2, 3), (3, 3), (4, 4), (15, 5), (16, 6)])
def test_dithering_sends_a_length_signs_and_levels(levels, each):
    x = vector(100)
    seen, bits = MAKE({"name": "dithering", "levels": levels})(x[None], [stream(0, "t")])
    assert bits == 32 + each * 100
    steps = seen[0] / (x.norm() / levels)
    same(steps, steps.round())
    assert ((steps - x * levels / x.norm()).abs() < 1).all()
    assert steps.abs().max() <= levels
    zeros, _ = MAKE({"name": "dithering"})(torch.zeros(1, 5), [stream(0, "t")])
    assert not zeros.any()


def test_identity_sends_all_at_32_bits():
    x = vector(7)[None]
    seen, bits = MAKE({"name": "identity"})(x, [])
    assert seen is x
    assert bits == 7 * 32


def test_what_is_no_share_is_refused_and_so_are_models_with_most_values_at_zero():
    for share in (0, -0.1, 1.1, "150 %"):
        with pytest.raises(ValidationError):
            MAKE({"name": "top_k", "share": share})
    assert MAKE({"name": "top_k", "share": "1 %"}).share == 0.01
    with pytest.raises(ValidationError, match=r"top_k would set most values of the model to zero: .* use quantise, dithering or identity"):
        CompressSpec(down={"name": "top_k", "share": 0.1})


@pytest.mark.parametrize("name", ["dithering", "rand_k", "top_k"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_fedavg_sends_the_compressed_change_of_a_model(name, loss):
    """w + C(y - w) with the received w: numpy compresses with the stream of the order, or without luck."""
    rounds, tau, eta, P = 5, 3, 0.05, 4
    p = problem(5, P)

    class Compressed(Journey):
        def __init__(self, policy):
            self.p, self.carrier, self.batch, self.coded = p, Rough(5, loss), 3, False
            self.training, self.kept = run(policy, p.learner(3, compress={"up": LOSSY[name]}), rounds, self.carrier)

    def C(v, rng):
        if name == "top_k":
            return np.where(np.arange(P) == np.argmax(np.abs(v)), v, 0.0)
        if name == "rand_k":
            return np.where(np.arange(P) == rng.permutation(P)[0], P * v, 0.0)
        unit = np.linalg.norm(v) / 3
        return np.sign(v) * np.floor(np.abs(v) / unit + rng.random(P)) * unit

    trip, w = Compressed(FedAvg(m=3, tau=tau, eta=eta)), p.start
    for s, _, heard in trip.rounds():
        ys = []
        for i in heard:
            y = w
            for _, (A, b) in zip(range(tau), trip.samples(i, s), strict=False):
                y = y - eta * slope(y, A, b)
            ys.append(w + C(y - w, stream(0, "quantise", "up", i, s, 0)))
        w = np.mean(ys, axis=0) if heard else w
    trip.check(w=w)
    bits = {order.up_bits for entry in trip.kept.trace for step in entry.steps for order in step.orders}
    assert bits == {32 + 3 * P if name == "dithering" else 34}


@pytest.mark.parametrize("up", LOSSY.values(), ids=LOSSY)
@pytest.mark.parametrize("down", [{"name": "identity"}, LOSSY["quantise"], LOSSY["dithering"]], ids=["plain", "quantise", "dithering"])
@pytest.mark.parametrize(
    "policy",
    [FedDyn(m=3, tau=4, mu=1.0), DRDM(m=3, tau=4, mu=1.0), LambdaDRDM(m=3, tau=4, mu=1.0), SCAFFOLD(m=3, tau=4, eta_l=0.01)],
    ids=["feddyn", "drdm", "lambda_drdm", "scaffold"],
)
def test_memories_agree_with_every_compressor(policy, up, down):
    training, _ = run(policy, problem(6, 8).learner(compress={"up": up, "down": down}), 8, Rough(6, 0.3))
    held = memories(training, "c" if policy.name == "scaffold" else "g", 6, 8).mean(axis=0)
    scale = max(1.0, float(training.state.c.abs().max()))
    np.testing.assert_allclose(held, training.state.c, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("policy", [FedAvg(m=3, tau=1, eta=1e-6), FedDyn(m=3, tau=1, eta=1e-6), DRDM(m=3, tau=2, eta=1e-6), FedAsync(m=3, tau=1, eta=1e-6)], ids=lambda policy: policy.name)
def test_top_k_leaves_a_model_that_hardly_moves_where_it_is(policy):
    """It sends changes: sent whole, most of the model would be zero."""
    p = problem(6, 8)
    training, _ = run(policy, p.learner(compress={"up": LOSSY["top_k"]}), 2, Rough(6))
    assert np.abs(training.state.w.numpy() - p.start).max() < 1e-3

"""Quantised payloads: unbiased, within a level, really applied, really counted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratics import both_ways

from wflsim.compress.compressors import BLOCK, stochastic_round
from wflsim.exchange import Ask, Coded
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import LinearSpec, TrainSpec
from wflsim.rng import stream


def learner(quantise=None, **train):
    train |= both_ways(quantise)
    return build(DigitsSpec(name="digits"), ZipfDirichletSpec(), LinearSpec(name="linear"), TrainSpec(**train), 10, 1)


def sgd(me, w, t=0):
    y = me.copies_of(w)
    for _ in range(5):
        y.sub_(me.g(y), alpha=0.3)
    return {"y": y, "z": y, "loss": me.f(y)}


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    size=st.sampled_from([2, 7, BLOCK, BLOCK + 1, 3 * BLOCK - 1]),
    bits=st.sampled_from([8, 16]),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    seed=st.integers(0, 9),
)
def test_rounding_stays_within_one_level_and_keeps_the_ends(size, bits, scale, seed):
    vector = torch.from_numpy(stream(seed, "vector").normal(size=size)) * scale
    rounded = stochastic_round(vector, bits, stream(seed, "t"))
    assert rounded.shape == vector.shape
    for before, after in zip(vector.split(BLOCK), rounded.split(BLOCK), strict=True):
        level = (before.max() - before.min()) / (2**bits - 1)
        assert (before - after).abs().max() <= level * (1 + 1e-9)
        assert after.min() >= before.min() - 1e-9 * scale
        assert after.max() <= before.max() + 1e-9 * scale


def test_rounding_is_unbiased_and_leaves_constants_alone():
    vector = torch.tensor([0.0, 0.3001, 0.77, 1.0], dtype=torch.float64).repeat(250)
    mean = sum(stochastic_round(vector, 8, stream(i, "t")) for i in range(40)).view(-1, 4).mean(0) / 40
    assert (mean - vector[:4]).abs().max() < 1e-4  # one level is 4e-3, 10,000 draws
    assert torch.equal(stochastic_round(torch.full((5,), 0.1), 8, stream(0, "t")), torch.full((5,), 0.1))


@pytest.mark.parametrize("bits", [8, 16])
def test_what_is_sent_is_rounded_both_ways_and_counted(bits):
    ours, exact = learner(quantise=bits), learner()
    w, seen = ours.initial(), {}
    vector_bits = bits * 650 + 64  # one block

    def work(me, w, mine):
        seen["w"], seen["mine"] = w, mine
        return sgd(me, w)

    ask = Ask([3, 4], work, shared={"w": w}, each={"mine": torch.stack([w, 2 * w])})
    done = ours.run(ask, [(0, 0), (0, 0)])
    assert (done.shared_bits, done.each_bits) == (vector_bits, vector_bits)
    assert done.results[0].up_bits == vector_bits + 32  # y and z are one object: sent once; the loss is a scalar
    assert seen["w"].unique().numel() <= 2**bits
    assert 0 < (seen["w"] - w).abs().max() < (w.max() - w.min()) / (2**bits - 1) * 1.001
    assert not torch.equal(seen["mine"][0], seen["w"])
    y = done.results[0].items["y"]
    assert y.unique().numel() <= 2**bits
    assert y is not done.results[1].items["y"]
    unrounded = exact.run(Ask([3, 4], sgd, shared={"w": w}), [(0, 0), (0, 0)]).results[0].items["y"]
    level = (unrounded.max() - unrounded.min()) / (2**bits - 1)
    assert 0 < (y - unrounded).abs().max() < 3 * level  # one level on the way down, one on the way up


def test_rounding_depends_on_the_order_not_on_the_company():
    ours = learner(quantise=8, gradients="threads")
    ask = {"shared": {"w": ours.initial()}}
    together = ours.run(Ask([3, 4], sgd, **ask), [(0, 0), (0, 0)]).results
    assert torch.equal(together[0].items["y"], ours.run(Ask([3], sgd, **ask), [(0, 0)]).results[0].items["y"])
    assert not torch.equal(together[0].items["y"], ours.run(Ask([3], sgd, **ask), [(1, 0)]).results[0].items["y"])


def test_what_a_policy_has_coded_itself_is_left_alone():
    ours = learner(quantise=8)

    def work(me, w):
        return {"q": Coded(me.copies_of(w), 7)}

    assert ours.run(Ask([0, 1], work, shared={"w": ours.initial()}), [(0, 0)] * 2).results[0].up_bits == 7

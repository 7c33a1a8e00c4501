"""Clients of one chunk may take different numbers of steps: each ends where it would alone, and only its own work counts."""

from __future__ import annotations

import pytest
import torch
from hard_policies import TauPerClient
from learning_modules import Small
from rigs import live, rehearse

from wflsim.exchange import Ask
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import CnnSpec, LinearSpec, MlpSpec, ModuleSpec, TrainSpec

KINDS = {
    "linear": (LinearSpec(name="linear"), "auto"),
    "mlp": (MlpSpec(name="mlp", hidden=(8,)), "auto"),
    "cnn": (CnnSpec(name="cnn"), "auto"),
    "module": (ModuleSpec(name="module", module=f"{Small.__module__}:Small"), "auto"),
    "mlp by vmap": (MlpSpec(name="mlp", hidden=(8,)), "vmap"),
    "cnn by vmap": (CnnSpec(name="cnn"), "vmap"),
}
COHORT, TAU, BATCH = [7, 2, 9, 0, 4], [3, 0, 5, 1, 3], 24


def learner(kind, chunk="own", replacement=False):
    model, way = KINDS[kind]
    train = TrainSpec(dtype="float64", batch=BATCH, gradients=way, replacement=replacement)
    made = build(DigitsSpec(name="digits"), ZipfDirichletSpec(alpha=0.3, sigma=1.6), model, train, 10, 1)
    if chunk != "own":
        made._gradients.chunk = chunk
    return made


def descent(me, w, tau):
    """FedProx's step."""
    y = me.copies_of(w)
    for _ in me.steps(tau, y):
        me.descend(y, 0.1, w, pull=0.01)
    return {"y": y}


def own_anchor(me, w, tau):
    """FedDyn's step: an anchor for each client."""
    y, anchor = me.copies_of(w), me.copies_of(w) + 0.01 * torch.tensor(me.clients, dtype=w.dtype)[:, None]
    for _ in me.steps(tau, y):
        me.descend(y, 0.1, anchor, pull=0.01)
    return {"y": y}


def momentum(me, w, tau):
    """The body's own algebra moves every row; those who rest keep theirs. A snapshot on the way, losses, and the
    minibatch that each client would draw next."""
    y, v, z = me.copies_of(w), torch.zeros_like(me.copies_of(w)), me.copies_of(w)
    losses = w.new_zeros(len(y))
    for k in me.steps(tau, y, v):
        batch = me.batch()
        g, loss = me.gf(y, on=batch)
        losses += loss + me.f(y - 0.1 * g, on=batch)
        v.mul_(0.9).add_(g)
        y.sub_(v, alpha=0.1).sub_(0.001)
        if k == 2:
            z = y.clone()
    return {"y": y, "v": v, "z": z, "loss": losses, "next": me.f(y)}


def full_pass(me, w, tau):
    """Gradients over all local data, and a minibatch drawn before the loop that everybody keeps using."""
    y, batch = me.copies_of(w), me.batch()
    for _ in me.steps(tau, y):
        y.sub_(me.g(y, on=me.everything) + 0.5 * me.g(y, on=batch), alpha=0.1)
    return {"y": y}


def samples_of(work, tau, size):
    """(forward, backward) samples of a client with so many samples, by hand."""
    batch = min(BATCH, size)
    return {
        descent: (tau * batch, tau * batch),
        own_anchor: (tau * batch, tau * batch),
        momentum: ((2 * tau + 1) * batch, tau * batch),
        full_pass: (tau * (size + batch), tau * (size + batch)),
    }[work]


@pytest.mark.parametrize("work", [descent, own_anchor, momentum, full_pass])
@pytest.mark.parametrize("kind", KINDS)
def test_each_client_ends_where_it_would_alone_and_pays_for_its_own_steps(kind, work):
    ours = learner(kind)
    ask = {"shared": {"w": ours.initial()}, "each": {"tau": torch.tensor(TAU)}}
    together = ours.run(Ask(COHORT, work, **ask), [(0, 0)] * 5).results
    sizes = ours.samples
    assert min(sizes[client] for client in COHORT) < BATCH < max(sizes[client] for client in COHORT)
    alone = [
        ours.run(Ask([client], work, shared=ask["shared"], each={"tau": torch.tensor([tau])}), [(0, 0)]).results[0]
        for client, tau in zip(COHORT, TAU, strict=True)
    ]
    for client, tau, mine, own in zip(COHORT, TAU, together, alone, strict=True):
        for name in mine.items:
            if name != "z" or tau >= 2:  # a client that never took a second step has no snapshot of it alone
                torch.testing.assert_close(mine.items[name], own.items[name], rtol=0, atol=1e-12)
        by_hand = samples_of(work, tau, sizes[client])
        assert (mine.forward_samples, mine.backward_samples) == by_hand
        assert (own.forward_samples, own.backward_samples) == by_hand
    assert torch.equal(together[1].items["y"], ours.initial()), "no steps, no change"
    assert not torch.equal(together[3].items["y"], ours.initial())


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("chunk", [1, 2, 3, None])
def test_the_size_of_a_chunk_changes_nothing(chunk, replacement):
    whole, parts = learner("mlp", replacement=replacement), learner("mlp", chunk, replacement)
    ask = Ask(COHORT, momentum, shared={"w": whole.initial()}, each={"tau": torch.tensor(TAU)})
    for mine, other in zip(*(one.run(ask, [(0, 0)] * 5).results for one in (whole, parts)), strict=True):
        torch.testing.assert_close(mine.items["y"], other.items["y"], rtol=0, atol=1e-12)
        assert (mine.forward_samples, mine.backward_samples) == (other.forward_samples, other.backward_samples)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_steps_are_a_plain_loop_bit_for_bit(kind):
    def plain(me, w):
        y = me.copies_of(w)
        for _ in range(3):
            me.descend(y, 0.1, w, pull=0.01)
        return {"y": y}

    ours = learner(kind)
    shared = {"w": ours.initial()}
    one = ours.run(Ask(COHORT, plain, shared=shared), [(0, 0)] * 5).results
    for tau in (3, torch.full((5,), 3)):
        work = Ask(COHORT, lambda me, w, tau=tau: descent(me, w, tau if isinstance(tau, int) else tau[: len(me.clients)]), shared=shared)
        for mine, other in zip(one, ours.run(work, [(0, 0)] * 5).results, strict=True):
            assert torch.equal(mine.items["y"], other.items["y"])
            assert mine.backward_samples == other.backward_samples


def test_after_the_loop_everybody_is_at_work_again_also_when_it_was_left_early():
    def work(me, w, tau):
        y = me.copies_of(w)
        for k in me.steps(tau, y):
            me.descend(y, 0.1)
            if k == 2:
                break
        return {"loss": me.f(y)}

    ours = learner("linear")
    ask = Ask(COHORT, work, shared={"w": ours.initial()}, each={"tau": torch.tensor(TAU)})
    for tau, result in zip(TAU, ours.run(ask, [(0, 0)] * 5).results, strict=True):
        batch = min(BATCH, ours.samples[result.client])
        assert result.items["loss"] > 0
        assert (result.forward_samples, result.backward_samples) == ((min(tau, 2) + 1) * batch, min(tau, 2) * batch)


def test_what_cannot_be_meant_is_refused():
    def rebound(me, w):
        y = me.copies_of(w)
        for _ in me.steps(2, y):
            y = y - 0.1 * me.g(y)
        return {"y": y}

    def with_tau(tau):
        def work(me, w):
            for _ in me.steps(tau):
                pass
            return {}

        return work

    def late_batch(me, w):
        for _ in me.steps([3, 1]):
            batch = me.batch()
        return {"loss": me.f(w, on=batch)}

    ours = learner("linear")
    for work, message in (
        (rebound, "not updated in place"),
        (with_tau([1, 2, 3]), "one for each of 2 clients"),
        (with_tau([1, -1]), "whole numbers of at least 0"),
        (with_tau(1.5), "whole numbers of at least 0"),
        (late_batch, r"rows \[1\] of the chunk rested"),
    ):
        with pytest.raises(ValueError, match=message):
            ours.run(Ask([0, 1], work, shared={"w": ours.initial()}), [(0, 0)] * 2)


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn"])
def test_a_policy_with_a_tau_for_each_client_is_charged_alike_in_every_model(model):
    for rows, training in (rehearse(TauPerClient(), 2, model=model), live(TauPerClient(), None, 2, model=model)):
        orders = [order for entry in rows.trace for order in entry.steps[0].orders]
        assert len({1 + order.client % 3 for order in orders}) > 1
        for order in orders:
            work = (1 + order.client % 3) * min(16, training.learner.samples[order.client])
            assert (order.forward_samples, order.backward_samples) == (work, work)

"""Rehearse, live and replay tell one story; so do one and two threads, and a run that was cut and resumed."""

from __future__ import annotations

import pytest
import torch
from hard_policies import ASYNCHRONOUS, HARD
from rigs import CLIENTS, HARSH, LOSSY, Rows, learner, live, rehearse, replay, rounds, world

from wflsim.errors import ReplayRefused
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg
from wflsim.simulation.checkpoint import Checkpoint, load, save
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay, refuse_inexact
from wflsim.simulation.training import Training
from wflsim.world.world import WorldSpec, influences

SHIPPED = [FedAvg(m=4, tau=3, eta=0.1), DRDM(m=4, tau=3, eta=0.1)]
SYNCHRONOUS = [*SHIPPED, *(policy for policy in HARD if not policy.asynchronous)]
EVERY = [*SHIPPED, *HARD]


def by_name(policy):
    return policy.name


def same_state(one, two):
    for name, value in vars(one).items():
        other = getattr(two, name)
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other), name
        elif hasattr(value, "shape"):
            assert (value == other).all(), name
        else:
            assert value == other, name


@pytest.mark.parametrize("policy", SYNCHRONOUS, ids=by_name)
def test_live_without_losses_is_rehearse_bit_for_bit(policy):
    rehearsed, training = rehearse(policy)
    lived, training_live = live(policy)
    same_state(training.state, training_live.state)
    assert rehearsed.trace == lived.trace
    assert rehearsed.clients == lived.clients
    assert [row.up_bits for row in rehearsed.rounds] == [row.up_bits for row in lived.rounds]
    assert [row.down_bits for row in rehearsed.rounds] == [row.down_bits for row in lived.rounds]
    assert lived.rounds[-1].end_s > 0
    assert lived.rounds[-1].energy_j > 0


@pytest.mark.parametrize("policy", SYNCHRONOUS, ids=by_name)
def test_replay_is_live_leg_by_leg(policy):
    lived, _ = live(policy)
    replayed = replay(lived.trace)
    assert replayed.legs == lived.legs
    assert replayed.rounds == lived.rounds


@pytest.mark.parametrize("policy", SHIPPED, ids=by_name)
def test_a_trace_answers_for_another_regime(policy):
    """Trained once at 10 dB, replayed at 0 dB: the same as training there."""
    trace = rehearse(policy)[0].trace
    slow = {"radio": {"snr": "0 dB", "bandwidth": "100 kHz", "power": "200 mW"}}
    there, _ = live(policy, slow)
    assert replay(trace, slow).rounds == there.rounds


@pytest.mark.parametrize("policy", EVERY, ids=by_name)
@pytest.mark.parametrize("spec", [LOSSY, HARSH], ids=["lossy", "deadline"])
def test_every_policy_lives_with_losses_and_twice_the_same(policy, spec):
    once, training = live(policy, spec, count=6)
    again, training_again = live(policy, spec, count=6)
    assert once.legs == again.legs
    assert once.rounds == again.rounds
    same_state(training.state, training_again.state)
    assert sum(row.delivered for row in once.rounds) < sum(row.asked for row in once.rounds)


@pytest.mark.parametrize("policy", EVERY, ids=by_name)
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_a_run_cut_at_any_round_and_resumed_is_the_uninterrupted_one(policy, cut, tmp_path):
    whole, training = live(policy, HARSH, count=5)
    first, interrupted = live(policy, HARSH, count=cut)
    save(tmp_path / "checkpoint.pt", Checkpoint(cut, {}, interrupted.snapshot()))

    saved = load(tmp_path / "checkpoint.pt")
    resumed, rows = Training(policy, learner(), 0), Rows()
    resumed.restore(saved.learning)
    drive(Replay(first.trace, then=resumed), world(HARSH), rows, rounds(5), CLIENTS, 0)

    assert rows.legs == whole.legs
    assert rows.rounds == whole.rounds
    assert rows.clients == whole.clients
    assert rows.trace == whole.trace
    same_state(resumed.state, training.state)


@pytest.mark.parametrize("policy", SHIPPED, ids=by_name)
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_one_and_two_threads_give_the_same_bits(policy, model):
    one, training_one = rehearse(policy, model=model, threads=1)
    two, training_two = rehearse(policy, model=model, threads=2)
    assert one.trace == two.trace
    same_state(training_one.state, training_two.state)


def test_seeds_differ_and_one_seed_repeats():
    policy = SHIPPED[0]
    assert rehearse(policy, seed=1)[0].trace == rehearse(policy, seed=1)[0].trace
    assert rehearse(policy, seed=1)[0].trace != rehearse(policy, seed=2)[0].trace


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        (LOSSY, "radio.loss.probability"),
        ({"server": {"deadline": "2 s"}}, "server.deadline"),
        ({"server": {"first": 2}}, "server.first"),
        ({"server": {"quorum": 2}}, "server.quorum"),
    ],
)
def test_replay_is_refused_by_the_name_of_the_key(spec, key):
    found = influences(WorldSpec.model_validate(spec))
    with pytest.raises(ReplayRefused, match=key):
        refuse_inexact(found, "fedavg", asynchronous=False)


def test_replay_of_an_asynchronous_policy_is_refused():
    with pytest.raises(ReplayRefused, match="asynchronous"):
        refuse_inexact([], ASYNCHRONOUS.name, ASYNCHRONOUS.asynchronous)
    with pytest.raises(ReplayRefused, match="asynchronous"):
        rehearse(ASYNCHRONOUS)


def test_an_exact_replay_is_not_refused():
    refuse_inexact(influences(WorldSpec()), "fedavg", asynchronous=False)

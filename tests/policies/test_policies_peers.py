"""Decentralised SGD and DR-DSGD on quadratic nodes in float64: against numpy, with lost links too, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratics import Rough, models, problem, run
from small_scenarios import small

from wflsim.errors import ScenarioError
from wflsim.exchange import Met, Outcome
from wflsim.experiments.plan import Run
from wflsim.policies.drdsgd import DRDSGD
from wflsim.policies.dsgd import DSGD, metropolis
from wflsim.records import trace_from_json, trace_to_json
from wflsim.scenario.schema import remarks
from wflsim.simulation.loop import Instant
from wflsim.world.access.graph import both_ways, ring, torus

N, P = 6, 4
COMPLETE = both_ways((i, j) for i in range(N) for j in range(i))
ROUNDS = 30


class OneWay(Rough):
    """Loses single directions of links."""

    def gossip(self, orders, edges):
        lost = [bool(np.random.default_rng((i, j, orders[0].round)).random() < 0.3) for i, j in edges]
        return [Outcome(i, "lost" if gone else "delivered", True, j) for (i, j), gone in zip(edges, lost, strict=True)]


def reference(policy, task, carrier, edges, rounds):
    """theta after some rounds, by plain numpy; `carrier` tells which links deliver. Also the sum of all steps taken."""
    theta, moved = np.tile(task.start, (task.N, 1)), np.zeros(task.P)
    degree = {i: sum(a == i for a, _ in edges) for i in range(task.N)}
    for s in range(rounds):
        outcomes = carrier.gossip([type("O", (), {"client": i, "round": s, "phase": 0}) for i in range(task.N)], edges)
        computed = {o.client for o in outcomes if o.computed}
        phi = theta.copy()
        for i in computed:
            for _ in range(policy.tau):
                h = np.exp(task.f(i, phi[i]) / policy.mu) / policy.mu if isinstance(policy, DRDSGD) else 1.0
                phi[i] = phi[i] - policy.eta * h * task.grad(i, phi[i])
        moved += (phi - theta).mean(axis=0)
        new = phi.copy()
        for o in outcomes:
            if o.fate == "delivered":
                new[o.peer] += (phi[o.client] - phi[o.peer]) / (1 + max(degree[o.client], degree[o.peer]))
        theta = new
    return theta, moved


@pytest.mark.parametrize("policy", [DSGD(eta=0.03), DSGD(eta=0.02, tau=3), DRDSGD(eta=1.0, mu=50.0), DRDSGD(eta=0.5, mu=40.0, tau=2)], ids=repr)
@pytest.mark.parametrize("carrier", [Rough(N), Rough(N, 0.3), OneWay(N)], ids=["calm", "lossy", "one way"])
def test_against_numpy_with_and_without_lost_links(policy, carrier):
    task = problem(N, P)
    training, _ = run(policy, task.learner(), ROUNDS, carrier)
    theta, moved = reference(policy, task, carrier, ring(N), ROUNDS)
    np.testing.assert_allclose(training.state.w, theta, rtol=0, atol=1e-10)
    assert np.ptp(theta, axis=0).max() > 1e-2, "nodes differ"
    drift = np.abs(training.state.w.numpy().mean(axis=0) - task.start - moved).max()
    if isinstance(carrier, OneWay):
        assert drift > 1e-3, "W is not doubly stochastic, so the mean does not follow the mean step"
    else:
        assert drift < 1e-12, "the mean over nodes follows the mean step"


# I18
def test_on_the_complete_graph_from_consensus_drdsgd_is_gradient_descent_on_the_exponential_objective():
    task, policy = problem(N, P), DRDSGD(eta=1.0, mu=50.0)
    training, _ = run(policy, task.learner(), ROUNDS, Instant(N, COMPLETE))
    w = task.start
    for _ in range(ROUNDS):
        w = w - policy.eta * np.mean([np.exp(task.f(i, w) / policy.mu) * task.grad(i, w) / policy.mu for i in range(N)], axis=0)
    np.testing.assert_allclose(models(training), np.tile(w, (N, 1)), rtol=0, atol=1e-12)


def test_large_mu_with_eta_over_mu_fixed_is_decentralised_sgd():
    far, _ = run(DRDSGD(eta=0.03 * 3e4, mu=3e4), problem(N, P).learner(), ROUNDS)
    plain, _ = run(DSGD(eta=0.03), problem(N, P).learner(), ROUNDS)
    near, _ = run(DRDSGD(eta=0.03 * 3e3, mu=3e3), problem(N, P).learner(), ROUNDS)
    gap = [float((run.state.w - plain.state.w).abs().max()) for run in (near, far)]
    assert gap[1] < 1e-4
    assert gap[0] / gap[1] == pytest.approx(10, rel=0.05), "it vanishes as 1/mu"


def test_without_a_link_every_node_is_alone():
    class Silent(Rough):
        def gossip(self, orders, edges):
            return [Outcome(i, "lost", True, j) for i, j in edges]

    task, training = problem(N, P), run(DSGD(eta=0.03), problem(N, P).learner(), ROUNDS, Silent(N))[0]
    for i in range(N):
        w = task.start
        for _ in range(ROUNDS):
            w = w - 0.03 * task.grad(i, w)
        np.testing.assert_allclose(training.state.w[i], w, rtol=0, atol=1e-12)


def test_equal_losses_are_decentralised_sgd_with_a_larger_step():
    task = problem(N, P, alike=True)
    one, _ = run(DRDSGD(eta=2.0, mu=50.0), task.learner(), 1)
    loss = task.f(0, task.start)
    two, _ = run(DSGD(eta=2.0 / 50 * np.exp(loss / 50)), task.learner(), 1)
    np.testing.assert_allclose(one.state.w, two.state.w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("edges", [ring(N), torus(N), COMPLETE], ids=["ring", "torus", "complete"])
def test_w_is_symmetric_and_doubly_stochastic_and_one_way_losses_break_it(edges):
    heard = frozenset(edges)
    W = metropolis(Met({}, edges, heard), N)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-15)
    assert (W >= -1e-15).all()
    if edges == COMPLETE:
        np.testing.assert_allclose(W, 1 / N)
    both = metropolis(Met({}, edges, heard - {(0, 1), (1, 0)}), N)
    np.testing.assert_allclose(both.sum(axis=0), 1, atol=1e-15)
    assert both[0, 0] == pytest.approx(W[0, 0] + W[0, 1])
    one = metropolis(Met({}, edges, heard - {(0, 1)}), N)
    np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-15)
    assert np.abs(one.sum(axis=0) - 1).max() > 0.1


def test_a_loss_that_would_overflow_is_cut():
    """exp(f/mu) is at most e^20, so that a first step is large but finite."""
    training, _ = run(DRDSGD(eta=1e-12, mu=1e-3), problem(N, P).learner(), 1)
    expected = 1e-12 / 1e-3 * np.exp(20)
    step = np.abs(training.state.w.numpy() - problem(N, P).start).max()
    assert 0 < step < 100 * expected


def test_evaluation_has_each_nodes_own_model_and_the_networks_mean():
    training, kept = run(DSGD(eta=0.03), problem(N, P).learner(), 3, evaluate_every=1)
    evaluation, w = kept.trace[-1].evaluation, training.state.w
    assert evaluation.loss == [problem(N, P).f(i, w[i].numpy()) for i in range(N)]
    np.testing.assert_allclose(evaluation.apart, torch.linalg.vector_norm(w - w.mean(0), dim=1))
    assert trace_from_json(trace_to_json(kept.trace[-1])) == kept.trace[-1]
    assert [row.asked for row in kept.rows] == [2 * N] * 3


def test_the_graph_is_a_cause_of_the_learning_and_other_links_are_not():
    def key(policy, *changes):
        return Run(small(f"policies=[{{name: {policy}}}]", *changes), 0, 0).learning

    assert key("dsgd", "d2d.topology=complete") != key("dsgd") == key("dsgd", "d2d.snr=3 dB", "d2d.sending=unicast", "d2d.duplex=full")
    assert key("fedavg", "d2d.topology=complete") == key("fedavg")


def test_a_scenario_says_how_devices_talk_and_refuses_a_graph_that_cannot_work():
    said = remarks(small("policies=[{name: dsgd}]", "server.deadline=1 s"))
    assert said[-2:] == [
        "device to device: ring graph of 6 nodes with 6 links (seed 0), broadcast, half duplex: nodes send in 2 turns",
        "server.deadline has no effect here: no policy has a server",
    ]
    assert remarks(small("d2d.sending=unicast")) == ["d2d has no effect here: every policy has a server"]
    with pytest.raises(ScenarioError, match=r"d2d\.topology: a torus needs rows and columns, but 7 is a prime"):
        small("policies=[{name: dsgd}]", "d2d.topology=torus", "clients=7")

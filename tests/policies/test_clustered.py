"""Clustered FL against plain numpy, its identities, the groups it finds, and where its splits are shown."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from quadratics import Problem, Rough, models, problem, run
from references import Journey, same, slope

import wflsim
from studies.policies.planted import GROUPS, average, planted
from wflsim.policies.clustered import ClusteredFL
from wflsim.policies.fedavg import FedAvg
from wflsim.scenario import build
from wflsim.scenario.source import parse

TAU, ETA = 3, 0.05


def cosines(deltas):
    unit = deltas / np.linalg.norm(deltas, axis=1, keepdims=True)
    return unit @ unit.T


def best_halves(S):
    """The paper's definition, over all bipartitions: the largest similarity across is as small as can be."""
    n = len(S)
    halves = [(0, *rest) for size in range(n - 1) for rest in combinations(range(1, n), size)]

    def across(one):
        return max(S[i, j] for i in one for j in set(range(n)) - set(one))

    one = min(halves, key=across)
    return list(one), [i for i in range(n) if i not in one], across(one)


def merged_halves(S):
    """Complete linkage, step by step: join the two groups whose least similar pair is most similar, until two are left."""
    groups = [[i] for i in range(len(S))]
    while len(groups) > 2:
        a, b = max(combinations(groups, 2), key=lambda pair: min(S[i, j] for i in pair[0] for j in pair[1]))
        groups = [group for group in groups if group not in (a, b)] + [a + b]
    one, two = sorted(sorted(group) for group in groups)
    return one, two, max(S[i, j] for i in one for j in two)


@pytest.mark.parametrize(("loss", "rounds"), [(0.0, 6), (0.2, 30)])
@pytest.mark.parametrize("batch", [10_000, 3])
@pytest.mark.parametrize(
    ("options", "halve"),
    [
        ({}, best_halves),
        ({"linkage": "complete", "weights": "data"}, merged_halves),
        ({"gamma_max": 0.5}, best_halves),
        ({"warmup": 4}, best_halves),
    ],
    ids=["single", "complete by data", "checked", "late"],
)
@pytest.mark.parametrize("coded", [False, True])
def test_against_numpy(loss, rounds, batch, options, halve, coded):
    eps1, eps2, warmup = 0.75, 0.15, options.get("warmup", 1)
    policy = ClusteredFL(tau=TAU, eta=ETA, eps1=eps1, eps2=eps2, **{"warmup": 1, **options})
    trip = Journey(policy, loss, rounds, batch, p=problem(7), coded=coded)
    p, Q = trip.p, trip.Q
    w, cluster, since = [p.start], np.zeros(p.N, int), np.zeros(p.N, int)
    splits, refused = 0, set()
    for s, _, heard in trip.rounds():
        deltas = {}
        for i in heard:
            got = Q(w[cluster[i]])
            y = got
            for _, (A, b) in zip(range(TAU), trip.samples(i, s), strict=False):
                y = y - ETA * slope(y, A, b)
            deltas[i] = Q(y - got)

        def mean(clients, deltas=deltas):
            share = np.array([p.d[i] if options.get("weights") == "data" else 1 for i in clients], float)
            return share @ np.stack([deltas[i] for i in clients]) / share.sum()

        for c in range(len(w)):
            members = [int(i) for i in np.flatnonzero(cluster == c)]
            present = [i for i in members if i in deltas]
            if not present:
                continue
            settled = np.linalg.norm(mean(present)) < eps1 and max(np.linalg.norm(deltas[i]) for i in present) > eps2
            parts = [present]
            if settled and len(members) > 2 and s >= warmup:
                if len(present) < len(members):
                    refused.add("not all heard")
                else:
                    one, two, alpha = halve(cosines(np.stack([deltas[i] for i in present])))
                    if np.sqrt((1 - alpha) / 2) > options.get("gamma_max", 0):
                        parts = [[present[k] for k in one], [present[k] for k in two]]
                    else:
                        refused.add("too alike")
            base, w[c] = w[c], w[c] + mean(parts[0])
            if len(parts) == 2:
                cluster[parts[1]], since[present], splits = len(w), s, splits + 1
                w.append(base + mean(parts[1]))
    trip.check(w=np.stack(w), cluster=cluster, since=since)
    trip.check_models(np.stack(w)[cluster])
    assert splits > 0
    assert ("not all heard" in refused) == (loss > 0)
    assert loss or ("too alike" in refused) == ("gamma_max" in options)


def test_that_never_splits_is_fedavg():
    p = problem(6)
    ours, _ = run(ClusteredFL(tau=TAU, eta=ETA, eps1=0, eps2=0, warmup=0), p.learner(3), 8, Rough(6, 0.3))
    fedavg, _ = run(FedAvg(tau=TAU, eta=ETA), p.learner(3), 8, Rough(6, 0.3))
    same(ours.state.w, fedavg.state.w[None])
    same(models(ours), models(fedavg))


def opposed(order):
    """Two kinds of clients with gradients +g and -g at the start, in this order."""
    A = np.random.default_rng(0).normal(size=(8, 4))
    start = np.linspace(-1, 1, 4)
    b = {kind: A @ (start + kind * np.array([1.0, -2.0, 0.5, 1.0])) for kind in (-1, 1)}
    return Problem([A] * len(order), [b[kind] for kind in order], start)


@pytest.mark.parametrize("order", [[1, -1, 1, -1, 1, -1], [-1, -1, -1, 1], [1, -1, -1, -1, -1]])
@pytest.mark.parametrize("linkage", ["single", "complete"])
def test_two_groups_of_identical_clients_with_opposite_gradients_split_into_the_groups(order, linkage):
    """Cosines are +1 and -1. The half with the lowest client keeps number 0; each goes on with its own mean."""
    p = opposed(order)
    policy = ClusteredFL(tau=1, eta=ETA, eps1=10, eps2=1e-6, warmup=0, linkage=linkage)
    training, _ = run(policy, p.learner(), 1)
    expected = [int(kind != order[0]) for kind in order]
    assert training.state.cluster.tolist() == expected
    assert training.state.since.tolist() == [0] * len(order)
    for i, row in enumerate(models(training)):
        same(row, p.start - ETA * p.grad(i, p.start))
    later, _ = run(policy.model_copy(update={"gamma_max": 1e-3}), p.learner(), 20)
    assert later.state.cluster.tolist() == expected, "the similarity across identical clients is 1, but for rounding"


def test_two_clients_are_never_split():
    training, _ = run(ClusteredFL(eps1=1e3, eps2=0, warmup=0), problem(2).learner(), 5)
    assert training.state.cluster.tolist() == [0, 0]


def test_with_some_of_the_clients_drawn_a_cluster_waits_until_all_of_it_is():
    """m = 4 of 6: the first cluster is never heard whole."""
    training, _ = run(ClusteredFL(m=4, eps1=1e3, eps2=0, warmup=0), problem(6).learner(), 20)
    assert training.state.w.shape[0] == 1


def test_two_planted_groups_are_found():
    """Five seeds of ten clients with digits whose data differ in their labels only; FedAvg serves neither group."""
    for seed in range(5):
        policy = ClusteredFL(tau=5, eta=0.1, eps1=0.08, eps2=0.25)
        training, _ = run(policy, planted(seed), 60, seed=seed)
        assert training.state.cluster.tolist() == GROUPS
        assert len(set(training.state.since.tolist())) == 1
        assert 20 <= training.state.since[0] < 40
        fedavg, _ = run(FedAvg(tau=5, eta=0.1), planted(seed), 60, seed=seed)
        assert average(training) > 0.85
        assert average(fedavg) < 0.55


SCENARIO = """
name: groups
clients: 6
seeds: [3]
data: {name: digits}
partition: {alpha: 0.1, sigma: 0.3}
model: {name: linear}
train: {batch: 16}
policies: [{name: clustered, tau: 3, eta: 0.1, eps1: 1000, eps2: 0.0, warmup: 2}, {name: fedavg, tau: 3}]
radio: {snr: 10 dB, bandwidth: 180 kHz, power: 100 mW}
evaluate_every: 4
stop: {rounds: 8}
"""


def test_the_tables_say_which_client_is_in_which_cluster_and_since_when(tmp_path):
    """Also where rounds are evaluated more seldom than clusters split; trained, and read from a trace."""
    scenario = build(parse(SCENARIO, "groups.yaml"), ())
    for name in ("trained", "replayed"):
        wflsim.run(scenario, tmp_path / name, workers=1)
    table = pd.read_csv(tmp_path / "trained/clustered/seed-3/clients.csv")
    last = table[table["round"] == 7].sort_values("client")
    learner = _learner(scenario)
    training, kept = run(scenario.policies[0], learner, 8, seed=3)
    assert last["cluster"].tolist() == training.state.cluster.tolist()
    assert last["since"].tolist() == training.state.since.tolist()
    counts = [len(state.w) for state in kept.states]
    assert counts[1] == 1
    assert counts[2] == 2, "the first split is in the first round after the warmup, and between two evaluations"
    assert table[table["round"] == 3]["since"].between(2, 3).all()
    plain = pd.read_csv(tmp_path / "trained/fedavg/seed-3/clients.csv")
    assert plain[["cluster", "since"]].isna().all(axis=None)
    for label in ("clustered", "fedavg"):
        one, two = ((tmp_path / f"{name}/{label}/seed-3/clients.csv").read_bytes() for name in ("trained", "replayed"))
        assert one == two


def _learner(scenario):
    from wflsim.learning.build import build as build_learner

    return build_learner(scenario.data, scenario.partition, scenario.model, scenario.train, scenario.clients, scenario.seeds[0])


def test_the_report_draws_the_clusters_of_those_who_have_them(tmp_path):
    from wflsim.report.compose import gather
    from wflsim.report.story import heats

    scenario = build(parse(SCENARIO, "groups.yaml"), ("evaluate_every=1",))
    wflsim.run(scenario, tmp_path, workers=1)
    stories = gather([tmp_path]).stories
    pictures, narrow = ({each.label: heats(each, story, columns) for each, story in stories.items()} for columns in (10, 1))
    assert "cluster" not in pictures["fedavg"]
    table = pd.read_csv(tmp_path / "clustered/seed-3/clients.csv")
    expected = table.pivot(index="client", columns="round", values="cluster").to_numpy(float)
    np.testing.assert_array_equal(pictures["clustered"]["cluster"].values, expected)
    np.testing.assert_array_equal(narrow["clustered"]["cluster"].values, expected[:, -1:])

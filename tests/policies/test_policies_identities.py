"""Limiting cases in which two policies coincide, and laws that hold after every round: the identities of docs/policies.md.

float64, full batch unless a test says otherwise.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratics import Rough, memories, problem, run, snapshot_step
from reference_runs import descent, path, same

from wflsim.exchange import Gather
from wflsim.policies.afl import AFL
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.dual import project
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fedprox import FedProx
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD

ALL = 5


# I1


def test_fedavg_with_one_full_step_of_everybody_is_gradient_descent():
    p = problem()
    mean = descent(lambda w: np.mean([p.grad(i, w) for i in range(p.N)], axis=0), 0.05, 6, p.start)
    same(path(LocalSGD(tau=1)), mean)
    same(path(FedAvg(m=ALL, tau=1)), mean)


def test_fedavg_weighted_by_data_descends_on_the_pooled_loss():
    p = problem()
    A, b = np.concatenate(p.A), np.concatenate(p.b)
    pooled = descent(lambda w: A.T @ (A @ w - b) / len(b), 0.05, 6, p.start)
    same(path(FedAvg(m=ALL, tau=1, weights="data")), pooled)


@pytest.mark.parametrize(
    "policy",
    [
        FedAvg(m=3, tau=3), FedAvg(m=3, tau=3, weights="data"), LocalSGD(tau=3), FedProx(m=3, tau=3, mu=0),
        DRFA(m=3, tau=3), DRFA(m=3, tau=3, scheme="with_replacement"), SCAFFOLD(m=ALL, tau=3),
        FedAsync(m=1, tau=3, alpha=1, rho=0), FedBuff(m=1, K=1, tau=3),
    ],
)  # fmt: skip
def test_identical_clients_make_tau_gradient_steps_per_round(policy):
    p = problem(alike=True)
    steps = descent(lambda w: p.grad(0, w), 0.05, 18, p.start)
    same(path(policy, given=p, carrier=Rough(ALL)), steps[2::3])


# I2, I3, I4: proximal and dynamic regularisation


@pytest.mark.parametrize("weights", ["data", "uniform"])
def test_fedprox_without_its_term_or_with_one_step_is_fedavg(weights):
    same(path(FedProx(m=3, mu=0, weights=weights), batch=2), path(FedAvg(m=3, weights=weights), batch=2))
    same(path(FedProx(m=3, mu=9, tau=1, weights=weights)), path(FedAvg(m=3, tau=1, weights=weights)))


def test_feddyn_with_frozen_memories_is_fedprox():
    frozen = FedDyn(m=3, mu=0.3, freeze_g=True, freeze_c=True)
    same(path(frozen, batch=2), path(FedProx(m=3, mu=0.3, weights="uniform"), batch=2))


def test_feddyn_over_relaxes_its_first_round_and_follows_f1_ever_after():
    p = problem()
    _, kept = run(FedDyn(m=3, tau=4, mu=0.7), p.learner(batch=2), 8)
    w, c = p.start, np.zeros(p.P)
    for state in kept.states:
        delta = state.mean.numpy() - w
        same(state.w.numpy(), w + (1 + 3 / p.N) * delta - c / 0.7)  # F1
        w, c = state.w.numpy(), state.c.numpy()
    first = kept.states[0]
    same(first.w, first.mean + 3 / p.N * (first.mean - torch.tensor(p.start)))  # I3


def test_feddyn_with_one_step_of_everybody_follows_f3():
    p, eta, mu = problem(), 0.05, 0.7
    w, c, ws = p.start, np.zeros(p.P), []
    for _ in range(6):
        slope = np.mean([p.grad(i, w) for i in range(p.N)], axis=0)
        w, c = w - 2 * eta * slope + (2 * eta - 1 / mu) * c, c + mu * eta * (slope - c)
        ws.append(w)
    same(path(FedDyn(m=ALL, tau=1, mu=mu, eta=eta)), np.stack(ws))


def test_feddyn_with_exact_local_solves_ends_in_uniform_erm():
    """tau large enough is an exact solve: y_i = (A_i + mu)^-1 (A_i b_i + g_i + mu w)."""
    p, mu = problem(P=2), 1.0
    _, kept = run(FedDyn(m=3, tau=400, mu=mu, eta=0.1), p.learner(), 1)
    D = kept.cohorts(0)[0]
    H = [p.A[i].T @ p.A[i] / p.d[i] for i in range(p.N)]
    h = [p.A[i].T @ p.b[i] / p.d[i] for i in range(p.N)]
    exact = [np.linalg.solve(H[i] + mu * np.eye(2), h[i] + mu * p.start) for i in D]
    np.testing.assert_allclose(kept.states[0].mean, np.mean(exact, axis=0), atol=1e-9)
    erm = np.linalg.solve(sum(H), sum(h))
    np.testing.assert_allclose(path(FedDyn(m=3, mu=mu), rounds=900, given=p)[-1], erm, atol=1e-9)


# I5, I6, I7: DRDM between FedDyn and DRFA


@pytest.mark.parametrize("batch", [2, 10_000])
def test_drdm_without_a_dual_step_is_feddyn(batch):
    p = problem()
    left, kept = run(DRDM(m=3, tau=4, gamma=0), p.learner(batch), 8)
    right, other = run(FedDyn(m=3, tau=4), p.learner(batch), 8)
    for s in range(8):
        assert kept.cohorts(s)[0] == other.cohorts(s)[0]
        same(kept.states[s].w, other.states[s].w)
        same(kept.states[s].c, other.states[s].c)
    same(memories(left, "g", p.N, p.P), memories(right, "g", p.N, p.P))
    assert kept.rows[0].asked == 6  # the snapshot's dual phase is still paid for
    assert other.rows[0].asked == 3


@pytest.mark.parametrize("scheme", ["sequential", "with_replacement", "uniform_weighted", "systematic", "bernoulli"])
@pytest.mark.parametrize("snapshot", ["post_step", "pre_step"])
def test_drdm_without_memories_is_drfa(scheme, snapshot):
    options = {"m": 3, "tau": 4, "gamma": 0.01, "scheme": scheme, "snapshot": snapshot}
    bare = DRDM(mu=0, freeze_g=True, freeze_c=True, **options)
    same(path(bare, batch=2), path(DRFA(**options), batch=2))
    same(path(bare, batch=2, field="lam"), path(DRFA(**options), batch=2, field="lam"))


def test_drdm_frozen_with_mu_is_drfa_with_proximal_clients():
    class Proximal(DRFA):
        def local_steps(self, me, w, t, eta):
            y = me.copies_of(w)
            for k in range(1, self.tau + 1):
                y -= eta * (me.g(y) + 0.6 * (y - w))
                if k == t:
                    z = y.clone()
            return {"y": y, "z": z}

    frozen = DRDM(m=3, mu=0.6, freeze_g=True, freeze_c=True, gamma=0.01)
    same(path(frozen), path(Proximal(m=3, gamma=0.01)))


def test_drdm_with_one_step_takes_the_dual_loss_at_the_new_model_and_sends_one_vector():
    p = problem()
    _, kept = run(DRDM(m=3, tau=1, gamma=0.01), p.learner(), 1)
    U = kept.cohorts(0)[1]
    w = kept.states[0].w.numpy()
    v = np.array([p.N / 3 * p.f(i, w) if i in U else 0.0 for i in range(p.N)])
    same(kept.states[0].lam, project(np.full(p.N, 0.2) + 0.01 * v, 0.03 / p.N))
    assert {order.up_bits for order in kept.trace[0].steps[0].orders} == {32 * p.P}


def test_drdm_with_everybody_does_not_depend_on_gamma():
    same(path(DRDM(m=ALL, gamma=0.05), batch=2), path(FedDyn(m=ALL), batch=2))


def test_drdm_steps_around_the_anchor_are_the_papers_line():
    class Literal(DRDM):
        def local_steps(self, me, w, t):
            g, y = me.memory["g"], me.copies_of(w)
            for k in range(1, self.tau + 1):
                y = y - self.eta * (me.g(y) - g - self.mu * (w - y))
                if k == t:
                    z = y
            me.memory["g"] = g - self.mu * (y - w)
            return {"y": y, "z": z}

    same(path(DRDM(m=3, gamma=0.01), batch=2), path(Literal(m=3, gamma=0.01), batch=2))


# I8, I9: DRFA between FedAvg and AFL


def test_drfa_without_a_dual_step_is_fedavg():
    p = problem()
    same(path(DRFA(m=3, gamma=0), batch=2), path(FedAvg(m=3), batch=2))
    same(path(DRFA(m=3, gamma=0), field="lam"), np.full((6, p.N), 1 / p.N))


def test_drfa_with_everybody_is_fedavg_under_scheme_b_and_weighted_under_c():
    p = problem()
    same(path(DRFA(m=ALL, gamma=0.05), batch=2), path(FedAvg(m=ALL), batch=2))  # the trap
    policy = DRFA(m=ALL, gamma=0.05, scheme="uniform_weighted", floor=0, tau=3, dual_loss="full")
    _, kept = run(policy, p.learner(), 3)
    w, lam = p.start, np.full(p.N, 1 / p.N)
    for state in kept.states:
        ys = np.stack([descent(lambda y, i=i: p.grad(i, y), 0.05, 3, w)[-1] for i in range(p.N)])
        same(state.w.numpy(), w + lam @ (ys - w))
        w, lam = state.w.numpy(), state.lam


def test_drfa_with_one_step_of_everybody_is_afl():
    """Dual at w+ (alternating); with the released code's snapshot before the step, AFL itself."""
    p = problem()
    options = {"m": ALL, "tau": 1, "gamma": 0.01, "eta": 0.05, "scheme": "uniform_weighted", "floor": 1e-9}
    afl = AFL(eta_w=0.05, eta_lambda=0.01, floor=1e-9)
    same(path(DRFA(**options, snapshot="pre_step")), path(afl))
    same(path(DRFA(**options, snapshot="pre_step"), field="lam"), path(afl, field="lam"))
    w, lam, ws = p.start, np.full(p.N, 1 / p.N), []
    for _ in range(6):
        w = w - 0.05 * lam @ np.stack([p.grad(i, w) for i in range(p.N)])
        lam = project(lam + 0.01 * np.array([p.f(i, w) for i in range(p.N)]), 1e-9 / p.N)
        ws.append(w)
    same(path(DRFA(**options)), np.stack(ws))


def beginning_with_all_lambda_on(client, policy):
    """The policy with the dual variable lambda of this client 1 at first, and of the others 0."""

    class Fixed(policy):
        def start(self, w, d):
            state = super().start(w, d)
            state.lam[:] = np.eye(len(d))[client]
            return state

    return Fixed


# I10: AFL


def test_afl_without_a_dual_step_is_fedavg_with_one_step():
    same(path(AFL(eta_w=0.05, eta_lambda=0), batch=2), path(LocalSGD(tau=1), batch=2))


def test_afl_on_one_client_of_many_descends_there():
    p = problem()
    same(path(beginning_with_all_lambda_on(2, AFL)(eta_w=0.05, eta_lambda=0)), descent(lambda w: p.grad(2, w), 0.05, 6, p.start))


def test_afl_shows_the_mean_of_all_iterates():
    ws = path(AFL(eta_w=0.05))
    same(path(AFL(eta_w=0.05), field="shown"), np.cumsum(ws, axis=0) / np.arange(1, 7)[:, None])
    same(path(AFL(eta_w=0.05, eval_model="server"), field="shown"), ws)


# I12, I13: SCAFFOLD


def test_scaffold_without_control_variates_and_in_its_first_round_is_fedavg():
    fedavg = path(FedAvg(m=3), batch=2)
    same(path(SCAFFOLD(m=3, freeze_c=True), batch=2), fedavg)
    for option in ("I", "II"):
        same(path(SCAFFOLD(m=3, option=option), batch=2)[0], fedavg[0])


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_with_one_full_step_of_everybody_is_gradient_descent(option):
    p = problem()
    mean = descent(lambda w: np.mean([p.grad(i, w) for i in range(p.N)], axis=0), 0.05, 6, p.start)
    same(path(SCAFFOLD(m=ALL, tau=1, option=option)), mean)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_on_identical_clients_is_fedavg(option):
    p = problem(alike=True)
    same(path(SCAFFOLD(m=ALL, option=option), given=p), path(FedAvg(m=ALL), given=p))


def test_scaffold_may_leave_half_of_its_upload_to_the_server():
    p = problem()
    full, compact = SCAFFOLD(m=3, eta_g=0.8), SCAFFOLD(m=3, eta_g=0.8, compact_uplink=True)
    same(path(full, batch=2, carrier=Rough(ALL, 0.3)), path(compact, batch=2, carrier=Rough(ALL, 0.3)))
    _, kept = run(compact, p.learner(), 1)
    assert {order.up_bits for order in kept.trace[0].steps[0].orders} == {32 * p.P}


# I16: SCAFF-PD


def test_scaffpd_with_one_step_and_no_dual_step_descends_on_the_mixture():
    p = problem()
    mean = descent(lambda w: np.mean([p.grad(i, w) for i in range(p.N)], axis=0), 0.05 * 0.7, 6, p.start)
    same(path(SCAFFPD(tau=1, sigma=0, eta_g=0.7)), mean)


def test_scaffpd_without_extrapolation_is_afl_dual_first():
    p = problem()
    w, lam, ws = p.start, np.full(p.N, 1 / p.N), []
    for _ in range(6):
        lam = project(lam + 0.01 * np.array([p.f(i, w) for i in range(p.N)]))
        w = w - 0.05 * lam @ np.stack([p.grad(i, w) for i in range(p.N)])
        ws.append(w)
    same(path(SCAFFPD(tau=1, theta=0, sigma=0.01)), np.stack(ws))


def test_scaffpd_without_a_dual_step_is_scaffold_with_fresh_variates():
    p, w, ws = problem(), problem().start, []
    for _ in range(6):
        slopes = [p.grad(i, w) for i in range(p.N)]
        c = np.mean(slopes, axis=0)
        ys = [descent(lambda y, i=i, c=c, ci=slopes[i]: p.grad(i, y) - ci + c, 0.05, 4, w)[-1] for i in range(p.N)]
        w = np.mean(ys, axis=0)
        ws.append(w)
    same(path(SCAFFPD(tau=4, sigma=0)), np.stack(ws))


def test_scaffpd_limits_of_the_dual_step():
    p = problem()
    worst = np.argmax([p.f(i, p.start) for i in range(p.N)])
    same(path(SCAFFPD(sigma=1e6), rounds=1, field="lam")[0], np.eye(p.N)[worst])
    stiff = path(SCAFFPD(sigma=1e3, psi="chi2", rho=1e6), rounds=1, field="lam")[0]
    np.testing.assert_allclose(stiff, 1 / p.N, atol=1e-5)


def test_scaffpd_chi2_step_maximises_its_objective():
    policy, draw = SCAFFPD(sigma=0.3, psi="chi2", rho=0.4), np.random.default_rng(0)
    lam, s = draw.dirichlet(np.ones(6)), draw.normal(size=6)

    def objective(l):
        return s @ l - 0.4 / 12 * np.sum((6 * l - 1) ** 2) - np.sum((l - lam) ** 2) / 0.6

    best = policy.ascent(lam, s, 0.3)
    assert all(objective(best) >= objective(other) for other in draw.dirichlet(np.ones(6), size=2000))
    nudged = [project(best + 1e-4 * draw.normal(size=6)) for _ in range(200)]
    assert all(objective(best) >= objective(other) - 1e-15 for other in nudged)


# I21, I22: asynchronous ones


def test_fedbuff_of_everybody_in_step_is_fedavg():
    p = problem()
    policy = FedBuff(m=3, K=3, dispatch="after_flush")
    same(path(policy, carrier=Rough(p.N, durations=[1.0] * p.N)), path(FedAvg(m=3)))


def test_fedbuff_of_one_is_fedasync_while_nothing_is_stale():
    one = FedBuff(m=1, K=1, eta_g=0.6)
    same(path(one, carrier=Rough(ALL)), path(FedAsync(m=1, rho=0, staleness="constant"), carrier=Rough(ALL)))
    stale = path(FedBuff(m=3, K=1, eta_g=0.6, a=0), carrier=Rough(ALL))
    mixed = path(FedAsync(m=3, rho=0, staleness="constant"), carrier=Rough(ALL))
    same(stale[0], mixed[0])
    assert np.abs(stale[2] - mixed[2]).max() > 1e-3


def test_fedasync_that_replaces_the_model_is_incremental_sgd():
    p = problem()
    carrier = Rough(p.N)
    ws = path(FedAsync(m=1, alpha=1, rho=0, tau=3), carrier=carrier)
    w = p.start
    for row, outcome in zip(ws, carrier.received, strict=True):
        w = descent(lambda y, i=outcome.client: p.grad(i, y), 0.05, 3, w)[-1]
        same(row, w)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"staleness": "constant"}, [1, 1, 1, 1, 1, 1, 1]),
        ({"staleness": "polynomial", "a": 0.5}, [(k + 1) ** -0.5 for k in range(7)]),
        ({"staleness": "hinge", "a": 10, "b": 4}, [1, 1, 1, 1, 1, 1 / 11, 1 / 21]),
    ],
)
def test_fedasync_weights_by_staleness(options, expected):
    assert [FedAsync(m=1, **options).s(k) for k in range(7)] == pytest.approx(expected)


# I23: one client


@pytest.mark.parametrize(
    "policy",
    [
        FedAvg(m=1, tau=3), LocalSGD(tau=3), FedProx(m=1, tau=3, mu=0), SCAFFOLD(m=1, tau=3), DRFA(m=1, tau=3),
        SCAFFPD(tau=3), FedAsync(m=1, tau=3, alpha=1, rho=0), FedBuff(m=1, tau=3, K=1),
    ],
)  # fmt: skip
def test_one_client_is_plain_sgd(policy):
    p = problem(N=1)
    same(path(policy, given=p, carrier=Rough(1)), descent(lambda w: p.grad(0, w), 0.05, 18, p.start)[2::3])


def test_one_client_under_afl_feddyn_drdm():
    p = problem(N=1)
    steps = descent(lambda w: p.grad(0, w), 0.05, 6, p.start)
    same(path(AFL(eta_w=0.05), given=p), steps)
    for policy in (FedDyn(m=1, tau=3), DRDM(m=1, tau=3), LambdaDRDM(m=1, tau=3)):
        w = path(policy, given=p)
        y = p.start  # the first round's own steps, with g = 0
        for _ in range(3):
            y = y - 0.05 * (p.grad(0, y) + 0.5 * (y - p.start))
        same(w[0], p.start + 2 * (y - p.start))


# Ours


def test_lambda_drdm_without_a_dual_step_is_feddyn():
    same(path(LambdaDRDM(m=3, gamma=0), batch=2), path(FedDyn(m=3), batch=2))


def test_lambda_drdm_bounds_the_step_of_heavy_clients():
    """One client holding all of lambda: N lambda_i eta_i = kappa eta, and the fixed point is its own optimum."""

    p = problem(P=2)
    policy = beginning_with_all_lambda_on(1, LambdaDRDM)(m=3, gamma=0, kappa=1.5, mu=1.0)
    training, kept = run(policy, p.learner(), 1500)
    np.testing.assert_allclose(p.grad(1, training.state.w.numpy()), 0, atol=1e-9)
    g = memories(training, "g", p.N, p.P)
    np.testing.assert_allclose(g, 0, atol=1e-8)
    D = kept.cohorts(0)[0]
    assert 1 in D, "the seed was chosen for it"
    y = p.start
    for _ in range(10):
        y = y - 0.05 * 1.5 / p.N * (p.N * p.grad(1, y) + (y - p.start))
    same(kept.states[0].w.numpy(), p.start + (1 / 3 + 1 / p.N) * (y - p.start))  # others have lambda = g = 0: they stay


def test_lambda_drdm_rests_where_the_mixture_is_optimal():
    class Fixed(LambdaDRDM):
        def start(self, w, d):
            state = super().start(w, d)
            state.lam[:] = np.array([0.1, 0.4, 0.2, 0.05, 0.25])
            return state

    p = problem(P=2)
    training, _ = run(Fixed(m=3, gamma=0, mu=1.0), p.learner(), 1500)
    w, lam = training.state.w.numpy(), training.state.lam
    np.testing.assert_allclose(sum(lam[i] * p.grad(i, w) for i in range(p.N)), 0, atol=1e-9)
    g = memories(training, "g", p.N, p.P)
    np.testing.assert_allclose(g, [p.N * lam[i] * p.grad(i, w) for i in range(p.N)], atol=1e-8)


def test_drdm_rests_at_uniform_erm_whatever_lambda_is():
    p = problem(P=2)
    training, _ = run(DRDM(m=3, gamma=0.002, mu=1.0), p.learner(), 1500)
    w = training.state.w.numpy()
    assert np.ptp(training.state.lam) > 0.1, "lambda did move"
    np.testing.assert_allclose(sum(p.grad(i, w) for i in range(p.N)), 0, atol=1e-8)


# I24, I25


@pytest.mark.parametrize("policy", [AFL(eta_lambda=0.01), SCAFFPD(sigma=0.01)])
def test_a_constant_added_to_all_losses_leaves_lambda(policy):
    class Raised(type(policy)):
        def gradient(self, me, w):
            items = super().gradient(me, w)
            return {**items, "loss": items["loss"] + 3.0}

        def loss_and_gradient(self, me, w):
            items = super().loss_and_gradient(me, w)
            return {**items, "L": items["L"] + 3.0}

    same(path(policy, field="lam"), path(Raised(**policy.model_dump()), field="lam"))


LAWS = [
    (FedDyn(m=3), "g"), (FedDyn(m=3, sampling="bernoulli"), "g"), (DRDM(m=3, gamma=0.01), "g"),
    (DRDM(m=3, gamma=0.01, scheme="with_replacement"), "g"), (DRDM(m=3, scheme="uniform_weighted"), "g"),
    (LambdaDRDM(m=3), "g"), (SCAFFOLD(m=3), "c"), (SCAFFOLD(m=3, option="I", eta_g=0.7), "c"),
    (SCAFFOLD(m=3, compact_uplink=True), "c"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "name"), LAWS)
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_the_servers_memory_is_the_mean_of_the_clients(policy, name, loss):
    p = problem()
    training, kept = run(policy, p.learner(batch=2), 40, Rough(p.N, loss))
    assert sum(row.asked - row.delivered for row in kept.rows) >= 20 * bool(loss)
    same(memories(training, name, p.N, p.P).mean(axis=0), training.state.c.numpy())


@pytest.mark.parametrize(
    "policy",
    [DRFA(m=3, gamma=0.05), DRDM(m=3, gamma=0.05), LambdaDRDM(m=3, gamma=0.05, floor=0.1), AFL(eta_lambda=0.5),
     SCAFFPD(sigma=0.5), SCAFFPD(m=2, sigma=0.5, absent="ipw"), SCAFFPD(m=2, sigma=0.5, psi="chi2")],
)  # fmt: skip
def test_lambda_stays_on_its_simplex(policy):
    p = problem()
    _, kept = run(policy, p.learner(batch=2), 40, Rough(p.N, 0.3))
    lams = np.stack([state.lam for state in kept.states])
    same(lams.sum(axis=1), 1.0)
    assert lams.min() >= getattr(policy, "floor", 0) / p.N - 1e-15


def test_bernoulli_sampling_draws_m_on_average_and_never_nobody():
    _, kept = run(FedDyn(m=2, sampling="bernoulli", tau=1), problem().learner(), 600)
    sizes = [len(kept.cohorts(s)[0]) for s in range(600)]
    assert min(sizes) == 1
    assert max(sizes) >= 4
    # E max(1, Binomial(5, 0.4)) = 2 + 0.6^5
    assert np.mean(sizes) == pytest.approx(2 + 0.6**5, abs=0.15)


def test_snapshot_step_is_drawn_once_for_all():
    p = problem()
    seen = []

    class Spy(DRFA):
        def round(self, x, s, rng):
            flow, answer = super().round(x, s, rng), None
            while True:
                try:
                    request = flow.send(answer)
                except StopIteration as done:
                    return done.value
                if isinstance(request, Gather) and "t" in request.asks[0].shared:
                    seen.append(request.asks[0].shared["t"])
                answer = yield request

    run(Spy(m=3), p.learner(), 200)
    assert seen == [snapshot_step(0, s, 10) for s in range(200)]
    assert set(seen) == set(range(1, 11))

"""Adaptive tau: Wang's values, the estimators against closed forms, what is paid, budgets from both sides, refusals, resuming."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from quadratics import Kept, problem, run

from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.exchange import Order
from wflsim.experiments.plan import plan, regimes
from wflsim.experiments.run import run as run_scenario
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fedprox import FedProx
from wflsim.policies.registry import POLICIES
from wflsim.questions import Pace
from wflsim.records import Leg, trace_from_json, trace_to_json
from wflsim.scenario import load
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training
from wflsim.world.pacer import GROWTH, MOST, Exhausted, Pacer, best_tau, divergence, gap
from wflsim.world.spec import WorldSpec
from wflsim.world.world import World

C_S, B_S = 0.013015156, 0.131604348
N, P = 6, 4
BITS = 32 * P
RADIO = {"snr": "10 dB", "bandwidth": "2 kHz", "power": "100 mW"}
DEVICES = {"frequency": "100 kHz", "cycles_per_sample": 1000}
"""10 ms per sample."""
ADAPTABLE = [kind for kind in POLICIES if kind.why_fixed_tau() is None and kind.model_fields["tau"].default != 1]


def wang(beta, delta, rho, budget_s=15.0):
    return Pace(budget_s, 0.025, 0.01, beta, rho, delta)


def policy_of(kind, budget, tau=None):
    """A policy of this kind with short local steps, so that none diverges; with an adaptive tau, unless one is given."""
    step = "eta" if "eta" in kind.model_fields else "eta_l"
    small = {key: 0.001 for key in ("eta_delta", "eta_lambda") if key in kind.model_fields}
    return kind(**small, **{step: 0.002, "tau": tau or adapt(budget, phi=0.001)})


def adapt(budget="1000 s", **keys):
    return {"adapt": {"budget": budget, **keys}}


def world(spec=None):
    return World(WorldSpec.model_validate({"radio": RADIO, "devices": DEVICES, **(spec or {})}), N, 0)


@pytest.mark.parametrize(("constants", "tau"), [((1, 1, 1), 28), ((1, 0.1, 1), 66), ((10, 1, 1), 10)])
def test_the_published_values(constants, tau):
    assert best_tau(wang(*constants), C_S, B_S) == tau


def test_the_published_gap_to_its_printed_digits():
    assert round(gap(28, wang(1, 1, 1), C_S, B_S), 6) == 5.830311


def test_the_gap_is_the_formula_written_once_more():
    eta, phi, R = 0.01, 0.025, 15.0
    for beta, delta, rho in ((1, 1, 1), (3, 0.2, 0.5), (0.1, 2, 4)):
        for tau in (1, 2, 17, 100):
            T = (R - C_S - B_S) * tau / (C_S * tau + B_S)
            h = delta / beta * ((eta * beta + 1) ** tau - 1) - eta * delta * tau
            expected = (1 + math.sqrt(1 + 4 * T**2 * phi * rho * eta * h / tau)) / (2 * T * eta * phi) + rho * h
            assert gap(tau, wang(beta, delta, rho), C_S, B_S) == pytest.approx(expected, rel=1e-9)


def test_h_is_zero_for_one_step_and_where_beta_or_delta_is_zero_and_the_bound_is_then_taken():
    assert divergence(1, 0.01, 3.0, 2.0) == pytest.approx(0, abs=1e-15)
    for beta, delta in ((0.0, 1.0), (1.0, 0.0)):
        assert divergence(50, 0.01, beta, delta) == 0
        assert best_tau(wang(beta, delta, 1.0), C_S, B_S) == MOST
    assert divergence(100, 0.01, 1e-9, 1.0) < 1e-8  # the limit from above, without cancellation
    assert divergence(100, 1.0, 1e9, 1.0) == math.inf  # beyond floats: never chosen
    assert best_tau(wang(1e9, 1.0, 1.0)._replace(eta=1.0), C_S, B_S) == 1


def test_of_equal_gaps_the_smallest_tau_is_taken():
    assert best_tau(wang(1.0, 1.0, 1.0)._replace(eta=1e3, beta=1e300), C_S, B_S) == 1  # all but the first are infinite
    free = wang(1.0, 1.0, 0.0)  # rho = 0: G = 1/(T' eta phi), and T' does not depend on tau if an aggregation is free
    assert best_tau(free, 0.01, 0.0) == 1


def pacer(c_s, b_s, tau=1):
    """A pacer after one round of tau = 1 with these costs, and its clock."""
    made = Pacer()
    assert made.tau(wang(None, None, None), 0.0) == 1
    made.give([Order(0, 0, 0, 0, 0, 0, 1, 30, 30, 0, 3, 3)])
    made.end_round([Leg(0, 0, 0, "compute", 0.0, 3 * c_s)])
    return made, c_s + b_s


def test_costs_are_those_of_the_rounds_so_far():
    made, now_s = pacer(0.5, 2.0)
    assert made.costs_s(now_s) == pytest.approx((0.5, 2.0))
    made.tau(wang(1.0, 1.0, 1.0, 1e4), now_s)
    made.give([Order(0, 1, 0, 0, 0, 0, 1, 30, 30, 0, 3, 3), Order(1, 1, 0, 0, 0, 0, 1, 30, 30, 0, 2, 2)])
    legs = [Leg(1, 0, 0, "compute", 3.0, 4.0), Leg(1, 0, 1, "compute", 3.0, 5.0), Leg(1, 0, 2, "compute", 3.0, 9.0)]
    made.end_round([*legs, Leg(1, 0, 1, "compute", 3.0, 99.0, outcome="late")])
    c_s, b_s = made.costs_s(30.0)
    assert c_s == pytest.approx((1.5 + 2.0) / (3 + 2))  # of the slowest who computed to the end; client 2 had no order
    assert c_s * (1 + made._tau) + 2 * b_s == pytest.approx(30.0)


def test_the_search_ends_at_ten_times_the_tau_before_and_at_a_hundred():
    made, now_s = pacer(0.001, 1.0)
    asked = wang(0.0, 0.0, 1.0, 1e9)
    taus = []
    for _ in range(4):
        taus.append(made.tau(asked, now_s))
        made.end_round([])
        now_s += 1.0
    assert taus == [GROWTH, MOST, MOST, MOST]


def test_a_budget_that_fits_no_round_is_said_and_one_above_it_is_used():
    for budget_s, fits in ((2.5, False), (2.4999, False), (5.0, True)):
        made, now_s = pacer(0.5, 2.0)
        if fits:
            assert made.tau(wang(0.0, 0.0, 1.0, budget_s), now_s) == 1
        else:
            with pytest.raises(Exhausted, match=r"no round fits into .* takes 2.5 s; raise the budget"):
                made.tau(wang(0.0, 0.0, 1.0, budget_s), now_s)
    made, now_s = pacer(0.5, 2.0)
    with pytest.raises(Exhausted, match=r"used up: after 1 rounds 2.5 s of 4.999 s are gone, and one more round takes 2.5 s"):
        made.tau(wang(0.0, 0.0, 1.0, 4.999), now_s)


def test_the_last_tau_is_cut_to_what_fits():
    made, now_s = pacer(0.5, 2.0)
    assert made.tau(wang(0.0, 0.0, 1.0, now_s + 2.0 + 0.5 * 4), now_s) == 4
    made, now_s = pacer(0.5, 2.0)
    assert made.tau(wang(0.0, 0.0, 1.0, now_s + 2.0 + 0.5 * 4 - 1e-6), now_s) == 3


def test_estimates_on_quadratics_are_their_closed_forms():
    """F_i(w) = 1/2 (w - m_i)' A_i (w - m_i) + const, full batches: gradients and losses are known everywhere."""
    p = problem(N, P)
    policy = FedAvg(tau=adapt(), eta=0.05)
    training = Training(policy, p.learner(), 0)
    w, local = p.start.copy(), None
    d = np.array(p.d, dtype=float)
    known = None
    carrier, kept = world(), Kept()
    drive(training, carrier, kept, Stop(StopSpec(rounds=5)), N, 0)
    for entry in kept.trace:
        if known is not None:
            asked = entry.pace
            np.testing.assert_allclose([asked.delta], [known["delta"]], rtol=1e-10)
            for name in ("beta", "rho"):
                assert (getattr(asked, name) is None) == (known[name] is None)
                if known[name] is not None:
                    np.testing.assert_allclose(getattr(asked, name), known[name], rtol=1e-8)
        tau = kept.rows[entry.round].tau
        g = np.stack([p.grad(i, w) for i in range(N)])
        known = {"delta": d @ np.linalg.norm(g - d @ g / d.sum(), axis=1) / d.sum(), "beta": None, "rho": None}
        if local is not None:
            apart = [np.linalg.norm(y - w) for y in local]
            beta = [np.linalg.norm(p.grad(i, local[i]) - g[i]) / apart[i] for i in range(N)]
            rho = [abs(p.f(i, local[i]) - p.f(i, w)) / apart[i] for i in range(N)]
            known |= {"beta": d @ beta / d.sum(), "rho": d @ rho / d.sum()}
        local = []
        for i in range(N):
            y = w.copy()
            for _ in range(tau):
                y = y - 0.05 * p.grad(i, y)
            local.append(y)
        w = np.mean(local, axis=0)
    assert known["beta"] is not None
    assert [row.tau for row in kept.rows[:2]] == [1, 1]
    np.testing.assert_allclose(training.state.w, w, atol=1e-12)


@pytest.mark.parametrize("kind", ADAPTABLE, ids=lambda kind: kind.__name__)
def test_every_single_phase_policy_learns_with_the_tau_of_the_round_and_pays_a_gradient_and_two_numbers(kind):
    """Laid beside the policy with each round's tau given as a number: the same batches, the same model, bit for bit."""
    policy = policy_of(kind, "40 s")
    training, kept = run(policy, problem(N, P).learner(batch=3), 6, world())
    plain = Training(policy_of(kind, "", 1), problem(N, P).learner(batch=3), 0, 1_000_000)
    taus = [row.tau for row in kept.rows]
    assert taus[:2] == [1, 1]
    assert max(taus) > 1
    for s, entry in enumerate(kept.trace):
        plain.policy = policy_of(kind, "", taus[s])
        alone = Kept()
        drive(plain, world(), alone, lambda row: "one", N, 0, start=s)
        before, after = ([order for step in one.steps for order in step.orders] for one in (alone.trace[0], entry))
        for one, two in zip(before, after, strict=True):
            passes = 1 if s == 0 or one.client not in {o.client for e in kept.trace[:s] for o in e.steps[0].orders} else 2
            batch = min(3, problem(N, P).learner(batch=3).samples[two.client])
            assert two.adapt_bits == two.up_bits - one.up_bits == BITS + 64
            assert two.adapt_samples == two.backward_samples - one.backward_samples == passes * batch
            assert two.forward_samples - one.forward_samples == passes * batch
            assert two.backward_steps - one.backward_steps == passes
        row = kept.rows[s]
        assert row.adapt_bits == sum(order.adapt_bits for order in after)
        assert 0 < row.adapt_j < row.energy_j
    torch.testing.assert_close(training.state.w, plain.state.w, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ADAPTABLE, ids=lambda kind: kind.__name__)
def test_killed_and_resumed_it_comes_to_the_same_bytes_in_a_world_that_loses_replies(kind):
    policy, rounds = policy_of(kind, "40 s"), 9
    rough = {"radio": {**RADIO, "loss": {"probability": 0.3}}}
    whole, kept = run(policy, problem(N, P).learner(batch=3), rounds, world(rough), evaluate_every=1)
    assert any(row.delivered < row.asked for row in kept.rows)
    assert kept.rows[-1].tau > 1
    for stop_after in (1, 2, 6):
        first, half = run(policy, problem(N, P).learner(batch=3), stop_after, world(rough), evaluate_every=1)
        buffer = io.BytesIO()
        torch.save(first.snapshot(), buffer)
        second, rest = Training(policy, problem(N, P).learner(batch=3), 0, 1), Kept()
        second.restore(torch.load(io.BytesIO(buffer.getvalue()), weights_only=True))
        trace = [trace_from_json(trace_to_json(entry)) for entry in half.trace]
        drive(Replay(trace, then=second), world(rough), rest, Stop(StopSpec(rounds=rounds)), N, 0)
        assert rest.rows == kept.rows
        assert rest.legs == kept.legs
        assert rest.trace == kept.trace
        assert torch.equal(second.state.w, whole.state.w)


def test_policies_that_cannot_adapt_say_why():
    words = {
        "asynchronous": "is asynchronous", "decentralised": "has no server", "phases": "has 2 phases in a round", "one_model": "different models",
    }  # fmt: skip
    refused = 0
    for kind in POLICIES:
        why = kind.why_fixed_tau()
        cause = next((name for name in ("asynchronous", "decentralised") if getattr(kind, name)), None)
        cause = cause or ("phases" if kind.about.phases > 1 else None if kind.one_model else "one_model")
        if cause is None:
            assert why is None
            continue
        refused += 1
        assert words[cause] in why
        with pytest.raises(ValidationError, match=rf"tau: adapt is not for \w+: it .*{words[cause]}"):
            kind(tau=adapt(), **({"m": 3} if kind.model_fields["m"].is_required() else {}))
    assert refused >= 9
    for kind in POLICIES:  # no local steps at all
        if kind.model_fields["tau"].default == 1 and kind.why_fixed_tau() is None:
            with pytest.raises(ValidationError):
                kind(tau=adapt())


def test_what_contradicts_it_is_refused():
    with pytest.raises(ValidationError, match="tau_min draws steps up to tau, which tau: adapt chooses for all alike"):
        FedProx(tau=adapt(), tau_min=2)
    with pytest.raises(ReplayRefused, match="tau: adapt chooses local steps by what rounds take"):
        run(FedAvg(tau=adapt()), problem(N, P).learner(), 2)


def test_a_run_ends_when_its_budget_is_used_up_and_never_beyond_it(tmp_path):
    for budget in (5, 10):
        training, kept = Training(FedAvg(tau=adapt(f"{budget} s"), eta=0.05), problem(N, P).learner(batch=3), 0, 1), Kept()
        reason = drive(training, world(), kept, Stop(StopSpec(rounds=1000)), N, 0)
        assert reason.startswith(f"tau.adapt.budget: used up: after {len(kept.rows)} rounds")
        last = kept.rows[-1]
        assert last.end_s <= budget + 1e-6
        assert budget - last.end_s < 0.3
    kept = Kept()
    reason = drive(Training(FedAvg(tau=adapt("0.05 s")), problem(N, P).learner(batch=3), 0, 1), world(), kept, Stop(StopSpec(rounds=9)), N, 0)
    assert reason.startswith("tau.adapt.budget: no round fits into 0.05 s")
    assert len(kept.rows) == 1


SCENARIO = """
name: adaptive
clients: 4
data: {name: digits}
partition: {name: iid}
model: {name: linear}
policies: [{name: fedavg, tau: {adapt: {budget: 3 s}}}]
radio: {snr: 10 dB, bandwidth: 1 MHz}
stop: {rounds: 200}
"""


def scenario(tmp_path, more="", **old):
    text = SCENARIO
    for before, after in old.items():
        text = text.replace(before, after)
    (tmp_path / "a.yaml").write_text(text + more)
    return load(tmp_path / "a.yaml")


def test_it_is_trained_in_its_own_world_and_the_key_says_why(tmp_path):
    made = scenario(tmp_path)
    (one,) = plan(regimes(made))
    assert one.why_live.startswith("policies.tau.adapt can change what is learnt")
    results = run_scenario(made, tmp_path / "out", workers=1)
    rounds = results.rounds
    assert rounds["tau"].iloc[0] == 1
    assert rounds["tau"].max() > 1
    assert rounds["end_s"].max() <= 3
    assert (rounds["adapt_bits"] == 4 * 32 * (65 * 10) + 4 * 64).all()
    assert "tau.adapt.budget: used up" in (tmp_path / "out" / "fedavg" / "seed-0" / "status.json").read_text()


def test_scenarios_that_contradict_it_are_refused_by_their_keys(tmp_path):
    with pytest.raises(ScenarioError, match=r"server.compute_budget: lets clients take fewer steps than the tau that fedavg adapts"):
        scenario(tmp_path, "server: {compute_budget: 1 s}\n")
    with pytest.raises(ScenarioError, match=r"a.yaml:7: policies.0.*tau: adapt is not for drdm: it has 2 phases"):
        scenario(tmp_path, fedavg="drdm, m: 2")
    with pytest.raises(ScenarioError, match=r"a.yaml:7: policies.0.tau.adapt.budget: this key is required and missing"):
        scenario(tmp_path, **{"budget: 3 s": "phi: 1"})
    with pytest.raises(ScenarioError, match=r"a.yaml:7: policies.0.tau: got 0; must be a block with keys out of adapt, or a whole number, at least 1"):
        scenario(tmp_path, **{"{adapt: {budget: 3 s}}": "0"})

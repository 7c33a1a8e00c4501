"""What is remembered, what is sent and what is charged, from the rows alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hard_policies import Personal
from rigs import CLIENTS, HARSH, LOSSY, Rows, learner, live, rehearse, rounds, world

from wflsim.errors import Diverged, WflsimError
from wflsim.exchange import Ask, Coded, Draw, Gather, Order, wire_bits
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg
from wflsim.simulation.loop import drive
from wflsim.simulation.training import Training
from wflsim.world.world import World

DRDM4 = DRDM(m=4, tau=3, eta=0.1)


def mean_memory(training):
    rows = training.learner.rows("memory", "g")
    return sum(rows.values()) / CLIENTS


@pytest.mark.parametrize("spec", [None, LOSSY, HARSH], ids=["lossless", "lossy", "lossy with a deadline"])
@pytest.mark.parametrize("scheme", ["sequential", "with_replacement", "uniform_weighted", "systematic"])
def test_c_is_the_mean_of_the_memories_whatever_gets_lost(spec, scheme):
    policy = DRDM(m=4, tau=3, eta=0.1, scheme=scheme, gamma=0.01)
    rows, training = live(policy, spec, count=12, dtype="float64")
    assert training.state.c.abs().max() > 1e-3
    torch.testing.assert_close(training.state.c, mean_memory(training), rtol=0, atol=1e-12)
    assert training.state.lam.sum() == pytest.approx(1, abs=1e-12)
    assert training.state.lam.min() >= 0.03 / CLIENTS - 1e-15
    lost = sum(row.asked - row.delivered for row in rows.rounds)
    assert (lost > 0) == (spec is not None)


def test_personal_state_survives_a_lost_upload_and_memory_does_not():
    rows, training = live(Personal(), LOSSY, count=8)
    computed = training.learner.rows("personal", "computed")
    delivered = training.learner.rows("memory", "delivered")
    count = lambda rows: sum(float(row[0]) for row in rows.values())  # noqa: E731
    assert count(computed) == sum(row.asked for row in rows.rounds)
    assert count(delivered) == sum(row.delivered for row in rows.rounds) < count(computed)


def test_personal_state_is_not_kept_when_the_deadline_comes_before_the_computation_ends():
    slow = {"devices": {"cycles_per_sample": 1e9}, "server": {"deadline": "1 s"}}
    rows, training = live(Personal(), slow, count=2)
    assert training.learner.rows("personal", "computed") == {}
    assert all(row.delivered == 0 and row.energy_j > 0 and row.end_s > row.start_s for row in rows.rounds)


def test_an_empty_round_leaves_the_state_and_charges_time_and_energy():
    dead_slow = {"server": {"deadline": "1 ms"}}
    for policy in (FedAvg(m=4), DRDM4):
        rows, training = live(policy, dead_slow, count=3)
        assert torch.equal(training.state.w, training.learner.initial())
        assert [row.delivered for row in rows.rounds] == [0, 0, 0]
        assert rows.rounds[-1].end_s == pytest.approx(3e-3)
        assert all(row.energy_j > 0 for row in rows.rounds)


def test_memory_is_rolled_back_with_the_whole_upload_not_with_half_of_it():
    """Losses hit uploads, which are atomic: either both models count or neither."""
    rows, training = live(DRDM4, LOSSY, count=10)
    served = {leg.client for leg in rows.legs if leg.activity == "transmit" and leg.phase == 0 and leg.outcome == "ok"}
    assert set(training.learner.rows("memory", "g")) == served


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tau", [1, 3])
def test_bits_are_those_of_the_table_in_either_precision(dtype, tau):
    P = 650
    rows, _ = rehearse(FedAvg(m=4, tau=tau), dtype=dtype)
    for entry in rows.trace:
        (step,) = entry.steps
        bits = {(o.shared_bits, o.each_bits, o.up_bits, o.paper_bits) for o in step.orders}
        assert bits == {(32 * P, 0, 32 * P, 32 * P)}
    rows, _ = rehearse(DRDM(m=4, tau=tau), count=12, dtype=dtype)
    up = []
    for entry in rows.trace:
        main, dual = entry.steps
        assert len(main.orders) == len(dual.orders) == 4
        assert {o.shared_bits for o in main.orders} == {32 * P + 32}
        assert {(o.shared_bits, o.up_bits, o.paper_bits) for o in dual.orders} == {(32 * P, 32, 0)}
        assert {o.paper_bits for o in main.orders} == {2 * 32 * P}
        assert len({o.up_bits for o in main.orders}) == 1
        up.append(main.orders[0].up_bits // (32 * P))
    # two models, except when the snapshot is the last step, which happens once in tau
    assert set(up) == ({1} if tau == 1 else {1, 2})


def test_work_is_metered_not_declared():
    rows, training = rehearse(DRDM4)
    for entry in rows.trace:
        main, dual = entry.steps
        sizes = training.learner.samples
        assert all(o.backward_samples == 3 * min(16, sizes[o.client]) == o.forward_samples for o in main.orders)
        assert all((o.backward_samples, o.forward_samples) == (0, min(16, sizes[o.client])) for o in dual.orders)


@pytest.mark.parametrize("policy", [FedAvg(m=4, tau=3), DRDM4], ids=["fedavg", "drdm"])
def test_paper_accounting_is_its_formula(policy):
    """E = sum_s sum_{i in D_s} (tau E_p + P L / R) with L the models of the main phase, even when t' = tau."""
    rows, training = live(policy, {"devices": {"cycles_per_sample": 2e6, "frequency": "1.5 GHz", "kappa": 1e-28}})
    models = 2 if policy.name == "drdm" else 1
    rate_bps = 200e3 * np.log2(1 + 10)
    expected = 0.0
    for entry in rows.trace:
        for order in entry.steps[0].orders:
            batch = min(16, training.learner.samples[order.client])
            step_j = 1e-28 * 2e6 * batch * 1.5e9**2
            expected += policy.tau * step_j + 0.1 * models * 32 * 650 / rate_bps
    assert sum(row.paper_energy_j for row in rows.rounds) == pytest.approx(expected, rel=1e-9)
    main = [leg for leg in rows.legs if leg.phase == 0 and leg.activity in ("compute", "transmit")]
    power_w = {leg: leg.radiated_j / (leg.end_s - leg.start_s) for leg in main}
    from_rows = sum(
        leg.energy_j if leg.activity == "compute" else power_w[leg] * models * 32 * 650 / leg.rate_bps for leg in main
    )
    assert from_rows == pytest.approx(expected, rel=1e-9)
    assert sum(row.energy_j for row in rows.rounds) == pytest.approx(sum(leg.energy_j for leg in rows.legs), rel=1e-12)


def test_a_world_aware_selector_is_heard():
    class Best(World):
        """Always the first clients that could serve, with weights of its own."""

        def select(self, draw, race, eligible):
            D = eligible[: draw.m]
            return D, {i: 1 / len(D) for i in D}

    rows = Rows()
    carrier = world(LOSSY, kind=Best)
    drive(Training(FedAvg(m=3), learner(), 0), carrier, rows, rounds(4), CLIENTS, 0)
    assert {order.client for entry in rows.trace for order in entry.steps[0].orders} == {0, 1, 2}


def test_payload_items_are_counted_once_coded_as_coded_and_scalars_as_32():
    y = torch.zeros(4, 10, dtype=torch.float64)
    assert wire_bits({"y": y, "z": y}, rows=True) == 320
    assert wire_bits({"y": y, "z": y.clone()}, rows=True) == 640
    assert wire_bits({"y": Coded(y, 87), "loss": torch.zeros(4)}, rows=True) == 87 + 32
    assert wire_bits({"w": y[0], "t": 3}, rows=False) == 352
    assert wire_bits({}, rows=True) == 0


def test_equal_numbers_are_two_numbers_and_one_tensor_is_one_tensor():
    three, zero = np.float64(3.0), torch.zeros(())
    for pair in ((3, 3), (3, 4), (3.0, 3.0), (three, three), (np.int64(3), np.int64(3)), (True, True)):
        assert wire_bits({"t": pair[0], "k": pair[1]}, rows=False) == 64
    assert wire_bits({"t": zero, "k": zero.clone()}, rows=False) == 64
    assert wire_bits({"t": zero, "k": zero}, rows=False) == 32
    vector = np.zeros(5)
    assert wire_bits({"t": vector, "k": vector}, rows=False) == 160
    assert wire_bits({"t": Coded(vector, 9), "k": Coded(vector, 9)}, rows=False) == 9


def test_a_client_asked_twice_at_once_is_an_error_that_names_the_policy():
    class Twice(FedAvg):
        def round(self, x, s, rng):
            work = partial(self.local_steps, tau={0: 1})
            yield Gather([Ask([0], work, shared={"w": x.w}), Ask([0], work, shared={"w": x.w})])
            return x

    with pytest.raises(WflsimError, match="fedavg: one Gather asks a client twice"):
        rehearse(Twice(m=1))


def test_a_diverging_run_says_policy_round_and_cure():
    with pytest.raises(Diverged, match=r"policy drdm: .* finite in round \d+; usual cure: a smaller eta"):
        rehearse(DRDM(m=4, tau=10, eta=900.0, mu=100.0), count=60)


def test_draws_of_one_round_differ_and_do_not_depend_on_the_policy():
    class Drawing(FedAvg):
        def round(self, x, s, rng):
            first, _ = yield Draw(3)
            second, _ = yield Draw(3)
            seen.append((tuple(first), tuple(second)))
            yield Gather([Ask(first, partial(self.local_steps, tau=dict.fromkeys(first, 1)), shared={"w": x.w})])
            return x

    seen = []
    rehearse(Drawing(m=3), count=12)
    assert any(first != second for first, second in seen)
    fedavg, _ = rehearse(FedAvg(m=3), count=12)
    assert [tuple(o.client for o in e.steps[0].orders) for e in fedavg.trace] == [first for first, _ in seen]


def test_an_order_is_numbers_only():
    assert all(isinstance(value, int) for value in Order(1, 2, 3, 4, 5, 6, 7, 8, 9, 10))


def test_the_deadline_of_the_rig_really_bites():
    rows, _ = live(DRDM4, HARSH, count=12)
    assert {"ok", "lost", "late"} <= {leg.outcome for leg in rows.legs if leg.activity == "transmit"}


def test_a_model_whose_losses_overflow_has_diverged():
    """Weights may be finite while logits are not: then accuracies are of no meaning, and the run says so."""

    class Huge(FedAvg):
        def model(self, x, me):
            return x.w.new_full(x.w.shape, 1.7e308)

    with pytest.raises(Diverged, match="the test loss of client 0 is not finite in round 0"):
        rehearse(Huge(m=4), count=1, dtype="float64")

"""devices.dvfs just_in_time: the joules that a lower clock saves at equal round time, in closed form and by replay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from test_world_vectorised import by_events, random_trace, random_world

from studies.just_in_time import OUT, table
from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.records import Step, TraceRound
from wflsim.world.world import World, WorldSpec

ORDERS = [Order(client, 0, 0, 0, 10**6, 0, 10**6, 30, 30, 10**6, 3, 3) for client in range(2)]
TRACE = [TraceRound(0, [Step("gather", ORDERS, None)], None)]
"""Two clients receive a megabit, train on 30 samples and send a megabit."""
KAPPA, CYCLES, LISTEN = 1e-27, 30 * 1e7, 0.01


def world(least="100 MHz", dvfs="just_in_time", **more):
    """Client 0 sends in 1 s, client 1 in 2 s; both compute for 0.3 s at 1 GHz. Downlink: 1 s."""
    devices = {"cycles_per_sample": 1e7, "frequency": "1 GHz", "min_frequency": least, "kappa": KAPPA, "dvfs": dvfs, **more}
    radio = {"snr": ["1 linear", f"{np.sqrt(2) - 1} linear"], "downlink": {"snr": "1 linear"}}
    return WorldSpec.model_validate({"radio": radio, "devices": devices})


def computing(legs, client=0):
    return next(leg for leg in legs if leg.activity == "compute" and leg.client == client)


def test_the_faster_client_slows_down_to_the_slowest_and_saves_what_the_closed_form_says():
    rows, legs = by_events(TRACE, world(), 0, clients=2)
    before, _ = by_events(TRACE, world(dvfs="fixed"), 0, clients=2)
    assert rows[0].end_s == pytest.approx(before[0].end_s, rel=1e-12) == pytest.approx(3.3)
    leg = computing(legs)
    slow_hz = CYCLES / 1.3  # 0.3 s of its own and 1 s that it would have waited
    assert leg.end_s - leg.start_s == pytest.approx(1.3)
    saved_j = KAPPA * CYCLES * (1e18 - slow_hz**2) + LISTEN * 1.0
    assert leg.saved_j == pytest.approx(saved_j)
    assert before[0].energy_j - rows[0].energy_j == pytest.approx(saved_j)
    assert computing(legs, 1).saved_j is None


def test_never_below_the_lowest_clock_and_memory_does_not_follow():
    _, legs = by_events(TRACE, world("500 MHz"), 0, clients=2)
    assert computing(legs).end_s - computing(legs).start_s == pytest.approx(0.6)
    _, legs = by_events(TRACE, world("500 MHz", memory_share=0.5), 0, clients=2)
    assert computing(legs).end_s - computing(legs).start_s == pytest.approx(0.3 * (0.5 + 0.5 * 2))
    _, legs = by_events(TRACE, world("500 MHz", step_overhead="0.1 s"), 0, clients=2)
    assert computing(legs).end_s - computing(legs).start_s == pytest.approx(0.3 + 0.6)


def test_it_slows_down_only_where_that_saves():
    """Power that does not follow the clock is drawn for longer at a lower one; idle power is paid either way."""
    for more, slower in (({"clock_exponent": 0.0}, False), ({"compute_idle_power": "5 W"}, True), ({"clock_exponent": 1.0}, True)):
        _, legs = by_events(TRACE, world(**more), 0, clients=2)
        assert (computing(legs).end_s - computing(legs).start_s > 0.31) == slower
        assert (computing(legs).saved_j is not None) == slower


def test_an_interior_clock_is_found_where_the_power_follows_the_square_root():
    """Overhead at the power of the clock against work that takes longer: neither end of the range is the cheapest."""
    spec = world(clock_exponent=0.5, call_overhead="0.2 s", listen_power=0.0)
    rows, legs = by_events(TRACE, spec, 0, clients=2)
    full, _ = by_events(TRACE, world(dvfs="fixed", clock_exponent=0.5, call_overhead="0.2 s", listen_power=0.0), 0, clients=2)
    clock = 0.3 / (computing(legs).end_s - computing(legs).start_s - 0.2)
    grid = np.linspace(0.25, 1, 2001)
    joules = KAPPA * 1e27 * np.sqrt(grid) * (0.2 + 0.3 / grid)
    assert rows[0].energy_j <= full[0].energy_j
    assert np.sqrt(clock) * (0.2 + 0.3 / clock) <= 1.02 * joules.min()


def test_over_random_worlds_rounds_last_as_long_and_the_joules_saved_are_those_of_the_plan():
    saved = 0
    for number in range(80):
        rng = np.random.default_rng([23, number])
        trace, spec, seed = random_trace(rng, 3), random_world(rng), int(rng.integers(0, 100))
        kinds = [kind.model_copy(update={"dvfs": "just_in_time", "min_frequency": 2e8}) for kind in spec.devices]
        slow = spec.model_copy(update={"devices": kinds})
        (rows, legs), (before, _) = by_events(trace, slow, seed), by_events(trace, spec, seed)
        if any(kind.tail for kind in spec.devices):
            continue  # who sends later is awake for longer, and may not have to wake in the next phase
        assert [row.end_s for row in rows] == pytest.approx([row.end_s for row in before], rel=1e-9)
        gain_j = sum(leg.saved_j or 0.0 for leg in legs)
        after_j, before_j = (sum(row.energy_j for row in run) for run in (rows, before))
        assert before_j - after_j == pytest.approx(gain_j, rel=1e-6, abs=1e-9 * before_j)
        saved += gain_j > 0
    assert saved >= 5


def test_it_is_refused_where_it_has_no_meaning():
    base = {"min_frequency": "100 MHz", "dvfs": "just_in_time"}
    for wrong, words in (
        ({"devices": {"dvfs": "just_in_time"}}, "min_frequency"),
        ({"devices": base | {"min_frequency": "3 GHz"}}, "above the clock"),
        ({"devices": base, "cell": {"access": "tdma"}}, "needs cell.access dedicated"),
        ({"devices": base, "server": {"first": 1}}, "server.first"),
    ):
        with pytest.raises(ValidationError, match=words):
            WorldSpec.model_validate(wrong)
    with pytest.raises(ScenarioError, match="synchronous phase"):
        World(world(), 2, 0).send(ORDERS)


def test_those_who_miss_the_deadline_anyway_are_not_waited_for():
    spec = world()
    late = spec.model_copy(update={"server": spec.server.model_copy(update={"deadline": 3.0})})
    _, legs = by_events(TRACE, late, 0, clients=2)
    assert computing(legs).end_s - computing(legs).start_s == pytest.approx(0.3)


@pytest.mark.slow
def test_the_committed_comparison_is_made_again():
    kept, made = pd.read_csv(OUT), table()
    pd.testing.assert_frame_equal(kept, made, rtol=1e-5)
    assert kept.round_just_in_time_s.to_numpy() == pytest.approx(kept.round_s.to_numpy(), rel=1e-5)
    assert (kept.saved_percent[kept.world != "all alike"] > 3).all()

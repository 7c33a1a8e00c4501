"""Mixed fleets drawn from distributions: exact shares, rank correlations that are reached, and the table that says who is what."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import spearmanr

from wflsim.errors import ScenarioError
from wflsim.world.fleet.draw import FleetSpec, deal, shares_to_counts
from wflsim.world.spec import WorldSpec, remarks
from wflsim.world.world import World

CLIENTS = 4000
BLOCKS = {
    "radio": {"path_loss": "uma"},
    "devices": [
        {"share": "30 %", "compute": "raspberry_pi_4", "modem": "wifi_nic", "spread": 0.3, "radiated_power": "50 mW"},
        {"share": "50 %", "compute": "phone_midrange", "modem": "lte", "spread": 0.5, "battery": "60 kJ"},
        {"share": "20 %", "compute": "jetson_nano", "frequency": "0.5 GHz", "spread": 0.2},
    ],
}
SAMPLES = np.random.default_rng(7).lognormal(5, 1, CLIENTS).astype(int).tolist()


def rows(fleet, clients=CLIENTS, seed=3, samples=SAMPLES, **blocks):
    spec = WorldSpec.model_validate({**BLOCKS, **blocks, "fleet": fleet})
    return World(spec, clients, seed, 1e6, samples[:clients]).fleet


def correlations(table):
    speed = [-row.sample_s for row in table]
    data, distance = [row.samples for row in table], [row.distance_m for row in table]
    return [float(spearmanr(*pair)[0]) for pair in ((speed, data), (speed, distance), (data, distance))]


@pytest.mark.parametrize(
    "asked",
    [(0, 0, 0), (0.6, 0, 0), (0, -0.7, 0), (0.6, -0.4, 0), (0, 0, 0.8), (0.6, -0.4, 0.3), (-0.9, 0.5, -0.6), (1, 0, 0), (0.5, 0.5, 1)],
)
def test_the_asked_rank_correlations_are_reached(asked):
    table = rows({"correlation": dict(zip(("speed_data", "speed_distance", "data_distance"), asked, strict=True))})
    assert correlations(table) == pytest.approx(asked, abs=4 / math.sqrt(CLIENTS))
    assert [row.samples for row in table] == SAMPLES  # the data is the learning's, and stays


def test_a_draw_changes_only_who_has_what():
    """Kinds, speeds and places are the same multiset whatever is correlated, and shares are exact."""
    none, some = rows({}), rows({"correlation": {"speed_data": 0.8, "speed_distance": 0.3, "data_distance": 0.2}})
    assert Counter(row.kind for row in none) == {0: 1200, 1: 2000, 2: 800}
    for column in ("kind", "sample_s", "distance_m", "battery_j", "active_w"):
        one, two = (sorted(repr(getattr(row, column)) for row in table) for table in (none, some))
        assert one == two, column
    assert [row.distance_m for row in rows({"correlation": {"speed_distance": 0.9}})] == [row.distance_m for row in none]


def test_the_draw_is_a_named_stream_of_the_seed():
    fleet = {"correlation": {"speed_data": 0.5}}
    assert rows(fleet, 50) == rows(fleet, 50)
    assert rows(fleet, 50) != rows(fleet, 50, seed=4)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6), st.integers(1, 300))
def test_shares_are_rounded_by_largest_remainder(shares, clients):
    counts = shares_to_counts(shares, clients)
    exact = [share / sum(shares) * clients for share in shares]
    assert sum(counts) == clients
    assert all(math.floor(want) <= count <= math.floor(want) + 1 for want, count in zip(exact, counts, strict=True))
    up = [want - math.floor(want) for want, count in zip(exact, counts, strict=True) if count > want]
    down = [want - math.floor(want) for want, count in zip(exact, counts, strict=True) if count <= want and want % 1]
    assert not up or not down or min(up) >= max(down) - 1e-9


def test_the_table_says_who_is_what():
    table = rows({}, 10, outages={"groups": 3, "every": "1 h", "length": "1 min"})
    for row in table:
        kind = BLOCKS["devices"][row.kind]
        assert (row.compute, row.modem) == (kind["compute"], kind.get("modem", "ideal"))
        assert row.clock_hz == {0: 1.5e9, 1: 2e9, 2: 0.5e9}[row.kind]
        assert row.radiated_w == (0.05 if row.kind == 0 else 0.1)
        assert row.battery_j == (60e3 if row.kind == 1 else None)
        assert row.group == row.client % 3
        assert 10 <= row.distance_m <= 500
    given_snr = World(WorldSpec.model_validate({"devices": BLOCKS["devices"]}), 3, 0).fleet
    assert [(row.distance_m, row.samples, row.group) for row in given_snr] == [(None, None, None)] * 3
    assert [row.kind for row in given_snr] == [1, 0, 2]  # in turn, by shares


def test_a_correlation_that_cannot_be_is_refused():
    with pytest.raises(ValidationError, match=r"cannot hold together: .* data_distance must be from 0\.6\d to 1\.00, and is -0\.5"):
        FleetSpec.model_validate({"correlation": {"speed_data": 0.9, "speed_distance": 0.9, "data_distance": -0.5}})
    with pytest.raises(ValidationError):
        FleetSpec.model_validate({"correlation": {"speed_data": 1.1}})
    with pytest.raises(ScenarioError, match="every client has 7 training samples"):
        rows({"correlation": {"speed_data": 0.5}}, samples=[7] * CLIENTS)
    with pytest.raises(ScenarioError, match="not told"):
        deal(FleetSpec.model_validate({"correlation": {"speed_data": 0.5}}), [1.0, 2.0], None, None, 0)
    peers = {"radio": {"path_loss": "uma"}, "d2d": {"topology": {"name": "distance", "within": 100}}, "fleet": {"correlation": {"data_distance": 0.5}}}
    with pytest.raises(ValidationError, match="trade places"):
        WorldSpec.model_validate(peers)


def test_what_cannot_matter_is_said():
    spec = WorldSpec.model_validate({"fleet": {"correlation": {"speed_data": 0.5, "data_distance": 0.5}}})
    said = [words for words in remarks(spec) if words.startswith("fleet")]
    assert [words.split()[0] for words in said] == ["fleet.correlation.data_distance", "fleet.correlation.speed_data"]

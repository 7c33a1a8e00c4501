"""Availability: by rule, from files and in correlated failures; nobody works outside its hours, and what was done is paid."""

from __future__ import annotations

import json
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from wflsim.errors import Exhausted, ScenarioError
from wflsim.exchange import Order
from wflsim.world.fleet.availability import Churn, Diurnal, OutagesSpec, hours_of
from wflsim.world.fleet.hours import Both, Listed
from wflsim.world.fleet.hours_files import FileHours, hours_from_file, read_hours, summary
from wflsim.world.world import World, WorldSpec, influences

FLASH = {
    "7": {"guid": "7", "model": "x", "messages": "2020-01-29 10:00:00 \tscreen_off\n2020-01-29 10:00:05 \twifi\n2020-01-29 10:00:10 \tbattery_charged_on\n"
          "2020-01-29 10:00:40 \tscreen_on\n2020-01-29 10:01:00 \t99.0%\n2020-01-29 10:01:10 \tscreen_lock\n2020-01-29 10:01:30 \t4G\n2020-01-29 10:02:00 \tscreen_on"},
    "9": {"guid": "9", "model": "y", "messages": "2020-01-29 09:59:00 \tscreen_off\n2020-01-29 09:59:30 \twifi"},
}  # fmt: skip
FEDSCALE = {"1": {"duration": 100, "active": [5, 40], "inactive": [20], "finish_time": 90, "model": "z"}, "2": {"duration": 10, "active": [], "inactive": [], "finish_time": 10, "model": "z"}}
CSV = "client,start_s,end_s\na,0,10\nb,5,6\na,20,30\n"


def windows_of(hours, until_s):
    """All windows up to an instant, by asking only."""
    found, now_s = [], 0.0
    while (start_s := hours.opens_s(now_s)) < until_s:
        found.append((start_s, hours.closes_s(start_s)))
        now_s = found[-1][1]
    return found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.01, 5), min_size=2, max_size=12), st.lists(st.floats(0.01, 5), min_size=2, max_size=12))
def test_listed_hours_and_their_intersection(one, other):
    """Against a scan of all instants."""
    lists = [list(zip(times[::2], times[1::2], strict=False)) for times in (np.cumsum(one).tolist(), np.cumsum(other).tolist())]
    a, b = (Listed(windows) for windows in lists)
    both = Both(a, b)
    for at_s in np.linspace(0, 60, 241).tolist():
        inside = [any(start <= at_s < end for start, end in windows) for windows in lists]
        assert [hours.opens_s(at_s) == at_s for hours in (a, b)] == inside
        assert (both.opens_s(at_s) == at_s) == all(inside)
        assert (both.closes_s(at_s) > at_s) == all(inside)
        later_s = both.opens_s(at_s)
        assert later_s == math.inf or both.closes_s(later_s) > later_s >= at_s


def test_diurnal_hours_come_once_a_day_near_their_hour():
    spec = Diurnal(name="diurnal", start="22 h", length="8 h", spread="1 h")
    for client in range(20):
        windows = windows_of(hours_of(spec, None, 3, client), 10 * 86400.0)
        assert len(windows) in (10, 11)
        starts = [start_s % 86400 for start_s, _ in windows if start_s > 0]
        assert all(at_s >= 19 * 3600 or at_s <= 3600 for at_s in starts)
        assert all(end_s - start_s == pytest.approx(8 * 3600) for start_s, end_s in windows if start_s > 0)
    assert len({windows_of(hours_of(spec, None, 3, client), 86400.0)[-1] for client in range(20)}) == 20


def test_churn_has_its_means_and_leaves_for_ever():
    spec = Churn(name="churn", stay="10 s", away="30 s", leave=0.1)
    found = [windows_of(hours_of(spec, None, 0, client), 1e6) for client in range(400)]
    stays = [end_s - start_s for windows in found for start_s, end_s in windows]
    gaps = [later[0] - earlier[1] for windows in found for earlier, later in pairwise(windows)]
    assert np.mean(stays) == pytest.approx(10, rel=0.1)
    assert np.mean(gaps) == pytest.approx(30, rel=0.1)
    assert np.mean([len(windows) for windows in found]) == pytest.approx(10, rel=0.15)  # leaves with 0.1: ten stays
    late = Churn(name="churn", join="50 s", stay="10 s", away="30 s")
    assert np.mean([hours_of(late, None, 0, client).opens_s(0) for client in range(400)]) == pytest.approx(50, rel=0.15)


def test_groups_fail_together():
    spec = OutagesSpec(groups=3, every="100 s", length="20 s")
    hours = [windows_of(hours_of(None, spec, 5, client), 5000.0) for client in range(9)]
    assert hours[0] == hours[3] == hours[6] != hours[1] == hours[4]
    on_s = sum(end_s - start_s for windows in hours[:3] for start_s, end_s in windows)
    assert on_s / 15000 == pytest.approx(100 / 120, abs=0.08)
    assert influences(WorldSpec.model_validate({"outages": {"groups": 1, "every": 1, "length": 1}})) == ["outages"]


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_three_layouts(tmp_path):
    plain = read_hours(write(tmp_path / "a.csv", CSV), "csv")
    assert [device.windows for device in plain] == [[(0, 10), (20, 30)], [(5, 6)]]
    flash = read_hours(write(tmp_path / "f.json", FLASH), "flash")  # time counts from the earliest event, 09:59:00
    assert [device.windows for device in flash] == [[(70, 100), (130, 150)], []]
    scale = read_hours(write(tmp_path / "s.json", FEDSCALE), "fedscale")
    assert [device.windows for device in scale] == [[(5, 20), (40, 90)], []]
    spec = FileHours(name="file", file=write(tmp_path / "f.json", FLASH), layout="flash")
    assert summary(spec) == (
        "devices.availability.file f.json: 2 devices, 0.05 h, on 23.8% of the time, 1 never, longest gap 0.00833 h; each is off after "
        "its end (loop: true repeats it)"
    )


def test_the_end_of_a_file(tmp_path):
    file = write(tmp_path / "a.csv", CSV)
    assert hours_from_file(FileHours(name="file", file=file), 0, 0).opens_s(30) == math.inf
    looped = hours_from_file(FileHours(name="file", file=file, loop=True), 0, 0)
    assert windows_of(looped, 70) == [(0, 10), (20, 40), (50, 70)]  # [20, 30) and [30, 40) touch
    with pytest.raises(ScenarioError, match="hours of 2 devices, and client 2 needs one more: lower clients, or write draw: with_replacement"):
        World(WorldSpec.model_validate({"devices": {"availability": {"name": "file", "file": file}}}), 3, 0)
    drawn = FileHours(name="file", file=file, draw="with_replacement")
    assert {hours_from_file(drawn, 0, client).closes_s(5.5) for client in range(40)} == {10, 6}


@pytest.mark.parametrize(
    ("layout", "content", "words"),
    [
        ("csv", "who,from,to\n", r"h\.x:1: the header must be client,start_s,end_s"),
        ("csv", "client,start_s,end_s\na,0,10\na,5,20\n", r"h\.x:3: client a is on from 5 s, but was on until 10 s"),
        ("csv", "client,start_s,end_s\na,10,3\n", r"h\.x:2: a window must begin at 0 or later and end after that"),
        ("csv", "client,start_s,end_s\na,0,nan\n", r"h\.x:2: a window must"),
        ("csv", "client,start_s,end_s\na,b,c\n", r"h\.x:2: expected a client and two numbers"),
        ("csv", "client,start_s,end_s\na,1\n", r"h\.x:2: expected a client and two numbers"),
        ("csv", "client,start_s,end_s\n", "holds no device"),
        ("flash", "{", "is not JSON"),
        ("flash", [1], "must be a table of devices by id"),
        ("flash", {"3": {}}, "device 3 has no messages"),
        ("flash", {"3": {"messages": "yesterday\twifi"}}, "device 3, message 1: expected a date"),
        ("flash", {"3": {"messages": "2020-01-29 10:00:00\twifi\n2020-01-29 09:00:00\t4G"}}, "device 3, message 2: 2020-01-29 09:00:00 is earlier"),
        ("fedscale", {"1": {"active": [5]}}, "device 1 needs lists active"),
        ("fedscale", {"1": {"active": [5, 3], "inactive": [4, 9], "finish_time": 10}}, "must take turns and increase"),
        ("fedscale", {"1": {"active": [5, 30, 60], "inactive": [9], "finish_time": 50}}, "must take turns and increase"),
    ],
)
def test_malformed_files_are_refused_with_file_and_line(tmp_path, layout, content, words):
    file = write(tmp_path / "h.x", content)
    with pytest.raises(ValidationError, match=words):
        FileHours(name="file", file=file, layout=layout)


def test_a_pickle_is_never_opened(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was opened",))

    (tmp_path / "p").write_bytes(pickle.dumps(Evil()))
    for layout in ("csv", "flash", "fedscale"):
        with pytest.raises(ValidationError, match="is a pickle, and opening one may run its code"):
            FileHours(name="file", file=str(tmp_path / "p"), layout=layout)


kinds = st.sampled_from([
    {"name": "periodic", "period": "20 s", "open": "7 s"}, {"name": "windows", "windows": [[0, 3], [4, 9], [30, 31]]},
    {"name": "churn", "stay": "5 s", "away": "4 s", "leave": 0.2}, None,
])  # fmt: skip
outages = st.sampled_from([None, {"groups": 2, "every": "8 s", "length": "5 s"}])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(kinds, outages, st.sampled_from(["ideal", "lte"]), st.integers(0, 5), st.booleans())
def test_nobody_works_outside_its_hours_and_what_was_done_is_paid(kind, together, modem, seed, asynchronous):
    blocks = {"devices": {"availability": kind, "modem": modem, "cycles_per_sample": 1e6}, "outages": together, "radio": {"bandwidth": "200 kHz"}}
    spec = WorldSpec.model_validate(blocks)
    w, fates = World(spec, 5, seed), []
    try:
        for s in range(8):
            orders = [Order(c, s, 0, 0, 50_000, 0, 400_000, 1500, 1500, 0, 5, 5) for c in w.eligible()]
            if asynchronous:
                w.send(orders)
                fates += [w.receive().fate for _ in orders]
            else:
                fates += [outcome.fate for outcome in w.gather(orders, None)]
    except Exhausted:
        pass
    legs = [leg for leg in w.take_legs() if leg.activity in ("receive", "compute", "transmit")]
    for leg in legs:
        hours = hours_of(spec.devices[0].availability, spec.outages, seed, leg.client)
        assert hours is None or hours.closes_s(leg.start_s) >= leg.end_s - 1e-9
        assert leg.outcome in ("ok", "gone")
        assert leg.end_s == leg.start_s or leg.energy_j > 0
    gone = sum(leg.outcome == "gone" for leg in legs)
    assert fates.count("gone") >= gone
    if kind or together:
        assert gone


@pytest.mark.parametrize(
    ("outages", "open_s", "opens_s"),
    [({"every": "3 s", "length": 1e29}, 0.0, math.inf), ({"every": 1e29, "length": "0.6 s"}, 1e9, 1e9)],
)
def test_times_longer_than_any_run_end_the_windows_instead_of_the_patience(outages, open_s, opens_s):
    """An outage for ever, and one that never comes: a clock that far on cannot tell a second from nothing."""
    hours = hours_of(None, OutagesSpec(groups=1, **outages), 0, 0)
    assert hours.opens_s(open_s) == open_s
    assert hours.opens_s(max(open_s, hours.closes_s(0.0) if opens_s == math.inf else 0.0)) == opens_s


def test_a_client_that_joins_after_centuries_is_never_there():
    assert hours_of(Churn(name="churn", join=1e29, stay="1 s", away="1 s"), None, 0, 0).opens_s(0.0) == math.inf


def test_more_windows_than_can_be_kept_are_refused_with_the_keys(monkeypatch):
    monkeypatch.setattr("wflsim.world.fleet.hours.WINDOWS_AT_MOST", 100)
    hours = hours_of(Churn(name="churn", stay="1 ms", away="1 ms"), None, 0, 0)
    assert hours.opens_s(0.05) < 1
    with pytest.raises(ScenarioError, match=r"more than 100 windows .* choose longer times in devices.availability \(stay, away\)"):
        hours.opens_s(10.0)

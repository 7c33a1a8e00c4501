"""Facts derived from rows: by hand on a few legs, and on a world with deaths and deadlines."""

import io
import subprocess
import sys

import pandas as pd
import pytest
from report_folders import run_folder
from rich.console import Console

from wflsim.analysis.legs import died_in, failures, latency_s, pooled, stragglers, world_facts, worst_straggler
from wflsim.analysis.tables import Results
from wflsim.cli.show import summary_table
from wflsim.exchange import Order
from wflsim.records import Leg, RoundRow
from wflsim.report.compose import compose, gather
from wflsim.world.world import World, WorldSpec


def leg(client, activity, start_s, end_s, outcome="ok", round=0, phase=0, energy_j=1.0):
    return Leg(round, phase, client, activity, start_s, end_s, 0, None, None, 0, energy_j, 0.0, 0.0, outcome)


def frame(rows):
    return pd.DataFrame(rows, columns=type(rows[0])._fields)


def row(round, start_s, end_s):
    return RoundRow(round, start_s, end_s, *[0] * 7, *[None] * 6)


def last(legs):
    """client -> in how many phases it was the last."""
    found = stragglers(frame(legs))["last"]
    return found[found > 0].to_dict()


def test_by_hand():
    legs = [
        leg(0, "compute", 0, 1), leg(0, "transmit", 1, 2), leg(0, "idle", 2, 5), leg(1, "compute", 0, 5),
        leg(0, "transmit", 5, 9, "lost", round=1), leg(1, "transmit", 5, 8, round=1), leg(1, "tail", 8, 9, round=1),
        leg(1, "transmit", 9, 10, "dead", round=2), leg(0, "idle", 9, 12, round=2),
    ]  # fmt: skip
    assert last(legs) == {1: 1, 0: 1}
    assert stragglers(frame(legs))["phases"].to_dict() == {0: 2, 1: 2}, "in the third round client 1 is alone"
    assert failures(frame(legs)) == {"lost": 1, "dead": 1}
    assert died_in(frame(legs)) == {1: 2}
    assert latency_s(frame([row(0, 0, 5), row(1, 5, 9), row(2, 9, 12)]))[0] == 4
    facts = world_facts(frame(legs))
    assert (facts.lifetime_rounds, facts.dead) == (3, 1)
    assert (facts.straggler, facts.straggler_share) == (0, 0.5), "of equals the lower number; one of its two phases"
    assert facts.energy_j == {"compute": 2, "transmit": 4, "idle": 2, "tail": 1}


def test_latency_is_a_percentile_over_rounds():
    assert latency_s(frame([row(s, 10 * s, 10 * s + s) for s in range(101)])) == (pytest.approx(50), pytest.approx(95))


@pytest.mark.parametrize(("legs", "expected"), [
    ([leg(0, "transmit", 1, 3), leg(1, "transmit", 1, 3), leg(2, "transmit", 0, 2)], {}),
    ([leg(0, "transmit", 2, 3, "late"), leg(1, "compute", 1, 3, "late"), leg(2, "transmit", 0, 2)], {1: 1}),
    ([leg(0, "transmit", 0, 0.1 + 0.2), leg(1, "transmit", 0, 0.3)], {}),
    ([leg(0, "transmit", 0, 3), leg(0, "idle", 3, 9), leg(1, "transmit", 0, 4)], {1: 1}),
    ([leg(0, "transmit", 0, 3), leg(0, "idle", 3, 9, "dropped"), leg(1, "transmit", 0, 4)], {0: 1}),
    ([leg(0, "transmit", 0, 3)], {}),
], ids=["together", "at a deadline", "together but for rounding", "waiting is no work", "waiting cut short", "alone"])  # fmt: skip
def test_who_is_the_last_of_a_phase(legs, expected):
    assert last(legs) == expected


def test_the_stragglers_of_two_runs_are_added_up():
    """Client 1 is the last in one of two phases, then in three of four: four of six, which is no mean of the shares."""
    def run(*lasts):
        return frame([leg(c, "transmit", 0, 2 if c == one else 1, round=s) for s, one in enumerate(lasts) for c in (0, 1)])

    table = pooled([stragglers(run(1, 0)), stragglers(run(1, 1, 0, 1))])
    assert worst_straggler(table) == (1, 4 / 6)


def test_terminal_csv_and_page_agree_about_stragglers_failures_and_lifetime(tmp_path):
    """Clients 4 and 5 end at the same instant, as at a deadline, in every second round; one of them dies in round 7."""
    folder = run_folder(tmp_path / "run", labels=["drdm"], seeds=2, rounds=10, lossy=0.1)
    for path in folder.glob("drdm/seed-*/legs.csv"):
        legs = pd.read_csv(path)
        end_s = legs.groupby("round")["end_s"].transform("max")
        cut = legs["client"].isin([4, 5]) & (legs["activity"] == "transmit") & (legs["round"] % 2 == 0)
        legs.loc[cut, "end_s"], legs.loc[cut, "outcome"] = end_s[cut], "late"
        legs.loc[(legs["client"] == 5) & (legs["round"] == 7) & (legs["activity"] == "transmit"), "outcome"] = "dead"
        legs.to_csv(path, index=False)
    results, held = Results(folder), gather([folder])
    told = io.StringIO()
    Console(file=told, width=200).print(summary_table(results))
    # in even rounds client 4, which began to transmit first; in odd ones client 5, which computes longest
    assert "client 4 (50 %)" in told.getvalue()
    world = results.world
    assert (world["straggler"].tolist(), world["straggler_share"].tolist()) == ([4, 4], [0.5, 0.5])
    chart = next(chart for chart in compose(held).charts if chart.id == "stragglers")
    heat = chart.views[""]["data"][0]
    assert dict(zip(heat["x"], heat["z"][0], strict=True)) == {"0": 0, "1": 0, "2": 0, "3": 0, "4": 0.5, "5": 0.5}
    pd.testing.assert_frame_equal(held.runs[0].world, world)
    assert (world["lifetime_rounds"].tolist(), world["dead_clients"].tolist()) == ([8, 8], [1, 1])
    assert all("dead:1" in words and "late:10" in words for words in world["failures"])
    spoken = [line for line in compose(held).warnings if "orders brought no reply" in line or "batteries died" in line]
    total = int(world["failed_orders"].sum())
    assert spoken[0].startswith(f"drdm: {total} orders brought no reply (20 late, ")
    assert spoken[1] == "drdm: batteries died on 2 of 2 seeds, the first in round 8"


def test_a_world_that_wears_out():
    spec = WorldSpec.model_validate(
        {
            "radio": {"snr": "0 dB", "bandwidth": "1 MHz"},
            "devices": [{"cycles_per_sample": 1e6, "battery": "1 J"}, {"cycles_per_sample": 4e6}],
            "server": {"deadline": "3 s"},
        }
    )
    world, rounds = World(spec, 2, 0), []
    for s in range(8):
        start_s = world.now_s
        world.gather([Order(c, s, 0, 0, 0, 0, 10**6, 1000, 1000, 0) for c in world.eligible()], None)
        world.end_round()
        rounds.append(row(s, start_s, world.now_s))
    facts = world_facts(frame(world.take_legs()))
    assert facts.failures == {"late": 8, "dead": 1}
    assert (facts.lifetime_rounds, facts.dead) == (5, 1)  # 0.2 J of work and 0.01 J of waiting a round
    assert (facts.straggler, latency_s(frame(rounds))[1]) == (1, 3.0)


def test_legs_need_neither_torch_nor_simpy():
    check = "import sys, wflsim.analysis.legs; sys.exit(any(m in sys.modules for m in ('torch', 'simpy')))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

"""Every number the report says is derived again here, from the CSV rows alone."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from report_folders import TARGET, asynchronous_folder, run_folder, sweep_folder, tune_folder
from row_facts import facts, interval, rows, student
from scipy import stats

from wflsim.analysis.formats import duration, percent, si
from wflsim.analysis.legs import CAUSES
from wflsim.analysis.regimes import ordered
from wflsim.analysis.tables import Results
from wflsim.report import build
from wflsim.report.charts.accuracy import front
from wflsim.report.compose import compose, gather
from wflsim.report.series import curve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("report") / "run", lossy=0.1)


@pytest.fixture(scope="module")
def page(folder):
    return compose(gather([folder]))


def assert_spread(cell, values, high=np.inf, bound=False):
    """`bound`: a run missed the target, so the mean is a lower bound without an interval, and says so."""
    mean, low, top = interval(values, high=high)
    assert cell.value == pytest.approx(mean, rel=1e-9)
    assert cell.text.startswith("≥ ") == bound
    if bound:
        assert np.isnan(cell.low)
        assert np.isnan(cell.high)
        return
    assert (cell.low, cell.high) == pytest.approx((low, top), rel=1e-9, abs=1e-12)


def assert_share(cell, hits, trials):
    """Clopper-Pearson by its beta quantiles."""
    low = stats.beta.ppf(0.025, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(0.975, hits + 1, trials - hits) if hits < trials else 1.0
    assert (cell.value, cell.low, cell.high) == pytest.approx((hits / trials, low, high), rel=1e-9)


SHOW = {
    "energy_j": lambda v: si(v, "J"), "paper_energy_j": lambda v: si(v, "J"), "time_s": duration, "rounds": lambda v: f"{v:.0f}" if v >= 100 else f"{v:.3g}",
    "up_bits": lambda v: si(v, "bit"), "down_bits": lambda v: si(v, "bit"), "final_average": percent, "final_worst": percent,
    "final_std": percent,
}  # fmt: skip


def test_every_cell_of_the_comparison_is_derived_from_rows(folder, page):
    table = page.tables[0]
    assert [row[0].text for row in table.rows] == ["fedavg", "drdm"]
    for row in table.rows:
        runs = [facts(folder, row[0].text, seed) for seed in range(3)]
        cells = dict(zip(table.names, row, strict=True))
        assert cells["seeds"].value == 3
        for name, show in SHOW.items():
            top = 1.0 if name.startswith("final") else np.inf
            mean, low, high = interval([run[name] for run in runs], high=top)
            assert cells[name].value == pytest.approx(mean, rel=1e-12)
            assert (cells[name].low, cells[name].high) == pytest.approx((low, high), rel=1e-9)
            assert cells[name].text == show(mean)
        assert_share(cells["p_reach"], sum(run["reached"] for run in runs), 3)
        tables = [rows(folder / row[0].text / f"seed-{seed}" / "rounds.csv") for seed in range(3)]
        spans = [[float(r["end_s"]) - float(r["start_s"]) for r in each] for each in tables]
        for name, q in (("latency_p50_s", 0.5), ("latency_p95_s", 0.95)):
            assert_spread(cells[name], [np.quantile(span, q) for span in spans])
        # the noise floor has a test of its own below; nothing else may stand in the table unchecked
        assert set(cells) == {"policy", "seeds", "p_reach", "latency_p50_s", "latency_p95_s", "worst_by_chance", *SHOW}


def test_the_answer_by_hand(folder, page):
    runs = {policy: [facts(folder, policy, seed) for seed in range(3)] for policy in ("fedavg", "drdm")}
    assert all(run["reached"] for each in runs.values() for run in each)
    mean, low, high = interval([run["energy_j"] for run in runs["drdm"]])
    ratio = [np.log(a["energy_j"] / b["energy_j"]) for a, b in zip(runs["drdm"], runs["fedavg"], strict=True)]
    said = page.openings[0].answer
    assert said.startswith(f"drdm reaches 80 % worst-case accuracy with {si(mean, 'J')} [{si(low, 'J')}, {si(high, 'J')}], ")
    _, low, high = student(ratio, low=-np.inf)
    assert low < 0 < high
    assert f"not told apart from fedavg (somewhere between {100 * np.expm1(high):.0f} % more and {-100 * np.expm1(low):.0f} % less)" in said
    assert "3 of 3 seeds" in said
    assert page.openings[0].sure.startswith("How sure: 3 seeds, P(reach) 100 % [29.2 %, 100 %]. fedavg, the nearest rival, is")


def test_energy_by_cause_and_client_add_up_to_the_table(folder):
    material = gather([folder])
    for series, story in material.stories.items():
        runs = [facts(folder, series.policy, seed) for seed in range(3)]
        assert story.energy.to_numpy().sum() == pytest.approx(np.mean([run["energy_j"] for run in runs]), rel=1e-12)
        by_hand = dict.fromkeys(CAUSES, 0.0)
        for seed in range(3):
            for leg in rows(folder / series.policy / f"seed-{seed}" / "legs.csv"):
                if int(leg["round"]) < runs[seed]["rounds"] and leg["client"] == "2":
                    by_hand[leg["activity"] if leg["outcome"] == "ok" else "in vain"] += float(leg["energy_j"]) / 3
        assert story.energy.loc[2].to_dict() == pytest.approx(by_hand)


def test_durations_and_stragglers_by_hand(folder):
    story = next(iter(gather([folder]).stories.values()))
    took = story.durations.set_index("activity")
    assert took.loc["transmit", "p50_s"] == pytest.approx(0.1)
    assert took.loc["compute", "p95_s"] == pytest.approx(np.quantile([0.3 + 0.02 * i for i in range(6)] * 90, 0.95))
    assert story.last.to_dict() == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 1}  # the last client computes longest


@pytest.mark.parametrize("axis", ["rounds", "time_s", "energy_j", "bits"])
def test_curves_are_the_mean_and_range_of_what_each_seed_had_reached(folder, axis):
    series = gather([folder]).series[1]
    line = curve(series, "worst", axis, 50)
    tables = [rows(folder / "drdm" / f"seed-{seed}" / "rounds.csv") for seed in range(3)]
    columns = {"energy_j": ["energy_j"], "bits": ["up_bits", "down_bits"]}
    for x, mean, low, high in zip(line.x, line.mean, line.low, line.high, strict=True):
        reached = []
        for table in tables:
            spent, value = 0.0, None
            for row in table:
                spent += sum(float(row[name]) for name in columns.get(axis, []))
                cost = {"rounds": int(row["round"]) + 1, "time_s": float(row["end_s"])}.get(axis, spent)
                if cost <= x * (1 + 1e-12):
                    value = float(row["worst"])
            reached.append(value)
        assert (mean, low, high) == pytest.approx((np.mean(reached), min(reached), max(reached)))


def test_sweep_cells_and_answer(tmp_path):
    folder = sweep_folder(tmp_path / "sweep")
    page, cells = compose(gather([folder])), pd.read_csv(folder / "runs.csv")
    table = page.tables[0]
    assert len(table.rows) == 12
    for row in table.rows:
        held = dict(zip(table.names, row, strict=True))
        mine = cells[(cells["radio.snr"] == held["radio.snr"].text) & (cells["radio.bandwidth"] == held["radio.bandwidth"].text)
                     & (cells["policy"] == held["policy"].text)]  # fmt: skip
        assert held["seeds"].value == len(mine) == 4
        for name in (*SHOW, "latency_p50_s", "latency_p95_s"):
            missed = bool((mine["reached"] == 0).any()) and not name.startswith(("final", "latency"))
            assert_spread(held[name], mine[name].tolist(), high=1.0 if name.startswith("final") else np.inf, bound=missed)
        assert_share(held["p_reach"], int(mine["reached"].sum()), 4)
        assert set(held) == {"radio.snr", "radio.bandwidth", "policy", "seeds", "p_reach", "latency_p50_s", "latency_p95_s", *SHOW}
    means = cells.groupby(["regime", "policy"])["energy_j"].mean().unstack()
    reach = cells.groupby(["regime", "policy"])["reached"].mean().unstack()
    wins = sum((reach.loc[r, "drdm"], -means.loc[r, "drdm"]) > (reach.loc[r, "fedavg"], -means.loc[r, "fedavg"]) for r in means.index)
    assert page.openings[0].answer.startswith(f"drdm reaches 80 % worst-case accuracy with the least energy in {wins} of 6 regimes, ")
    assert any("fedavg missed the target on some seed in 1 of 6 regimes" in line for line in page.warnings)


def test_tune_answer_map_and_edge(tmp_path):
    folder = tune_folder(tmp_path / "tune", keys=0)
    chosen = pd.read_csv(folder / "map.csv")
    best, other = chosen.sort_values("cost").to_dict("records")
    page = compose(gather([folder]))
    saved = f"{100 * (1 - best['cost'] / other['cost']):.0f} %"
    cost = f"{si(best['cost'], 'J')} [{si(best['cost_low'], 'J')}, {si(best['cost_high'], 'J')}]"
    assert page.openings[0].answer == (
        f"{best['policy']} with τ = {best['tau_star']} reaches 80 % worst-case accuracy with {cost}, "
        f"{saved} less than {other['policy']} at its best τ = {other['tau_star']}."
    )
    assert "with probability 90 %" in page.openings[0].sure
    assert any("edge" in line for line in page.warnings)
    maps = compose(gather([tune_folder(tmp_path / "map")])).charts[0]
    heat = maps.views["0|tau"]["data"][0]
    assert heat["x"] == ["-5 dB", "5 dB", "15 dB"]
    assert heat["y"] == ["180 kHz", "1 MHz"]


def test_every_cell_of_the_tuning_table_is_the_maps(tmp_path):
    folder = tune_folder(tmp_path / "tune")
    table, chosen = compose(gather([folder])).tables[0], rows(folder / "map.csv")
    chosen = sorted(chosen, key=lambda line: line["policy"])  # drdm wins, so it stands first
    assert len(table.rows) == len(chosen) == 12
    for row, line in zip(table.rows, chosen, strict=True):
        held = dict(zip(table.names, row, strict=True))
        for name in ("policy", "radio.snr", "radio.bandwidth", "within5"):
            assert held[name].text == line[name]
        assert (held["tau_star"].value, held["p_reach"].value) == (float(line["tau_star"]), float(line["p_reach"]))
        bounds = [float(line[name]) for name in ("cost", "cost_low", "cost_high")]
        assert [held["cost"].value, held["cost"].low, held["cost"].high] == pytest.approx(bounds, rel=1e-12)
        assert held["cost"].text == si(bounds[0], "J")
        assert held["edge"].text == ("at the edge" if line["edge"] else "")
        assert set(held) == {"policy", "radio.snr", "radio.bandwidth", "tau_star", "within5", "edge", "cost", "cost_unseen", "p_reach", "could_win"}


def test_pareto_front():
    assert front([(1, 5), (2, 3), (3, 4), (4, 1), (4, 2)]) == [0, 1, 3]


def test_quantities_are_ordered_by_size():
    assert ordered(["1 MHz", "180 kHz", "10 MHz"]) == ["180 kHz", "1 MHz", "10 MHz"]
    assert ordered(["5 dB", "-10 dB", "0 dB"]) == ["-10 dB", "0 dB", "5 dB"]
    assert ordered(["wifi", "lte"]) == ["wifi", "lte"]


def test_tables_for_papers(folder, tmp_path):
    out = build([folder], tmp_path / "r.html", figures=True)
    table = pd.read_csv(tmp_path / "tables" / "comparison.csv")
    summary = Results(folder).summary
    for name in ("energy_j", "energy_j_low", "energy_j_high", "p_reach", "final_worst_high"):
        assert table[name].tolist() == pytest.approx(summary[name].tolist(), rel=1e-12)
    tex = (tmp_path / "tables" / "comparison.tex").read_text()
    assert tex.count(r"\\") == 3
    assert all(rule in tex for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"100 \% ["))
    assert out.exists()
    for ending in ("pdf", "svg", "png"):
        for name in ("accuracy_against_energy", "energy_by_cause", "energy_against_time", "timeline_drdm", "clients_lambda", "energy_by_client", "stragglers"):
            assert (tmp_path / "figures" / f"{name}.{ending}").stat().st_size > 1000


def test_noise_floor_stands_beside_the_worst_accuracy(folder, page):
    from wflsim.target import worst_by_chance

    cells = dict(zip(page.tables[0].names, page.tables[0].rows[0], strict=True))
    counts = pd.read_csv(folder / "partition-seed-0.csv").groupby("client")["test_samples"].sum().tolist()
    floor = worst_by_chance(cells["final_average"].value, counts)
    assert cells["worst_by_chance"].value == pytest.approx(floor)


def test_warnings_name_losses_and_missed_targets(tmp_path):
    goal = {**TARGET, "accuracy": 0.999}
    page = compose(gather([run_folder(tmp_path / "hard", lossy=0.3, target=goal, rounds=10)]))
    assert page.openings[0].answer.startswith("No policy reaches 99.9 % worst-case accuracy; ")
    assert any("missed the target on 3 of 3 seeds" in line for line in page.warnings)
    assert any(re.match(r"fedavg: \d+ orders brought no reply \(\d+ lost\)", line) for line in page.warnings)


def test_failures_are_counted_as_the_world_counts_them(tmp_path):
    folder = asynchronous_folder(tmp_path / "lossy")
    mine, theirs = gather([folder]).runs[0].world, Results(folder).world
    for name in ("policy", "seed", "failed_orders", "failures", "dead_clients"):
        assert mine[name].tolist() == theirs[name].tolist()

"""Tables as their readers see them: numbers are read back from the printed text, bounds included, and derived from the rows.

A test that looks for an entry's own text on the page passes when the text is wrong. Here every printed mean and bound
is parsed, with its unit, and compared with what the rows say, to the digits that are shown.
"""

from __future__ import annotations

import io
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from report_folders import TARGET, run_folder, sweep_folder, tune_folder
from rich.console import Console
from row_facts import facts, interval, numbers, rows, student
from scipy import stats

from wflsim.analysis.answer import answer
from wflsim.analysis.joining import Part, join
from wflsim.analysis.tables import FACTS, Results
from wflsim.cli.show import lines_table, pairs_table, summary_table
from wflsim.report.compose import compose, gather
from wflsim.report.page import render

SHARES = ("P(reach)", "accuracy", "std", "by chance")


class Tables(HTMLParser):
    """The tables of a page, each as rows of cell texts; an interval stands behind its mean, as it does on the page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.found.append([])
        elif tag == "tr" and self.found:
            self.found[-1].append([])
        elif tag in ("td", "th") and self.found:
            self.cell = []
        elif tag == "small" and self.cell is not None:
            self.cell.append(" ")

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.cell is not None:
            self.found[-1][-1].append("".join(self.cell).strip())
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


def page_tables(folders):
    """Every table of the page of these folders as a frame of texts."""
    html = render(compose(gather(folders))).split('<script type="application/json"')[0]
    return [pd.DataFrame(body, columns=heads) for heads, *body in Tables(html).found]


def terminal_table(table):
    """What a rich table prints, as a frame of texts."""
    out = io.StringIO()
    Console(file=out, width=400).print(table)
    lines = [[cell.strip() for cell in line.strip("│┃").split("│" if "│" in line else "┃")] for line in out.getvalue().splitlines() if line[:1] in "│┃"]
    heads, *body = lines
    return pd.DataFrame(body, columns=heads)


def assert_reads(text, expected, share=False):
    """A text shows these numbers (a mean, its low and its high bound) to three digits, a share to a tenth of a percent."""
    found = numbers(text)
    assert len(found) == len(expected), text
    for shown, true in zip(found, expected, strict=True):
        assert shown == pytest.approx(true, **({"abs": 5.01e-4} if share else {"rel": 5.01e-3})), text
    if len(found) == 3 and found[1] != found[2]:
        assert found[1] <= found[0] <= found[2], text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("proof") / "run", seeds=4)


def by_hand(folder, policy, seeds=4):
    """Per heading of the page, mean and bounds from rounds.csv."""
    runs = [facts(folder, policy, seed) for seed in range(seeds)]
    assert all(run["reached"] for run in runs)
    expected = {
        head: interval([run[name] for run in runs], high=1.0 if name.startswith("final") else np.inf)
        for head, name in (
            ("energy", "energy_j"), ("energy, paper's formula", "paper_energy_j"), ("simulated time", "time_s"), ("rounds", "rounds"),
            ("sent up", "up_bits"), ("received", "down_bits"), ("worst accuracy", "final_worst"), ("average accuracy", "final_average"),
            ("std over clients", "final_std"),
        )
    }  # fmt: skip
    expected["P(reach)"] = (1.0, stats.beta.ppf(0.025, seeds, 1), 1.0)
    lengths = [[float(row["end_s"]) - float(row["start_s"]) for row in rows(folder / policy / f"seed-{s}" / "rounds.csv")] for s in range(seeds)]
    for head, q in (("round p50", 50), ("round p95", 95)):
        expected[head] = interval([np.percentile(own, q) for own in lengths])
    return expected


def test_every_mean_and_bound_on_the_page_is_that_of_the_rows(folder):
    seen = set()
    for table in page_tables([folder]):
        if "policy" not in table or "seed" in table:
            continue
        for row in table.to_dict("records"):
            expected = by_hand(folder, row["policy"])
            for head in row.keys() & expected.keys():
                assert_reads(row[head], expected[head], share=head.startswith(SHARES) or head.endswith(SHARES) or "std" in head)
                seen.add((row["policy"], head))
    assert {head for policy, head in seen if policy == "drdm"} == by_hand(folder, "drdm").keys()
    assert len(seen) == 2 * len(by_hand(folder, "drdm"))


def test_every_mean_and_bound_on_the_terminal_is_that_of_the_rows(folder):
    table = terminal_table(summary_table(Results(folder)))
    heads = {"round p50": "round latency p50", "round p95": "round latency p95", "P(reach)": "P(reach 80 %)", "energy, paper's formula": "energy (paper's formula)"}
    for policy in ("fedavg", "drdm"):
        column = table.set_index(table.columns[0])[f"{policy} (4 seeds)"]
        for head, expected in by_hand(folder, policy).items():
            (label,) = [name for name in column.index if name in (heads.get(head, head), f"{heads.get(head, head)} to 80 % worst", f"{head}, last")]
            assert_reads(column[label], expected, share=expected[2] <= 1 and "latency" not in label and "time" not in label)
        assert column["straggler (share of its phases)"] == "client 5 (100 %)"


def test_every_mean_and_bound_in_latex_and_csv_is_that_of_the_rows(folder):
    comparison = compose(gather([folder])).tables[0]
    heads, *body = [line.rstrip("\\ ").split(" & ") for line in comparison.latex().splitlines() if " & " in line]
    table = pd.read_csv(io.StringIO(comparison.csv())).set_index("policy")
    names = {"energy": "energy_j", "simulated time": "time_s", "rounds": "rounds", "P(reach)": "p_reach", "worst accuracy": "final_worst",
             "average accuracy": "final_average", "std over clients": "final_std", "energy, paper's formula": "paper_energy_j", "sent up": "up_bits",
             "received": "down_bits", "round p50": "latency_p50_s", "round p95": "latency_p95_s"}  # fmt: skip
    for row in body:
        shown = dict(zip(heads, row, strict=True))
        for head, expected in by_hand(folder, shown["policy"]).items():
            assert_reads(shown[head], expected, share=r"\%" in shown[head])
            name = names[head]
            assert table.loc[shown["policy"], [name, f"{name}_low", f"{name}_high"]].tolist() == pytest.approx(list(expected), rel=1e-9)


def test_the_facts_at_the_top_have_their_bounds_in_order(folder):
    (opening,) = compose(gather([folder])).openings
    expected = by_hand(folder, "drdm")
    shown = {fact.title: f"{fact.value} {fact.range}" for fact in opening.facts}
    assert opening.answer == answer(Results(folder))
    for title, head in (("energy to target", "energy"), ("simulated time to target", "simulated time"), ("worst client, last", "worst accuracy"), ("average client, last", "average accuracy")):
        assert_reads(shown[title], expected[head], share="client" in title)


def test_every_mean_and_bound_of_a_sweeps_page_is_that_of_its_runs(tmp_path):
    runs = pd.read_csv(sweep_folder(tmp_path / "sweep") / "runs.csv")
    first, second = [each for each in page_tables([tmp_path / "sweep"]) if "snr" in each]  # side by side it would be too wide
    table = first.merge(second, on=["snr", "bandwidth", "policy", "seeds"])
    assert len(table) == 12
    for row in table.to_dict("records"):
        own = runs[(runs["radio.snr"] == row["snr"]) & (runs["radio.bandwidth"] == row["bandwidth"]) & (runs["policy"] == row["policy"])]
        hits = int(own["reached"].sum())
        low = stats.beta.ppf(0.025, hits, 5 - hits)
        assert_reads(row["P(reach)"], (hits / 4, low, 1.0 if hits == 4 else stats.beta.ppf(0.975, hits + 1, 4 - hits)), share=True)
        for head, name in (("energy", "energy_j"), ("simulated time", "time_s"), ("rounds", "rounds"), ("energy, paper's formula", "paper_energy_j")):
            expected = interval(own[name])
            assert row[head].startswith("≥ ") == (hits < 4)
            assert_reads(row[head], expected if hits == 4 else expected[:1])
        assert_reads(row["worst accuracy"], (0.8, 0.8, 0.8), share=True)


def test_every_cost_of_a_tuning_page_has_the_maps_bounds(tmp_path):
    chosen = pd.read_csv(tune_folder(tmp_path / "tune") / "map.csv")
    (table,) = [each for each in page_tables([tmp_path / "tune"]) if "τ*" in each]
    assert len(table) == len(chosen) == 12
    for row in table.to_dict("records"):
        (own,) = chosen[(chosen["radio.snr"] == row["snr"]) & (chosen["radio.bandwidth"] == row["bandwidth"]) & (chosen["policy"] == row["policy"])].to_dict("records")
        assert_reads(row["cost"], (own["cost"], own["cost_low"], own["cost_high"]))
        assert (float(row["τ*"]), row["edge"]) == (own["tau_star"], "at the edge" if isinstance(own["edge"], str) else "")
        assert_reads(row["P(reach)"], (own["p_reach"],), share=True)


# --- pairs: what `compare` prints

def part(folder, policy, energies, reached=None, snr="10 dB", **scenario):
    reached = [1.0] * len(energies) if reached is None else reached
    runs = pd.DataFrame([
        {**dict.fromkeys(FACTS, 0.5), "policy": policy, "seed": seed, "energy_j": joules, "paper_energy_j": joules / 2, "time_s": 100 * joules,
         "rounds": joules, "reached": float(hit), "status": "done"}
        for seed, (joules, hit) in enumerate(zip(energies, reached, strict=True))
    ])  # fmt: skip
    return Part(folder, {"name": folder, "radio": {"snr": snr}, "stop": {"target": TARGET}, **scenario}, policy, {"name": policy}, runs)


CHEAP, DEAR = [10.0, 12.0, 9.0, 11.0, 10.5], [21.0, 22.0, 20.0, 26.0, 19.0]


def saved(best, other):
    """Geometric mean of what is saved, and its bounds, from Student's t of the log ratios."""
    mean, low, high = student(np.log(np.divide(best, other)), low=-np.inf)
    return 1 - np.exp(mean), 1 - np.exp(high), 1 - np.exp(low)


def test_savings_of_compare_have_their_bounds_in_order_on_terminal_and_page():
    joined = join([part("a", "drdm", CHEAP), part("b", "fedavg", DEAR)])
    (line,) = terminal_table(pairs_table(joined)).to_dict("records")
    assert (line["best"], line["against"], line["common seeds"], line["told apart"]) == ("drdm", "fedavg", "5", "yes")
    shown, expected = numbers(line["saves"]), saved(CHEAP, DEAR)
    assert shown == pytest.approx(expected, abs=5.01e-3)
    assert shown[1] < shown[0] < shown[2]
    lines = terminal_table(lines_table(joined)).set_index("policy")
    for policy, energies in (("drdm", CHEAP), ("fedavg", DEAR)):
        assert_reads(lines.loc[policy, "energy"], interval(energies))
        assert_reads(lines.loc[policy, "simulated time"], interval([100 * joules for joules in energies]))
    (row,) = joined.pairs.to_dict("records")
    more = student(np.subtract(DEAR, CHEAP), low=-np.inf)
    assert [row[f"energy_j_more{end}"] for end in ("", "_low", "_high")] == pytest.approx(more)
    assert [row[f"paper_energy_j_more{end}"] for end in ("", "_low", "_high")] == pytest.approx([each / 2 for each in more])
    assert [row[f"time_s_more{end}"] for end in ("", "_low", "_high")] == pytest.approx([100 * each for each in more])


def test_the_policy_that_misses_the_target_is_not_the_best_however_cheap():
    joined = join([part("a", "cheap", [1.0] * 5, reached=[1, 1, 1, 1, 0]), part("b", "sure", DEAR)])
    (line,) = terminal_table(pairs_table(joined)).to_dict("records")
    assert (line["best"], line["against"], line["common seeds"], line["told apart"]) == ("sure", "cheap", "5 (cheap missed 1)", "no")
    shown = terminal_table(lines_table(joined)).set_index("policy")
    assert shown.loc["cheap", "energy"] == "at least 1 J"
    assert shown.loc["cheap", "P(reach)"] == "80 %"
    assert_reads(shown.loc["sure", "energy"], interval(DEAR))


@pytest.mark.parametrize(("other", "words"), [
    (part("b", "fedavg", [30.0] * 5, reached=[1, 1, 1, 1, 0]), "at least "), (part("b", "fedavg", [0.0] * 5), "not known"),
])  # fmt: skip
def test_a_saving_that_is_a_bound_or_unknown_says_so(other, words):
    joined = join([part("a", "drdm", CHEAP), other])
    (line,) = terminal_table(pairs_table(joined)).to_dict("records")
    assert line["saves"].startswith(words)


def test_no_seed_in_common_and_one_seed():
    late = part("b", "fedavg", DEAR)
    late.runs["seed"] += 100
    (line,) = terminal_table(pairs_table(join([part("a", "drdm", CHEAP), late]))).to_dict("records")
    assert (line["common seeds"], line["saves"], line["told apart"]) == ("0", "no seed in common", "no")
    (line,) = terminal_table(pairs_table(join([part("a", "drdm", [5.0]), part("b", "fedavg", [20.0])]))).to_dict("records")
    assert (line["common seeds"], line["saves"], line["told apart"]) == ("1", "75 %", "no")


def test_regimes_are_paired_each_for_itself():
    """At 0 dB it is the other that wins."""
    joined = join([part("a", "drdm", CHEAP), part("b", "fedavg", DEAR), part("c", "drdm", DEAR, snr="0 dB"), part("d", "fedavg", CHEAP, snr="0 dB")])
    found = terminal_table(pairs_table(joined)).set_index("radio.snr")
    assert found["best"].to_dict() == {"10 dB": "drdm", "0 dB": "fedavg"}
    for text in found["saves"]:
        assert numbers(text) == pytest.approx(saved(CHEAP, DEAR), abs=5.01e-3)

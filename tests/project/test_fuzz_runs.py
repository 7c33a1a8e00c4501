"""Random scenarios that really run: tables of finite numbers or a sentence. The generator is studies/fuzz_documents.py."""

from __future__ import annotations

import pytest

import wflsim
from studies.fuzz_documents import LEFT_OUT, document, leave_files
from studies.fuzz_scenarios import fuzz
from studies.fuzz_workers import Worker, finite
from wflsim.scenario.allowed import alternatives, is_spec, items, names_of, of_field
from wflsim.scenario.blocks import SweepSpec, TuneSpec
from wflsim.scenario.schema import Scenario


def written(spec, data, found):
    """(spec, key) of every key that a document writes."""
    for key, value in data.items():
        found.add((spec, key))
        for place in alternatives(of_field(spec.model_fields[key])):
            for member in alternatives(items(place) or place):
                if is_spec(member.annotation):
                    for block in value if isinstance(value, list) else [value]:
                        names = names_of(member.annotation)
                        if isinstance(block, dict) and (not names or block.get("name", names[0]) in names):
                            written(member.annotation, block, found)


def every(spec, found):
    for key, field in spec.model_fields.items():
        if (spec, key) not in found:
            found.add((spec, key))
            for place in alternatives(of_field(field)):
                for member in alternatives(items(place) or place):
                    if is_spec(member.annotation):
                        every(member.annotation, found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    leave_files(path)
    return path


def test_documents_load_write_every_key_and_are_the_same_again(folder):
    """Of all specs but those that need a download; `tune` is a command, and a sweep here is a grid of two."""
    found = set()
    for seed in range(1500):
        data = document(seed, folder)
        wflsim.load(data)
        written(Scenario, data, found)
    assert document(7, folder) == document(7, folder) != document(8, folder)
    left_out = {(spec, key) for spec, key in every(Scenario, set()) if set(names_of(spec)) & set(LEFT_OUT)}
    left_out |= {(Scenario, "tune"), (SweepSpec, "zip"), (SweepSpec, "list")} | every(TuneSpec, set())
    missing = {f"{spec.__name__}.{key}" for spec, key in every(Scenario, set()) - found - left_out}
    assert missing == set()


def test_what_is_not_finite_is_noticed(tmp_path):
    (tmp_path / "rounds.csv").write_text("round,energy_j,reason\n0,1.5,info about nan\n1,,\n")
    assert finite(tmp_path).kind == "ok"
    for cell in ("inf", "-inf", "nan", "NaN"):
        (tmp_path / "rounds.csv").write_text(f"round,energy_j\n0,{cell}\n")
        assert finite(tmp_path)[::2] == ("non-finite", "rounds.csv: energy_j")


@pytest.mark.slow
def test_hangs_and_crashes_are_told_apart_and_survived(folder):
    """A worker that is killed or hangs is replaced; the next scenario runs as if nothing had happened."""
    good = {"name": "g", "clients": 2, "seeds": 1, "data": {"name": "digits"}, "partition": {"name": "iid"}, "stop": {"rounds": 1},
            "model": {"name": "linear"}, "policies": [{"name": "fedavg"}]}  # fmt: skip
    ways = {"hang": "import time; time.sleep(1e6)", "crash": "import os; os.kill(os.getpid(), 11)"}
    worker = Worker(folder, 60, 3 * 10**9)
    assert worker.run(good).kind == "ok"
    assert worker.run({**good, "clients": -1}).kind == "sentence"
    worker.close()
    worker = Worker(folder, 30, 3 * 10**9)
    for kind, code in ways.items():
        (folder / "evil.py").write_text(f"import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        {code}\n")
        (folder / "evil.py").rename(folder / f"evil_{kind}.py")
        ending = worker.run({**good, "model": {"name": "module", "module": f"evil_{kind}:Net"}})
        assert ending.kind == kind, ending
    assert worker.run(good).kind == "ok"
    worker.close()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_sixty_random_scenarios_end_in_tables_or_in_a_sentence():
    rows = fuzz(range(10_000, 10_060), 2, 60.0, 3 * 10**9, False)
    assert [row for row in rows if row["kind"] not in ("ok", "sentence")] == []
    assert sum(row["kind"] == "ok" for row in rows) > 40

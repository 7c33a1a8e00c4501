"""What a result folder says of its target and of its runs, read strictly and forgivingly."""

from __future__ import annotations

import json

import pytest
import yaml
from report_folders import TARGET, run_folder

from wflsim.analysis.tables import Results
from wflsim.errors import StoreError
from wflsim.files import write_sealed
from wflsim.report.compose import compose, gather


@pytest.fixture
def folder(tmp_path):
    return run_folder(tmp_path / "run", labels=("drdm",), seeds=2, rounds=3)


def aim(folder, target):
    (folder / "scenario.yaml").write_text(yaml.safe_dump({"name": "rows", "stop": {"rounds": 100, "target": target}}))


@pytest.mark.parametrize(("target", "read"), [
    ({"metric": "worst", "accuracy": 0.8}, {"metric": "worst", "accuracy": 0.8, "hold": 1, "window": 1}),
    ({"metric": "average", "accuracy": 0.9, "hold": 3}, {"metric": "average", "accuracy": 0.9, "hold": 3, "window": 1}),
    ({"metric": "worst", "accuracy": 0.8, "window": 20}, {"metric": "worst", "accuracy": 0.8, "hold": 1, "window": 20}),
    (None, None),
])  # fmt: skip
def test_a_target_is_read_with_what_it_leaves_out(folder, target, read):
    aim(folder, target)
    assert Results(folder).target == read
    assert gather([folder]).folders[0].target == read


@pytest.mark.parametrize("wrong", [{"metric": "median"}, {"accuracy": "high"}, {"hold": 0}, {"window": 0}, {"window": "wide"}])
def test_a_target_that_cannot_be_read_is_refused_or_said(folder, wrong):
    aim(folder, {**TARGET, **wrong})
    with pytest.raises(StoreError, match=r"scenario\.yaml is damaged: stop\.target is not readable"):
        assert Results(folder).target
    page = compose(gather([folder]))
    assert any(line.startswith("scenario.yaml: stop.target is not readable") for line in page.missing)


@pytest.mark.parametrize(("status", "shown"), [("done", 1), ("running", 2), ("interrupted", 2)])
def test_a_run_whose_ending_is_gone_is_left_out_of_a_finished_folder_only(folder, status, shown):
    """Of one that was sealed: while it runs, a run without an ending is simply not finished yet."""
    held = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(write_sealed({**held, "status": status}, {}))
    (folder / "drdm" / "seed-1" / "status.json").unlink()
    material = gather([folder])
    assert len(material.series[0].seeds) == shown
    said = [line for line in compose(material).missing if "status.json is not there any more" in line]
    assert len(said) == 2 - shown

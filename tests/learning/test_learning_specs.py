"""What a scenario may say about learning."""

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from wflsim.learning import DataSpec, ModelSpec, PartitionSpec, TrainSpec

DATA, PARTITION, MODEL = (TypeAdapter(spec) for spec in (DataSpec, PartitionSpec, ModelSpec))


def test_the_specs_import_no_torch():
    code = "import sys, wflsim.learning, wflsim.target; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_zipf_dirichlet_is_the_kind_that_goes_without_saying():
    assert PARTITION.validate_python({"alpha": 0.1}).name == "zipf_dirichlet"
    assert PARTITION.validate_python({"name": "shards"}).shards == 2
    for infinite in ("inf", float("inf")):
        spec = PARTITION.validate_python({"alpha": infinite})
        assert PARTITION.validate_json(PARTITION.dump_json(spec)) == spec


@pytest.mark.parametrize(
    ("adapter", "block"),
    [
        (DATA, {"name": "cifar"}),
        (DATA, {"name": "npz"}),
        (DATA, {"name": "synthetic", "beta": -1}),
        (PARTITION, {"alpha": -0.1}),
        (PARTITION, {"alpha": float("nan")}),
        (PARTITION, {"name": "iid", "alpha": 1}),
        (PARTITION, {"name": "other"}),
        (PARTITION, 3),
        (MODEL, {"name": "mlp", "hidden": [0]}),
        (MODEL, {"name": "module", "module": "package.file"}),
        (MODEL, {"name": "resnet18_last", "size": 0}),
        (TypeAdapter(TrainSpec), {"batch": 0}),
        (TypeAdapter(TrainSpec), {"compress": {"up": {"name": "quantise", "bits": 3}}}),
    ],
)
def test_what_makes_no_sense_is_refused(adapter, block):
    with pytest.raises(ValidationError):
        adapter.validate_python(block)


def test_an_alpha_of_synthetic_data_is_refused_because_it_changes_no_label():
    with pytest.raises(ValidationError, match=r"alpha: 1 has no effect: .*no label changes; remove it"):
        DATA.validate_python({"name": "synthetic", "alpha": 1, "beta": 1})

"""An error about an invalid learning curve names the record and the field."""

import json
import shutil
from pathlib import Path

import pytest
from small_records import record

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting.record_schema import check_curve

POINT = {"samples": 10, "train_loss": 0.5, "dev": {"mrr": 0.25}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"curve": [POINT, POINT | {"samples": None}]}, "curve.2.samples' cannot be null"),
        ({"curve": [POINT | {"samples": True}]}, "curve.1.samples' cannot be true"),
        ({"curve": [POINT | {"samples": "10"}]}, 'curve.1.samples\' cannot be "10"'),
        ({"curve": [POINT | {"train_loss": "low"}]}, "curve.1.train_loss' cannot be"),
        ({"curve": [POINT | {"dev": {"mrr": [1]}}]}, "curve.1.dev.mrr' cannot be"),
        ({"curve": [{"samples": 1, "dev": {}}]}, "has no field 'curve.1.train_loss'"),
        ({"curve": [3]}, "point 1 is not a JSON object"),
        ({"diverged_at_samples": "9"}, "diverged_at_samples' cannot be"),
        ({"cohort": None}, "cohort' cannot be null"),
    ],
)
def test_invalid_field_is_named_in_the_error(change, field):
    with pytest.raises(InputError, match="record run-1-0.001-1") as caught:
        check_curve(record(**change))
    assert field in str(caught.value)


def test_undefined_numbers_are_valid():
    check_curve(record(curve=[POINT, {"samples": 20, "train_loss": None, "dev": {"mrr": float("nan")}}]))


def test_report_error_names_the_record_file(tmp_path, capsys):
    folder = tmp_path / "sweep"
    shutil.copytree(Path(__file__).parent.parent / "results" / "quickstart", folder)
    file = next((folder / "runs").glob("*/record.json"))
    content = json.loads(file.read_text())
    content["curve"][0]["samples"] = None
    file.write_text(json.dumps(content))
    assert main(["report", str(folder), "--output", "-"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"jaxmatch: {file}: ") and "'curve.1.samples' cannot be null" in err
    assert err.count("\n") == 1 and not out

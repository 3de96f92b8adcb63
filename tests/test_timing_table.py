"""Timing tables equal hand-computed values, and invalid timing records are refused."""

import csv
import io
import json

import pytest
from small_records import TIMING

from jaxmatch.cli.main import main
from jaxmatch.papers.timing import times


def test_markdown_timing_table_equals_hand_computed_values():
    lines = times(TIMING, "markdown").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0] == [
        "model",
        "measured: parameters",
        "measured: time (s/batch)",
        "measured: pairs/s",
        "published: parameters",
        "published: time (s/batch)",
    ]
    # Of 0.001 and 0.003 the mean is 0.002 and the deviation 0.001414; 1000 pairs in 0.5 s and 0.25 s are 2000 and 4000
    # a second.
    assert rows[2:] == [
        ["RE2 (1 block)", "1,234,567", "0.0020 ± 0.0014", "3,000 ± 1,414", "–", "0.03 ± 0.00"],
        ["run x-seed1", "99", "0.5000 ± 0.0000", "–", "–", "–"],
        ["BiMPM", "–", "–", "–", "–", "0.05 ± 0.00"],
    ]
    assert "of 2 batches of 8 pairs of 20 tokens a sentence" in lines[0] and "Trained: run x-seed1." in lines[0]
    assert "the 1,000 of snli test, texts in and labels out, mean ± sample standard deviation of 2 passes." in lines[0]
    assert (
        "Published: Yang et al. (2019), Table 5." in lines[0]
        and "Device: 1 x cpu; jax 0.10; load before the run 0.1." in lines[0]
    )
    assert lines[-2:] == ["- a note", "- Command: jaxmatch timing x.py"]


def test_csv_has_the_rows_of_the_table_and_json_the_record_and_latex_groups_columns():
    heading, *rows = csv.reader(io.StringIO(times(TIMING, "csv")))
    assert heading == ["model", "parameters", "time (s/batch)", "pairs/s", "parameters", "time (s/batch)"]
    assert rows[0] == ["RE2 (1 block)", "1,234,567", "0.0020 ± 0.0014", "3,000 ± 1,414", "–", "0.03 ± 0.00"]
    assert json.loads(times(TIMING, "json")) == TIMING
    latex = times(TIMING, "latex")
    assert r"\multicolumn{3}{c}{measured}" in latex and r"0.0020 $\pm$ 0.0014" in latex


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({**TIMING, "format": 2}, "it is not a timing of format 1); run jaxmatch timing again"),
        ({key: value for key, value in TIMING.items() if key != "device"}, "the record is damaged ('device')"),
        ({**TIMING, "rows": [{"model": "RE2"}]}, "the record is damaged"),
    ],
)
def test_invalid_timing_record_is_refused(tmp_path, capsys, record, problem):
    (tmp_path / "timing.json").write_text(json.dumps(record))
    assert main(["table", str(tmp_path)]) == 2
    assert problem in capsys.readouterr().err

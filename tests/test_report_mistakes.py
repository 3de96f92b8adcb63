"""The mistakes of the best run in the HTML report of a sweep."""

import json
from pathlib import Path

import pytest
from small_records import LAYOUT, record

from jaxmatch.errors import InputError
from jaxmatch.reporting.records import SweepFolder
from jaxmatch.reporting.report import mistakes, report

RESULTS = Path(__file__).resolve().parent.parent / "results"
PAIR = {"text_a": "a <b>", "text_b": "c"}
WORST = {
    "classification": ({**PAIR, "label": "yes", "answer": "no", "probability": 0.98765}, ["yes", "no", "0.988"]),
    "regression": ({**PAIR, "label": 4.5, "answer": -1.25}, ["4.500", "-1.250"]),
    "ranking": ({**PAIR, "rank": 7, "candidates": 10, "preferred": "d"}, ["7", "10", "d"]),
}


def folder_with(path, worst):
    """Returns a sweep's folder with two runs of a setting. The better run has a file with these mistakes."""
    records = {each["run"]: each for each in (record(1, seed=1), record(1, seed=2))}
    (path / "runs" / "run-1-0.001-2").mkdir(parents=True)
    (path / "runs" / "run-1-0.001-2" / "mistakes.json").write_text(json.dumps(worst))
    return SweepFolder(path, "s", LAYOUT, dict.fromkeys(records, {}), records)


@pytest.mark.parametrize("task", WORST)
def test_mistakes_of_the_best_run_are_on_the_page(tmp_path, task):
    row, expected = WORST[task]
    worst = {"task": task, "split": "dev", "pairs": 1500, "worst": [row]}
    worst |= {"labels": ["yes", "no"], "confusion": [[700, 90], [10, 700]]} if task == "classification" else {}
    found = mistakes(folder_with(tmp_path, worst))
    assert found["about"].startswith("Run run-1-0.001-2 (seed 2) on the 1,500 pairs of dev, ")
    *matrix, (_, sheet) = found["tables"]
    assert [text.content for text in sheet.sections[0][0]] == ["a <b>", "c", *expected]
    assert [[text.content for text in line] for _, each in matrix for line in each.sections[0]] == (
        [["yes", "700", "90", "790"], ["no", "10", "700", "710"]] if matrix else []
    )
    assert bool(matrix) == (task == "classification")


@pytest.mark.parametrize(
    "change", [{"worst": [{}]}, {"task": "x"}, {"confusion": [1]}, {"pairs": None}, {"labels": 3}, {"split": None}]
)
def test_damaged_mistakes_file_is_an_error_naming_the_file(tmp_path, change):
    worst = {"task": "classification", "split": "dev", "pairs": 2, "labels": ["a", "b"], "confusion": [[1, 1], [0, 0]]}
    folder = folder_with(tmp_path, worst | {"worst": []} | change)
    with pytest.raises(InputError, match=r"mistakes.json: the file is damaged \(.*; remove the run's folder"):
        mistakes(folder)


def test_sweep_folder_without_mistakes_files_has_no_mistakes_section():
    assert "Mistakes of the best run" not in report(RESULTS / "sick")

"""The judge of the attacks: which outcomes it accepts, and which it rejects."""

import dataclasses
import random

import pytest
from torture import judge, mutations, report
from torture.damage import HARMS
from torture.processes import CommandResult

GOOD = CommandResult(2, "", "jaxmatch: pairs.tsv: line 3: there is no text_b\n", 0.1, 100)


def test_one_line_error_that_names_the_file_passes():
    assert judge.refused(GOOD, ["pairs.tsv"]) == ""
    assert judge.refused_or_sound(GOOD, ["pairs.tsv"]) == ""
    assert judge.refused_or_right(dataclasses.replace(GOOD, status=0), ["pairs.tsv"], True) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": 0}, "silent success"),
        ({"status": 1}, "status 1 instead of 2"),
        ({"status": None}, "hangs"),
        ({"status": -11}, "signal 11"),
        ({"memory_mib": 1e5}, "memory"),
        ({"errors": "Traceback (most recent call last):\n  x\nValueError: y\n"}, "a traceback: ValueError: y"),
        ({"errors": ""}, "no message"),
        ({"errors": "warning\n" + GOOD.errors}, "2 lines"),
        ({"errors": GOOD.errors.replace("pairs", "other")}, "not named"),
    ],
)
def test_other_outcomes_fail_with_a_reason(change, reason):
    assert reason in judge.refused(dataclasses.replace(GOOD, **change), ["pairs.tsv"])


def test_wrong_result_with_status_0_is_silently_wrong():
    assert "silently wrong" in judge.refused_or_right(dataclasses.replace(GOOD, status=0), ["pairs.tsv"], False)


def test_partial_files_are_found(tmp_path):
    assert judge.leftover_files(tmp_path) == ""
    (tmp_path / ".answers.1.ab.partial").touch()
    assert ".answers.1.ab.partial" in judge.leftover_files(tmp_path)


@pytest.mark.parametrize("harm", HARMS)
def test_harm_changes_the_file(tmp_path, harm):
    file = tmp_path / "file"
    file.write_bytes(b"content")
    HARMS[harm](file, random.Random(0))
    assert not file.is_file() or file.read_bytes() != b"content"


def test_mutations_with_equal_seeds_are_equal():
    content = b"a\tb\nc\td\n"
    for change in (*mutations.MUST_BE_REFUSED, *mutations.MAY_BE_GOOD):
        assert change(content, random.Random(1)) == change(content, random.Random(1))
    assert mutations.json_replaced(b'{"a": [1]}', random.Random(1)) != b'{"a": [1]}'


def test_report_page_counts_attacks_and_lists_failures():
    results = report.values({"inputs": report.Group(5, 1, {"inputs/x": "a | b"}, 2.0)}, 7, "python tests/torture")
    page = report.markdown(results)
    assert "| inputs | 5 | 4 | 1 | 2 |" in page
    assert "| `inputs/x` | a \\| b |" in page
    assert results["versions"]["jax"]

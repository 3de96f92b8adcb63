"""The benchmark of request latency: its rows, and whether each goal is met."""

import pytest

from benchmarks.item import Settings
from benchmarks.items import ITEMS, requests


def test_a_row_for_pairs_and_for_each_prefilter(tmp_path):
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=2, quick=True, scratch=tmp_path)
    rows, notes = ITEMS["requests"].run(settings)
    assert [row["what"] for row in rows[:2]] == ["predict 1 pair, 20 times", "search of 500 texts, vectors"]
    assert len(rows) + sum("not measured" in note for note in notes) == 3
    for row in rows:
        assert row.keys() == {column.key for column in ITEMS["requests"].columns}
        assert 0 < row["median"]["median"] <= row["late"] <= row["slowest"]
    assert "RE2" in notes[0]


def test_goal_is_decided_by_the_slowest_request():
    times = [1.0] * 990 + [20.0] * 9 + [50.1]
    row = requests.row("x", times, requests.REQUEST_GOAL)
    assert row["median"]["median"] == 1 and row["slowest"] == 50.1 and row["goal"] == "slowest ≤ 50 ms: missed"
    assert 1 < row["late"] <= 20
    assert requests.row("x", times[:-1], requests.REQUEST_GOAL)["goal"] == "slowest ≤ 50 ms: met"


def test_each_call_is_timed_separately():
    seen = []
    times = requests.milliseconds(seen.append, [1, 2, 3])
    assert seen == [1, 2, 3] and len(times) == 3 and max(times) < 1000
    with pytest.raises(ZeroDivisionError):
        requests.milliseconds(lambda number: 1 / number, [0])

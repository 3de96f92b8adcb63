"""The benchmark of start-up times: the commands that it runs, and whether each meets its goal."""

from pathlib import Path

import pytest

from benchmarks.item import Settings
from benchmarks.items import starts
from jaxmatch.inference import model_folder


def test_each_command_has_a_row_with_times_and_goal(tmp_path, monkeypatch):
    seconds = {
        "--help": [9.0, 0.5, 0.7],
        "table": [1.0, 0.7, 0.9],
        "predict": [9.0, 2.0, 3.0],
        "evaluate": [30.0, 4.5, 5.0],
    }
    commands = []

    def run_command(words, cache):
        commands.append([str(word) for word in words])
        took = seconds[str(words[0])].pop(0)
        return took, 2 * took

    monkeypatch.setattr(starts, "run_command", run_command)
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=2, quick=True, scratch=tmp_path)
    rows, (note,) = starts.run(settings)
    assert [row["first"] for row in rows] == [9.0, 1.0, 9.0, 30.0]
    assert [row["goal"].partition(": ")[2] for row in rows] == ["met", "missed", "met", "missed"]
    assert rows[1]["later"]["median"] == pytest.approx(0.8) and rows[1]["later_cpu"]["median"] == pytest.approx(1.6)
    assert len(commands) == 12 and "RE2" in note
    stored = model_folder.read(tmp_path / "run")
    assert stored.config["data"]["name"] == "own" and len(stored.vocabulary) == 10_000
    assert len(Path(commands[-1][-1]).read_text().splitlines()) == 1 + starts.PAIRS


def test_run_command_returns_wall_and_cpu_seconds(tmp_path):
    seconds, busy = starts.run_command(["--version"], tmp_path)
    assert 0 < busy and 0.02 < seconds < 60

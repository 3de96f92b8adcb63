"""The benchmark of many workers: its rows, and that no process outlives it."""

import os
import time

import pytest

from benchmarks import launch_modes, timed_commands, workers_page
from benchmarks.item import Settings
from benchmarks.items import ITEMS, workers
from benchmarks.timed_commands import Command, OutOfTime, Timed


def settings(scratch, quick=False):
    return Settings(data_directory="", vectors="", peer="", peer_python="", rounds=2, quick=quick, scratch=scratch)


class Nodes:
    """A fake Ray cluster that records its calls."""

    calls: list

    def __init__(self, cores, until):
        self.calls.append(("head", tuple(sorted(cores))))
        self.address = "127.0.0.1:1"

    def add(self, cores):
        self.calls.append(("node", tuple(cores)))

    def close(self):
        self.calls.append("closed")


@pytest.fixture
def sweeps(monkeypatch):
    """Replaces timed sweeps by simulated ones on two cores, and returns the list of their arguments.

    A cohort takes 0.5 s plus 0.4 s per epoch.
    """
    found = []

    def timed(self, cohorts, epochs, cores, more=(), **variables):
        found.append((cohorts, epochs, cores, more, variables))
        pinned = "NPROC" in variables
        if "--on" in more:
            concurrent = sum(1 for each in Nodes.calls if each != "closed" and (pinned and each[1] in ((0,), (1,))))
        else:
            concurrent = len(cores)
        seconds = 2.0 + cohorts * (0.5 + 0.4 * epochs) / min(2, max(1, concurrent))
        return Timed(1.5, seconds, 0.4 * epochs)

    monkeypatch.setattr(launch_modes.MeasuredSweeps, "timed", timed)
    monkeypatch.setattr(launch_modes, "RayNodes", Nodes)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name: object())
    Nodes.calls = []
    return found


def test_each_way_is_compared_with_its_own_single_worker(tmp_path, sweeps):
    rows, notes = workers.run(settings(tmp_path))
    assert [(row["way"], row["workers"], row["cores"]) for row in rows] == [
        ("one process", 1, "1"),
        ("launchers on one folder", 2, "2"),
        ("launchers on one folder", 4, "2 (2 workers a core)"),
        *(("--on ray", count, text) for count, text in ((1, "1"), (2, "2"), (4, "2 (2 workers a core)"))),
    ]
    epochs = 10  # of 0.4 s each, 4 s in all
    whole, halves = (2.0 + workers.COHORTS * (0.5 + 0.4 * epochs) / count for count in (1, 2))
    for row in rows:
        assert row.keys() == {column.key for column in ITEMS["workers"].columns}
        if row["workers"] == 1:
            assert (row["seconds"], row["times"], row["share"]) == (pytest.approx(whole), 1.0, 1.0)
            assert (row["task"], row["beyond"]) == (pytest.approx(0.9), pytest.approx(0.5))
        else:
            assert row["seconds"] == pytest.approx(halves) and row["times"] == pytest.approx(whole / halves)
            assert row["share"] == pytest.approx(whole / halves / 2)
    assert [row["first_step"] != "" for row in rows] == [True, True, False, True, False, False]
    assert "of one run and 10 epochs" in notes[2]
    # Each Ray node and launcher has one core.
    assert Nodes.calls[:2] == [("head", (0, 1)), "closed"]
    assert Nodes.calls[2:] == [("head", (0,)), ("node", (1,)), ("node", (0,)), ("node", (1,)), "closed"]
    assert any(cores == [{0}, {1}, {0}, {1}] for _, _, cores, _, _ in sweeps)


def test_measurements_beyond_the_time_limit_are_left_out(tmp_path, sweeps, monkeypatch):
    timed = launch_modes.MeasuredSweeps.timed

    def timed_until_the_limit(self, *arguments, **more):
        if len(sweeps) >= 14:
            raise OutOfTime
        return timed(self, *arguments, **more)

    monkeypatch.setattr(launch_modes.MeasuredSweeps, "timed", timed_until_the_limit)
    rows, notes = workers.run(settings(tmp_path))
    assert rows[0]["times"] == 1.0 and rows[-1]["seconds"] is None
    assert notes[-1] == "What is missing was not measured, for the time of this benchmark was over."
    result = {"device": "1 x cpu (A, 2 cores)", "rows": rows}
    assert "--on" not in workers_page.for_page(result)


def test_failure_of_one_way_is_reported_and_others_are_measured(tmp_path, sweeps, monkeypatch, capsys):
    def cannot(cores, until):
        raise RuntimeError("a Ray cluster could not be started on this machine")

    monkeypatch.setattr(launch_modes, "RayNodes", cannot)
    rows, notes = workers.run(settings(tmp_path, quick=True))
    reason = "a Ray cluster could not be started on this machine"
    assert notes[-1] == f"--on ray: {reason}; what is missing was not measured." and reason in capsys.readouterr().err
    assert rows[3]["seconds"] is None and rows[2]["seconds"] is not None


def test_way_with_a_missing_package_is_reported_and_not_measured(tmp_path, sweeps, monkeypatch):
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name: None if name == "ray" else object())
    rows, notes = workers.run(settings(tmp_path, quick=True))
    assert notes[-1] == "--on ray: not measured; it needs pip install 'jaxmatch[ray]'."
    assert rows[3]["seconds"] is None and rows[2]["seconds"] is not None


def test_page_summarizes_the_rows_as_markdown(tmp_path, sweeps):
    rows, _ = workers.run(settings(tmp_path))
    text = workers_page.for_page({"device": "1 x cpu (A, 2 cores)", "rows": rows})
    assert text.splitlines()[:6] == [
        "On cpu (A, 2 cores):",
        "",
        "| way | seconds to the first step | extra seconds for each further cohort, besides its training |",
        "|---|---:|---:|",
        "| one process | 1.5 | 0.5 |",
        "| launchers on one folder, 2 at once | 1.5 |  |",
    ]
    assert "| `--on ray` | 4 | 2 (2 workers a core) | 1.90 |" in text.splitlines()
    rows[0]["beyond"] = -0.076  # within the spread of the times
    text = workers_page.for_page({"device": "1 x cpu (A, 2 cores)", "rows": rows})
    assert "| one process | 1.5 | less than 0.1 |" in text.splitlines()


def test_failed_command_raises_with_its_exit_status(tmp_path):
    command = Command(["sweep", "--nonsense"], os.sched_getaffinity(0))
    with pytest.raises(RuntimeError, match="a command ended with 2:\n"):
        timed_commands.timed([command], tmp_path / "sweep", 1, time.time() + 60)


def test_processes_end_on_exit_and_the_time_limit_raises(tmp_path):
    words = ["sweep", "quickstart", "--workdir", str(tmp_path / "sweep")]
    with timed_commands.running([Command(words, os.sched_getaffinity(0))], tmp_path / "log") as (process,):
        assert timed_commands.group_exists(process)
    assert not timed_commands.group_exists(process)
    with pytest.raises(OutOfTime):
        timed_commands.timed([Command(words, os.sched_getaffinity(0))], tmp_path / "sweep", 1, time.time())

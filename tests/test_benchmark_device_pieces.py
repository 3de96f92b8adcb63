"""Pieces of a stage of `make device`: their budget, results of other commits, and resuming after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_records import ABOUT_A_DEVICE

from benchmarks import fresh_process
from benchmarks.device import __main__ as device
from benchmarks.device import pieces
from benchmarks.device.budget import Budget, Stage

# A piece that records each request, returns its number, and waits at the point where the test kills it.
PIECE = """
import time
from pathlib import Path
from benchmarks import fresh_process
request = fresh_process.request()
with open(Path(__file__).with_name("started"), "a") as file:
    file.write(str(request["number"]))
if request["number"] == 2 and not Path(__file__).with_name("go").exists():
    time.sleep(600)
fresh_process.answer({"number": request["number"]})
"""

MEASURE = """
import sys
from pathlib import Path
from benchmarks.device import pieces
from benchmarks.device.budget import Budget, Stage
about = {"commit": "a", "quick": False}
requested = {str(number): {"number": number} for number in (1, 2, 3)}
pieces.measure(Stage(Path(sys.argv[1]), "stage", about), Budget(60), "a_piece", requested, 1.0)
"""


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "results", "compiled", ABOUT_A_DEVICE)


def test_pieces_that_exceed_the_remaining_time_are_not_started(stage, monkeypatch, capsys):
    """The expected time of a piece is at first the given time, then the measured time."""
    started, seconds_given = [], []

    def run(module, piece, environment, seconds):
        started.append(piece["number"])
        seconds_given.append(seconds)
        return {"process_seconds": 50.0}

    monkeypatch.setattr(fresh_process, "run", run)
    numbers = {str(number): {"number": number} for number in range(3)}
    pieces.measure(stage, Budget(20), "m", numbers, 30.0)
    assert not started and "compiled: not begun, it takes about 30 s" in capsys.readouterr().out
    pieces.measure(
        stage, Budget(40), "m", numbers, 30.0
    )  # only the first: its measured time is more than the time that is left
    assert started == [0] and list(stage.found()) == ["0"]
    pieces.measure(stage, Budget(70), "m", numbers, 30.0)
    assert started == [0, 1, 2]
    # A piece may last beyond the share of its stage, but no piece begins after the share is used up.
    more = {"3": {"number": 3}, "4": {"number": 4}}
    pieces.measure(stage, Budget(100, to_begin=60), "m", more, 30.0)
    assert started == [0, 1, 2, 3, 4]
    pieces.measure(stage, Budget(100, to_begin=20), "m", {"5": {"number": 5}}, 30.0)
    assert started == [0, 1, 2, 3, 4] and seconds_given[-1] > 60
    # The first piece of a stage may use the time of other stages. Otherwise a short command would never begin it.
    pieces.measure(Stage(stage.folder, "other", ABOUT_A_DEVICE), Budget(100, to_begin=20), "m", more, 30.0)
    assert started == [0, 1, 2, 3, 4, 3]


@pytest.mark.parametrize("changes", [{"commit": "b"}, {"versions": {"jax": "0.99"}}, {"driver": "x"}])
def test_results_of_another_commit_or_version_are_kept_until_remeasured(stage, monkeypatch, changes):
    started = []

    def run(module, piece, environment, seconds):
        started.append(piece)
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh_process, "run", run)
    pieces.measure(stage, Budget(20), "m", {"old": "old", "again": "again"}, 1.0)
    later = Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, **changes})
    assert later.found() == stage.found()
    assert not any(map(later.is_current, later.found().values())) and all(map(stage.is_current, stage.found().values()))
    # Missing pieces come first.
    pieces.measure(later, Budget(20), "m", {"again": "again", "new": "new"}, 1.0)
    assert started == ["old", "again", "new", "again"]
    assert [name for name, piece in later.found().items() if later.is_current(piece)] == ["again", "new"]
    # Results of tiny sizes are not stored beside others.
    assert Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, "quick": True}).found() == {}


def test_a_piece_is_measured_again_once_there_is_a_peer_but_not_without_it(stage, monkeypatch):
    started = []
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: started.append(1) or {"process_seconds": 1.0})
    for inputs, times in (({}, 1), ({"peer": True}, 2), ({"peer": True}, 2), ({}, 2)):
        pieces.measure(stage, Budget(20), "m", {"a": {}}, 1.0, inputs=inputs)
        assert len(started) == times


def test_a_failed_measurement_keeps_the_earlier_result(stage, monkeypatch, capsys):
    def run(module, piece, environment, seconds):
        if piece == "fails":
            raise RuntimeError("no memory")
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh_process, "run", run)
    pieces.measure(stage, Budget(20), "m", {"a": "works"}, 1.0)
    later = Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, "commit": "b"})
    pieces.measure(later, Budget(20), "m", {"a": "fails"}, 1.0)
    assert later.found() == stage.found() and later.failed == {"a"} and "no memory" in capsys.readouterr().out


def test_a_failed_or_timed_out_piece_does_not_stop_the_others(stage, monkeypatch, capsys):
    def run(module, piece, environment, seconds):
        if piece["number"] == 0:
            raise RuntimeError(
                "m ended with 1:\nTraceback\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: no memory\n more"
            )
        if piece["number"] == 2:
            raise subprocess.TimeoutExpired("m", seconds)
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh_process, "run", run)
    pieces.measure(stage, Budget(60), "m", {str(number): {"number": number} for number in range(3)}, 1.0)
    assert stage.found()["0"]["problem"].endswith("RESOURCE_EXHAUSTED: no memory") and "2" not in stage.found()
    output = capsys.readouterr().out
    assert "2 did not end in time" in output and "\nTraceback\n" in output
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: {"process_seconds": 1.0})
    requested = {"0": {}, "1": {}, "2": {}}
    # Failed pieces are tried again, but not by the same command.
    pieces.measure(stage, Budget(60), "m", requested, 1.0)
    assert "problem" in stage.found()["0"] and "2" in stage.found()
    assert 'compiled: 2: {"process_seconds": 1.0}' in capsys.readouterr().out
    pieces.measure(Stage(stage.folder, stage.name, ABOUT_A_DEVICE), Budget(60), "m", requested, 1.0)
    assert not any("problem" in piece for piece in stage.found().values())


def test_a_killed_command_loses_only_the_piece_in_progress(tmp_path):
    (tmp_path / "a_piece.py").write_text(PIECE)
    environment = {
        **fresh_process.with_this_checkout(),
        "PYTHONPATH": os.pathsep.join([str(fresh_process.ROOT), str(tmp_path)]),
    }
    words, started = [sys.executable, "-c", MEASURE, str(tmp_path)], tmp_path / "started"
    process = subprocess.Popen(words, env=environment)
    _wait_until(lambda: started.exists() and started.read_text() == "12")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(json.loads((tmp_path / "stage.json").read_text())["found"]) == ["1"]
    # The process that the killed command started must end too, because it would hold the device.
    _wait_until(
        lambda: not any("a_piece" in (Path(each) / "cmdline").read_text() for each in _processes_with(str(tmp_path)))
    )
    (tmp_path / "go").touch()
    subprocess.run(words, env=environment, check=True)
    assert started.read_text() == "1223"
    found = json.loads((tmp_path / "stage.json").read_text())["found"]
    assert {name: piece["number"] for name, piece in found.items()} == {"1": 1, "2": 2, "3": 3}


def _wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _processes_with(mark):
    """Yields the folders in /proc of the processes whose environment contains `mark`, a folder of this test."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_text(errors="replace") and (folder / "cmdline").read_text():
                yield folder
        except OSError:
            continue


def test_committed_results_can_be_resumed(tmp_path, monkeypatch):
    """This includes results that were added by hand, without the time that their process took."""
    started = []
    monkeypatch.setattr(
        fresh_process, "run", lambda module, piece, *_, **__: started.append(piece) or {"process_seconds": 1.0}
    )
    files = sorted(device.RESULTS.glob("*/*.json"))
    assert files
    for file in files:
        kept = json.loads(file.read_text())
        stage = Stage(tmp_path, file.stem, {name: kept[name] for name in ("commit", "driver", "versions", "quick")})
        stage.keep(kept["found"])
        pieces.measure(stage, Budget(1e6), "m", {name: name for name in (*kept["found"], "new")}, 1.0)
        assert started[0] == "new"
        started.clear()

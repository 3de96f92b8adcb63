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

from benchmarks import fresh
from benchmarks.device import __main__ as device
from benchmarks.device import pieces
from benchmarks.device.budget import Budget, Stage

# A piece that notes the request, answers with its number, and waits where the test kills it.
PIECE = """
import time
from pathlib import Path
from benchmarks import fresh
request = fresh.request()
with open(Path(__file__).with_name("asked"), "a") as file:
    file.write(str(request["number"]))
if request["number"] == 2 and not Path(__file__).with_name("go").exists():
    time.sleep(600)
fresh.answer({"number": request["number"]})
"""

MEASURE = """
import sys
from pathlib import Path
from benchmarks.device import pieces
from benchmarks.device.budget import Budget, Stage
about = {"commit": "a", "quick": False}
asked = {str(number): {"number": number} for number in (1, 2, 3)}
pieces.measure(Stage(Path(sys.argv[1]), "stage", about), Budget(60), "a_piece", asked, 1.0)
"""


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "results", "compiled", ABOUT_A_DEVICE)


def test_what_does_not_fit_the_time_is_not_begun(stage, monkeypatch, capsys):
    """The expected time of a piece is at first the given time, then the measured time."""
    asked, seconds_given = [], []

    def run(module, piece, environment, seconds):
        asked.append(piece["number"])
        seconds_given.append(seconds)
        return {"process_seconds": 50.0}

    monkeypatch.setattr(fresh, "run", run)
    numbers = {str(number): {"number": number} for number in range(3)}
    pieces.measure(stage, Budget(20), "m", numbers, 30.0)
    assert not asked and "compiled: not begun, it takes about 30 s" in capsys.readouterr().out
    pieces.measure(
        stage, Budget(40), "m", numbers, 30.0
    )  # only the first: its measured time is more than the time that is left
    assert asked == [0] and list(stage.found()) == ["0"]
    pieces.measure(stage, Budget(70), "m", numbers, 30.0)
    assert asked == [0, 1, 2]
    # A piece may last beyond the share of its stage, but no piece begins after the share is used up.
    more = {"3": {"number": 3}, "4": {"number": 4}}
    pieces.measure(stage, Budget(100, to_begin=60), "m", more, 30.0)
    assert asked == [0, 1, 2, 3, 4]
    pieces.measure(stage, Budget(100, to_begin=20), "m", {"5": {"number": 5}}, 30.0)
    assert asked == [0, 1, 2, 3, 4] and seconds_given[-1] > 60
    # The first piece of a stage may use the time of other stages. Otherwise a short command would never begin it.
    pieces.measure(Stage(stage.folder, "other", ABOUT_A_DEVICE), Budget(100, to_begin=20), "m", more, 30.0)
    assert asked == [0, 1, 2, 3, 4, 3]


@pytest.mark.parametrize("changes", [{"commit": "b"}, {"versions": {"jax": "0.99"}}, {"driver": "x"}])
def test_what_another_commit_or_version_measured_is_kept_until_it_is_measured_again(stage, monkeypatch, changes):
    asked = []

    def run(module, piece, environment, seconds):
        asked.append(piece)
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh, "run", run)
    pieces.measure(stage, Budget(20), "m", {"old": "old", "again": "again"}, 1.0)
    today = Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, **changes})
    assert today.found() == stage.found()
    assert not any(map(today.is_current, today.found().values())) and all(map(stage.is_current, stage.found().values()))
    # Missing pieces come first.
    pieces.measure(today, Budget(20), "m", {"again": "again", "new": "new"}, 1.0)
    assert asked == ["old", "again", "new", "again"]
    assert [name for name, piece in today.found().items() if today.is_current(piece)] == ["again", "new"]
    # Results of tiny sizes are not stored beside others.
    assert Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, "quick": True}).found() == {}


def test_what_fails_today_leaves_what_was_measured_before(stage, monkeypatch, capsys):
    def run(module, piece, environment, seconds):
        if piece == "fails":
            raise RuntimeError("no memory")
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh, "run", run)
    pieces.measure(stage, Budget(20), "m", {"a": "works"}, 1.0)
    today = Stage(stage.folder, "compiled", {**ABOUT_A_DEVICE, "commit": "b"})
    pieces.measure(today, Budget(20), "m", {"a": "fails"}, 1.0)
    assert today.found() == stage.found() and today.failed == {"a"} and "no memory" in capsys.readouterr().out


def test_a_piece_that_fails_or_lasts_too_long_does_not_hinder_the_rest(stage, monkeypatch, capsys):
    def run(module, piece, environment, seconds):
        if piece["number"] == 0:
            raise RuntimeError(
                "m ended with 1:\nTraceback\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: no memory\n more"
            )
        if piece["number"] == 2:
            raise subprocess.TimeoutExpired("m", seconds)
        return {"process_seconds": 1.0}

    monkeypatch.setattr(fresh, "run", run)
    pieces.measure(stage, Budget(60), "m", {str(number): {"number": number} for number in range(3)}, 1.0)
    assert stage.found()["0"]["problem"].endswith("RESOURCE_EXHAUSTED: no memory") and "2" not in stage.found()
    said = capsys.readouterr().out
    assert "2 did not end in time" in said and "\nTraceback\n" in said
    monkeypatch.setattr(fresh, "run", lambda *_, **__: {"process_seconds": 1.0})
    asked = {"0": {}, "1": {}, "2": {}}
    pieces.measure(stage, Budget(60), "m", asked, 1.0)  # failed pieces are tried again, but not by the same command
    assert "problem" in stage.found()["0"] and "2" in stage.found()
    assert 'compiled: 2: {"process_seconds": 1.0}' in capsys.readouterr().out
    pieces.measure(Stage(stage.folder, stage.name, ABOUT_A_DEVICE), Budget(60), "m", asked, 1.0)
    assert not any("problem" in piece for piece in stage.found().values())


def test_a_kill_loses_the_piece_at_hand_alone(tmp_path):
    (tmp_path / "a_piece.py").write_text(PIECE)
    environment = {**fresh.with_this_checkout(), "PYTHONPATH": os.pathsep.join([str(fresh.ROOT), str(tmp_path)])}
    words, asked = [sys.executable, "-c", MEASURE, str(tmp_path)], tmp_path / "asked"
    process = subprocess.Popen(words, env=environment)
    _until(lambda: asked.exists() and asked.read_text() == "12")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(json.loads((tmp_path / "stage.json").read_text())["found"]) == ["1"]
    # The process that the killed command started must end too, because it would hold the device.
    _until(
        lambda: (
            not any("a_piece" in (Path(each) / "cmdline").read_text() for each in _children_of_nobody(str(tmp_path)))
        )
    )
    (tmp_path / "go").touch()
    subprocess.run(words, env=environment, check=True)
    assert asked.read_text() == "1223"
    found = json.loads((tmp_path / "stage.json").read_text())["found"]
    assert {name: piece["number"] for name, piece in found.items()} == {"1": 1, "2": 2, "3": 3}


def _until(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def _children_of_nobody(mark):
    """Yields the folders in /proc of the processes whose environment contains `mark`, a folder of this test."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_text(errors="replace") and (folder / "cmdline").read_text():
                yield folder
        except OSError:
            continue


def test_the_committed_results_can_be_gone_on_from(tmp_path, monkeypatch):
    """This includes results that were added by hand, without the time that their process took."""
    asked = []
    monkeypatch.setattr(fresh, "run", lambda module, piece, *_, **__: asked.append(piece) or {"process_seconds": 1.0})
    files = sorted(device.RESULTS.glob("*/*.json"))
    assert files
    for file in files:
        kept = json.loads(file.read_text())
        stage = Stage(tmp_path, file.stem, {name: kept[name] for name in ("commit", "driver", "versions", "quick")})
        stage.keep(kept["found"])
        pieces.measure(stage, Budget(1e6), "m", {name: name for name in (*kept["found"], "new")}, 1.0)
        assert asked[0] == "new"
        asked.clear()

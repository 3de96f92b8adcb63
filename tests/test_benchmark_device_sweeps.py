"""Sweeps as stages of `make device` end within the time budget, and a refusal is reported with its reason."""

import dataclasses
import sys

from small_records import ABOUT_A_DEVICE

from benchmarks.device import stages, sweeps
from benchmarks.device.budget import Budget, Stage

# A program that records a run immediately, and exits when it is interrupted.
SWEEP = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "runs" / "one").mkdir(parents=True)
(folder / "runs" / "one" / "record.json").touch()
print("a line of the launcher", file=sys.stderr, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    (folder / "interrupted").touch()
    sys.exit(130)
"""


def test_sweep_is_interrupted_before_its_time_budget_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "SECONDS_BETWEEN_POLLS", 0.05)
    ended = []
    budget = Budget(sweeps.SECONDS_TO_STOP + 3)
    status, line = sweeps.run([sys.executable, "-c", SWEEP, str(tmp_path)], budget, lambda: ended.append(1), tmp_path)
    assert status is None and line == "a line of the launcher" and ended == [1]
    assert (tmp_path / "interrupted").exists() and budget.left() > sweeps.SECONDS_TO_STOP / 2


def test_finished_sweep_is_kept_and_another_sweep_of_the_stage_is_trained(tmp_path, monkeypatch):
    stage, started = Stage(tmp_path, "depth", ABOUT_A_DEVICE), []
    monkeypatch.setattr(sweeps, "run", lambda command, *_: started.append(command[4]) or (0, ""))
    for file in ("a.py", "a.py", "folder/b.py"):
        sweeps.train(stage, Budget(90), [file], tmp_path / "w")
    assert started == ["a.py", "folder/b.py"] and stage.found()["sweep"] == "b"


def test_refused_sweep_reports_its_reason_and_sweep_without_time_is_not_started(tmp_path, capsys):
    stage = Stage(tmp_path, "wikiqa", ABOUT_A_DEVICE)
    sweeps.train(stage, Budget(60), ["no-such-file.py"], tmp_path / "w")
    assert "wikiqa: not begun, it needs 80 s" in capsys.readouterr().out and not stage.found()
    sweeps.train(stage, Budget(90), ["no-such-file.py"], tmp_path / "w")
    assert stage.found()["status"].startswith("failed: jaxmatch: no-such-file.py")


def test_depth_keeps_results_on_scitail_where_its_files_are_missing(tmp_path, monkeypatch, quick, capsys):
    files = []
    monkeypatch.setattr(sweeps, "train", lambda stage, budget, words, *_: files.append(words[0]))
    plan = stages.Plan(dataclasses.replace(quick, quick=False), tmp_path, Budget(60), "cpu")
    stage = Stage(tmp_path, "depth", ABOUT_A_DEVICE)
    stage.keep({"sweep": "csran_depth", **stage.measured_with})
    stages.depth(plan, stage)
    assert not files and "depth: the results on SciTail stay" in capsys.readouterr().out
    stage.keep({"sweep": "csran_depth", **stage.measured_with, "commit": "another"})
    stages.depth(plan, stage)
    assert files == ["configs/csran_embedded_inference.py"]

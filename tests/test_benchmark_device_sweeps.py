"""Sweeps as stages of `make device`: they end in time, and the reason of a refusal is shown."""

import sys

from small_records import ABOUT_A_DEVICE

from benchmarks.device import sweeps
from benchmarks.device.budget import Budget, Stage

# A program that has a run on record at once, and ends when it is interrupted.
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


def test_a_sweep_is_interrupted_before_the_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "SECONDS_BETWEEN_LOOKS", 0.05)
    ended = []
    budget = Budget(sweeps.SECONDS_TO_STOP + 3)
    status, said = sweeps.run([sys.executable, "-c", SWEEP, str(tmp_path)], budget, lambda: ended.append(1), tmp_path)
    assert status is None and said == "a line of the launcher" and ended == [1]
    assert (tmp_path / "interrupted").exists() and budget.left() > sweeps.SECONDS_TO_STOP / 2


def test_a_sweep_that_is_refused_says_why_and_one_without_time_is_not_begun(tmp_path, capsys):
    stage = Stage(tmp_path, "wikiqa", ABOUT_A_DEVICE)
    sweeps.train(stage, Budget(60), ["no-such-file.py"], tmp_path / "w")
    assert "wikiqa: not begun, it needs 80 s" in capsys.readouterr().out and not stage.found()
    sweeps.train(stage, Budget(90), ["no-such-file.py"], tmp_path / "w")
    assert stage.found()["status"].startswith("failed: jaxmatch: no-such-file.py")

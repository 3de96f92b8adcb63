"""A sweep whose cohorts fail, or whose launcher is killed at any time, is resumed with the same results."""

import errno
import functools
import json
import os
import random
import signal
from pathlib import Path

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import launch, tune
from jaxmatch.workdir import FailedCohorts

pytestmark = pytest.mark.slow

# Two cohorts with two runs each.
SWEEP = {
    "seeds": 2,
    "grid_overrides": {"optimizer.learning_rate": "0.01,0.003"},
    "overrides": {"execution.maximum_replicas": "2"},
}
ARGUMENTS = ("--grid.optimizer.learning_rate=0.01,0.003", "--seeds", "2", "--config.execution.maximum_replicas=2")


@pytest.fixture
def failing(monkeypatch):
    """A function that makes the training of the first cohorts fail with an error."""
    return functools.partial(small_sweep.fail_training, monkeypatch)


@pytest.fixture(scope="module")
def undisturbed(small_files):
    text, _ = small_sweep.launched(small_files, small_files / "whole sweep", **SWEEP)
    return text, small_sweep.results(small_files / "whole sweep")


def test_a_failed_cohort_does_not_stop_others_and_is_retried(small_files, undisturbed, tmp_path, failing, capsys):
    failing(RuntimeError("two\nlines"))
    assert main(small_sweep.command(small_files, tmp_path, *ARGUMENTS)) == 2
    printed = capsys.readouterr()
    (error,) = tmp_path.glob("cohorts/*/error.json")
    notes = json.loads(error.read_text())
    assert notes["message"] == "RuntimeError: two lines" and "in train" in notes["traceback"]
    assert "2 of 4 runs have not finished; training failed, as" in printed.out and "Traceback" not in printed.err
    assert printed.err.splitlines()[-1] == (
        f"jaxmatch: {error.parent}: this cohort failed: RuntimeError: two lines; 2 of 4 runs are missing: their "
        "training failed; see error.json; run the same command to try again"
    )
    assert len(small_sweep.records(tmp_path)) == 2
    assert f"2 of 4 runs have not finished; training failed, as {error} says" in folder_table(tmp_path)
    text, watcher = small_sweep.launched(small_files, tmp_path, **SWEEP)
    assert [len(runs) for runs in watcher.trained] == [2] and not error.exists()
    assert (text, small_sweep.results(tmp_path)) == undisturbed


def test_a_repeated_failure_is_reported_again_by_the_next_launch(small_files, tmp_path, failing):
    failing(MemoryError(), 3)
    message = r"this cohort of 2 runs does not fit in memory.*\(and 1 more failed\); 4 of 4 runs are missing"
    with pytest.raises(FailedCohorts, match=message) as failed:
        small_sweep.launched(small_files, tmp_path, **SWEEP)
    assert (failed.value.records, failed.value.table) == ([], "")
    before = {path: path.read_text() for path in tmp_path.glob("cohorts/*/error.json")}
    with pytest.raises(FailedCohorts, match="2 of 4 runs are missing") as failed:
        small_sweep.launched(small_files, tmp_path, **SWEEP)
    (again,) = tmp_path.glob("cohorts/*/error.json")
    assert len(before) == 2 and len(failed.value.records) == 2 and again.read_text() != before[again]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left", "/full")], ids=type)
def test_errors_that_would_affect_every_cohort_stop_the_sweep(small_files, tmp_path, failing, error):
    failing(error)
    with pytest.raises(type(error)):
        small_sweep.launched(small_files, tmp_path, **SWEEP)
    assert not list(tmp_path.glob("cohorts/*/error.json")) and not (tmp_path / "runs").exists()


def test_tuning_chooses_no_setting_from_an_incomplete_grid(small_files, tmp_path, failing, monkeypatch):
    failing(ValueError("no"))
    arguments = {**SWEEP, "final_seeds": 1, "workdir": tmp_path, "display": small_sweep.Watcher()}
    arguments["overrides"] = small_sweep.overrides(small_files) | SWEEP["overrides"]
    with pytest.raises(FailedCohorts, match="ValueError: no") as failed:
        tune.tune(small_files / "small.py", **arguments)
    assert failed.value.table.count("**A small sweep") == 1
    assert not (tmp_path / "choice.json").exists() and not (tmp_path / "final").exists()
    real = launch.run

    def run(planned, workdir, *rest, **more):
        if planned.name.endswith("-final"):
            failing(ValueError("in the end"))
        return real(planned, workdir, *rest)

    monkeypatch.setattr(launch, "run", run)
    with pytest.raises(FailedCohorts, match="in the end") as failed:
        tune.tune(small_files / "small.py", **arguments)
    assert "**A small sweep.**" in failed.value.table and "the chosen setting" not in failed.value.table


def test_an_invalid_workdir_is_refused_by_a_dry_run_and_before_training(small_files, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "vectors").symlink_to("nowhere")
    for dry_run in (True, False):
        with pytest.raises(InputError, match="this is no folder that can be written"):
            small_sweep.launched(small_files, tmp_path / "work", dry_run=dry_run)
    assert os.listdir(tmp_path / "work") == ["vectors"]


def test_a_damaged_vector_table_is_rewritten(small_files, undisturbed, tmp_path):
    (whole,) = (small_files / "whole sweep" / "vectors").glob("*.npy")
    content = whole.read_bytes()
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / whole.name).write_bytes(content[:-9] + b"x" + content[-8:])
    small_sweep.launched(small_files, tmp_path, **SWEEP)
    assert (tmp_path / "vectors" / whole.name).read_bytes() == content


def test_repeated_kills_during_writes_do_not_change_the_results(small_files, undisturbed, tmp_path):
    generator = random.Random(1)
    # An event is a change of a file: a few create the cohorts, three write a checkpoint, about 30 the records.
    events = [2, 8, 11] + [generator.randrange(14, 80) for _ in range(2)]
    words = [str(tmp_path), ",".join(map(str, events)), *small_sweep.command(small_files, tmp_path, *ARGUMENTS)]
    process = small_sweep.start(words, str(Path(__file__).with_name("killed_launches.py")))
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    statuses = json.loads(output.splitlines()[-1])
    assert statuses.count(-signal.SIGKILL) >= 4 and set(statuses) <= {-signal.SIGKILL, 0}
    text, _ = small_sweep.launched(small_files, tmp_path, **SWEEP)
    assert (text, small_sweep.results(tmp_path)) == undisturbed
    assert not [folder for folder in (tmp_path / "runs").iterdir() if folder.name.startswith(".")]


def checkpoints(workdir: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    found = (workdir / "cohorts").glob("*/checkpoints/*")
    return sorted((file for file in found if file.name.isdigit()), key=lambda file: int(file.name))


def test_an_interrupt_and_sigterm_write_a_checkpoint_first(small_files, tmp_path):
    settings = {"training.epochs": "200", "execution.checkpoint_seconds": "3600"}
    workdir, lines = tmp_path / "out", []
    words = small_sweep.command(small_files, workdir, *(f"--config.{name}={value}" for name, value in settings.items()))
    for number, what, status in ((signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "terminated", 143)):
        process = small_sweep.start(words)
        for line in process.stderr:
            lines.append(line)
            if ", " in line and " pairs: dev " in line:
                process.send_signal(number)
                break
        errors = process.communicate(timeout=300)[1]
        assert process.returncode == status, errors
        assert errors.splitlines()[-1] == f"jaxmatch: {what}; run the same command to resume"
        assert len(checkpoints(workdir)) == (1 if number == signal.SIGINT else 2)
    assert sum(": continues " in line for line in lines) == 1
    step = checkpoints(workdir)[-1].name
    text, watcher = small_sweep.launched(small_files, workdir, overrides=settings)
    assert f"(step {step} of 800)" in watcher.text
    assert text == small_sweep.launched(small_files, tmp_path / "whole", overrides=settings)[0]
    assert small_sweep.results(workdir) == small_sweep.results(tmp_path / "whole")


def test_two_concurrent_launchers_train_each_cohort_once_with_equal_results(small_files, undisturbed, tmp_path):
    words = small_sweep.command(small_files, tmp_path, *ARGUMENTS)
    both = [small_sweep.start(words), small_sweep.start(words)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(errors.count("runs, compiling") for _, errors in outputs) == 2
    assert outputs[0][0] == outputs[1][0] == undisturbed[0]
    assert small_sweep.results(tmp_path) == undisturbed[1]

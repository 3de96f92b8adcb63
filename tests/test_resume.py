"""A launcher that is killed at any time and restarted gives the results of an uninterrupted one, bit for bit."""

import json
import random
import signal
from pathlib import Path

import pytest
import small_sweep

pytestmark = pytest.mark.slow

# Two cohorts of two runs, so that a kill may come before, between and after them.
GRID, SEEDS, AT_ONCE = "0.01,0.003", 2, "2"
WORDS = (
    f"--grid.optimizer.learning_rate={GRID}",
    f"--seeds={SEEDS}",
    f"--config.execution.maximum_replicas={AT_ONCE}",
)


def finish(files: Path, workdir: Path) -> tuple[str, small_sweep.Watcher]:
    """Runs the sweep to its end in this process, which has compiled the programs already."""
    return small_sweep.launched(
        files,
        workdir,
        seeds=SEEDS,
        grid_overrides={"optimizer.learning_rate": GRID},
        overrides={"execution.maximum_replicas": AT_ONCE},
    )


@pytest.fixture(scope="module")
def uninterrupted(small_files, finished_sweep, tmp_path_factory):
    """The table and the lasting files of a sweep that was not interrupted."""
    workdir = tmp_path_factory.mktemp("uninterrupted")
    text, watcher = finish(small_files, workdir)
    assert [len(runs) for runs in watcher.trained] == [2, 2]
    return text, small_sweep.results(workdir)


def killed_launches(files: Path, workdir: Path, events: list[int]):
    """Starts launches that kill themselves at these events; see killed_launches.py."""
    program = str(Path(__file__).with_name("killed_launches.py"))
    first = [str(workdir), ",".join(map(str, events))]
    return small_sweep.start([*first, *small_sweep.command(files, workdir, *WORDS)], program)


def output_of(process) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def assert_same_results(files, workdir, uninterrupted) -> small_sweep.Watcher:
    text, watcher = finish(files, workdir)
    assert text == uninterrupted[0]
    assert small_sweep.results(workdir) == uninterrupted[1]
    assert not [folder for folder in (workdir / "runs").iterdir() if folder.name.startswith(".")]
    return watcher


def test_repeated_kills_during_writes_do_not_change_the_results(small_files, uninterrupted, tmp_path):
    generator = random.Random(1)
    # An event is a change of a file: a few create the cohorts, three write a checkpoint, about 30 the records.
    events = [2, 8, 11] + [generator.randrange(14, 80) for _ in range(2)]
    statuses = json.loads(output_of(killed_launches(small_files, tmp_path, events)).splitlines()[-1])
    assert statuses.count(-signal.SIGKILL) >= 4
    assert set(statuses) <= {-signal.SIGKILL, 0}
    assert_same_results(small_files, tmp_path, uninterrupted)


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


def test_two_concurrent_launchers_train_each_cohort_once_with_equal_results(small_files, uninterrupted, tmp_path):
    words = small_sweep.command(small_files, tmp_path, *WORDS)
    both = [small_sweep.start(words), small_sweep.start(words)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(errors.count("runs, compiling") for _, errors in outputs) == 2
    assert outputs[0][0] == outputs[1][0] == uninterrupted[0]
    assert small_sweep.results(tmp_path) == uninterrupted[1]

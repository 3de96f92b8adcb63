"""A launcher that is killed at any moment and started again leaves what an undisturbed one does, bit for bit."""

import json
import random
import shutil
import signal
import tarfile
import time
from pathlib import Path

import pytest
import small_sweep

pytestmark = pytest.mark.slow

# Two cohorts of two runs, so that a kill may come before, between and after them.
GRID, SEEDS, REPLICAS = "0.01,0.003", 2, "2"
WORDS = (
    "--grid.optimizer.learning_rate=" + GRID,
    "--seeds",
    str(SEEDS),
    "--config.execution.maximum_replicas=" + REPLICAS,
)


def finish(files: Path, workdir: Path, **optimizer: float) -> tuple[str, small_sweep.Watcher]:
    """Runs the sweep to its end in this process, which has compiled the programs already."""
    return small_sweep.launched(
        files,
        workdir,
        seeds=SEEDS,
        grid_overrides={"optimizer.learning_rate": GRID},
        overrides={
            "execution.maximum_replicas": REPLICAS,
            **{f"optimizer.{name}": value for name, value in optimizer.items()},
        },
    )


@pytest.fixture(scope="module")
def undisturbed(small_files, finished_sweep, tmp_path_factory):
    """The table and the lasting parts of a sweep that nothing stopped."""
    workdir = tmp_path_factory.mktemp("undisturbed")
    text, watcher = finish(small_files, workdir)
    assert [len(runs) for runs in watcher.trained] == [2, 2]
    return text, small_sweep.lasting(workdir)


def killed_launches(files: Path, workdir: Path, events: list[int]):
    """Starts launches that kill themselves at these events; see killed_launches.py."""
    program = str(Path(__file__).with_name("killed_launches.py"))
    first = [str(workdir), ",".join(map(str, events))]
    return small_sweep.start([*first, *small_sweep.command(files, workdir, *WORDS)], program)


def output_of(process) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def assert_undisturbed(files, workdir, undisturbed) -> small_sweep.Watcher:
    text, watcher = finish(files, workdir)
    assert text == undisturbed[0]
    assert small_sweep.lasting(workdir) == undisturbed[1]
    assert not [folder for folder in (workdir / "runs").iterdir() if folder.name.startswith(".")]
    return watcher


def test_killed_again_and_again_while_it_writes(small_files, undisturbed, tmp_path):
    generator = random.Random(1)
    # An event is a change of a file. A few settle the cohorts, some twenty make a checkpoint, some thirty the records.
    events = [2, 8, 11] + [generator.randrange(14, 80) for _ in range(5)]
    statuses = json.loads(output_of(killed_launches(small_files, tmp_path, events)).splitlines()[-1])
    assert statuses.count(-signal.SIGKILL) >= 6
    assert set(statuses) <= {-signal.SIGKILL, 0}
    assert_undisturbed(small_files, tmp_path, undisturbed)


def test_killed_at_random_moments(small_files, undisturbed, tmp_path):
    generator = random.Random(2)
    workdir, killed = tmp_path / "work", 0
    for _ in range(3):
        process = small_sweep.start(small_sweep.command(small_files, workdir, *WORDS))
        while process.poll() is None and not list((workdir / "cohorts").glob("*.lock")):
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 1.5))
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 1
    assert_undisturbed(small_files, workdir, undisturbed)


@pytest.fixture(scope="module")
def stopped(small_files, undisturbed, tmp_path_factory):
    """A folder whose first cohort was killed in its last epoch, with two checkpoints."""
    workdir = tmp_path_factory.mktemp("stopped")
    assert output_of(killed_launches(small_files, workdir, [110])).splitlines()[-1] == f"[{-signal.SIGKILL}]"
    assert not (workdir / "runs").exists()
    return workdir


def checkpoints(workdir: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    found = (workdir / "cohorts").glob("*/checkpoints/*")
    return sorted((folder for folder in found if folder.name.isdigit()), key=lambda folder: int(folder.name))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for position in range(len(content) // 3, len(content), 97):
        content[position] ^= 0x10
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "which", "number"),
    [
        (truncate, "*", 1),
        (flip, "d/*", 1),
        (flip, "*", 1),
        (empty, "*", 1),
        (Path.unlink, "_METADATA", 1),
        (truncate, "*", 2),
    ],
    ids=["truncated", "arrays flipped", "all flipped", "emptied", "a file lost", "both truncated"],
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    small_files, undisturbed, stopped, tmp_path, caplog, damage, which, number
):
    workdir = shutil.copytree(stopped, tmp_path / "work")
    there = checkpoints(workdir)
    assert len(there) == 2
    damaged = there[-number:]
    for folder in damaged:
        files = [file for file in folder.rglob(which) if file.is_file()]
        assert files
        for file in files:
            damage(file)
    with caplog.at_level("WARNING", logger="jaxmatch"):
        watcher = assert_undisturbed(small_files, workdir, undisturbed)
    assert [f"checkpoint {folder.name} is damaged" in caplog.text for folder in there] == [number == 2, True]
    if number == 1:
        assert f"resumed from a checkpoint at step {there[0].name} of 12" in watcher.text
    else:
        assert "resumed from a checkpoint" not in watcher.text


def test_whole_checkpoints_are_gone_on_from(small_files, undisturbed, stopped, tmp_path, caplog):
    workdir = shutil.copytree(stopped, tmp_path / "work")
    watcher = assert_undisturbed(small_files, workdir, undisturbed)
    assert "resumed from a checkpoint" in watcher.text
    assert "damaged" not in caplog.text


def test_two_launchers_train_each_cohort_once_and_end_alike(small_files, undisturbed, tmp_path):
    words = small_sweep.command(small_files, tmp_path, *WORDS)
    both = [small_sweep.start(words), small_sweep.start(words)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum(errors.count("runs, compiling") for _, errors in said) == 2
    assert said[0][0] == said[1][0] == undisturbed[0]
    assert small_sweep.lasting(tmp_path) == undisturbed[1]


def test_a_folder_that_an_old_version_began_goes_on(tmp_path):
    """The oldest version whose runs have today's names began it; fixtures/README.md states how it was made."""
    with tarfile.open(Path(__file__).parent / "fixtures" / "begun_by_6bf82ba.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    files, workdir = tmp_path / "data", tmp_path / "begun"
    (files / "small.py").write_text(small_sweep.SWEEP)
    whole = json.loads((tmp_path / "whole.json").read_text())  # its records when nothing stopped it
    finished = small_sweep.records(workdir)
    table, watcher = finish(files, workdir, dropout_rate=0.0)
    assert [set(runs) for runs in watcher.trained] == [whole.keys() - finished.keys()] and len(finished) == 2
    assert "resumed from a checkpoint at step 1 of 12" in watcher.text
    records = small_sweep.records(workdir)
    assert records.keys() == whole.keys() and finished.items() <= records.items()
    for run in watcher.trained[0]:
        record, old = records[run], whole[run]
        assert record["selected_at_samples"] == old["selected_at_samples"]
        for split in ("dev", "test"):
            assert record[split] == pytest.approx(old[split], abs=1e-5)
        for one, other in zip(record["curve"], old["curve"], strict=True):
            assert one["samples"] == other["samples"]
            assert one["train_loss"] == pytest.approx(other["train_loss"], abs=1e-5)
    assert "| 0.003         |        645 | 2     |" in table

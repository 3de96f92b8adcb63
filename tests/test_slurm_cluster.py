"""Tests of `make clusters` on a real Slurm of two nodes: jobs that are cancelled, nodes that go down, time limits."""

import json
import subprocess
import time
from pathlib import Path

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.workdir import Workdir

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")
pytestmark = [pytest.mark.clusters, pytest.mark.usefixtures("slurm")]

# Three cohorts of two runs.
GRID = ("--seeds=3", "--grid.optimizer.learning_rate=0.01,0.003", "--config.execution.maximum_replicas=2")
# Checkpoints are saved only on request. There are enough epochs to leave time for a request.
LONG = ("--config.training.epochs=400", "--config.execution.checkpoint_seconds=3600")


SQUEUE = ("squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T")


def until(condition, seconds=120.0):
    """Waits until `condition` returns a true value, and returns that value."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


class Command:
    """The command that submits the small sweep with more words, and what became of its jobs."""

    def __init__(self, files, workdir, capfd, *more):
        self.workdir, self._words, self._capfd = workdir, small_sweep.command(files, workdir, *more), capfd

    def run(self, *more):
        """Runs the command. Returns its exit status, output and errors."""
        self._capfd.readouterr()
        return main([*self._words, "--on", "slurm", *more]), *self._capfd.readouterr()

    def states(self):
        """Returns job -> "done", or its state in Slurm; "ended" once Slurm has forgotten it."""
        jobs = json.loads((self.workdir / "slurm" / "jobs.json").read_text())
        listed = subprocess.run(SQUEUE, capture_output=True, text=True, check=True).stdout
        states = dict(line.lower().split("|") for line in listed.splitlines())
        done = {folder.name for folder in Workdir(self.workdir).cohorts() if folder.done}
        return {job: "done" if name in done else states.get(job, "ended") for name, job in jobs.items()}

    def log(self):
        return "".join(path.read_text() for path in sorted((self.workdir / "slurm").glob("*.out")))

    def job(self, state):
        """Waits for a job in this state. If it is running, its cohort has been trained for some epochs."""
        job = until(lambda: [job for job, found in self.states().items() if found == state])[0]
        if state == "running":
            log = self.workdir / "slurm" / f"{job}_0_log.out"
            until(lambda: log.exists() and "epoch 3," in log.read_text())
        return job

    def finished(self):
        """Waits until all cohorts are done, and returns the table and the lasting parts of the sweep."""
        until(lambda: set(self.states().values()) == {"done"}, 300)
        status, table, _ = self.run()
        assert status == 0
        return table, small_sweep.results(self.workdir)


@pytest.fixture
def command(small_files, tmp_path, capfd):
    return Command(small_files, tmp_path, capfd, *GRID, *LONG)


@pytest.fixture(scope="module")
def expected(small_files, tmp_path_factory):
    """The table and the lasting parts of a sweep in one process."""
    overrides = dict(word.removeprefix("--config.").split("=") for word in (*LONG, GRID[2]))
    grid, workdir = {"optimizer.learning_rate": "0.01,0.003"}, tmp_path_factory.mktemp("expected")
    table, _ = small_sweep.launched(small_files, workdir, seeds=3, grid_overrides=grid, overrides=overrides)
    return table, small_sweep.results(workdir)


def test_a_job_array_is_submitted_once_and_produces_the_records_of_one_process(command, expected):
    status, output, errors = command.run()
    assert status == 0 and not output and "3 jobs submitted;" in errors
    command.job("running")
    assert "0 jobs submitted (3 before);" in command.run()[2]
    assert command.finished() == expected


def test_a_cancelled_job_writes_a_checkpoint_and_is_submitted_again(command, slurm, expected):
    command.run()
    running = command.job("running")
    queued = [job for job, state in command.states().items() if state == "pending"]
    slurm.run("scancel", running, *queued)
    until(lambda: command.states()[running] == "cancelled")
    assert sum(folder.newest_checkpoint() >= 0 for folder in Workdir(command.workdir).cohorts()) == 1
    assert f"{1 + len(queued)} job" in command.run()[2]
    assert command.finished() == expected
    assert command.log().count(": continues ") == 1


def test_a_job_of_a_failed_node_is_requeued_and_finishes(command, slurm, expected):
    command.run()
    job = command.job("running")
    node = slurm.run("squeue", "--noheader", "--jobs", job, "--format", "%N").strip()
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        # Slurm itself requeues the job, and the other node trains all remaining cohorts.
        until(lambda: command.states()[job] == "pending")
        assert command.finished() == expected
    finally:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        until(lambda: set(slurm.states().values()) == {"idle"})


def test_a_preempted_job_is_requeued_and_resumes(command, slurm, expected):
    command.run()
    job = command.job("running")
    slurm.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 2")
    until(lambda: command.states()[job] == "pending")
    assert command.finished() == expected
    assert ": continues " in command.log() and "DUE TO PREEMPTION" in command.log()


# Loaded by --import in the command and in each job, which it slows down.
SLOW = """
import sys, time
from jaxmatch.sweep.display import Display
if sys.argv[0].endswith("_submit.py"):
    before = Display.say
    Display.say = lambda self, line: time.sleep(0.3) or before(self, line)
"""


def test_a_job_at_its_time_limit_is_requeued_and_resumes(small_files, tmp_path, capfd):
    """Slurm looks every half minute, and half a minute ahead: the signal comes 10 to 40 seconds after the start."""
    (tmp_path / "jobs.toml").write_text("minutes = 1\nsignal_seconds = 20\n")
    (tmp_path / "slow.py").write_text(SLOW)
    options = ("--slurm", str(tmp_path / "jobs.toml"), "--import", str(tmp_path / "slow.py"))
    settings = {"training.epochs": "170", "execution.checkpoint_seconds": "3600"}
    expected, _ = small_sweep.launched(small_files, tmp_path / "one", overrides=settings)
    words = [f"--config.{name}={value}" for name, value in settings.items()]
    command = Command(small_files, tmp_path / "a folder's name", capfd, *words, *options)
    assert command.run()[0] == 0
    assert command.finished() == (expected, small_sweep.results(tmp_path / "one"))
    log = command.log()
    assert "timed-out" in log and "Requeued job" in log and ": continues " in log


def test_slurm_refusals_are_reported_in_one_line(small_files, tmp_path, slurm, capfd, monkeypatch):
    options = tmp_path / "jobs.toml"
    command = Command(small_files, tmp_path / "work", capfd, "--slurm", str(options))
    for text, message in (
        ('partition = "none"', "invalid partition specified: none"),
        ('nonsense = "1"', "unrecognized option '--nonsense=1'"),
    ):
        options.write_text(text)
        status, _, errors = command.run()
        line = errors.splitlines()[-1]
        assert status == 2 and line.startswith("jaxmatch: Slurm refuses: ") and message in line
        assert "sbatch: " not in errors
    # Slurm accepts a job that no node can run. squeue shows why it waits.
    options.write_text("cpus = 999")
    assert command.run()[0] == 0 and set(command.states().values()) == {"pending"}
    configuration = tmp_path / "slurm.conf"
    text = Path(slurm.variables["SLURM_CONF"]).read_text()
    configuration.write_text(text.replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1"))
    options.write_text("")
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    status, _, errors = command.run()
    assert status == 2 and "jaxmatch: squeue fails: " in errors and "contact" in errors.splitlines()[-1]

"""Tests of `make clusters` on a real Slurm of two nodes: jobs that are cancelled, nodes that go down, time limits."""

import os
from pathlib import Path

import pytest
import small_sweep
from slurm_sweep import LONG, log_of, until, words

from jaxmatch.cli.main import main
from jaxmatch.sweep import slurm_jobs

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")
pytestmark = [pytest.mark.clusters, pytest.mark.usefixtures("slurm")]

# Three cohorts of two runs.
RATES, SEEDS, AT_ONCE = "0.01,0.003", 3, 2
GRID = (
    f"--seeds={SEEDS}",
    f"--grid.optimizer.learning_rate={RATES}",
    f"--config.execution.maximum_replicas={AT_ONCE}",
)
EPOCHS = "400"


def alone(files, workdir, **overrides):
    """Returns the table and the lasting parts of a sweep in one process."""
    table, _ = small_sweep.launched(
        files,
        workdir,
        seeds=SEEDS,
        grid_overrides={"optimizer.learning_rate": RATES},
        overrides={"execution.maximum_replicas": str(AT_ONCE)} | LONG | overrides,
    )
    return table, small_sweep.results(workdir)


@pytest.fixture(scope="module")
def expected(small_files, tmp_path_factory):
    return alone(small_files, tmp_path_factory.mktemp("expected"), **{"training.epochs": EPOCHS})


def states(workdir):
    return [each.state for each in slurm_jobs.states(workdir)]


def finished(workdir, command, capfd, seconds=240.0):
    """Waits until all cohorts are done, and returns the table and the lasting parts of the sweep."""
    until(lambda: {"queued", "running"}.isdisjoint(states(workdir)), seconds)
    assert states(workdir) == ["done"] * len(states(workdir)), log_of(workdir)
    capfd.readouterr()
    assert main([*command, "--collect"]) == 0
    return capfd.readouterr().out, small_sweep.results(workdir)


def job_of(workdir, state):
    """Waits for a job in this state and returns it. If it is running, its cohort has been trained for some epochs."""
    found = until(lambda: [each for each in slurm_jobs.states(workdir) if each.state == state])
    if state == "running":
        log = slurm_jobs.folder_of(workdir) / f"{found[0].job}_0_log.out"
        until(lambda: log.exists() and "epoch 3," in log.read_text())
    return found[0].job


def test_job_array_produces_the_records_of_one_process(small_files, tmp_path, expected, capfd):
    command = words(small_files, tmp_path, *GRID, "--on", "slurm", **{"training.epochs": EPOCHS})
    assert main(command) == 0
    submitted = capfd.readouterr()
    assert not submitted.out and "3 jobs submitted" in submitted.err
    assert job_of(tmp_path, "running").endswith(("_0", "_1"))
    assert main([*command, "--status"]) == 0
    assert "1 queued, 2 running" in capfd.readouterr().out
    assert main(command) == 0 and "0 jobs submitted (1 queued, 2 running)" in capfd.readouterr().err
    assert main([*command, "--collect"]) == 2
    assert "6 of 6 runs are missing (cohorts: 1 queued, 2 running)" in capfd.readouterr().err
    assert finished(tmp_path, command, capfd) == expected


def test_cancelled_running_job_is_resubmitted_and_resumes(small_files, tmp_path, slurm, expected, capfd):
    command = words(small_files, tmp_path, *GRID, "--on", "slurm", **{"training.epochs": EPOCHS})
    assert main(command) == 0
    job = job_of(tmp_path, "running")
    slurm.run("scancel", job)
    until(lambda: "stopped" in states(tmp_path))
    (stopped,) = [each for each in slurm_jobs.states(tmp_path) if each.state == "stopped"]
    assert stopped.job == job and any(stopped.folder.checkpoints.iterdir())
    assert main(command) == 0 and "1 job submitted" in capfd.readouterr().err
    assert finished(tmp_path, command, capfd) == expected
    assert log_of(tmp_path).count("resumed from a checkpoint") == 1


def test_cancelled_queued_job_is_resubmitted(small_files, tmp_path, slurm, expected, capfd):
    command = words(small_files, tmp_path, *GRID, "--on", "slurm", **{"training.epochs": EPOCHS})
    assert main(command) == 0
    slurm.run("scancel", job_of(tmp_path, "queued"))
    until(lambda: "stopped" in states(tmp_path))
    assert main(command) == 0 and "1 job submitted" in capfd.readouterr().err
    assert finished(tmp_path, command, capfd) == expected


def test_job_of_a_failed_node_is_requeued_and_finishes(small_files, tmp_path, slurm, expected, capfd):
    command = words(small_files, tmp_path, *GRID, "--on", "slurm", **{"training.epochs": EPOCHS})
    assert main(command) == 0
    job = job_of(tmp_path, "running")
    node = slurm.run("squeue", "--noheader", "--jobs", job, "--format", "%N").strip()
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    until(lambda: slurm.states()[node].startswith("down"))
    try:
        # Slurm itself requeues the job, and the other node trains all remaining cohorts.
        until(lambda: dict((each.job, each.state) for each in slurm_jobs.states(tmp_path))[job] == "queued")
        assert finished(tmp_path, command, capfd) == expected
    finally:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)  # the node may already be up
        until(lambda: set(slurm.states().values()) == {"idle"})


def test_preempted_job_is_requeued_and_resumes(small_files, tmp_path, slurm, expected, capfd):
    """Slurm signals the job to stop, and requeues it."""
    command = words(small_files, tmp_path, *GRID, "--on", "slurm", **{"training.epochs": EPOCHS})
    assert main(command) == 0
    job = job_of(tmp_path, "running")
    other = ("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 2")
    slurm.run(*other)
    until(lambda: dict((each.job, each.state) for each in slurm_jobs.states(tmp_path))[job] == "queued")
    assert finished(tmp_path, command, capfd) == expected
    assert "resumed from a checkpoint" in log_of(tmp_path) and "DUE TO PREEMPTION" in log_of(tmp_path)


# Loaded by --import in the command and in each job, which it slows down.
SLOW = """
import sys, time
from jaxmatch.sweep.cohort_display import CohortDisplay
if sys.argv[0].endswith("_submit.py"):
    before = CohortDisplay.evaluated
    CohortDisplay.evaluated = lambda self, *told: time.sleep(0.3) or before(self, *told)
"""


def test_job_at_its_time_limit_is_requeued_and_resumes(small_files, tmp_path, capfd):
    """Slurm checks time limits every half minute: here the job is signalled 15 to 45 seconds after its start."""
    settings = {"training.epochs": "170"}
    (tmp_path / "jobs.toml").write_text("minutes = 1\nsignal_seconds = 45\n")
    (tmp_path / "slow.py").write_text(SLOW)
    small_sweep.launched(small_files, tmp_path / "one", overrides=LONG | settings)
    workdir = tmp_path / "jobs"
    more = ("--on", "slurm", "--slurm", str(tmp_path / "jobs.toml"), "--import", str(tmp_path / "slow.py"))
    command = words(small_files, workdir, *more, **settings)
    assert main(command) == 0
    _, found = finished(workdir, command, capfd)
    assert found == small_sweep.results(tmp_path / "one")
    log = log_of(workdir)
    assert "timed-out" in log and "Requeued job" in log and "resumed from a checkpoint" in log


def test_slurm_refusals_are_reported_in_one_line(small_files, tmp_path, slurm, capfd, monkeypatch):
    options = tmp_path / "jobs.toml"
    command = words(small_files, tmp_path / "work", "--on", "slurm", "--slurm", str(options))
    for text, message in (
        ('partition = "none"', "Slurm refuses: invalid partition specified: none; Invalid partition name specified"),
        ("cpus = 999", "Slurm refuses: Requested node configuration is not available; see sinfo, and "),
        ('[sbatch]\nnonsense = "1"', "Slurm refuses: unrecognized option '--nonsense=1'"),
    ):
        options.write_text(text)
        assert main(command) == 2
        errors = capfd.readouterr().err
        assert errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1, errors
        assert not (tmp_path / "work").exists()
    configuration = tmp_path / "slurm.conf"
    text = Path(os.environ["SLURM_CONF"]).read_text()
    configuration.write_text(text.replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1"))
    options.write_text("")
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    assert main(command) == 2
    errors = capfd.readouterr().err
    assert errors.startswith("jaxmatch: Slurm refuses: ") and "contact" in errors and errors.count("\n") == 1, errors

"""Tuning on a real Slurm of two nodes: the command waits for its jobs, is interrupted, and is started again."""

import json
import signal

import pytest
import small_sweep
from ray_driver import Driver
from slurm_sweep import until

from jaxmatch.cli.main import main
from jaxmatch.sweep import slurm_jobs

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")
pytestmark = [pytest.mark.clusters, pytest.mark.usefixtures("slurm")]

HALVING = (
    *("--halving", "--eta=2", "--rungs=40,80", "--seeds=2", "--final-seeds=1", "--epochs=120"),
    *("--grid.optimizer.learning_rate=0.03,0.01,0.003,0.001", "--config.execution.maximum_replicas=4"),
)
ASHA = ("--asha", *HALVING[1:])
OPTUNA = (
    *("--optuna=4", "--trials-at-once=2", "--seeds=2", "--final-seeds=1", "--epochs=2"),
    *("--space.optimizer.learning_rate=log:1e-3:1e-1", "--space.model.encoder_layers=1:2"),
)


def lasting(workdir):
    return [small_sweep.results(folder) for folder in (workdir, workdir / "final")]


def tune_in_one_process(files, workdir, words, capfd):
    assert main(["tune", *small_sweep.command(files, workdir, *words)[1:]]) == 0
    return capfd.readouterr().out, lasting(workdir)


def driver(files, workdir, words):
    return Driver(files, workdir, *words, "--on", "slurm", command="tune")


def test_interrupted_halving_equals_halving_in_one_process(small_files, tmp_path, capfd):
    workdir, expected = tmp_path / "jobs", tune_in_one_process(small_files, tmp_path / "one", HALVING, capfd)
    first = driver(small_files, workdir, HALVING)
    first.until("epoch 3,")
    first.process.send_signal(signal.SIGINT)
    status, _ = first.ended()
    assert status == 130 and "2 jobs continue (scancel " in first.lines[-1], "".join(first.lines)
    jobs = slurm_jobs.read_jobs(workdir).cohorts
    assert slurm_jobs.alive(workdir, slurm_jobs.read_jobs(workdir))
    second = driver(small_files, workdir, HALVING)
    second.until("2 jobs of an earlier command continue")
    second.until("at the rung")
    status, table = second.ended(240)
    assert status == 0, "".join(second.lines)
    assert (table, lasting(workdir)) == expected
    # One job trained each of the two cohorts up to the first rung.
    logs = list((workdir / "slurm").glob("*_log.out"))
    assert {f"{job}_0_log.out" for job in jobs} <= {log.name for log in logs}
    assert sum("resumed from a checkpoint" not in log.read_text() for log in logs) == 2


def test_asha_continues_and_drops_settings(small_files, tmp_path):
    command = driver(small_files, tmp_path, ASHA)
    status, table = command.ended(240)
    assert status == 0 and "dropped by successive halving" in table, "".join(command.lines)
    arrivals = [json.loads(line) for line in (tmp_path / "arrivals.jsonl").read_text().splitlines()]
    assert sum(rung == 0 for _, rung, _ in arrivals) == 4 and sum(rung == 1 for _, rung, _ in arrivals) >= 2
    assert any("continues after epoch 40" in line for line in command.lines)
    assert not any("earlier command" in line for line in command.lines)


def test_optuna_trials_equal_those_of_one_process(small_files, tmp_path, capfd):
    expected = tune_in_one_process(small_files, tmp_path / "one", OPTUNA, capfd)
    command = driver(small_files, tmp_path / "jobs", OPTUNA)
    status, table = command.ended(240)
    assert status == 0 and not any("earlier command" in line for line in command.lines), "".join(command.lines)
    assert (table, lasting(tmp_path / "jobs")) == expected


def test_cancelled_job_is_reported_and_the_next_command_resumes(small_files, tmp_path, slurm, capfd):
    expected = tune_in_one_process(small_files, tmp_path / "one", HALVING, capfd)
    command = driver(small_files, tmp_path / "jobs", HALVING)
    command.until("epoch 3,")
    job = next(iter(slurm_jobs.alive(tmp_path / "jobs", slurm_jobs.read_jobs(tmp_path / "jobs"))))
    slurm.run("scancel", job)
    command.until(f"failed (its job {job} was cancelled)")
    status, _ = command.ended()
    assert status == 2 and f"its job {job} was cancelled" in command.lines[-1]
    until(lambda: not slurm_jobs.alive(tmp_path / "jobs", slurm_jobs.read_jobs(tmp_path / "jobs")))
    again = driver(small_files, tmp_path / "jobs", HALVING)
    status, table = again.ended(240)
    assert status == 0, "".join(again.lines)
    assert (table, lasting(tmp_path / "jobs")) == expected

"""A sweep as Slurm jobs that run on this machine. test_slurm_cluster.py uses a real Slurm."""

import argparse
import json
import os
import shutil
import signal
import types
from pathlib import Path

import pytest
import small_sweep
from slurm_sweep import LONG, log_of, until, words

from jaxmatch.cli import engine_options
from jaxmatch.cli.main import main
from jaxmatch.devices import cores
from jaxmatch.errors import InputError
from jaxmatch.sweep import launch, on_slurm, slurm_jobs
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import plan_text
from jaxmatch.sweep.plan import make_plan
from jaxmatch.sweep.slurm_options import SlurmOptions
from jaxmatch.sweep.slurm_training import Training
from jaxmatch.workdir import Workdir

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")


def task_of(job):
    """Returns the id of the process that trains, which is a child of the process of the job."""
    return int(until(lambda: Path(f"/proc/{job}/task/{job}/children").read_text().split())[0])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the training process is found in /proc")
def test_records_of_a_requeued_job_equal_those_of_one_process(small_files, tmp_path, capfd):
    table, _ = small_sweep.launched(small_files, tmp_path / "one", overrides=LONG)
    workdir = tmp_path / "jobs"
    command = words(small_files, workdir, "--on", "slurm:local")
    assert main(command) == 0
    captured = capfd.readouterr()
    assert not captured.out
    assert f"1 job submitted (1 queued); logs are in {workdir / 'slurm'}; --status lists" in captured.err
    ((job, cohort),) = slurm_jobs.read_jobs(workdir).cohorts.items()
    assert f"NPROC={cores()}".encode() in Path(f"/proc/{job}/environ").read_bytes().split(b"\0")
    until(lambda: "epoch 2," in log_of(workdir))
    assert main([*command, "--status"]) == 0
    heading, line, count = capfd.readouterr().out.splitlines()
    assert heading.split() == ["cohort", "runs", "state", "job", "log"] and count == "1 running"
    assert line.split() == [cohort, "2", "running", job, str(workdir / "slurm" / f"{job}_0_log.out")]
    assert main([*command, "--collect"]) == 2
    captured = capfd.readouterr()
    wanted = f"jaxmatch: {workdir}: 2 of 2 runs are missing (cohorts: 1 running); see --status\n"
    assert (captured.out, captured.err) == ("", wanted)
    assert main(command) == 0 and "0 jobs submitted (1 running)" in capfd.readouterr().err

    os.kill(task_of(job), signal.SIGUSR2)
    until(lambda: [folder for folder in Workdir(workdir).cohorts() if folder.done])
    assert "Requeued job" in log_of(workdir) and "resumed from a checkpoint" in log_of(workdir)
    assert small_sweep.results(workdir) == small_sweep.results(tmp_path / "one")
    assert main([*command, "--collect"]) == 0
    assert capfd.readouterr().out == table
    assert main([*command, "--status"]) == 0 and capfd.readouterr().out.endswith("\n1 done\n")
    until(lambda: not slurm_jobs.alive(workdir, slurm_jobs.Jobs(True, {job: cohort})))


def test_a_dropped_run_that_is_trained_again_is_missing(tmp_path, monkeypatch, capsys):
    folder = types.SimpleNamespace(records={"a-seed0": {"status": "dropped"}}, missing=[], runs={"a-seed0": None})
    monkeypatch.setattr("jaxmatch.reporting.sweep_folder.read_sweep_folder", lambda _: folder)
    monkeypatch.setattr("jaxmatch.reporting.folder_table.table", lambda _: "table\n")
    monkeypatch.setattr(slurm_jobs, "states", lambda _: [])
    arguments = argparse.Namespace(status=False, collect=True, subcommand="sweep")
    assert engine_options.print_status_or_table(arguments, tmp_path)
    Workdir(tmp_path).claim([("s", ("a-seed0",))])
    with pytest.raises(InputError, match="1 of 1 runs is missing"):
        engine_options.print_status_or_table(arguments, tmp_path)
    assert capsys.readouterr().out == "table\n" * 2


@pytest.fixture
def training(small_files, tmp_path):
    """The folder of a cohort of the small sweep, and a job for it that has not started."""
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files)))
    (folder,) = Workdir(tmp_path).claim([(cohort.signature, cohort.names()) for cohort in plan.cohorts])
    data = tmp_path / "data.pkl"
    given = {"failed_before": None, "devices": 1, "gpus": False, "seconds": 1.0, "turns": 1, "extend": None}
    return folder, Training(plan=plan, data=data, cohort=folder.name, workdir=tmp_path, stage=Stage(), **given)


def test_a_job_ended_three_times_without_a_new_checkpoint_fails(training):
    folder, job = training
    assert job.checkpoint().function is job and folder.failure() is None
    (folder.checkpoints / "4").mkdir(parents=True)
    for _ in range(3):
        assert job.checkpoint() is not None
    assert job.checkpoint() is None
    assert json.loads(folder.failure())["message"] == "RuntimeError: its job was ended 3 times without a new checkpoint"


def test_a_job_that_requested_a_gpu_refuses_a_cpu(training):
    folder, job = training
    job.gpus = True
    with pytest.raises(ValueError, match="JAX sees no GPU in the job; install"):
        job.train()
    assert b"JAX sees no GPU" in folder.failure()


@pytest.mark.parametrize(("allowed", "first"), [("", "0,1"), ("3,4,7,5", "3,4")])
def test_concurrent_local_jobs_use_different_gpus(training, small_files, tmp_path, monkeypatch, allowed, first):
    _, job = training
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    engine = on_slurm.SlurmEngine(SlurmOptions(gpus=2, gpu_memory_gb=8, at_once=2), local=True)
    engine.begin(tmp_path, "small")
    job.turns, job.gpus_of_turns = 2, engine.gpus_of_turns()
    assert job.gpus_of_turns[0] == first
    slurm_jobs.folder_of(tmp_path).mkdir(exist_ok=True)
    with job.turn():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == first
        with job.turn():
            assert os.environ["CUDA_VISIBLE_DEVICES"] == job.gpus_of_turns[1] != first
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4,7")
    with pytest.raises(InputError, match="2 jobs at once, 2 GPUs each, are more than CUDA_VISIBLE_DEVICES=3,4,7"):
        engine.begin(tmp_path, "small")


@pytest.mark.parametrize(("local", "at_once", "slots"), [(True, None, 1), (True, 2, 2), (False, None, 6)])
def test_estimate_counts_concurrent_jobs_and_names_the_assumed_speed(small_files, local, at_once, slots):
    overrides = small_sweep.overrides(small_files) | {"execution.maximum_replicas": "1"}
    planned = launch.resolve(small_files / "small.py", overrides=overrides, seeds=3)
    plan = on_slurm.SlurmEngine(SlurmOptions(at_once=at_once), local=local).plan(planned)
    assert plan.slots == slots
    assert "; at the speed of this machine's CPU, since that of the jobs is not known" in plan_text(plan, set())
    assert "at the speed of" not in plan_text(make_plan(planned), set())


def test_a_job_of_several_gpus_is_one_worker(small_files):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files), seeds=4)
    plan = on_slurm.SlurmEngine(SlurmOptions(gpus=4, gpu_memory_gb=40, at_once=1)).plan(planned)
    assert plan.slots == 1 and [cohort.devices for cohort in plan.cohorts] == [4]
    assert "trained by 1 worker at once" in plan_text(plan, set())


@pytest.mark.slow
def test_models_that_know_other_characters_are_each_given_their_own_data(small_files, tmp_path):
    files = shutil.copytree(small_files, tmp_path / "files")
    for split in ("train", "dev", "test"):
        header, rows = (files / f"{split}.tsv").read_text().split("\n", 1)
        (files / f"{split}.tsv").write_text(f"{header}\n{rows.translate(str.maketrans('abcdklmn', 'áбćдķłмн'))}")
    changes = ["--config.training.epochs=1", "--config.data.minimum_count=1", "--config.data.vectors=hashed"]
    changes += ["--config.model.characters=cnn", "--grid.model.known_characters=128,1024"]
    changes += ["--grid.optimizer.learning_rate=0.01"]
    scores = []
    for place, where in (("here", []), ("jobs", ["--on", "slurm:local"])):
        command = small_sweep.command(files, tmp_path / place, *changes, "--seeds", "1", *where)
        assert main(command) == 0
        until(lambda: all(folder.done for folder in Workdir(tmp_path / place).cohorts()))
        records = small_sweep.records(tmp_path / place)
        scores.append({run: record["curve"] for run, record in records.items()})
    assert len(scores[0]) > 1 and scores[0] == scores[1]


def test_switching_from_the_cluster_to_local_jobs_discards_the_old_jobs(tmp_path):
    slurm_jobs.add_jobs(tmp_path, False, {"123_0": "a", "456": "b"})
    slurm_jobs.add_jobs(tmp_path, False, {"789": "b"})
    assert slurm_jobs.read_jobs(tmp_path) == slurm_jobs.Jobs(False, {"123_0": "a", "789": "b"})
    slurm_jobs.add_jobs(tmp_path, True, {"17": "b"})
    assert slurm_jobs.read_jobs(tmp_path) == slurm_jobs.Jobs(True, {"17": "b"})

"""Jobs of a stand-in for Slurm: what is submitted, and what a job does. test_slurm_cluster.py has a real Slurm."""

import dataclasses
import json
import os
import pickle
import shutil
import signal
import sys

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.sweep import launch, on_slurm
from jaxmatch.sweep.display import plan_text
from jaxmatch.sweep.on_slurm import SlurmEngine, SlurmOptions
from jaxmatch.sweep.plan import make_plan
from jaxmatch.workdir import Workdir

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")

# Three cohorts of two runs.
GRID = ("--seeds=3", "--grid.optimizer.learning_rate=0.01,0.003", "--config.execution.maximum_replicas=2")
ONE_EACH = ("--seeds=5", "--grid.optimizer.learning_rate=0.01", "--config.execution.maximum_replicas=1")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The folder of stand-ins for Slurm's programs. They print the contents of files, and save their input."""
    folder = tmp_path / "programs"
    folder.mkdir()
    scripts = {
        "sbatch": f'cat "$1" > {folder}/script; sed -n "s/^#SBATCH --array=//p" "$1" >> {folder}/arrays\n'
        f'[ ! -e {folder}/refusal ] || {{ cat {folder}/refusal >&2; exit 1; }}\necho "Submitted batch job 17"',
        "srun": "exit 1",
        "squeue": f"cat {folder}/queue",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "queue").write_text("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def submit(small_files, tmp_path, slurm, capsys):
    """A function that runs the command with more words. Returns the exit status, and what it printed."""

    def run(*more):
        capsys.readouterr()
        status = main(small_sweep.command(small_files, tmp_path / "work", "--on", "slurm", *more))
        return status, "".join(capsys.readouterr())

    return run


@pytest.fixture
def job_of(tmp_path):
    """A function that returns a submitted job, which this process then runs."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda name: pickle.loads((tmp_path / "work" / "slurm" / f"{name}_submitted.pkl").read_bytes()).function
    signal.signal(signal.SIGTERM, before)
    on_slurm.STOP.clear()


def test_jobs_are_submitted_as_an_array_and_status_shows_their_states(submit, tmp_path, slurm):
    options, workdir = tmp_path / "jobs.toml", tmp_path / "work"
    options.write_text(
        "minutes = 5\ncpus = 3\nmemory_gb = 2\nsignal_seconds = 40\npartition = 'short'\nnice = 7\nexclusive = true\n"
    )
    more = (*GRID, "--slurm", str(options))
    status, printed = submit(*more)
    assert status == 0 and f"3 jobs submitted; logs are in {workdir / 'slurm'}; --status lists" in printed
    lines = (slurm / "script").read_text().splitlines()
    wanted = "partition=short time=5 cpus-per-task=3 mem=2048M signal=USR2@40 nice=7 requeue exclusive array=0-2%3"
    for line in [*(f"#SBATCH --{option}" for option in wanted.split()), "export NPROC=3", "export JAX_PLATFORMS=cpu"]:
        assert line in lines
    cohorts = {job: cohort for cohort, job in json.loads((workdir / "slurm" / "jobs.json").read_text()).items()}
    first, second, third = (cohorts[f"17_{number}"] for number in range(3))
    (slurm / "queue").write_text("17_0|RUNNING|None\n17_1|PENDING|launch failed requeued held\n99_2|RUNNING|None\n")
    (workdir / "slurm" / "17_0_0_log.out").touch()
    (workdir / "cohorts" / third / "error.json").write_text('{"message": "it burns"}')
    status, printed = submit(*more, "--status")
    shown = {line.split()[0]: line.split(maxsplit=4)[1:] for line in printed.splitlines()}
    assert status == 0 and shown[first] == ["2", "running", "17_0", str(workdir / "slurm" / "17_0_0_log.out")]
    assert shown[second] == ["2", "pending", "17_1", "launch failed requeued held"]
    assert shown[third][1::2] == ["failed", f"it burns ({workdir / 'cohorts' / third / 'error.json'})"]
    assert sorted(printed.splitlines()[-1].split(", ")) == ["1 failed", "1 pending", "1 running"]
    # Only the jobs that are neither queued nor running are submitted again.
    (slurm / "queue").write_text("17_0|RUNNING|None\n17_1|OUT_OF_MEMORY|None\n99_2|RUNNING|None\n")
    status, printed = submit(*more)
    assert status == 0 and "2 jobs submitted (1 before)" in printed and "array=0-1%2" in (slurm / "script").read_text()


def test_many_jobs_are_split_into_several_arrays(submit, tmp_path, slurm, monkeypatch):
    monkeypatch.setattr(on_slurm, "MOST_IN_AN_ARRAY", 2)
    assert submit(*ONE_EACH)[0] == 0
    assert (slurm / "arrays").read_text().split() == ["0-1%2", "0-1%2"]  # the fifth is no array
    jobs = json.loads((tmp_path / "work" / "slurm" / "jobs.json").read_text())
    assert sorted(jobs.values()) == ["17", "17_0", "17_0", "17_1", "17_1"]


@pytest.mark.parametrize(
    ("options", "exported"),
    [
        ("", ["NPROC=5", "JAX_PLATFORMS=cpu"]),
        ("gpus = 1\ngpu_memory_gb = 8\n", []),  # only the cluster knows how many
        ("gpus = 1\ngpu_memory_gb = 8\ncpus = 3\n", ["NPROC=3"]),
    ],
)
def test_job_script_sets_the_number_of_cpus_and_the_platform(submit, tmp_path, slurm, monkeypatch, options, exported):
    monkeypatch.setenv("NPROC", "5")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", "") + " ")
    (tmp_path / "jobs.toml").write_text(options)
    assert submit("--slurm", str(tmp_path / "jobs.toml"))[0] == 0
    lines = (slurm / "script").read_text().splitlines()
    found = [
        line.removeprefix("export ") for line in lines if line.startswith(("export NPROC", "export JAX_PLATFORMS"))
    ]
    assert found == exported and "unset JAX_COORDINATOR_ADDRESS JAX_PLATFORMS" in lines


def test_a_refusal_is_one_line_and_the_same_command_submits_the_jobs(submit, slurm):
    (slurm / "refusal").write_text("sbatch: error: invalid partition specified: x\nsbatch: error: Invalid name\n")
    status, printed = submit()
    errors = printed.splitlines()[-1]
    assert status == 2 and errors.startswith(
        "jaxmatch: Slurm refuses: invalid partition specified: x; Invalid name; see sinfo and --slurm FILE"
    )
    assert "sbatch" not in printed
    (slurm / "refusal").unlink()
    status, printed = submit()
    assert status == 0 and "1 job submitted;" in printed


def test_failing_squeue_is_reported_with_its_name(submit, slurm):
    (slurm / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2\nexit 1\n")
    expected = "squeue fails: slurm_load_jobs error: Unable to contact; see whether Slurm runs, as with sinfo"
    status, printed = submit()
    assert status == 2 and printed.splitlines()[-1] == f"jaxmatch: {expected}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--on", "slurm"), "there is no Slurm on this machine (sbatch is not found); give the command where jobs are"),
        (("--on", "slurm:local"), "cohorts cannot be trained on 'slurm:local'; give --on ray, or --on slurm"),
        (("--on", "slurn"), "cohorts cannot be trained on 'slurn'; give"),
        (("--on", "slurm", "--distributed"), "--on and --distributed cannot be combined; give one"),
        (("--on", "slurm", "--log", "mine.py:Log"), "--log does not apply to jobs of Slurm"),
        (("--on", "slurm", "--slurm", "no.toml"), "no.toml: "),
        (("--on", "ray", "--slurm", "no.toml"), "--slurm needs --on slurm"),
        (("--on", "ray", "--collect"), "--collect needs --on slurm"),
        (("--on", "slurm", "--status"), "squeue fails: [Errno 2] No such file or directory: 'squeue'; see whether"),
    ],
)
def test_invalid_options_print_a_one_line_error(small_files, tmp_path, capsys, monkeypatch, more, message):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(small_sweep.command(small_files, tmp_path / "runs", *more)) == 2
    output, errors = capsys.readouterr()
    assert message in errors and not output and errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_tune_is_refused(slurm, small_files, tmp_path, capsys):
    words = ["tune", *small_sweep.command(small_files, tmp_path / "work", "--on", "slurm")[1:]]
    assert main(words) == 2
    assert "tune waits for the results of cohorts, but a job of Slurm trains later" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


def test_missing_submitit_is_an_error_with_an_install_command(submit, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    message = "--on slurm needs submitit, which is not installed; pip install 'jaxmatch[slurm]'"
    assert submit() == (2, f"jaxmatch: {message}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition = ", "this is not TOML ("),
        ("minutes = 1.5", "minutes = 1.5 is not a positive whole number"),
        ("cpus = true", "cpus = True is not a positive whole number"),
        ("memory_gb = -1", "memory_gb = -1 is not a positive number"),
        ("gpus = 1", "gpus needs gpu_memory_gb, the memory of one GPU in GB"),
        ("minutes = 1", "signal_seconds is not below the time limit, minutes"),
        # Each would put a command into the batch script, or a pattern into the names of logs.
        (r'comment = "a\ntouch /tmp/x"', "comment = 'a\\ntouch /tmp/x' is not made of printable characters"),
        (r'"comment=a\ntouch /tmp/x #" = "b"', "comment=a touch /tmp/x # = 'b' is not made of printable characters"),
        ("comment = 'a\\b'", "is not made of"),
        ("comment = '%j'", "is not made of"),
    ],
)
def test_invalid_job_options_are_refused(submit, tmp_path, slurm, text, message):
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    status, printed = submit("--slurm", str(file))
    assert status == 2 and printed.startswith(f"jaxmatch: {file}: ") and message in printed
    assert printed.count("\n") == 1 and not (tmp_path / "work").exists() and not (slurm / "script").exists()


@pytest.mark.parametrize("name", ["a\ntouch b", "a%j", "a\\b"])
def test_folders_that_a_batch_script_cannot_name_are_refused(small_files, tmp_path, slurm, capsys, name):
    assert main(small_sweep.command(small_files, tmp_path / name, "--on", "slurm")) == 2
    errors = capsys.readouterr().err
    assert "jobs of Slurm cannot use this folder; give it printable characters other than % and \\\n" in errors
    assert errors.count("\n") == 1 and not (tmp_path / name).exists() and not (slurm / "script").exists()


def test_a_job_trains_its_cohort_and_its_records_equal_those_of_one_process(submit, small_files, tmp_path, job_of):
    table, _ = small_sweep.launched(small_files, tmp_path / "one")
    assert submit()[0] == 0
    status, printed = submit("--collect")
    assert status == 2 and printed.endswith(f"{tmp_path / 'work'}: 2 of 2 runs missing; see --status\n")
    assert "no log: do the nodes reach" in (shown := submit("--status")[1]) and shown.endswith("\n1 ended\n")
    job_of("17")()
    assert small_sweep.results(tmp_path / "work") == small_sweep.results(tmp_path / "one")
    assert submit("--collect") == (0, table) and submit("--status")[1].endswith("\n1 done\n")
    status, printed = submit()
    assert status == 0 and table in printed and "submitted" not in printed


def test_a_job_at_its_time_limit_is_queued_again_if_it_makes_progress(submit, tmp_path, job_of, monkeypatch):
    monkeypatch.setattr(on_slurm, "SECONDS_TO_BE_KILLED", 0.0)
    assert submit()[0] == 0
    (folder,) = Workdir(tmp_path / "work").cohorts()
    job = job_of("17")
    assert job.checkpoint().function.newest == -1  # it was told to stop before it trained
    job = job.checkpoint().function
    job()  # stops at once, with a checkpoint
    assert folder.newest_checkpoint() > -1 and not folder.done and not small_sweep.records(tmp_path / "work")
    job = pickle.loads(pickle.dumps(job.checkpoint().function))
    assert job.newest == folder.newest_checkpoint() and folder.failure() is None
    assert job.checkpoint() is None
    message = json.loads(folder.failure())["message"]
    assert message.startswith("its job was queued again at its time limit, and made no checkpoint until the next one")
    on_slurm.STOP.clear()
    training = dataclasses.replace(job.cohort.training, failures={folder.name: folder.failure()})
    dataclasses.replace(job, cohort=dataclasses.replace(job.cohort, training=training))()
    assert folder.done and job.checkpoint() is None and len(small_sweep.records(tmp_path / "work")) == 2


def test_a_job_that_requested_a_gpu_refuses_a_cpu(submit, tmp_path, job_of):
    (tmp_path / "jobs.toml").write_text("gpus = 1\ngpu_memory_gb = 8\n")
    assert submit("--slurm", str(tmp_path / "jobs.toml"))[0] == 0
    with pytest.raises(ValueError, match="JAX finds no gpu on .*; install the same packages there"):
        job_of("17")()
    (folder,) = Workdir(tmp_path / "work").cohorts()
    assert folder.failure_message().startswith("JAX finds no gpu on")


def test_a_job_whose_cohort_was_removed_does_nothing(submit, tmp_path, job_of):
    assert submit()[0] == 0
    shutil.rmtree(tmp_path / "work" / "cohorts")
    job_of("17")()
    assert not Workdir(tmp_path / "work").cohorts() and not small_sweep.records(tmp_path / "work")


def test_models_that_know_other_characters_are_each_given_their_own_data(small_files, tmp_path, slurm, job_of):
    files = shutil.copytree(small_files, tmp_path / "files")
    for split in ("train", "dev", "test"):
        header, rows = (files / f"{split}.tsv").read_text().split("\n", 1)
        (files / f"{split}.tsv").write_text(f"{header}\n{rows.translate(str.maketrans('abdkmnou', 'áбďķмńóú'))}")
    changes = ["--config.data.minimum_count=1", "--config.data.vectors=hashed", "--config.model.characters=cnn"]
    changes += ["--grid.model.known_characters=128,1024", "--grid.optimizer.learning_rate=0.01", "--on", "slurm"]
    assert main(small_sweep.command(files, tmp_path / "work", *changes)) == 0
    assert job_of("17_0").data != job_of("17_1").data


@pytest.mark.parametrize(("at_once", "workers"), [(None, 6), (2, 2)])
def test_estimate_counts_concurrent_jobs_and_names_the_assumed_speed(small_files, at_once, workers):
    overrides = small_sweep.overrides(small_files) | {"execution.maximum_replicas": "1"}
    planned = launch.resolve(small_files / "small.py", overrides=overrides, seeds=3)
    plan = SlurmEngine(SlurmOptions(at_once=at_once)).plan(planned)
    assert plan.workers == workers
    assert "; at the speed of this machine's CPU, since that of the jobs is not known" in plan_text(plan, set())
    assert "at the speed of" not in plan_text(make_plan(planned), set())


def test_a_job_of_several_gpus_is_one_worker(small_files):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files), seeds=4)
    plan = SlurmEngine(SlurmOptions(gpus=4, gpu_memory_gb=40, at_once=1)).plan(planned)
    assert plan.workers == 1 and [cohort.devices for cohort in plan.cohorts] == [4]
    assert "trained by 1 worker at once" in plan_text(plan, set())

"""Submission to a stand-in for Slurm: arrays, limits, options of jobs, and the states that `--status` prints."""

import os
import sys

import pytest
import small_sweep
from slurm_sweep import words

from jaxmatch.cli.main import main
from jaxmatch.sweep import on_slurm, slurm_jobs
from jaxmatch.workdir import Workdir

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The folder of stand-ins for Slurm's programs. They print the contents of files, and save their input."""
    folder = tmp_path / "programs"
    folder.mkdir()
    scripts = {
        "sbatch": 'case "$1" in --version) exit;; '
        f'--test-only) cat > {folder}/tried;; *) cat "$1" > {folder}/submitted;; esac\n'
        f'if [ -e {folder}/refusal ]; then cat {folder}/refusal >&2; exit 1; fi\necho "Submitted batch job 17"',
        "srun": "exit 1",
        "squeue": f'cat {folder}/queue\ncase "$*" in *--states=all*) cat {folder}/ended;; esac',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for name in ("queue", "ended"):
        (folder / name).write_text("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


GRID = ("--seeds=3", "--grid.optimizer.learning_rate=0.01,0.003", "--config.execution.maximum_replicas=2")


def test_jobs_are_submitted_as_an_array_and_status_shows_their_states(small_files, tmp_path, slurm, capsys):
    options = tmp_path / "jobs.toml"
    options.write_text(
        'partition = "short"\nminutes = 5\ncpus = 3\nmemory_gb = 2\nsignal_seconds = 40\n[sbatch]\nnice = 7\n'
    )
    command = words(small_files, tmp_path / "work", *GRID, "--on", "slurm", "--slurm", str(options))
    (slurm / "queue").write_text("17_0 RUNNING\n17_1 PENDING\n99_2 RUNNING\n")
    assert main(command) == 0
    assert "3 jobs submitted (1 queued, 1 running, 1 stopped)" in capsys.readouterr().err
    text = (slurm / "submitted").read_text()
    wanted = (
        "--partition=short --time=5 --cpus-per-task=3 --mem=2048M --signal=USR2@40 --nice=7 --requeue --array=0-2%3"
    )
    for line in [*(f"#SBATCH {option}" for option in wanted.split()), "export NPROC=3", "export JAX_PLATFORMS=cpu"]:
        assert line in text.splitlines()
    assert main([*command, "--status"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[2:4] for line in shown.splitlines()[1:4]] == [
        ["queued", "17_1"], ["running", "17_0"], ["stopped", "17_2"],
    ]  # fmt: skip
    assert f"it wrote no log: do the nodes reach {tmp_path / 'work' / 'slurm'}?" in shown
    assert "the command without --status submits the rest again" in shown

    # Only the job that is neither queued nor running is submitted again.
    assert main(command) == 0 and "1 job submitted" in capsys.readouterr().err
    assert "--array" not in (slurm / "submitted").read_text()
    assert len(slurm_jobs.read_jobs(tmp_path / "work").cohorts) == 3


# An sbatch that accepts as many jobs as the file `limit` allows, and logs the size of each request.
LIMITED = """#!/bin/sh
cd FOLDER
case "$1" in --version) exit;; --test-only) cat > tried; exit;; esac
number=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
number=$((${number:-0} + 1))
echo $number >> sizes
before=$(cat total)
if [ $((before + number)) -gt $(cat limit) ]; then
  echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2
  exit 1
fi
echo $((before + number)) > total
echo "Submitted batch job $((100 + before))"
"""


@pytest.fixture
def five_jobs(small_files, tmp_path, slurm):
    """Submits five jobs to a Slurm that accepts `limit`. Returns the exit status, array sizes, and saved jobs."""

    def submit(limit):
        (slurm / "sbatch").write_text(LIMITED.replace("FOLDER", str(slurm)))
        (slurm / "total").write_text("0")
        (slurm / "limit").write_text(str(limit))
        one_each = ("--seeds=5", "--grid.optimizer.learning_rate=0.01", "--config.execution.maximum_replicas=1")
        status = main(words(small_files, tmp_path / "work", *one_each, "--on", "slurm"))
        return status, (slurm / "sizes").read_text().split(), sorted(slurm_jobs.read_jobs(tmp_path / "work").cohorts)

    return submit


def test_many_jobs_are_split_into_several_arrays(five_jobs, monkeypatch):
    import submitit

    given, whole = {}, submitit.SlurmExecutor.update_parameters
    keep = lambda self, **options: (given.update(options), whole(self, **options))  # noqa: E731
    monkeypatch.setattr(submitit.SlurmExecutor, "update_parameters", keep)
    monkeypatch.setattr(on_slurm, "MOST_IN_AN_ARRAY", 2)
    assert five_jobs(limit=5) == (0, ["2", "2", "1"], ["100_0", "100_1", "102_0", "102_1", "104"])
    assert given["array_parallelism"] == 2  # all of an array; without a number, submitit lets 256 run


def test_submission_stops_at_the_job_limit_and_saves_the_submitted_jobs(five_jobs, capsys):
    assert five_jobs(limit=3) == (2, ["5", "2", "2", "1", "1"], ["100_0", "100_1", "102"])
    assert (
        "Slurm refuses: QOSMaxSubmitJobPerUserLimit (jobs that were submitted before: 3); "
        "run the same command again once some of your jobs are over; for tune, set at_once in --slurm FILE\n"
    ) in capsys.readouterr().err


@pytest.mark.parametrize("text", ["Invalid job array specification", "QOSMaxSubmitJobPerUserLimit"])
def test_array_and_job_limit_errors_are_classified_as_too_many_jobs(text):
    assert isinstance(slurm_jobs.refusal(text), slurm_jobs.TooManyJobs)
    assert not isinstance(slurm_jobs.refusal("invalid partition"), slurm_jobs.TooManyJobs)


@pytest.mark.parametrize(
    ("options", "exported"),
    [
        ("", ["export NPROC=5"]),
        ("gpus = 1\ngpu_memory_gb = 8\n", []),  # only the cluster knows how many
        ("gpus = 1\ngpu_memory_gb = 8\ncpus = 3\n", ["export NPROC=3"]),
    ],
)
def test_job_script_exports_the_number_of_cpus(small_files, tmp_path, slurm, monkeypatch, options, exported):
    monkeypatch.setenv("NPROC", "5")
    (tmp_path / "jobs.toml").write_text(options)
    assert main(words(small_files, tmp_path / "work", "--on", "slurm", "--slurm", str(tmp_path / "jobs.toml"))) == 0
    text = (slurm / "submitted").read_text()
    assert [line for line in text.splitlines() if line.startswith("export NPROC")] == exported


def test_stopped_and_paused_jobs_have_explanatory_notes(tmp_path, slurm):
    workdir = tmp_path / "work"
    folders = Workdir(workdir).claim([(signature, (f"{signature}-seed0",)) for signature in "abcd"])
    slurm_jobs.add_jobs(workdir, False, {f"17_{number}": folder.name for number, folder in enumerate(folders)})
    (slurm / "queue").write_text("17_2 RUNNING\n")
    (slurm / "ended").write_text("17_0 OUT_OF_MEMORY\n17_1 FAILED\n17_3 COMPLETED\n")
    for folder in (folders[0], folders[3]):  # they have reached a rung, the first one in an earlier job
        folder.rung(2).touch()
    found = {each.job: (each.state, each.note) for each in slurm_jobs.states(workdir)}
    assert found == {
        "17_0": (
            "stopped",
            f"it ran out of memory: give more memory_gb, or remove {folders[0].path} and set a smaller "
            "execution.maximum_replicas",
        ),
        "17_1": ("stopped", f"it wrote no log: do the nodes reach {workdir / 'slurm'}?"),
        "17_2": ("running", ""),
        "17_3": ("paused", "after epoch 2"),
    }


def test_slurm_refusal_is_reported_before_anything_is_written(small_files, tmp_path, slurm, capsys):
    (slurm / "refusal").write_text("sbatch: error: invalid partition specified: x\nallocation failure: Invalid name\n")
    assert main(words(small_files, tmp_path / "work", "--on", "slurm")) == 2
    printed = capsys.readouterr()
    wanted = "jaxmatch: Slurm refuses: invalid partition specified: x; Invalid name; see sinfo, and set the options"
    assert not printed.out and printed.err.startswith(wanted) and printed.err.count("\n") == 1
    assert not (tmp_path / "work").exists()


def test_failing_squeue_is_reported_with_its_name(small_files, tmp_path, slurm, capsys):
    command = words(small_files, tmp_path / "work", "--on", "slurm")
    assert main(command) == 0
    (slurm / "squeue").write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n"
    )
    capsys.readouterr()
    assert main([*command, "--status"]) == 2
    expected = "squeue fails: Unable to contact slurm controller; see whether Slurm runs, as with sinfo"
    assert capsys.readouterr().err == f"jaxmatch: {expected}\n"


def refused(capsys, command):
    assert main(command) == 2
    output, errors = capsys.readouterr()
    assert not output and errors.startswith("jaxmatch: ") and errors.count("\n") == 1
    return errors.removeprefix("jaxmatch: ").strip()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--on", "slurm"), "there is no Slurm on this machine (sbatch is not found); give the command where jobs are"),
        (("--on", "slurm:x"), "slurm:x is unknown; give --on slurm or --on slurm:local"),
        (("--on", "slurn"), "cohorts cannot be trained on 'slurn'; did you mean \"slurm\"?"),
        (("--on", "slurm", "--distributed"), "--on and --distributed cannot be combined; give one"),
        (("--on", "slurm:local", "--log", "tensorboard"), "--log does not apply to sweep --on slurm"),
        (("--on", "slurm:local", "--slurm", "no.toml"), "no.toml: "),
        (("--status",), "--status needs --on slurm"),
        (("--on", "ray", "--collect"), "--collect needs --on slurm"),
        (("--on", "slurm", "--status", "--collect"), "--status and --collect cannot be combined; give one of them"),
        (("--on", "slurm", "--status"), "no jobs were submitted for this folder; leave out --status or --collect"),
    ],
)
def test_invalid_options_print_a_one_line_error(small_files, tmp_path, capsys, monkeypatch, more, message):
    monkeypatch.setenv("PATH", str(tmp_path))
    workdir = tmp_path / "runs"
    assert message in refused(capsys, small_sweep.command(small_files, workdir, *more))
    assert not workdir.exists()


def test_missing_submitit_is_an_error_with_an_install_command(small_files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    message = refused(capsys, small_sweep.command(small_files, tmp_path / "runs", "--on", "slurm"))
    assert message == "--on slurm needs submitit, which is not installed; pip install 'jaxmatch[slurm]'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition = ", "this is not TOML ("),
        ("partitoin = 'x'", 'there is no option "partitoin"; did you mean "partition"?'),
        ("partition = 3", "partition = 3 is not a text"),
        ("minutes = 1.5", "minutes = 1.5 is not a whole number from 1 on"),
        ("cpus = true", "cpus = True is not a whole number from 1 on"),
        ("memory_gb = -1", "memory_gb = -1 is not a number above 0"),
        ("sbatch = 1", "sbatch = 1 is not a table"),
        ("gpus = 1", "gpus = 1 needs gpu_memory_gb, the memory of one GPU in GB; add gpu_memory_gb to the file"),
        ("minutes = 1", "signal_seconds = 90 is not below the time limit, minutes = 1; lower signal_seconds"),
    ],
)
def test_invalid_job_options_are_refused(small_files, tmp_path, capsys, text, message):
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    command = small_sweep.command(small_files, tmp_path / "runs", "--on", "slurm:local", "--slurm", str(file))
    assert f"{file}: {message}" in refused(capsys, command)
    assert not (tmp_path / "runs").exists()

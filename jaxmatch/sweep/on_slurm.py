"""Training of cohorts as jobs of Slurm, through submitit (https://github.com/facebookincubator/submitit).

A command submits arrays of jobs, one job for each cohort, and ends. The workdir, shared by all nodes, holds the state:

WORKDIR/slurm/jobs.json       cohort -> the job that was submitted last for it
WORKDIR/slurm/JOB_0_log.out   the output of a job; submitit's other files are beside it
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import io
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock

import jaxmatch
from jaxmatch.devices import cores
from jaxmatch.errors import InputError, NotInstalled, count_text, report_damage
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.launch import Engine, Submitted, Training
from jaxmatch.sweep.plan import Plan, make_plan, split_cohorts
from jaxmatch.sweep.remote import NOT_SHARED, RemoteCohort, variables, worker_device
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.workdir import CohortFolder, Workdir

MOST_IN_AN_ARRAY = 1000  # Slurm accepts no longer arrays by default (its MaxArraySize is 1001)
MOST_TIMES_QUEUED = 10_000  # submitit counts down at each time limit
SECONDS_TO_ANSWER = 60.0
# What a batch script, its file names and the user all read alike. A line break would begin a command.
PLAIN = "printable characters other than % and \\"
REMEDY = "see docs/how_to/clusters.md"
# How long Slurm may take to end a job after it has told the job to end.
SECONDS_TO_BE_KILLED = 600.0
# The states of jobs that are over. Every other job still trains its cohort, or will.
OVER = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split()


def is_plain(text: str) -> bool:
    """Whether a text may stand in a batch script."""
    return bool(text) and text.isprintable() and not set("%\\") & set(text)


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """The resources and limits of the jobs that train cohorts (docs/how_to/clusters.md)."""

    minutes: int = 60  # the time limit of a job. A cohort that needs longer is queued again
    signal_seconds: int = 90  # how long before the time limit a job is told to write a checkpoint
    memory_gb: float | None = None  # None: the default of the cluster
    cpus: int | None = None  # None: as many as XLA uses on this machine or, with gpus, the default of the cluster
    gpus: int = 0
    gpu_memory_gb: float | None = None  # of one GPU
    at_once: int | None = None  # the jobs that may run at the same time. Cohorts are split to fill them
    sbatch: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # other options. True: one without a value


def read_options(path: Path | None) -> SlurmOptions:
    """Reads options from a TOML file (docs/how_to/clusters.md). None means the default options.

    Raises:
      InputError: the file does not exist or is not TOML, or a value is invalid.
    """
    if path is None:
        return SlurmOptions()
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"this is not TOML ({error})", path=path, remedy=REMEDY) from None
    own = {field.name for field in dataclasses.fields(SlurmOptions)} - {"sbatch"}
    for name in own & given.keys():
        value, kinds = given[name], (int, float) if name.endswith("_gb") else (int,)
        if type(value) not in kinds or value < 0 or (not value and name != "gpus"):
            kind = "number" if float in kinds else "whole number"
            raise InputError(f"{name} = {value!r} is not a positive {kind}", path=path, remedy=REMEDY)
    for name in given.keys() - own:
        if not (re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name) and is_plain(str(given[name]))):
            raise InputError(f"{name} = {given[name]!r} is not made of {PLAIN}", path=path, remedy=REMEDY)
    options = SlurmOptions(sbatch={name: given.pop(name) for name in given.keys() - own}, **given)
    if options.gpus and options.gpu_memory_gb is None:
        raise InputError("gpus needs gpu_memory_gb, the memory of one GPU in GB", path=path, remedy=REMEDY)
    if options.signal_seconds >= 60 * options.minutes:
        raise InputError("signal_seconds is not below the time limit, minutes", path=path, remedy=REMEDY)
    return options


class SlurmEngine(Engine):
    """An engine that submits each cohort as a job of Slurm, which first calls `extend` to load extensions.

    Raises:
      InputError: submitit is not installed.
    """

    def __init__(self, options: SlurmOptions | None = None, extend: Callable[[], None] | None = None):
        try:
            import submitit
        except ImportError:
            raise NotInstalled("--on slurm", "submitit", "slurm") from None
        self._submitit, self._options, self._extend = submitit, options or SlurmOptions(), extend

    def begin(self, workdir: Path, dry_run: bool = False) -> None:
        if not is_plain(str(workdir.absolute())):
            raise InputError("jobs of Slurm cannot use this folder", path=workdir, remedy=f"give it {PLAIN}")
        jax.config.update("jax_platforms", "cpu")  # the GPUs are for the jobs
        if shutil.which("sbatch") is None:
            problem = "there is no Slurm on this machine (sbatch is not found)"
            raise InputError(problem, remedy="give the command where jobs are submitted")

    def plan(self, sweep: Sweep) -> Plan:
        options = self._options
        platform, gigabytes = ("gpu", options.gpu_memory_gb) if options.gpus else ("cpu", options.memory_gb)
        devices = gigabytes and [worker_device(platform, int(gigabytes * 1e9))] * max(1, options.gpus)
        plan = make_plan(sweep, devices)
        note = "; at the speed of this machine's CPU, since that of the jobs is not known"
        plan = dataclasses.replace(plan, note=note, workers=len(plan.cohorts))
        return plan if options.at_once is None else split_cohorts(plan, options.at_once)

    def run(self, training: Training, folders: Sequence[CohortFolder]) -> bool:
        """Submits the cohorts that no job trains yet, the longest first, and raises `Submitted`.

        Raises:
          InputError: Slurm refuses jobs, or does not answer.
        """
        folder, errors = folders[0].workdir.path.absolute() / "slurm", self._submitit.core.utils
        folder.mkdir(exist_ok=True)
        with FileLock(folder / "jobs.lock"):
            jobs, executor = _jobs(folder), self._executor(folder)
            living = {job for job, (state, _) in _states().items() if state not in OVER}
            new = [each for each in folders if jobs.get(each.name) not in living]
            new.sort(key=lambda each: -training.plan.cohort_of(each.runs).seconds)
            for start in range(0, len(new), MOST_IN_AN_ARRAY):
                array = new[start : start + MOST_IN_AN_ARRAY]
                try:
                    with contextlib.redirect_stderr(io.StringIO()):  # submitit prints the message, too
                        submitted = executor.submit_array([self._job(training, each, folder) for each in array])
                except (errors.FailedJobError, errors.FailedSubmissionError) as error:
                    problem = "; ".join(str(error).replace("sbatch: ", "").replace("error: ", "").splitlines())
                    remedy = "see sinfo and --slurm FILE; the same command submits the cohorts that are left"
                    raise InputError(f"Slurm refuses: {problem}", remedy=remedy) from None
                jobs |= {each.name: job.job_id for each, job in zip(array, submitted, strict=True)}
                write_json(folder / "jobs.json", jobs)
        before = f" ({len(folders) - len(new)} before)" if len(folders) > len(new) else ""
        raise Submitted(f"{count_text(len(new), 'job')} submitted{before}; logs are in {folder}")

    def _executor(self, folder: Path) -> Any:
        options = self._options
        # With a GPU, a job may use all CPUs that the cluster gives it.
        cpus = options.cpus or (None if options.gpus else cores())
        environment = variables() | {"NPROC": cpus, "JAX_PLATFORMS": None if options.gpus else "cpu"}
        exports = [f"export {name}={shlex.quote(str(each))}" for name, each in environment.items() if each is not None]
        parameters = {
            "job_name": "jaxmatch",
            "time": options.minutes,
            "mem": options.memory_gb and f"{round(1024 * options.memory_gb)}M",
            "cpus_per_task": cpus,
            "gpus_per_node": options.gpus or None,
            "signal_delay_s": options.signal_seconds,
            "array_parallelism": options.at_once or MOST_IN_AN_ARRAY,  # without a number, submitit lets 256 run
            "stderr_to_stdout": True,
            "additional_parameters": {"requeue": True, **options.sbatch},
            "setup": [
                f"unset {' '.join(sorted(NOT_SHARED))}",
                *exports,
                # srun does not take the number of CPUs from the job any more.
                '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
            ],
        }
        executor = self._submitit.SlurmExecutor(folder, MOST_TIMES_QUEUED)
        executor.update_parameters(**{name: value for name, value in parameters.items() if value is not None})
        return executor

    def _job(self, training: Training, cohort: CohortFolder, folder: Path) -> "Job":
        data = training.plan.cohort_of(cohort.runs).data
        file = folder / f"data-{data.content}-{jaxmatch.__version__}.pkl"
        if not file.exists():
            write_atomically(file, pickle.dumps(data))
        return Job(RemoteCohort.of(training, cohort, self._extend), file, 0.8 * self._options.signal_seconds)


# Tells the job that this process runs to stop with a checkpoint.
STOP = threading.Event()


@dataclasses.dataclass
class Job:
    """A job that trains a cohort in a thread, because signals interrupt the main thread, and wait there for XLA."""

    cohort: RemoteCohort
    data: Path  # the file of its data
    seconds: float  # that the job may take to write a checkpoint
    newest: int | None = None  # the newest checkpoint when the job was queued again. None: it was not
    trained: Any = dataclasses.field(default=None, init=False)  # the future of the thread

    def __call__(self) -> None:
        # scancel sends SIGTERM, and so does Slurm to make room for another job.
        signal.signal(signal.SIGTERM, lambda number, frame: STOP.set())
        self.trained = concurrent.futures.ThreadPoolExecutor(1).submit(self._train)
        self.trained.result()
        if STOP.is_set() and not self.cohort.folder.done:
            # If Slurm ends a job to make room, it queues the job again. It does not queue a job that ends by itself.
            time.sleep(SECONDS_TO_BE_KILLED)

    def checkpoint(self) -> Any:
        """Stops training with a checkpoint. Returns the job to queue again, or None if it makes no progress.

        submitit calls this method at the time limit.
        """
        from submitit.helpers import DelayedSubmission

        STOP.set()
        if self.trained is not None:
            concurrent.futures.wait([self.trained], self.seconds)
        folder = self.cohort.folder
        if folder.done:
            return None
        newest = folder.newest_checkpoint()
        if newest == self.newest:
            problem = "its job was queued again at its time limit, and made no checkpoint until the next one"
            folder.mark_failed(InputError(problem, remedy="raise minutes in --slurm FILE"))
            return None
        return DelayedSubmission(dataclasses.replace(self, newest=newest))

    def _train(self) -> None:
        display = Display()
        try:
            self.cohort.train(pickle.loads(self.data.read_bytes()), display, STOP)
        except InputError as error:
            if self.cohort.folder.path.exists():
                self.cohort.folder.mark_failed(error)
            raise
        finally:
            display.end()


def status(workdir: Path) -> str:
    """Returns a line for each cohort of a folder, with its state, job, and log or failure, and the totals.

    Raises:
      InputError: no jobs were submitted for the folder, or Slurm does not answer.
    """
    jobs, states, count = _jobs(workdir / "slurm"), _states(), collections.Counter[str]()
    if not jobs:
        raise InputError("no jobs were submitted for this folder", path=workdir, remedy="leave out --status")
    lines = ["cohort        runs  state          job         log"]
    for folder in Workdir(workdir).cohorts():
        job = jobs.get(folder.name, "-")
        log = workdir / "slurm" / f"{job}_0_log.out"
        state, note = states.get(job, ("ENDED", ""))  # Slurm forgets a job some minutes after its end
        if folder.done:
            state, note = "done", ""
        elif state in {"ENDED", *OVER} and folder.failure() is not None:
            state, note = "failed", f"{folder.failure_message()} ({folder.error_file})"
        elif job == "-":
            state = "not submitted"
        elif not note:
            note = str(log) if log.exists() else f"no log: do the nodes reach {log.parent}?"
        lines.append(f"{folder.name}  {len(folder.runs):>4}  {state.lower():<13}  {job:<10}  {note}".rstrip())
        count[state.lower()] += 1
    return "\n".join((*lines, ", ".join(f"{number} {state}" for state, number in count.most_common())))


def _states() -> dict[str, tuple[str, str]]:
    """Returns the state of each of this user's jobs, and why it waits, or "". Raises InputError if Slurm is silent."""
    words = ["squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T|%r"]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason, remedy = getattr(error, "stderr", None) or str(error), "see whether Slurm runs, as with sinfo"
        raise InputError(f"squeue fails: {reason.strip()}", remedy=remedy) from None
    found = (line.split("|", 2) for line in listed.splitlines())
    return {job: (state, "" if reason == "None" else reason) for job, state, reason in found}


def _jobs(folder: Path) -> dict[str, str]:
    """Returns the name of each cohort for which a job was submitted -> its last job."""
    file = folder / "jobs.json"
    with contextlib.suppress(FileNotFoundError), report_damage(file, "cancel the jobs, and remove it"):
        return {**read_json(file)}
    return {}

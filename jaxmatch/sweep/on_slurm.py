"""Training of cohorts as jobs of Slurm, through submitit (https://github.com/facebookincubator/submitit).

A command submits arrays of jobs, one job for each cohort, and ends. The workdir, shared by all nodes, holds the state:

WORKDIR/slurm/jobs.json       cohort -> the job that was submitted last for it
WORKDIR/slurm/JOB_0_log.out   the output of a job; submitit's other files are beside it
"""

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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock

import jaxmatch
from jaxmatch.devices import available_devices, cores, keep_compiled_programs
from jaxmatch.errors import InputError, NotInstalled, check_plain_file, count_text, report_damage
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.sweep import worker
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.execute import Engine, Stage, Stopped, Submitted, Task, TaskContext, train_claimed
from jaxmatch.sweep.plan import (
    SECONDS_OF_A_START,
    SHARE_OF_PEAK,
    Plan,
    make_plan,
    multiply_adds_a_second,
    split_cohorts,
)
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.training.chunks import devices_filled
from jaxmatch.workdir import CohortFolder, Workdir, failure_message, mark_failed

MOST_IN_AN_ARRAY = 1000  # Slurm accepts no longer arrays by default (its MaxArraySize is 1001)
MOST_TIMES_QUEUED = 10_000  # submitit counts down at each time limit
SECONDS_TO_ANSWER = 60.0
REMEDY = "see docs/how_to/clusters.md"
# How long Slurm may take to end a job after it has told the job to end.
SECONDS_TO_BE_KILLED = 600.0
# The states of jobs that are over. Every other job still trains its cohort, or will.
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split()
)
# Options of sbatch that have another name here, because the plan or submitit needs them.
_RENAMED = {
    "array": "at_once",
    "cpus-per-task": "cpus",
    "gpus-per-node": "gpus",
    "mem": "memory_gb",
    "signal": "signal_seconds",
    "time": "minutes",
}
# What a batch script, its file names and the user all read alike. A line break would begin a command.
_PLAIN = "printable characters other than % and \\"


def _is_plain(text: str) -> bool:
    return bool(text) and text.isprintable() and not set("%\\") & set(text)


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """The resources and limits of the jobs that train cohorts.

    Attributes:
      minutes: the time limit of a job, in minutes. A cohort that needs longer is queued again.
      signal_seconds: how many seconds before the time limit a job is told to write a checkpoint.
      memory_gb: the memory of a job, in GB. None means the default of the cluster.
      cpus: the number of CPUs of a job. None means as many as XLA uses on this machine or, with `gpus`, the default of
        the cluster.
      gpus: the number of GPUs of a job. With 0 GPUs, a job trains on CPUs.
      gpu_memory_gb: the memory of one GPU, in GB, for which the plan is made.
      at_once: the number of jobs of an array that may run at the same time. Cohorts are split to fill them. None means
        no limit and no split.
      sbatch: other options of sbatch, without dashes -> value. True means an option without a value.
    """

    minutes: int = 60
    signal_seconds: int = 90
    memory_gb: float | None = None
    cpus: int | None = None
    gpus: int = 0
    gpu_memory_gb: float | None = None
    at_once: int | None = None
    sbatch: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def read_options(path: Path | None) -> SlurmOptions:
    """Reads options from a TOML file (docs/how_to/clusters.md).

    Arguments:
      path: the file to read. None means the default options.

    Raises:
      InputError: the file does not exist or is not TOML, or a value is invalid.
    """
    if path is None:
        return SlurmOptions()
    check_plain_file(path, remedy=REMEDY)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"this is not TOML ({error})", path=path, remedy=REMEDY) from None
    own = {field.name for field in dataclasses.fields(SlurmOptions)} - {"sbatch"}
    for name, value in given.items():
        if renamed := _RENAMED.get(name.replace("_", "-")):
            raise InputError(f"{name} has another name here", path=path, remedy=f"give {renamed}")
        if name not in own:
            plain = re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name) and _is_plain(str(value))
            valid = plain and (value is True or type(value) in (str, int, float))
            wanted = f"an option of jobs or of sbatch with true, a number or {_PLAIN}"
        else:
            kinds = (int, float) if name.endswith("_gb") else (int,)
            valid = type(value) in kinds and 0 <= value < float("inf") and (value or name == "gpus")
            wanted = "a number above 0" if float in kinds else f"a whole number from {int(name != 'gpus')} on"
        if not valid:
            raise InputError(f"{name} = {value!r} is not {wanted}", path=path, remedy=REMEDY)
    sbatch = {name: given.pop(name) for name in given.keys() - own}
    options = SlurmOptions(**given, sbatch=sbatch)
    if options.gpus and options.gpu_memory_gb is None:
        raise InputError("gpus needs gpu_memory_gb, the memory of one GPU in GB", path=path, remedy=REMEDY)
    if options.signal_seconds >= 60 * options.minutes:
        raise InputError("signal_seconds is not below the time limit, minutes", path=path, remedy=REMEDY)
    return options


class SlurmEngine(Engine):
    """An engine that submits each cohort as a job of Slurm.

    Arguments:
      options: the options of the jobs. None: the defaults.
      extend: a function that each job calls first, to load extensions of the package.

    Raises:
      InputError: submitit is not installed.
    """

    def __init__(self, options: SlurmOptions | None = None, extend: Callable[[], None] | None = None):
        try:
            import submitit
        except ImportError:
            raise NotInstalled("--on slurm", "submitit", "slurm") from None
        self._submitit, self._options, self._extend = submitit, options or SlurmOptions(), extend

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        jax.config.update("jax_platforms", "cpu")  # the GPUs are for the jobs
        _check_installed()
        if not _is_plain(str(workdir.absolute())):
            raise InputError("jobs of Slurm cannot use this folder", path=workdir, remedy=f"give it {_PLAIN}")

    def plan(self, sweep: Sweep) -> Plan:
        options, device = self._options, None
        if options.gpus:
            device = worker.WorkerDevice("gpu", "GPU", int(options.gpu_memory_gb * 1e9))
        elif options.memory_gb is not None:
            device = worker.WorkerDevice("cpu", "cpu", int(options.memory_gb * 1e9))
        plan = make_plan(sweep, device and [device] * max(1, options.gpus))
        if options.at_once is not None:
            # The speed of the jobs is not known here. A start counts as if they were as fast as this machine.
            overhead = SECONDS_OF_A_START * SHARE_OF_PEAK * multiply_adds_a_second()
            plan = split_cohorts(plan, options.at_once, overhead)
        return dataclasses.replace(plan, slots=options.at_once or len(plan.cohorts))

    def devices_for(self, runs: int) -> int:
        return devices_filled(runs, max(1, self._options.gpus))

    def run(self, tasks: Sequence[Task], context: TaskContext) -> bool:
        """Submits the cohorts that no job trains yet, the longest first.

        Raises:
          Submitted: the jobs are submitted.
          InputError: Slurm refuses jobs, or does not answer.
        """
        workdir = context.workdir.path.absolute()
        folder = workdir / "slurm"
        folder.mkdir(exist_ok=True)
        with FileLock(folder / "jobs.lock"):
            jobs, states = _jobs(workdir), _states()
            new = [task for task in tasks if not _is_alive(jobs.get(task.folder.name), states)]
            new.sort(key=lambda task: -task.duration)
            executor = self._executor(folder)
            for start in range(0, len(new), MOST_IN_AN_ARRAY):
                array = new[start : start + MOST_IN_AN_ARRAY]
                submitted = self._submit(executor, [self._training(task, context, folder) for task in array])
                jobs |= {task.folder.name: job for task, job in zip(array, submitted, strict=True)}
                write_json(folder / "jobs.json", jobs)
        before = f" ({len(tasks) - len(new)} before)" if len(tasks) > len(new) else ""
        raise Submitted(f"{count_text(len(new), 'job')} submitted{before}; logs are in {folder}")

    def _submit(self, executor: Any, trainings: "Sequence[Training]") -> list[str]:
        """Submits an array of jobs. Returns their ids."""
        errors = self._submitit.core.utils
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit prints the message, too
                return [job.job_id for job in executor.submit_array(trainings)]
        except (errors.FailedJobError, errors.FailedSubmissionError) as error:
            problem = "; ".join(str(error).replace("sbatch: ", "").replace("error: ", "").splitlines())
            remedy = "see sinfo and --slurm FILE; the same command submits the cohorts that are left"
            raise InputError(f"Slurm refuses: {problem}", remedy=remedy) from None

    def _executor(self, folder: Path) -> Any:
        options, variables = self._options, worker.variables()
        cpus = options.cpus or (None if options.gpus else cores())
        del variables["NPROC"]  # with a GPU, a job may use all CPUs that the cluster gives it
        if cpus:
            variables["NPROC"] = str(cpus)
        if not options.gpus:
            variables["JAX_PLATFORMS"] = "cpu"
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
                f"unset {' '.join(sorted(worker.NOT_SHARED))}",
                *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
                # srun does not take the number of CPUs from the job any more.
                '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
            ],
        }
        executor = self._submitit.SlurmExecutor(folder, MOST_TIMES_QUEUED)
        executor.update_parameters(**{name: value for name, value in parameters.items() if value is not None})
        return executor

    def _training(self, task: Task, context: TaskContext, folder: Path) -> "Training":
        part, data = worker.part_of(context.plan, task.folder)
        file = folder / f"data-{data.content}-{jaxmatch.__version__}.pkl"
        if not file.exists():
            write_atomically(file, pickle.dumps(data))
        return Training(
            plan=part,
            data=file,
            cohort=task.folder.path.absolute(),
            failed_before=context.before.get(task.folder.name),
            devices=task.devices,
            gpus=bool(self._options.gpus),
            seconds=max(1.0, 0.8 * self._options.signal_seconds),
            extend=self._extend,
        )


# Tells the job that this process runs to stop with a checkpoint.
STOP = threading.Event()


@dataclasses.dataclass
class Training:
    """A job that trains a cohort in a thread, because signals interrupt the main thread, and wait there for XLA.

    Attributes:
      plan: the part of the plan that the cohort needs, without the data.
      data: the file of the data.
      cohort: the folder of the cohort.
      failed_before: the failure of the cohort when the job was submitted (`CohortFolder.failure`).
      devices: the number of devices to train on.
      gpus: whether the devices must be GPUs.
      seconds: how many seconds the job may take to write a checkpoint.
      extend: a function that loads extensions of the package. It is called before training.
      newest: the number of the newest checkpoint when the job was queued again. None: it was not.
    """

    plan: Plan
    data: Path
    cohort: Path
    failed_before: bytes | None
    devices: int
    gpus: bool
    seconds: float
    extend: Callable[[], None] | None
    newest: int | None = None

    def __post_init__(self):
        self._trained = None

    def __call__(self) -> None:
        # scancel sends SIGTERM, and so does Slurm to make room for another job.
        signal.signal(signal.SIGTERM, lambda number, frame: STOP.set())
        self._trained = concurrent.futures.ThreadPoolExecutor(1).submit(self.train)
        self._trained.result()
        if STOP.is_set() and not CohortFolder(self.cohort, "", ()).done:
            # If Slurm ends a job to make room, it queues the job again. It does not queue a job that ends by itself.
            time.sleep(SECONDS_TO_BE_KILLED)

    def checkpoint(self) -> Any:
        """Stops training with a checkpoint. Returns the job to queue again, or None if it makes no progress.

        submitit calls this method at the time limit.
        """
        from submitit.helpers import DelayedSubmission

        STOP.set()
        if self._trained is not None:
            concurrent.futures.wait([self._trained], self.seconds)
        folder = CohortFolder(self.cohort, "", ())
        if folder.done:
            return None
        newest = folder.newest_checkpoint()
        if newest == self.newest:
            problem = "its job was queued again at its time limit, and made no checkpoint until the next one"
            mark_failed(folder, InputError(problem, remedy="raise minutes in --slurm FILE"))
            return None
        return DelayedSubmission(dataclasses.replace(self, newest=newest))

    def train(self) -> None:
        """Trains the cohort, or returns at once if a launcher has removed it.

        Raises:
          InputError: JAX does not see the GPU that was requested.
          OSError: the system prevents training, for example because the disk is full.
        """
        if self.extend is not None:
            self.extend()
        folder = CohortFolder.read(self.cohort)
        if folder is None:
            return
        if self.gpus and jax.default_backend() == "cpu":
            error = InputError("JAX sees no GPU in the job", remedy="install jaxmatch[cuda12] or jaxmatch[cuda13]")
            mark_failed(folder, error)
            raise error
        plan = worker.with_data(self.plan, pickle.loads(self.data.read_bytes()))
        keep_compiled_programs(plan.sweep.config.execution.cache_directory)
        devices, display = tuple(available_devices()[: self.devices]), Display()
        display.begin(plan, set())
        try:
            # Another process may hold the cohort: a job that has died.
            wait, workdir = worker.SECONDS_FOR_THE_LOCK, Workdir(self.cohort.parents[1])
            train_claimed(plan, folder, workdir, display, Stage(), devices, STOP, self.failed_before, wait)
        except Stopped:
            pass
        finally:
            display.end()


def _check_installed() -> None:
    for command in ("sbatch", "srun", "squeue"):
        if shutil.which(command) is None:
            problem = f"there is no Slurm on this machine ({command} is not found)"
            raise InputError(problem, remedy="give the command where jobs are submitted")


def _states() -> dict[str, tuple[str, str]]:
    """Returns job -> its state in Slurm and the reason why it waits, for the jobs of this user.

    Slurm forgets a job some minutes after its end.

    Raises:
      InputError: Slurm does not answer.
    """
    words = ["squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T|%r"]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER, check=True).stdout
    except subprocess.SubprocessError as error:
        remedy = "see whether Slurm runs, as with sinfo"
        raise InputError(f"squeue fails: {(error.stderr or str(error)).strip()}", remedy=remedy) from None
    found = (line.split("|", 2) for line in listed.splitlines())
    return {job: (state, "" if reason == "None" else reason) for job, state, reason in found}


def _is_alive(job: str | None, states: Mapping[str, tuple[str, str]]) -> bool:
    return job in states and states[job][0] not in OVER


def _jobs(workdir: Path) -> dict[str, str]:
    """Returns the name of each cohort for which a job was submitted -> its last job."""
    file = workdir / "slurm" / "jobs.json"
    with contextlib.suppress(FileNotFoundError), report_damage(file, "cancel the jobs, and remove it"):
        return {**read_json(file)}
    return {}


def status(workdir: Path) -> str:
    """Returns the state of each cohort as a line of text, with its job and where to read more, and the totals.

    A cohort whose job is not over has the state of the job in Slurm.

    Raises:
      InputError: no jobs were submitted for the folder, or Slurm does not answer.
    """
    _check_installed()
    workdir = workdir.absolute()
    jobs, cohorts = _jobs(workdir), Workdir(workdir).cohorts()
    if not jobs:
        remedy = "leave out --status to submit them"
        raise InputError("no jobs were submitted for this folder", path=workdir, remedy=remedy)
    states = {} if all(folder.done for folder in cohorts) else _states()
    lines, count = ["cohort        runs  state          job         log"], Counter[str]()
    for folder in cohorts:
        job = jobs.get(folder.name, "-")
        log = workdir / "slurm" / f"{job}_0_log.out"
        (state, reason), note = states.get(job, ("ended", "")), str(log) if log.exists() else ""
        if folder.done:
            shown = "done"
        elif _is_alive(job, states):
            shown, note = state.lower(), reason or note
        elif folder.failure() is not None:
            shown, note = "failed", f"{failure_message(folder)} ({folder.error_file})"
        elif job == "-":
            shown = "not submitted"
        else:
            shown, note = state.lower(), note or f"no log: do the nodes reach {log.parent}?"
        if shown == "out_of_memory":
            note += f"; give more memory_gb, or remove {folder.path} and set a smaller execution.maximum_replicas"
        lines.append(f"{folder.name}  {len(folder.runs):>4}  {shown:<13}  {job:<10}  {note}".rstrip())
        count[shown] += 1
    totals = ", ".join(f"{number} {state}" for state, number in count.most_common())
    return "\n".join((*lines, totals))

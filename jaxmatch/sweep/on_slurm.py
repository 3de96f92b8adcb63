"""Training of cohorts as jobs of Slurm, through submitit (https://github.com/facebookincubator/submitit).

A command submits an array of jobs and ends, or waits for them (`slurm_waiting.py`). The workdir, shared by all nodes,
holds the state. A job that reaches its time limit or is preempted writes a checkpoint and is queued again.
"""

import contextlib
import dataclasses
import os
import pickle
import shlex
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock

import jaxmatch
from jaxmatch.devices import cores
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.files import write_atomically
from jaxmatch.printable import count_text
from jaxmatch.sweep import chunks, slurm_jobs, worker
from jaxmatch.sweep.engines import Engine, Submitted, Task, TaskContext
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.plan import Plan, make_plan
from jaxmatch.sweep.slurm_options import SlurmOptions
from jaxmatch.sweep.slurm_training import Training
from jaxmatch.sweep.slurm_waiting import Waiting
from jaxmatch.sweep.speed import SHARE_OF_PEAK, multiply_adds_a_second
from jaxmatch.training.replicas import devices_filled

# submitit counts down at each time limit, and at each preemption of a job whose limit is below ten minutes.
MOST_TIMES_QUEUED = 10_000
MOST_IN_AN_ARRAY = 1000  # Slurm accepts no longer arrays by default (its MaxArraySize is 1001)
LOCAL_SIGNAL_SECONDS, LOCAL_MINUTES = 30, 525_600  # submitit signals this long before a limit; a year is no limit


class SlurmEngine(Engine):
    """An engine that submits each cohort as a job of Slurm.

    Arguments:
      options: the options of the jobs. None: the defaults.
      local: whether to run the jobs on this machine, `options.at_once` at a time (default: one).
      extend: a function that each job calls first, to load extensions of the package.
      waits: whether to wait for the jobs, whose results the command needs, or to leave them to Slurm.

    Raises:
      InputError: submitit is not installed.
    """

    def __init__(
        self,
        options: SlurmOptions | None = None,
        local: bool = False,
        extend: Callable[[], None] | None = None,
        waits: bool = False,
    ):
        try:
            import submitit
        except ImportError:
            raise NotInstalled("--on slurm", "submitit", "slurm") from None
        self._submitit, self._options, self._local, self._extend = submitit, options or SlurmOptions(), local, extend
        self._waits, self._over = waits, set[str]()

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        jax.config.update("jax_platforms", "cpu")  # the GPUs are for the jobs
        if not self._local:
            slurm_jobs.run("sbatch", "--version")
            text = self._executor(workdir)._make_submission_file_text("true", "")
            slurm_jobs.run("sbatch", "--test-only", text=text)
        self.gpus_of_turns()

    def gpus_of_turns(self) -> tuple[str, ...]:
        """Returns CUDA_VISIBLE_DEVICES of each concurrent local job: GPUs of its own. Empty on Slurm and on CPUs.

        Raises:
          InputError: there are too few GPUs.
        """
        gpus, turns = self._options.gpus, self._options.at_once or 1
        if not self._local or not gpus:
            return ()
        allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "")  # the GPUs that this process may use
        names = allowed.split(",") if allowed else [str(number) for number in range(turns * gpus)]
        if len(names) < turns * gpus:
            raise InputError(
                f"{turns} jobs at once, {count_text(gpus, 'GPU')} each, are more than CUDA_VISIBLE_DEVICES={allowed}",
                remedy="lower at_once or gpus in --slurm FILE",
            )
        return tuple(",".join(names[turn * gpus : (turn + 1) * gpus]) for turn in range(turns))

    def plan(self, sweep: Sweep) -> Plan:
        options = self._options
        device = None
        if options.gpus:
            device = worker.WorkerDevice("gpu", "GPU", int(options.gpu_memory_gb * 1e9))
        elif options.memory_gb is not None:
            device = worker.WorkerDevice("cpu", "cpu", int(options.memory_gb * 1e9))
        plan = make_plan(sweep, device and [device] * max(1, options.gpus))
        if options.at_once is not None:
            # The speed of the jobs is not known here. A start counts as if they were as fast as this machine.
            overhead = chunks.SECONDS_OF_A_START * SHARE_OF_PEAK * multiply_adds_a_second()
            plan = chunks.split(plan, options.at_once, overhead)
        at_once = 1 if self._local else len(plan.cohorts)
        return dataclasses.replace(plan, slots=options.at_once or at_once)

    def devices_for(self, runs: int) -> int:
        return devices_filled(runs, max(1, self._options.gpus))

    def _executor(self, workdir: Path) -> Any:
        options, folder = self._options, slurm_jobs.folder_of(workdir)
        if self._local:
            executor = self._submitit.LocalExecutor(folder, MOST_TIMES_QUEUED)
            executor.update_parameters(timeout_min=LOCAL_MINUTES, gpus_per_node=options.gpus, stderr_to_stdout=True)
            return executor
        executor = self._submitit.SlurmExecutor(folder, MOST_TIMES_QUEUED)
        parameters = {
            "job_name": "jaxmatch",
            "time": options.minutes,
            "partition": options.partition,
            "account": options.account,
            "qos": options.qos,
            "constraint": options.constraint,
            "mem": options.memory_gb and f"{round(1024 * options.memory_gb)}M",
            "cpus_per_task": self._cpus() if not options.gpus else options.cpus,
            "gpus_per_node": options.gpus or None,
            "signal_delay_s": options.signal_seconds,
            "array_parallelism": options.at_once or MOST_IN_AN_ARRAY,  # without a number, submitit lets 256 run
            "stderr_to_stdout": True,
            "additional_parameters": {"requeue": True, **options.sbatch},
            # srun does not take the number of CPUs from the job any more.
            "setup": [f"export {name}={shlex.quote(value)}" for name, value in self._variables().items()]
            + ['[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'],
        }
        executor.update_parameters(**{name: value for name, value in parameters.items() if value is not None})
        return executor

    def _cpus(self) -> int:
        return self._options.cpus or cores()

    def _variables(self) -> dict[str, str]:
        """Returns the variables that a job needs besides the environment, to compute the same as this process."""
        variables = worker.variables()
        del variables["NPROC"]  # with a GPU, a job may use all CPUs that the cluster gives it
        if not self._options.gpus:
            variables["JAX_PLATFORMS"] = "cpu"
        if self._options.cpus or not self._options.gpus:
            variables["NPROC"] = str(self._cpus())
        return variables

    def run(self, tasks: Sequence[Task], context: TaskContext, more: Callable[[], Iterable[Task]] = tuple) -> bool:
        if self._waits:
            return Waiting(context, self._submitted, self._local, self._options.at_once, self._over).run(tasks, more)
        _, new = self._submitted(tasks, context)
        workdir = context.workdir.path.absolute()
        begin = f"{new} jobs submitted" if new != 1 else "1 job submitted"
        raise Submitted(f"{begin} ({slurm_jobs.totals(slurm_jobs.states(workdir))}); logs are in {workdir / 'slurm'}")

    def _submitted(
        self, tasks: Sequence[Task], context: TaskContext, over: Collection[str] = ()
    ) -> tuple[dict[str, str], int]:
        """Submits the tasks whose cohorts no job trains yet. Returns the job of each cohort, and how many are new.

        Arguments:
          tasks, context: as in `run`.
          over: the jobs that have done their task, even if Slurm still lists them.

        Raises:
          InputError: Slurm refuses the jobs or does not answer, or jobs of the other kind (`local`) are not over.
        """
        workdir = context.workdir.path.absolute()
        slurm_jobs.folder_of(workdir).mkdir(parents=True, exist_ok=True)
        with FileLock(slurm_jobs.folder_of(workdir) / "jobs.lock"):
            jobs = slurm_jobs.read_jobs(workdir)
            living = slurm_jobs.alive(workdir, jobs) if jobs else ()
            if living and jobs.local != self._local:
                where = "on this machine" if jobs.local else "on Slurm"
                problem = f"jobs of this folder were started {where}, and are not over: {', '.join(sorted(living))}"
                raise InputError(problem, path=workdir, remedy="wait for them, or end them")
            job_of = {jobs.cohorts[job]: job for job in living if job not in over}
            new = sorted((task for task in tasks if task.folder.name not in job_of), key=lambda task: -task.duration)
            job_of |= self._submit_all(new, context, workdir)
        return {task.folder.name: job_of[task.folder.name] for task in tasks}, len(new)

    def _submit_all(self, tasks: Sequence[Task], context: TaskContext, workdir: Path) -> dict[str, str]:
        """Submits tasks in arrays, and notes the jobs of each array before the next. Returns the job of each cohort.

        Raises:
          InputError: Slurm refuses the jobs, or the rest of them.
        """
        job_of: dict[str, str] = {}
        remaining, most = list(tasks), MOST_IN_AN_ARRAY
        while remaining:
            trainings = [self._training(task, context, workdir) for task in remaining[:most]]
            try:
                with defer_interrupts():  # so that submitted jobs are also noted
                    cohort_of = {job: each.cohort for job, each in zip(self._submit(trainings, workdir), trainings)}
                    slurm_jobs.add_jobs(workdir, self._local, cohort_of)
            except InputError as error:
                if isinstance(error, slurm_jobs.TooManyJobs) and len(trainings) > 1:
                    most = len(trainings) // 2  # until Slurm accepts the array
                    continue
                if not job_of:
                    raise
                problem = f"{error.problem} (jobs that were submitted before: {len(job_of)})"
                raise InputError(problem, path=error.path, remedy=error.remedy) from None
            job_of |= {cohort: job for job, cohort in cohort_of.items()}
            del remaining[:most]
        return job_of

    def _training(self, task: Task, context: TaskContext, workdir: Path) -> Training:
        part, data = worker.part_of(context.plan, task.folder)
        file = slurm_jobs.folder_of(workdir) / f"data-{data.content}-{jaxmatch.__version__}.pkl"
        if not file.exists():
            write_atomically(file, pickle.dumps(data))
        seconds = LOCAL_SIGNAL_SECONDS if self._local else self._options.signal_seconds
        return Training(
            plan=part,
            data=file,
            cohort=task.folder.name,
            workdir=workdir,
            stage=task.stage or context.stage,
            failed_before=context.before.get(task.folder.name),
            devices=task.devices,
            gpus=bool(self._options.gpus),
            seconds=max(1.0, 0.8 * seconds),
            turns=(self._options.at_once or 1) if self._local else 0,
            gpus_of_turns=self.gpus_of_turns(),
            extend=self._extend,
            reports_events=self._waits,
        )

    def _submit(self, trainings: Sequence[Training], workdir: Path) -> list[str]:
        """Submits an array of jobs and returns their names.

        Raises:
          InputError: Slurm refuses the jobs.
        """
        executor = self._executor(workdir)
        with self._environment(), _detached_output():
            try:
                jobs = executor.submit_array(trainings)
            except (self._submitit.core.utils.FailedJobError, self._submitit.core.utils.FailedSubmissionError) as error:
                raise slurm_jobs.refusal(slurm_jobs.messages(str(error))) from None
        names = [job.job_id for job in jobs]
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            del jobs, executor  # jobs on this machine continue after this process has ended
        return names

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        """Sets the environment that the jobs inherit, within the block."""
        before = dict(os.environ)
        for name in worker.NOT_SHARED:
            os.environ.pop(name, None)
        os.environ.update(self._variables())
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextlib.contextmanager
def _detached_output() -> Iterator[None]:
    """Keeps local jobs from inheriting the output of the command, whose reader would wait for the jobs to end."""
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, before in zip((1, 2), kept):
            os.dup2(before, number)
            os.close(before)
        os.close(nowhere)


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defers an interrupt in the block to its end. Local jobs started in the block never get SIGINT or SIGHUP."""
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number)) if main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})  # local jobs inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if main:
            signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt

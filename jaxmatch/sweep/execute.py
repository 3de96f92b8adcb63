"""Training of the runs that a plan still lacks, safe beside other launchers.

An `Engine` trains cohorts, each under the lock of its folder, and stores the outcome: the records, or the error. The
default engine trains in this process; others pass cohorts to workers (on_ray.py, on_slurm.py).
"""

import concurrent.futures
import contextlib
import dataclasses
import io
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from filelock import Timeout

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import available_devices, is_out_of_memory
from jaxmatch.errors import InputError, count_text, without_nan
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.inference import model_folder
from jaxmatch.layers.words import with_fixed_words
from jaxmatch.reporting.records import placed, read_record
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.plan import Plan, make_plan
from jaxmatch.sweep.recording import make_record, origin
from jaxmatch.sweep.sweep import Run, Sweep
from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.chunks import TooLarge, devices_filled
from jaxmatch.training.cohort import Cohort, RunResult
from jaxmatch.training.evaluation import mistakes
from jaxmatch.training.progress import Listener
from jaxmatch.workdir import (
    MISTAKES_FILE,
    CohortFolder,
    FailedCohorts,
    Workdir,
    mark_failed,
    prevents_all_training,
    trained_to_its_end,
)

# Waits are short because another thread may raise an interrupt again (cli/interrupts.py), which does not end a wait.
SECONDS_BETWEEN_POLLS = 1.0


class Stopped(BaseException):
    """Raised to end a job that is told to stop. It is no `Exception`, so it does not count as a failure of the job."""


@dataclasses.dataclass(frozen=True)
class DeviceJob:
    """Work to do on some devices.

    Attributes:
      devices: the number of devices that the job takes.
      duration: the duration of the job in proportion to the other jobs.
      run: the function that does the work. It takes that many devices, and an event that is set when it must stop.
    """

    devices: int
    duration: float
    run: Callable[[tuple[jax.Device, ...], threading.Event], Any]


def run_jobs(jobs: Sequence[DeviceJob], devices: Sequence[jax.Device]) -> list[Any]:
    """Runs jobs on devices: the longest first, and others at the same time on the devices that it leaves free.

    As long as no two jobs fit on the devices together, jobs run in this thread, in the given order.

    Arguments:
      jobs: the jobs, none of which takes more devices than there are.
      devices: the devices that the jobs share.

    Returns:
      The results of the jobs, in their order.

    Raises:
      BaseException: the first job that failed raised it, or this thread was interrupted, for example by Ctrl-C. All
        jobs that had begun have stopped by then.
    """
    stop, waiting, returned = threading.Event(), list(range(len(jobs))), {}
    while waiting and (len(waiting) < 2 or sum(sorted(jobs[number].devices for number in waiting)[:2]) > len(devices)):
        number = waiting.pop(0)
        returned[number] = jobs[number].run(tuple(devices[: jobs[number].devices]), stop)
    if not waiting:
        return [returned[number] for number in range(len(jobs))]
    free = list(devices)
    waiting.sort(key=lambda number: -jobs[number].duration)
    running: dict[concurrent.futures.Future, tuple[int, tuple[jax.Device, ...]]] = {}
    with concurrent.futures.ThreadPoolExecutor(len(devices)) as threads:
        try:
            while waiting or running:
                for number in list(waiting):
                    if jobs[number].devices <= len(free):
                        taken, free = tuple(free[: jobs[number].devices]), free[jobs[number].devices :]
                        running[threads.submit(jobs[number].run, taken, stop)] = number, taken
                        waiting.remove(number)
                done, _ = concurrent.futures.wait(running, SECONDS_BETWEEN_POLLS, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    number, taken = running.pop(future)
                    free = sorted((*free, *taken), key=list(devices).index)
                    returned[number] = future.result()
        finally:
            stop.set()
    return [returned[number] for number in range(len(jobs))]


SECONDS_BETWEEN_LOCKS = 0.5


@dataclasses.dataclass(frozen=True)
class Stage:
    """The point up to which a plan is trained.

    Attributes:
      until: the number of epochs after which its cohorts pause. None: they are trained to the end.
      dropped: names of runs that were dropped -> the number of epochs after which they stop.
      halving: the rule by which runs were dropped, for their records.
    """

    until: int | None = None
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    halving: Mapping[str, Any] | None = None

    def settled(self, run: str, record: Mapping[str, Any]) -> bool:
        """Returns whether a record holds everything that this stage requires of a run."""
        if trained_to_its_end(run, record):
            return True
        wanted = self.dropped.get(run, self.until)
        return wanted is not None and (record.get("dropped") or {}).get("after_epochs", 0) >= wanted

    def remaining_runs(self, plan: Plan, folder: CohortFolder) -> list[Run]:
        """Returns the runs of a cohort that were not dropped, or all of its runs if every run was dropped."""
        left = [plan.runs[name][0] for name in folder.runs if name not in self.dropped]
        return left or [plan.runs[name][0] for name in folder.runs]

    def reached(self, folder: CohortFolder) -> bool:
        """Returns whether a cohort is done or has paused where this stage ends."""
        return folder.done or (self.until is not None and folder.rung(self.until).exists())


class ProgressDisplay(Protocol):
    """An object that shows the progress of cohorts: a `Display`, or one in a worker that passes it on."""

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> Any:
        """Shows that a cohort begins.

        Returns:
          A `Listener` that also has `done`, `paused`, `failed` and `training_ended`.
        """


def train_claimed(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    display: ProgressDisplay,
    stage: Stage,
    devices: tuple[jax.Device, ...],
    stop: threading.Event,
    failed_before: bytes | None,
    wait: float = 0.0,
) -> bool:
    """Trains a cohort unless another process is training it or has done so.

    Arguments:
      plan: the plan that holds the runs of the cohort.
      folder: the folder of the cohort.
      workdir: the folder of the sweep, in which that folder is.
      display: the display that shows the progress.
      stage: the stage to train the cohort to.
      devices: the devices to train on.
      stop: an event that ends training early, with a checkpoint.
      failed_before: `CohortFolder.failure` when the stage began. A cohort that has failed since is not tried again.
      wait: the number of seconds to wait while another process holds the cohort.

    Returns:
      Whether the cohort was trained here. That includes training that failed.

    Raises:
      Stopped: `stop` was set.
      OSError: the system prevents training, for example because the disk is full.
    """
    try:
        with folder.lock().acquire(timeout=wait, poll_interval=SECONDS_BETWEEN_LOCKS):
            # Another process may have finished or removed the cohort since it was claimed.
            begun = (folder.path / "cohort.json").exists()
            if begun and not stage.reached(folder) and folder.failure() in (None, failed_before):
                shown = display.cohort(folder, stage.remaining_runs(plan, folder))
                listener = _Stoppable(shown, stop)
                _train_or_mark_failed(folder, shown, lambda: _train(plan, folder, workdir, listener, stage, devices))
                return True
    except Timeout:
        pass
    return False


class _Stoppable:
    """A listener that requests a checkpoint once an event is set, and ends training when the checkpoint is saved."""

    def __init__(self, listener: Listener, stop: threading.Event):
        self._listener, self._stop = listener, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def wants_checkpoint(self) -> bool:
        return self._stop.is_set()

    def saved(self) -> None:
        self._listener.saved()
        if self._stop.is_set():
            raise Stopped


def _train_or_mark_failed(folder: CohortFolder, shown: Any, train: Callable[[], bool]) -> None:
    """Trains a cohort and shows the outcome. Marks the cohort if it fails, unless the error would affect the others.

    `train` returns whether the records of the cohort are written.
    """
    folder.error_file.unlink(missing_ok=True)
    try:
        if train():
            shown.done()
        else:
            shown.paused()
    except Exception as error:  # of any kind: it need not affect other cohorts
        if prevents_all_training(error) or isinstance(error, hosts.OutOfStep):
            raise
        shown.failed(mark_failed(folder, error))
    finally:
        shown.training_ended()


def _train(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    listener: Listener,
    stage: Stage,
    devices: tuple[jax.Device, ...],
) -> bool:
    """Trains a cohort to the end of the stage. Returns whether its records are written."""
    cohort = plan.cohort_of(folder.runs)
    runs, data, config = cohort.runs, cohort.data, cohort.runs[0].config
    dropped: dict[int, list[int]] = {}
    for position, name in enumerate(folder.runs):
        if name in stage.dropped:
            dropped.setdefault(stage.dropped[name], []).append(position)
    checkpoints = Checkpoints(folder.checkpoints)
    settings = {
        "model": config.model.to_dict(),
        "training": config.training.to_dict(),
        "execution": config.execution.to_dict(),
        "data": data,
        "seeds": [run.seed for run in runs],
        "optimizer": [run.config.optimizer.to_dict() for run in runs],
    }
    try:
        with several_hosts.train_on_all_hosts(settings, stage.until, dropped), _default_device_from(devices):
            cohort = Cohort(**settings, devices=devices)
            cohort.origins.append(origin(devices))  # the code that trains, not that of the checkout at the end
            results = cohort.train(checkpoints, listener, until=stage.until, dropped=dropped)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not is_out_of_memory(error):
            raise
        of_the_host = isinstance(error, MemoryError) and not isinstance(error, TooLarge)
        raise InputError(
            f"{count_text(len(runs), 'run')} at once {'does' if len(runs) == 1 else 'do'} not fit in "
            f"{'host' if of_the_host else 'device'} memory",
            path=folder.path,
            remedy=(
                "free memory, or run again with shorter texts (--config.data.maximum_length) or smaller batches "
                "(--batch-size)"
                if len(runs) == 1
                else "free memory, or remove this folder (with --store, in the store, too) and run again with a "
                "smaller --config.execution.maximum_replicas"
            ),
        ) from error
    finally:
        checkpoints.close()
    if results is None:
        _write_rung_file(folder.rung(stage.until), folder, cohort)
        return False
    vectors = _shared_vectors(workdir, data)
    workdir.remove_partial_runs(folder.runs)
    for run, result in zip(runs, results, strict=True):
        record = make_record(
            run,
            sweep=plan.sweep.name,
            cohort=folder,
            data=data,
            result=result,
            seconds=cohort.seconds,
            answered=cohort.evaluator.totals,
            replicas=len(runs),
            devices=devices,
            steps=cohort.steps,
            origins=cohort.origins,
            halving=stage.halving,
            ran_out=cohort.ran_out,
        )
        with directory_atomically(workdir.run_folder(record["run"])) as run_folder:
            if result.progress.best is not None and result.progress.status != "dropped":
                _save_model(run_folder / "model", run, data, result, vectors)
                if worst := mistakes(data, result.dev_outputs):
                    write_json(run_folder / MISTAKES_FILE, worst)
            write_json(run_folder / "record.json", without_nan(record))
    folder.mark_done()
    return True


def _default_device_from(devices: tuple[jax.Device, ...]) -> contextlib.AbstractContextManager:
    """Returns a context in which JAX's default device is one of the cohort's own.

    It serves computations outside of the cohort's programs: another cohort may use the first device of this process.
    """
    own, default = hosts.local(devices)[0], jax.local_devices()[0]
    return contextlib.nullcontext() if own == default else jax.default_device(own)


def _write_rung_file(path: Path, folder: CohortFolder, cohort: Cohort) -> None:
    """Stores the curve and any divergence of each run of a paused cohort, and the seconds and steps of training."""
    histories = {
        name: {"curve": progress.curve, "diverged_at_samples": progress.diverged_at}
        for name, progress in zip(folder.runs, cohort.runs, strict=True)
    }
    write_json(path, without_nan({"runs": histories, "seconds": cohort.seconds, "steps": cohort.steps}))


def _shared_vectors(workdir: Workdir, data: EncodedData) -> Path:
    """Returns the file of the embedding table, which all models of the folder share. Replaces a damaged file."""
    path, vectors = workdir.shared_vectors(data.fingerprint), np.asarray(data.vectors, np.float32)
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        whole = stored.dtype == vectors.dtype and np.array_equal(stored, vectors)
    except (FileNotFoundError, ValueError, EOFError):
        whole = False
    if not whole:
        content = io.BytesIO()
        np.save(content, vectors, allow_pickle=False)
        write_atomically(path, content.getvalue())
    return path


def _save_model(path, run, data: EncodedData, result: RunResult, vectors) -> None:
    settings, parameters, trained_words = with_fixed_words(run.config.model.to_dict(), result.parameters)
    model_folder.save(
        path,
        model_settings=settings,
        params=parameters,
        vocabulary_words=data.vocabulary.words,
        vectors=trained_words,
        vectors_file=vectors if trained_words is None else None,
        labels=data.labels,
        task=data.task,
        preprocessing=dataclasses.asdict(data.preprocessing),
        config=run.config.to_dict(),
    )


@dataclasses.dataclass(frozen=True)
class Task:
    """A cohort to train.

    Attributes:
      folder: the folder of the cohort.
      devices: the number of devices that it takes (`Engine.devices_for`).
      duration: the expected duration, in proportion to the other tasks.
    """

    folder: CohortFolder
    devices: int
    duration: float


@dataclasses.dataclass(frozen=True)
class TaskContext:
    """The context that tasks have in common.

    Attributes:
      plan: a plan that holds all runs of the tasks, and maybe more.
      workdir: the folder of the sweep.
      display: the display that shows the progress.
      stage: the stage to train the cohorts to.
      before: name of a cohort -> its failure when the stage began (`CohortFolder.failure`).
    """

    plan: Plan
    workdir: Workdir
    display: Display
    stage: Stage
    before: Mapping[str, bytes | None]


class Submitted(Exception):
    """Cohorts were submitted as jobs, which train them later. The text says how many."""


class Engine:
    """An engine that trains cohorts in this process, on all available devices. Other engines override all methods but
    `task`.
    """

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        """Prepares the engine, before anything is planned or written.

        Arguments:
          workdir: the folder of the sweep.
          name: the name of the sweep.
          dry_run: whether nothing will be trained in the folder.

        Raises:
          InputError: the engine cannot train the sweep.
        """

    def plan(self, sweep: Sweep) -> Plan:
        """Plans a sweep for the devices that will train it. Raises the errors of `make_plan`."""
        return make_plan(sweep)

    def devices_for(self, runs: int) -> int:
        """Returns the number of devices that a cohort of `runs` runs takes."""
        devices = len(available_devices())
        # All processes train a cohort together, so it cannot use the devices of one of them alone.
        return devices if hosts.is_multiprocess() else devices_filled(runs, devices)

    def task(self, plan: Plan, folder: CohortFolder) -> Task:
        """Returns the task that trains a cohort of a plan."""
        return Task(folder, self.devices_for(len(folder.runs)), plan.cohort_of(folder.runs).device_work)

    def run(self, tasks: Sequence[Task], context: TaskContext) -> bool:
        """Trains cohorts: the longest first, and others beside it on the devices that it leaves free.

        A cohort that fails is marked. A cohort that another process trains is left to it.

        Arguments:
          tasks: the tasks to do.
          context: what the tasks have in common.

        Returns:
          Whether any cohort was trained.

        Raises:
          OSError: the system prevents all training, for example because the disk is full.
          Submitted: another engine has submitted the tasks, which are done later.
        """

        def job(task: Task) -> DeviceJob:
            folder = task.folder

            def train(devices: tuple[jax.Device, ...], stop: threading.Event) -> bool:
                before = context.before.get(folder.name)
                return train_claimed(
                    context.plan, folder, context.workdir, context.display, context.stage, devices, stop, before
                )

            return DeviceJob(task.devices, task.duration, train)

        return any(run_jobs([job(task) for task in tasks], tuple(available_devices())))


SECONDS_BETWEEN_TRIES = 1.0


def execute(plan: Plan, workdir: Workdir, display: Display, engine: Engine | None = None) -> list[dict[str, Any]]:
    """Trains the runs of a plan that are not on record, and returns all records of the plan.

    Several processes may execute plans on one folder: each cohort is trained by one of them, and the others wait for
    it. A cohort that a killed process leaves is resumed from its last checkpoint.

    Arguments:
      plan: the plan to train.
      workdir: the folder of the sweep.
      display: the display that shows the progress.
      engine: the engine that trains the cohorts; default: this process, on all its devices.

    Raises:
      FailedCohorts: some cohorts failed. The others are trained.
    """
    display.begin(plan, workdir.finished(plan.runs), note=resumed_text(plan, workdir))
    execute_stage(plan, workdir, display, Stage(), engine)
    display.end()
    return records_of(plan, workdir)


def resumed_text(plan: Plan, workdir: Workdir) -> str:
    """Returns a line about the cohorts that resume from a checkpoint, which the plan counts in full; "" if none do."""
    begun = [folder for folder in workdir.cohorts() if not folder.done and folder.checkpoint_numbers()]
    begun = [folder for folder in begun if plan.runs.keys() & set(folder.runs)]
    if not begun:
        return ""
    return f"  {count_text(len(begun), 'cohort')} will resume from a checkpoint; the plan counts steps made before, too"


def records_of(plan: Plan, workdir: Workdir, names: Container[str] | None = None) -> list[dict[str, Any]]:
    """Reads the records of a plan's runs, in the order of the plan, each with the run's place in the grid.

    Arguments:
      plan: the plan of the runs.
      workdir: the folder of the sweep.
      names: the names of the runs whose records are read. Default: all.

    Raises:
      InputError: a record is missing or damaged.
    """
    return [
        placed(read_record(workdir.run_folder(name) / "record.json"), run.variant, run.overrides)
        for name, (run, _) in plan.runs.items()
        if names is None or name in names
    ]


def execute_stage(plan: Plan, workdir: Workdir, display: Display, stage: Stage, engine: Engine | None = None) -> None:
    """Trains the runs of a plan to the end of a stage. As in `execute`, other launchers may work on the folder.

    A cohort that fails is marked, and the others continue. A cohort that failed before is tried again, once.

    Raises:
      FailedCohorts: some cohorts failed, here or in another launcher. The others have reached the end of the stage.
      OSError: the system prevents all training, for example because the disk is full.
    """
    engine = engine or Engine()
    wanted = plan.runs.keys()
    before = {folder.name: folder.failure() for folder in workdir.cohorts()}
    context = TaskContext(plan, workdir, display, stage, before)

    def failed(folder: CohortFolder) -> bool:
        """Returns whether a cohort has failed since the stage began, in any process."""
        return folder.failure() not in (None, before.get(folder.name))

    while claimed := [folder for folder in workdir.claim(plan.groups, stage.settled) if not stage.reached(folder)]:
        if all(map(failed, claimed)):
            raise FailedCohorts(claimed, len(wanted))
        # A cohort with runs that are not planned here belongs to another process. If that has stopped, the next claim
        # abandons the cohort.
        trained = engine.run([engine.task(plan, folder) for folder in claimed if wanted >= set(folder.runs)], context)
        unfinished = [folder for folder in claimed if not stage.reached(folder) and not failed(folder)]
        if not trained and unfinished:
            display.waiting(len(unfinished))
            time.sleep(SECONDS_BETWEEN_TRIES)

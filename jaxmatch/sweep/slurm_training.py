"""The work of a Slurm job: it trains a cohort, and writes a checkpoint when submitit signals that its time is over."""

import contextlib
import dataclasses
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock, Timeout

from jaxmatch.errors import InputError
from jaxmatch.sweep import slurm_jobs, worker
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.events import Report, writer
from jaxmatch.sweep.failures import MOST_DEATHS, Deaths, mark_failed
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder

# How long Slurm may take to end a job after it has told the job to end.
SECONDS_TO_BE_KILLED = 600.0


@dataclasses.dataclass(eq=False)
class Training:
    """A job that trains a cohort in a thread, because the signals of submitit interrupt the main thread.

    Attributes:
      plan: the part of the plan that the cohort needs, without the data.
      data: the file of the data.
      cohort: the name of the cohort.
      workdir: the working folder of the sweep.
      stage: how far the cohort is trained.
      failed_before: the failure of the cohort when the stage began (`CohortFolder.failure`).
      devices: the number of devices to train on.
      gpus: whether the devices must be GPUs.
      seconds: how many seconds the job may take to write a checkpoint.
      turns: the number of jobs that may train at the same time on this machine. 0 means that Slurm decides.
      gpus_of_turns: the CUDA_VISIBLE_DEVICES of each of these jobs. If empty, the variable is left as it is.
      extend: a function that loads extensions of the package. It is called before training.
      reports_events: whether a command waits for the job, so that the job reports its progress to it (`events.py`).
      newest: the number of the newest checkpoint when the job was last queued.
      deaths: how often the job was queued without a new checkpoint.
    """

    plan: Plan
    data: Path
    cohort: str
    workdir: Path
    stage: Stage
    failed_before: bytes | None
    devices: int
    gpus: bool
    seconds: float
    turns: int
    extend: Callable[[], None] | None
    reports_events: bool = False
    gpus_of_turns: tuple[str, ...] = ()
    newest: int = -1
    deaths: Deaths = dataclasses.field(default_factory=Deaths)

    def __post_init__(self):
        self._stop, self._thread, self._error = threading.Event(), None, None

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def _folder(self) -> CohortFolder:
        return CohortFolder(self.workdir / "cohorts" / self.cohort, "", ())

    def __call__(self) -> str:
        # scancel sends SIGTERM, and so may Slurm to make room for another job.
        signal.signal(signal.SIGTERM, lambda number, frame: self._stop.set())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        while self._thread.is_alive():
            self._thread.join(1.0)
        if self._error is not None:
            raise self._error
        if self._stop.is_set() and not self.turns:
            # If Slurm ends a job to make room, it queues the job again. It does not queue a job that ends by itself.
            time.sleep(SECONDS_TO_BE_KILLED)
        return "done" if self._folder.done else "unfinished"

    def checkpoint(self) -> Any:
        """Stops training with a checkpoint, and returns the job to queue again or, if its cohort failed, None.

        submitit calls this method at the time limit, and when another job needs the resources.
        """
        from submitit.helpers import DelayedSubmission

        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.seconds)
        newest = self._folder.newest_checkpoint()
        if newest > self.newest or self._folder.done:  # the job has made progress
            self.newest = newest
            return DelayedSubmission(self)
        if (deaths := self.deaths.count(self.cohort, newest)) < MOST_DEATHS:
            return DelayedSubmission(self)
        mark_failed(self._folder, RuntimeError(f"its job was ended {deaths} times without a new checkpoint"))
        return None

    def _run(self) -> None:
        try:
            with self.turn():
                self.train()
        except BaseException as error:  # the main thread raises it
            self._error = error

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until fewer than `turns` other jobs train on this machine, and takes a turn for the block."""
        locks = [FileLock(slurm_jobs.folder_of(self.workdir) / f"turn-{turn}.lock") for turn in range(self.turns)]
        while locks and not self._stop.is_set():
            for turn, lock in enumerate(locks):
                with contextlib.suppress(Timeout), lock.acquire(timeout=0):
                    if self.gpus_of_turns:  # before JAX looks for GPUs; submitit gives each job the first
                        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus_of_turns[turn]
                    yield
                    return
            self._stop.wait(1.0)
        yield

    def train(self) -> None:
        """Trains the cohort, or returns at once if the job was told to stop.

        Raises:
          InputError: JAX does not see the GPU that was requested, or `worker.execute_cohort` raises the error.
        """
        if self._stop.is_set():
            return
        if self.extend is not None:
            self.extend()
        if self.gpus and jax.default_backend() == "cpu":
            error = InputError("JAX sees no GPU in the job", remedy="install jaxmatch[cuda12] or jaxmatch[cuda13]")
            mark_failed(self._folder, error)
            raise error
        plan = worker.with_data(self.plan, pickle.loads(self.data.read_bytes()))
        display = Display()
        display.begin(plan, set())
        try:
            report = _display_events(display, plan, self.stage, self._folder)
            if self.reports_events:
                report = _both(report, writer(self._folder, _own_name()))
            order = worker.Order(plan, self.cohort, self.stage, self.failed_before)
            worker.execute_cohort(order, self.workdir, report, self._stop, self.devices)
        finally:
            display.end()


def _display_events(display: Display, plan: Plan, stage: Stage, folder: CohortFolder) -> Report:
    """Returns a function that shows the events of a worker on a display, in the log of the job."""
    whole = CohortFolder(folder.path, plan.cohorts[0].signature, plan.cohorts[0].names())
    shown: list[Any] = []

    def report(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        if method == "cohort":
            shown[:] = [display.cohort(whole, stage.remaining_runs(plan, whole))]
        else:
            getattr(shown[0], method)(*arguments)

    return report


def _own_name() -> str:
    """Returns the name of the job that this process runs."""
    from submitit import JobEnvironment

    return JobEnvironment().job_id


def _both(first: Report, second: Report) -> Report:
    def report(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        first(cohort, method, arguments)
        second(cohort, method, arguments)

    return report

"""What a job of Slurm does: it trains a cohort, and writes a checkpoint when submitit says that its time is over."""

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
from jaxmatch.sweep.events import Tell, writer
from jaxmatch.sweep.failures import MOST_DEATHS, Deaths, mark_failed
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder

# How long Slurm may take to end a job that it has told to end.
SECONDS_TO_BE_KILLED = 600.0


@dataclasses.dataclass(eq=False)
class Training:
    """The job: trains a cohort in a thread, for submitit's signals interrupt the main one.

    Attributes:
      plan: what the cohort needs of it, without the data.
      data: file of the data.
      cohort: its name.
      workdir: of the sweep.
      stage: how far.
      failed_before: its failure when the job was submitted.
      devices: on how many.
      gpus: whether these must be GPUs.
      seconds: how long it may take to write a checkpoint.
      turns: how many jobs may train at once on this machine; 0: Slurm sees to that.
      gpus_of_turns: CUDA_VISIBLE_DEVICES of each of these; empty: as it is.
      extend: called first: loads what extends the package.
      tells: whether a command waits for it, to which it tells how it goes (`events.py`).
      newest: number of the newest checkpoint when it was queued last.
      deaths: how often it was queued without a new one.
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
    tells: bool = False
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
        # scancel sends SIGTERM, and so may a job that needs the room.
        signal.signal(signal.SIGTERM, lambda number, frame: self._stop.set())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        while self._thread.is_alive():
            self._thread.join(1.0)
        if self._error is not None:
            raise self._error
        if self._stop.is_set() and not self.turns:
            # Slurm queues again a job that it ends to make room, but not one that ends itself.
            time.sleep(SECONDS_TO_BE_KILLED)
        return "done" if self._folder.done else "left"

    def checkpoint(self) -> Any:
        """submitit calls this at a time limit or where another job needs the room; what it gives is queued again."""
        from submitit.helpers import DelayedSubmission

        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.seconds)
        newest = self._folder.newest_checkpoint()
        if newest > self.newest or self._folder.done:  # it was not ended in vain
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
        """Waits until few enough jobs train on this machine."""
        locks = [FileLock(slurm_jobs.folder_of(self.workdir) / f"turn-{turn}.lock") for turn in range(self.turns)]
        while locks and not self._stop.is_set():
            for turn, lock in enumerate(locks):
                with contextlib.suppress(Timeout), lock.acquire(timeout=0):
                    if self.gpus_of_turns:  # before JAX looks for them; submitit gives each job the first ones
                        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus_of_turns[turn]
                    yield
                    return
            self._stop.wait(1.0)
        yield

    def train(self) -> None:
        """Trains the cohort, or ends at once if it was told to.

        Raises:
          InputError: JAX does not see the GPU that was asked for, or as of `worker.execute_cohort`.
        """
        if self._stop.is_set():
            return
        if self.extend is not None:
            self.extend()
        if self.gpus and jax.default_backend() == "cpu":
            error = InputError("JAX sees no GPU in the job", remedy="install jaxmatch[cuda12] or jaxmatch[cuda13]")
            mark_failed(self._folder, error)
            raise error
        plan = worker.whole(self.plan, pickle.loads(self.data.read_bytes()))
        display = Display()
        display.begin(plan, set())
        try:
            tell = _shown(display, plan, self.stage, self._folder)
            if self.tells:
                tell = _both(tell, writer(self._folder, _own_name()))
            order = worker.Order(plan, self.cohort, self.stage, self.failed_before)
            worker.execute_cohort(order, self.workdir, tell, self._stop, self.devices)
        finally:
            display.end()


def _shown(display: Display, plan: Plan, stage: Stage, folder: CohortFolder) -> Tell:
    """What shows on a display, in the job's log, what a worker tells."""
    whole = CohortFolder(folder.path, plan.cohorts[0].signature, plan.cohorts[0].names())
    shown: list[Any] = []

    def tell(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        if method == "cohort":
            shown[:] = [display.cohort(whole, stage.left_of(plan, whole))]
        else:
            getattr(shown[0], method)(*arguments)

    return tell


def _own_name() -> str:
    """The name of the job that this process is."""
    from submitit import JobEnvironment

    return JobEnvironment().job_id


def _both(first: Tell, second: Tell) -> Tell:
    def tell(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        first(cohort, method, arguments)
        second(cohort, method, arguments)

    return tell

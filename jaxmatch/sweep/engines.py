"""Who trains the cohorts of a plan: this process, or workers elsewhere (`worker.py`)."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import jax

from jaxmatch.devices import devices_there_are
from jaxmatch.sweep.claimed import Stage, train_claimed
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.plan import Plan, make_plan
from jaxmatch.sweep.side_by_side import Job, run_jobs
from jaxmatch.training import hosts
from jaxmatch.training.replicas import devices_filled
from jaxmatch.workdir import CohortFolder, Workdir


@dataclasses.dataclass(frozen=True)
class Task:
    """A cohort to train.

    Attributes:
      folder: of the cohort.
      devices: how many it takes (`Engine.devices_for`).
      lasts: how long in proportion to the others.
      stage: how far; None: as far as the others (`Work.stage`).
    """

    folder: CohortFolder
    devices: int
    lasts: float
    stage: Stage | None = None


@dataclasses.dataclass(frozen=True)
class Work:
    """What tasks are of.

    Attributes:
      plan: holds all runs of the tasks, and maybe more.
      workdir: where.
      display: shows how it goes.
      stage: how far.
      before: name of a cohort -> its failure when the stage began (`CohortFolder.failure`).
    """

    plan: Plan
    workdir: Workdir
    display: Display
    stage: Stage
    before: Mapping[str, bytes | None]


class Submitted(Exception):
    """Cohorts were given to jobs that train them later; its text says how many."""


class Engine:
    """Trains cohorts in this process. Another engine overrides all methods but `task`.

    Arguments:
      devices: default: all there are.
    """

    def __init__(self, devices: Sequence[jax.Device] | None = None):
        self._given = devices

    @property
    def _devices(self) -> tuple[jax.Device, ...]:
        return tuple(self._given or devices_there_are())

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        """Gets ready, before anything is planned or written.

        Arguments:
          workdir: of the sweep.
          name: of the sweep.
          dry_run: nothing will be trained there.

        Raises:
          InputError: it cannot train there.
        """

    def plan(self, sweep: Sweep) -> Plan:
        """Plans a sweep for where it will be trained; errors as of `make_plan`."""
        return make_plan(sweep, self._given)

    def devices_for(self, runs: int) -> int:
        """How many devices a cohort of so many runs takes."""
        devices = self._devices
        # Devices of one process alone are nothing that the others could follow.
        return len(devices) if hosts.several() else devices_filled(runs, len(devices))

    def task(self, plan: Plan, folder: CohortFolder, stage: Stage | None = None) -> Task:
        """The training of a cohort of a plan; `stage` as of `Task`."""
        runs = tuple(plan.runs[name][0] for name in folder.runs)
        lasts = dataclasses.replace(plan.runs[folder.runs[0]][1], runs=runs).device_work
        return Task(folder, self.devices_for(len(runs)), lasts, stage)

    def run(self, tasks: Sequence[Task], work: Work, more: Callable[[], Iterable[Task]] = tuple) -> bool:
        """Trains cohorts, the longest first, and others beside it where there is room.

        A cohort that fails is marked. What somebody else trains is left to them.

        Arguments:
          tasks: what to train.
          work: what they are of.
          more: called in this thread whenever a task is over; gives tasks that go before those that wait.

        Returns:
          Whether any was trained.

        Raises:
          OSError: the system hinders all of them, as by a full disk.
          Submitted: by another engine: they are trained later.
        """

        def job(task: Task) -> Job:
            folder = task.folder

            def train(devices: tuple[jax.Device, ...], stop: threading.Event) -> bool:
                before = work.before.get(folder.name)
                stage = task.stage or work.stage
                return train_claimed(work.plan, folder, work.workdir, work.display, stage, devices, stop, before)

            return Job(task.devices, task.lasts, train)

        return any(run_jobs([job(task) for task in tasks], self._devices, lambda: map(job, more())))

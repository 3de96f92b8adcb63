"""Engines that train the cohorts of a plan: in this process, or by workers elsewhere (`worker.py`)."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax

from jaxmatch.devices import available_devices
from jaxmatch.sweep.claimed import Stage, train_claimed
from jaxmatch.sweep.device_jobs import DeviceJob, run_jobs
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.plan import Plan, make_plan
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.training import hosts
from jaxmatch.training.chunks import devices_filled
from jaxmatch.workdir import CohortFolder, Workdir


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

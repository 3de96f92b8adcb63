"""Training of a cohort that another process has planned and claimed. Ray tasks and Slurm jobs call it.

A worker receives the part of the plan that its cohort needs, and finds the cohort's folder by its name. It takes the
lock, trains and writes the records, as the driver would. It never claims or cleans, and leaves sweep.json alone.
"""

import dataclasses
import os
import sys
import threading
from pathlib import Path

import jaxlib

from jaxmatch.caches import keep_compiled_programs
from jaxmatch.data.encoded import EncodedData
from jaxmatch.devices import available_devices, cores
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.claimed import Stage, train_claimed
from jaxmatch.sweep.device_jobs import Stopped
from jaxmatch.sweep.events import Report, Reporter
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.workdir import CohortFolder, Workdir

# How long a dead worker may seem to hold its cohort. This is longer than NFS waits for a client (90 s).
SECONDS_FOR_THE_LOCK = 120.0
# The prefixes of variables that change what XLA computes or where it stores programs.
_OF_JAX = ("JAX_", "XLA_FLAGS")
# Variables that workers do not inherit. A driver that does not train may have another platform than its workers.
NOT_SHARED = {"JAX_PLATFORMS", "JAX_COORDINATOR_ADDRESS"}


@dataclasses.dataclass(frozen=True)
class WorkerDevice:
    """A stand-in for the device of a worker, with which a plan is made.

    Attributes:
      platform: the platform of the device, such as "gpu".
      device_kind: the name that the manufacturer gives the device.
      bytes: the memory of the device, in bytes.
    """

    platform: str
    device_kind: str
    bytes: int

    def memory_stats(self) -> dict[str, int]:
        """Returns the memory limit as `jax.Device.memory_stats` does."""
        return {"bytes_limit": self.bytes}


@dataclasses.dataclass(frozen=True)
class Order:
    """An order for a worker to train a cohort.

    Attributes:
      plan: a plan that holds the runs of the cohort.
      cohort: the name of the cohort's folder.
      stage: how far the cohort is trained.
      failed_before: the failure of the cohort when the stage began (`CohortFolder.failure`).
      attempt: an id that distinguishes this attempt from others to train the cohort.
    """

    plan: Plan
    cohort: str
    stage: Stage
    failed_before: bytes | None
    attempt: str = ""


def versions() -> dict[str, str]:
    """Returns the versions that must be the same on the driver and its workers."""
    return {
        **several_hosts.versions(),
        "jaxlib": jaxlib.__version__,
        "Python": ".".join(map(str, sys.version_info[:2])),
    }


def variables() -> dict[str, str]:
    """Returns the variables that a worker needs before JAX is loaded, so that it computes what this process would."""
    shared = {name: value for name, value in os.environ.items() if name.startswith(_OF_JAX)}
    return {name: value for name, value in shared.items() if name not in NOT_SHARED} | {"NPROC": str(cores())}


def part_of(plan: Plan, folder: CohortFolder) -> tuple[Plan, EncodedData]:
    """Returns the small part of a plan that a worker needs for a cohort, and the data, which many cohorts share."""
    cohort = plan.cohort_of(folder.runs)
    # The table and the grid of the sweep may hold objects that only the driver can load.
    sweep = Sweep(name=plan.sweep.name, config=plan.sweep.config)
    return Plan(sweep, (dataclasses.replace(cohort, data=None),)), cohort.data


def with_data(part: Plan, data: EncodedData) -> Plan:
    """Returns a plan from `part_of` with its data."""
    return dataclasses.replace(part, cohorts=tuple(dataclasses.replace(each, data=data) for each in part.cohorts))


def execute_cohort(order: Order, workdir: Path, report: Report, stop: threading.Event, devices: int = 1) -> bool:
    """Trains a cohort as far as a stage goes, and marks the cohort as failed if training fails.

    If another process holds the cohort, this process waits for a while: the other may be a worker that has died.

    Arguments:
      order: the order that names the cohort and the stage.
      workdir: the working folder of the sweep.
      report: a function that reports events (`events.writer`).
      stop: an event that ends training before the stage is reached, with a checkpoint.
      devices: the number of devices of this process to train on.

    Returns:
      Whether the cohort was trained here as far as the stage goes, or was marked as failed here.

    Raises:
      InputError: a file of the folder is damaged, or a device does not exist.
      OSError: the system prevents training, for example because the disk is full.
    """
    folder = _folder(Workdir(workdir), order.cohort)
    if folder is None:  # a launcher has removed the cohort
        return False
    config = order.plan.runs[folder.runs[0]][0].config
    keep_compiled_programs(config.execution.cache_directory)
    try:
        return train_claimed(
            order.plan,
            folder,
            Workdir(workdir),
            Reporter(report),
            order.stage,
            tuple(available_devices()[:devices]),
            stop,
            order.failed_before,
            wait=SECONDS_FOR_THE_LOCK,
        )
    except Stopped:
        return False


def _folder(workdir: Workdir, cohort: str) -> CohortFolder | None:
    return CohortFolder.read(workdir.path / "cohorts" / cohort)

"""Training a cohort that somebody else has planned and claimed: what a Ray task or a Slurm job calls.

A worker is given the part of the plan that its cohort needs, and finds the cohort's folder by its name. It takes the
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
from jaxmatch.devices import cores, devices_there_are
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.claimed import Stage, train_claimed
from jaxmatch.sweep.events import Tell, Telling
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.side_by_side import Stopped
from jaxmatch.workdir import CohortFolder, Workdir

# How long a worker that has died may seem to hold its cohort: longer than NFS waits for a client (90 s).
SECONDS_FOR_THE_LOCK = 120.0
# Variables that change what XLA computes or where it keeps programs.
_OF_JAX = ("JAX_", "XLA_FLAGS")
# Where the driver trains nothing itself, its own platform is not that of the workers.
NOT_SHARED = {"JAX_PLATFORMS", "JAX_COORDINATOR_ADDRESS"}


@dataclasses.dataclass(frozen=True)
class WorkerDevice:
    """Stands for the device of a worker in the making of a plan.

    Attributes:
      platform: as "gpu".
      device_kind: what its maker calls it.
      bytes: its memory.
    """

    platform: str
    device_kind: str
    bytes: int

    def memory_stats(self) -> dict[str, int]:
        """As of `jax.Device`."""
        return {"bytes_limit": self.bytes}


@dataclasses.dataclass(frozen=True)
class Order:
    """What a worker is told of its cohort.

    Attributes:
      plan: holds the runs of the cohort.
      cohort: the name of its folder.
      stage: how far to train it.
      failed_before: its failure when the stage began (`CohortFolder.failure`).
      attempt: tells this try from others with the same cohort.
    """

    plan: Plan
    cohort: str
    stage: Stage
    failed_before: bytes | None
    attempt: str = ""


def versions() -> dict[str, str]:
    """What must be the same on the driver and its workers."""
    return {
        **several_hosts.versions(),
        "jaxlib": jaxlib.__version__,
        "Python": ".".join(map(str, sys.version_info[:2])),
    }


def variables() -> dict[str, str]:
    """What a worker's environment must hold before JAX is loaded, so that it computes what this process would."""
    shared = {name: value for name, value in os.environ.items() if name.startswith(_OF_JAX)}
    return {name: value for name, value in shared.items() if name not in NOT_SHARED} | {"NPROC": str(cores())}


def part_of(plan: Plan, folder: CohortFolder) -> tuple[Plan, EncodedData]:
    """What a worker needs of a plan to train a cohort, small; and the data, which many cohorts share."""
    planned = plan.runs[folder.runs[0]][1]
    runs = tuple(plan.runs[name][0] for name in folder.runs)
    # Its table and its grid may hold what only the driver can load.
    sweep = Sweep(name=plan.sweep.name, config=plan.sweep.config)
    return Plan(sweep, (dataclasses.replace(planned, runs=runs, data=None),)), planned.data


def whole(part: Plan, data: EncodedData) -> Plan:
    """A plan from `part_of`, with its data."""
    return dataclasses.replace(part, cohorts=tuple(dataclasses.replace(each, data=data) for each in part.cohorts))


def execute_cohort(order: Order, workdir: Path, tell: Tell, stop: threading.Event, devices: int = 1) -> bool:
    """Trains a cohort as far as a stage goes, and marks it if that fails.

    It waits for somebody who holds the cohort: that may be a worker that has died.

    Arguments:
      order: which cohort, and how far.
      workdir: of the sweep.
      tell: passes on how it goes (`events.writer`).
      stop: says when to end before that, with a checkpoint.
      devices: on how many devices of this process.

    Returns:
      Whether it was trained here as far as the stage goes, or marked.

    Raises:
      InputError: a file of the folder is damaged, or there is no such device.
      OSError: the system hinders it, as by a full disk.
    """
    folder = _folder(Workdir(workdir), order.cohort)
    if folder is None:  # a launcher has taken it away
        return False
    config = order.plan.runs[folder.runs[0]][0].config
    keep_compiled_programs(config.execution.cache_directory)
    try:
        return train_claimed(
            order.plan,
            folder,
            Workdir(workdir),
            Telling(tell),
            order.stage,
            tuple(devices_there_are()[:devices]),
            stop,
            order.failed_before,
            wait=SECONDS_FOR_THE_LOCK,
        )
    except Stopped:
        return False


def _folder(workdir: Workdir, cohort: str) -> CohortFolder | None:
    return CohortFolder.read(workdir.path / "cohorts" / cohort)

"""What tasks of Ray and jobs of Slurm need: the part of a plan that a cohort needs, the device, the environment."""

import dataclasses
import os
import sys

import jaxlib

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import cores
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.workdir import CohortFolder

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
      process_index: that of this process, as if the device were here.
    """

    platform: str
    device_kind: str
    bytes: int
    process_index: int = 0

    def memory_stats(self) -> dict[str, int]:
        """Returns the memory limit as `jax.Device.memory_stats` does."""
        return {"bytes_limit": self.bytes}


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

"""What a worker elsewhere needs to train a cohort as this process would (on_ray.py, on_slurm.py)."""

import contextlib
import dataclasses
import os
import socket
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import cores, keep_compiled_programs
from jaxmatch.errors import InputError
from jaxmatch.sweep.launch import Training, train_cohort
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.provenance import check_versions, versions
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.training.cohort import Stopped
from jaxmatch.workdir import CohortFolder

# How long a dead worker may seem to hold its cohort. This is longer than NFS waits for a client (90 s).
SECONDS_FOR_THE_LOCK = 120.0
# Variables that workers do not inherit. A driver that does not train may have another platform than its workers.
NOT_SHARED = {"JAX_PLATFORMS", "JAX_COORDINATOR_ADDRESS"}


def worker_device(platform: str, memory: int) -> Any:
    """Returns a stand-in for the device of a worker, with `memory` bytes, with which a plan is made."""
    return types.SimpleNamespace(platform=platform, process_index=0, memory_stats=lambda: {"bytes_limit": memory})


def variables() -> dict[str, str]:
    """Returns the variables that a worker needs before JAX is loaded, so that it computes what this process would."""
    shared = {name: value for name, value in os.environ.items() if name.startswith(("JAX_", "XLA_FLAGS"))}
    return {name: value for name, value in shared.items() if name not in NOT_SHARED} | {"NPROC": str(cores())}


@dataclasses.dataclass(frozen=True)
class RemoteCohort:
    """A cohort for a worker elsewhere, without its data, which many cohorts share."""

    training: Training  # only what the cohort needs, and without a display
    folder: CohortFolder
    extend: Callable[[], None] | None  # loads extensions of the package, before training
    versions: Mapping[str, str]  # those that the worker must run

    @classmethod
    def of(cls, training: Training, folder: CohortFolder, extend: Callable[[], None] | None) -> "RemoteCohort":
        """Returns what a worker needs to train a cohort of this process."""
        sweep, cohort = training.plan.sweep, training.plan.cohort_of(folder.runs)
        # The table and the grid of the sweep may hold objects that only this process can load.
        plan = Plan(Sweep(name=sweep.name, config=sweep.config), (dataclasses.replace(cohort, data=None),))
        here = dataclasses.replace(folder, path=folder.path.absolute())
        return cls(dataclasses.replace(training, plan=plan, display=None), here, extend, versions())

    def train(self, data: EncodedData, display: Any, stop: threading.Event) -> None:
        """Trains the cohort in a worker, or returns if another process holds the cohort for long.

        Raises OSError as `train_cohort` does, and InputError if the worker cannot train as the process that sent the
        cohort would.
        """
        (cohort,), host = self.training.plan.cohorts, socket.gethostname()
        if self.extend is not None:
            self.extend()
        check_versions(self.versions, host)
        if jax.default_backend() != cohort.platform:  # a CPU would be many times slower than a GPU, and nobody sees why
            raise InputError(f"JAX finds no {cohort.platform} on {host}", remedy="install the same packages there")
        keep_compiled_programs(self.training.plan.sweep.config.execution.cache_directory)
        plan = dataclasses.replace(self.training.plan, cohorts=(dataclasses.replace(cohort, data=data),))
        display.begin(plan, set())
        training = dataclasses.replace(self.training, plan=plan, display=display)
        with contextlib.suppress(Stopped):
            train_cohort(training, self.folder, stop, SECONDS_FOR_THE_LOCK)

"""Ways to train a sweep with several workers on this machine: launchers on one folder, and Ray."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import fresh_process, timed_commands
from benchmarks.timed_commands import Command, RayNodes, Timed


class MeasuredSweeps:
    """The sweeps of this benchmark.

    Arguments:
      scratch: an empty folder.
      until: the time by which everything must be over.
    """

    def __init__(self, scratch: Path, until: float):
        self.scratch, self.until, self._count = scratch, until, 0
        self.cores = sorted(os.sched_getaffinity(0))

    def core(self, worker: int) -> int:
        """Returns the core of a worker."""
        return self.cores[worker % len(self.cores)]

    def _words(self, workdir: Path, cohorts: int, epochs: int, *more: str) -> tuple[str, ...]:
        settings = {
            "training.epochs": epochs,
            "training.patience_samples": 0,
            "execution.maximum_replicas": 1,
            "execution.cache_directory": self.scratch / "cache",
        }
        return (
            *("sweep", "quickstart", "--workdir", str(workdir), "--seeds", str(cohorts)),
            *("--grid.model.blocks=1", "--grid.optimizer.learning_rate=0.001"),
            *(f"--config.{name}={value}" for name, value in settings.items()),
            *("--import", str(fresh_process.ROOT / "benchmarks" / "first_step.py"), *more),
        )

    def timed(
        self, cohorts: int, epochs: int, cores: Sequence[Any], more: Sequence[str] = (), **variables: str
    ) -> Timed:
        """Trains a new sweep and returns its times.

        Arguments:
          cohorts: the number of cohorts, of one run each.
          epochs: the number of epochs of each run.
          cores: the cores of each command. All commands start at the same time.
          more: additional words of the commands.
          **variables: additional environment variables of the commands.

        Raises:
          OutOfTime: the time is over.
        """
        self._count += 1
        workdir = self.scratch / f"sweep-{self._count}"
        words = self._words(workdir, cohorts, epochs, *more)
        variables |= {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "1", "JAX_COMPILATION_CACHE_DIR": ""}
        return timed_commands.timed([Command(words, each, variables) for each in cores], workdir, cohorts, self.until)


class Launchers:
    """One launcher for each worker, all on the same working folder."""

    def __init__(self, measuring: MeasuredSweeps):
        self._measuring = measuring

    def unpinned(self, cohorts: int, workers: int) -> Timed:
        """Trains each cohort for one epoch, on all cores."""
        return self._measuring.timed(cohorts, 1, [self._measuring.cores] * workers)

    def pinned(self, cohorts: int, epochs: int, workers: int) -> Timed:
        """Trains with workers that have one core each."""
        cores = [{self._measuring.core(worker)} for worker in range(workers)]
        return self._measuring.timed(cohorts, epochs, cores, NPROC="1")

    def close(self) -> None:
        """Ends the processes that were started."""


class Ray(Launchers):
    """A command for a cluster that is already running. If workers are pinned, the cluster has a node for each."""

    def __init__(self, measuring: MeasuredSweeps):
        super().__init__(measuring)
        self._nodes: RayNodes | None = None
        self._pinned = 0

    def _timed(self, cohorts: int, epochs: int, **variables: str) -> Timed:
        more = "--on", f"ray:{self._nodes.address}"
        return self._measuring.timed(cohorts, epochs, [self._measuring.cores], more, **variables)

    def unpinned(self, cohorts: int, workers: int) -> Timed:
        if self._nodes is None:
            self._nodes = RayNodes(self._measuring.cores, self._measuring.until)
        return self._timed(cohorts, 1)

    def pinned(self, cohorts: int, epochs: int, workers: int) -> Timed:
        if not self._pinned:
            self.close()
            self._nodes = RayNodes({self._measuring.core(0)}, self._measuring.until)
            self._pinned = 1
            self._timed(1, 1, NPROC="1")  # the first command on a cluster starts its workers
        while self._pinned < workers:
            self._nodes.add({self._measuring.core(self._pinned)})
            self._pinned += 1
        return self._timed(cohorts, epochs, NPROC="1")

    def close(self) -> None:
        if self._nodes is not None:
            self._nodes.close()
            self._nodes = None

"""Ways to train a sweep by several workers of this machine: launchers on one folder, jobs as of Slurm, Ray."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import fresh, started
from benchmarks.started import CORES, Command, RayNodes, Timed


class Measuring:
    """Sweeps of this benchmark.

    Arguments:
      scratch: an empty folder.
      until: the time by which all must be over.
    """

    def __init__(self, scratch: Path, until: float):
        self.scratch, self.until, self._count = scratch, until, 0
        self.cores = sorted(os.sched_getaffinity(0))

    def core(self, worker: int) -> int:
        """That of a worker."""
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
            *("--import", str(fresh.ROOT / "benchmarks" / "first_step.py"), *more),
        )

    def timed(
        self, cohorts: int, epochs: int, cores: Sequence[Any], more: Sequence[str] = (), **variables: str
    ) -> Timed:
        """Trains a sweep anew.

        Arguments:
          cohorts: of one run each.
          epochs: of each run.
          cores: of each command; as many are given at once.
          more: words of the commands.
          **variables: of their environment.

        Raises:
          OutOfTime: the time is over.
        """
        self._count += 1
        workdir = self.scratch / f"sweep-{self._count}"
        words = self._words(workdir, cohorts, epochs, *more)
        variables |= {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "1", "JAX_COMPILATION_CACHE_DIR": ""}
        return started.timed([Command(words, each, variables) for each in cores], workdir, cohorts, self.until)


class Launchers:
    """As many commands as workers."""

    def __init__(self, measuring: Measuring):
        self._measuring = measuring

    def unpinned(self, cohorts: int, workers: int) -> Timed:
        """Trains each cohort for an epoch, on all cores."""
        return self._measuring.timed(cohorts, 1, [self._measuring.cores] * workers)

    def pinned(self, cohorts: int, epochs: int, workers: int) -> Timed:
        """Trains by workers with a core each."""
        cores = [{self._measuring.core(worker)} for worker in range(workers)]
        return self._measuring.timed(cohorts, epochs, cores, NPROC="1")

    def close(self) -> None:
        """Ends what was started."""


class Jobs(Launchers):
    """A command that submits jobs, as many of which train at once as there are workers."""

    def _more(self, workers: int, text: str = "") -> tuple[str, ...]:
        file = self._measuring.scratch / f"slurm-{workers}.toml"
        file.write_text(f"at_once = {workers}\n{text}")
        return "--on", "slurm:local", "--slurm", str(file)

    def unpinned(self, cohorts: int, workers: int) -> Timed:
        return self._measuring.timed(cohorts, 1, [self._measuring.cores], self._more(workers))

    def pinned(self, cohorts: int, epochs: int, workers: int) -> Timed:
        cores = [self._measuring.core(worker) for worker in range(workers)]
        variables = {"NPROC": "1", CORES: ",".join(map(str, cores))}
        return self._measuring.timed(cohorts, epochs, [set(cores)], self._more(workers, "cpus = 1\n"), **variables)


class Ray(Launchers):
    """A command for a cluster that has run before; pinned, with a node for each worker."""

    def __init__(self, measuring: Measuring):
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

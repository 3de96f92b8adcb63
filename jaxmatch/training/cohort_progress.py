"""The progress of a cohort."""

import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np

from jaxmatch.training.progress import RunProgress


class CohortProgress:
    """The progress of a cohort, as plain values that are stored in its checkpoints.

    Arguments:
      runs: the number of runs.
      compile_seconds: a function that returns the seconds spent so far on compiling the cohort's programs.

    Attributes:
      runs: the progress of each run.
      epoch, index: the epoch of the next step, and the position of the step in that epoch.
      seconds: the time spent so far in "train", "evaluate", "compile" and "checkpoint", over all interruptions. The
        time that an evaluation waits for the compilation of its model counts as "compile".
      steps: the number of steps so far: "lockstep" counts each step once, "replica" counts it once per slot.
    """

    def __init__(self, runs: int, compile_seconds: Callable[[], float]):
        self._count, self._compile_seconds = runs, compile_seconds
        self.begin()

    def begin(self) -> None:
        """Resets the progress to the start of training."""
        self.runs = [RunProgress() for _ in range(self._count)]
        self.epoch = self.index = 0
        self.seconds = {"train": 0.0, "evaluate": 0.0, "compile": 0.0, "checkpoint": 0.0}
        self.steps = {"lockstep": 0, "replica": 0}

    @property
    def active(self) -> np.ndarray:
        """Whether each run is still training, `<bool>[run]`."""
        return np.asarray([not run.done for run in self.runs])

    @property
    def all_done(self) -> bool:
        """Whether no run is left to train."""
        return all(run.done for run in self.runs)

    def stepped(self, count: int, slots: int) -> None:
        """Counts `count` steps of `slots` slots each."""
        self.steps["lockstep"] += count
        self.steps["replica"] += count * slots
        self.index += count

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Adds the time of the block to `seconds`: compilation to "compile", and the rest to `part`."""
        start, compiled = time.perf_counter(), self._compile_seconds()
        yield
        compiled = self._compile_seconds() - compiled
        self.seconds["compile"] += compiled
        self.seconds[part] += time.perf_counter() - start - compiled

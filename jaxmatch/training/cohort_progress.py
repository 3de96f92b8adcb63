"""How far a cohort has come."""

import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np

from jaxmatch.training.progress import RunProgress


class CohortProgress:
    """How far a cohort has come; plain values, kept in the checkpoint.

    Arguments:
      runs: how many it has.
      compile_seconds: gives the seconds that its programs took to compile so far.

    Attributes:
      runs: how each run has done so far.
      epoch, index: the next step: its epoch, and its place in that.
      seconds: time spent so far in "train", "evaluate", "compile" and "checkpoint", over all interruptions; what an
        evaluation had to wait for the compilation of its model counts as "compile".
      steps: made so far: "lockstep", and "replica", which counts each as often as it had slots.
    """

    def __init__(self, runs: int, compile_seconds: Callable[[], float]):
        self._count, self._compile_seconds = runs, compile_seconds
        self.begin()

    def begin(self) -> None:
        """Forgets all training there was."""
        self.runs = [RunProgress() for _ in range(self._count)]
        self.epoch = self.index = 0
        self.seconds = {"train": 0.0, "evaluate": 0.0, "compile": 0.0, "checkpoint": 0.0}
        self.steps = {"lockstep": 0, "replica": 0}

    @property
    def active(self) -> np.ndarray:
        """Whether a run still trains, `<bool>[run]`."""
        return np.asarray([not run.done for run in self.runs])

    @property
    def all_done(self) -> bool:
        """Whether no run is left to train."""
        return all(run.done for run in self.runs)

    def stepped(self, count: int, slots: int) -> None:
        """Counts some steps of so many slots."""
        self.steps["lockstep"] += count
        self.steps["replica"] += count * slots
        self.index += count

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Adds the seconds of the block to a part of `seconds`, less those in which it compiled."""
        start, compiled = time.perf_counter(), self._compile_seconds()
        yield
        compiled = self._compile_seconds() - compiled
        self.seconds["compile"] += compiled
        self.seconds[part] += time.perf_counter() - start - compiled

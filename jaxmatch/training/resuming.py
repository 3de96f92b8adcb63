"""The contents of a cohort's checkpoints, the times at which they are written, and how training resumes from them."""

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort_progress import CohortProgress
from jaxmatch.training.evaluation import Evaluator
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.progress import Listener, RunProgress
from jaxmatch.training.replicas_at_once import Limits, RanOut
from jaxmatch.training.step import ReplicaState

# About the largest share of the time to spend on checkpoints: training waits while a checkpoint is written.
MOST_FOR_CHECKPOINTS = 0.05


class Resuming:
    """The saving and restoring of the state of a cohort.

    Arguments:
      checkpoints: the checkpoints to write and to restore; None: no checkpoints.
      seconds: the seconds between two checkpoints; 0: as often as the host checks.
      lockstep, evaluator, limits, progress: those of the cohort.
    """

    def __init__(
        self,
        checkpoints: Checkpoints | None,
        seconds: float,
        lockstep: Lockstep,
        evaluator: Evaluator,
        limits: Limits,
        progress: CohortProgress,
    ):
        self._checkpoints, self._seconds = checkpoints, seconds
        self._lockstep, self._evaluator, self._limits, self._progress = lockstep, evaluator, limits, progress
        self.begin()

    def begin(self) -> None:
        """Starts counting the time to the next checkpoint."""
        self._saved_at, self._save_seconds = time.perf_counter(), 0.0

    def is_due(self, listener: Listener) -> bool:
        """Returns whether a checkpoint should be written now."""
        if self._checkpoints is None:
            return False
        return hosts.decide(lambda: self._time_is_over() or listener.wants_checkpoint())

    def _time_is_over(self) -> bool:
        """Returns whether the next checkpoint is due. Checkpoints that take long to write are written less often."""
        wait = max(self._seconds, self._save_seconds / MOST_FOR_CHECKPOINTS) if self._seconds else 0.0
        return time.perf_counter() - self._saved_at > wait

    def save(self, state: ReplicaState, best: jax.Array) -> None:
        """Writes a checkpoint."""
        if self._checkpoints is None:
            return
        start = time.perf_counter()
        progress = self._progress
        notes: dict[str, Any] = {
            "epoch": progress.epoch,
            "index": progress.index,
            "slots": self._lockstep.slots.tolist(),
            "devices": self._lockstep.device_count,
            "progress": [dataclasses.asdict(run) for run in progress.runs],
            "seconds": progress.seconds,
            "answered": self._evaluator.totals,
            "steps": progress.steps,
        }
        if self._limits.ran_out:
            notes["ran_out"] = [dataclasses.asdict(event) for event in self._limits.ran_out]
        number = progress.epoch * self._lockstep.batches.steps_per_epoch + progress.index
        self._checkpoints.save(number, hosts.gather({"state": state, "best": best}), notes)
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start
        progress.seconds["checkpoint"] += self._save_seconds

    def restore(self, state: ReplicaState, best: jax.Array) -> tuple[Any, Any, bool]:
        """Restores the cohort from its newest checkpoint, if there is one.

        Arguments:
          state: the state before the first step.
          best: the parameters of the chosen checkpoints before the first step.

        Returns:
          (state, best, whether there is a checkpoint); without a checkpoint, the arguments themselves.
        """
        if (checkpoints := self._checkpoints) is None:
            return state, best, False
        restored = hosts.decide(lambda: checkpoints.restore({"state": state, "best": best}))
        if restored is None:
            return state, best, False
        arrays, notes = restored
        lockstep, progress = self._lockstep, self._progress
        progress.epoch, progress.index = notes["epoch"], notes["index"]
        # Older versions stored zeros after parameters and moments.
        count = lockstep.programs.flat.count
        state, best = jax.tree.map(
            lambda leaf: leaf[:, :count] if leaf.ndim > 1 else leaf, (arrays["state"], arrays["best"])
        )
        slots = np.asarray(notes["slots"])
        if notes.get("devices", lockstep.device_count) == lockstep.device_count:
            lockstep.slots = slots
        else:
            state = lockstep.redistribute(state, slots)
            best = lockstep.pad_rows(best[: len(progress.runs)])
        progress.runs = [RunProgress(**run) for run in notes["progress"]]
        lockstep.active = progress.active
        progress.seconds.update(notes["seconds"])
        self._evaluator.totals.update(notes.get("answered", {}))  # missing in checkpoints of older versions
        self._limits.restore_events([RanOut(**event) for event in notes.get("ran_out", [])])
        steps = progress.epoch * lockstep.batches.steps_per_epoch + progress.index
        # A checkpoint of an older version does not contain the steps.
        progress.steps.update(notes.get("steps") or {"lockstep": steps, "replica": steps * len(lockstep.slots)})
        return state, best, True

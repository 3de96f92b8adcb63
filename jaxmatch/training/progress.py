"""The events of training for displays and other listeners, and the progress of a run."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import SCORES


class Listener:
    """A receiver of the training events of a cohort. Override the methods that you need."""

    def stepped(self, done: int, total: int) -> None:
        """Reports that `done` of `total` steps are done. Early stopping may end the cohort sooner."""

    def evaluated(self, epoch: int, samples: int, score: str, scores: Sequence[float], stopped: int) -> None:
        """Reports an evaluation on dev: the selection score and its value for every run that has neither diverged nor
        been dropped. `stopped` of them ended early; theirs is the best value.
        """

    def begun(self, curves: Sequence[Sequence[Mapping]]) -> None:
        """Reports that training begins or resumes, and the evaluations of each run so far (`RunProgress.curve`)."""

    def noted(self, run: int, evaluation: Mapping) -> None:
        """Reports that an evaluation was added to the curve of a run. Runs are counted from 0."""

    def compiling(self, part: str, number: int, lengths: int) -> None:
        """Reports that a compilation for "training" or "evaluation" begins, for the `number`th of `lengths` lengths."""

    def saved(self) -> None:
        """Reports that a checkpoint was written."""

    def resumed(self, done: int, total: int) -> None:
        """Reports that training resumes from a checkpoint after `done` of `total` steps."""

    def ran_out(self, part: str, at_once: int) -> None:
        """Reports that memory ran out in `part`. From now on, at most `at_once` runs train at once."""


@dataclasses.dataclass
class RunProgress:
    """The progress of one run, as plain values that are stored in the checkpoints.

    Attributes:
      curve: one entry per evaluation: samples, epoch, train_loss, learning_rate, dev.
      best_score: the selection score of the best evaluation so far.
      best_at: the number of samples seen before that evaluation.
      best: all dev scores of that evaluation.
      best_on_test: scores and samples of the evaluation that was best on TEST, if this was requested.
      stopped: whether patience has run out.
      diverged_at: the number of samples seen when the loss or its gradient was no longer finite.
      dropped_at: the number of samples after which the run was given up because other runs did better.
    """

    curve: list = dataclasses.field(default_factory=list)
    best_score: float | None = None
    best_at: int = 0
    best: dict | None = None
    best_on_test: dict | None = None
    stopped: bool = False
    diverged_at: int | None = None
    dropped_at: int | None = None

    @property
    def done(self) -> bool:
        return self.stopped or self.diverged_at is not None or self.dropped_at is not None

    @property
    def status(self) -> str:
        """The status of the run once it is done: "diverged", "dropped" or "finished"."""
        if self.diverged_at is not None:
            return "diverged"
        return "finished" if self.dropped_at is None else "dropped"

    def record_evaluation(self, entry: Mapping[str, Any], training: Mapping[str, Any]) -> bool:
        """Adds an evaluation to the curve and returns whether it is the best so far.

        Arguments:
          entry: the entry of the curve.
          training: the settings selection, patience_samples and minimum_samples of `config.training`.
        """
        self.curve.append(dict(entry))
        score, patience = entry["dev"][training["selection"]], training["patience_samples"]
        better = _is_better(score, self.best_score, training["selection"])
        if better:
            self.best_score, self.best_at, self.best = score, entry["samples"], dict(entry["dev"])
        elif patience and entry["samples"] - self.best_at >= patience:
            self.stopped = entry["samples"] > training["minimum_samples"]
        return better

    def record_test(self, scores: Mapping[str, float], selection: str, samples: int) -> None:
        """Keeps the evaluation that was best on TEST, only for comparison with papers that selected on test."""
        best = self.best_on_test and self.best_on_test["scores"][selection]
        if _is_better(scores[selection], best, selection):
            self.best_on_test = {"scores": dict(scores), "at_samples": samples}


def _is_better(score: float, best: float | None, selection: str) -> bool:
    """Returns whether a score beats the best so far. The first score does, even if it is NaN; then NaN is worst."""
    sign = 1 if SCORES[selection].higher_is_better else -1
    return best is None or sign * score > sign * best or (math.isnan(best) and not math.isnan(score))

"""What training reports to a display and to listeners."""

import dataclasses
from collections.abc import Mapping, Sequence


class Listener:
    """Receives training events of a cohort. Override the methods that you need."""

    def stepped(self, done: int, total: int) -> None:
        """`done` of `total` steps are behind the cohort (early stopping may end it sooner)."""

    def evaluated(self, epoch: int, samples: int, score: str, scores: Sequence[float]) -> None:
        """Dev was scored: the selection score of every run still training."""

    def begun(self, curves: Sequence[Sequence[Mapping]]) -> None:
        """Training begins, or is resumed: the evaluations of each run so far (`RunProgress.curve`)."""

    def noted(self, run: int, evaluation: Mapping) -> None:
        """An evaluation was added to the curve of a run, counted from 0."""

    def compiling(self, part: str, number: int, lengths: int) -> None:
        """A program of "training" or "evaluation" is compiled for the `number`th of so many lengths."""

    def compiled(self, part: str, seconds: float) -> None:
        """That took so long."""

    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint is to be written now; asked about twice a second."""
        return False

    def saved(self) -> None:
        """A checkpoint was written. What this raises ends training."""

    def resumed(self, done: int, total: int) -> None:
        """Training is resumed from a checkpoint, `done` steps in."""

    def fitted(self, part: str, at_once: int) -> None:
        """The devices have memory for `at_once` replicas side by side in "training" or "evaluation", not for all."""

    def ran_out(self, part: str, at_once: int) -> None:
        """Memory ran out in "training" or "evaluation"; at most `at_once` replicas run side by side from now on."""


@dataclasses.dataclass
class RunProgress:
    """How one run has done so far; plain values, kept in the checkpoint.

    Attributes:
      curve: one entry an evaluation: samples, epoch, train_loss, learning_rate, dev.
      best_score: the selection score of the best evaluation so far.
      best_at: samples seen by then.
      best: all dev scores of that evaluation.
      best_on_test: scores and samples of the evaluation that was best on TEST, where that was asked for.
      stopped: patience has run out.
      diverged_at: samples seen when the loss was no longer finite.
      dropped_at: samples after which the run was given up, because others did better.
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
        """What to call the run once it is done: "diverged", "dropped" or "finished"."""
        if self.diverged_at is not None:
            return "diverged"
        return "finished" if self.dropped_at is None else "dropped"

    def note(
        self, entry: Mapping, score: float, higher_is_better: bool, patience_samples: int, minimum_samples: int = 0
    ) -> bool:
        """Adds an evaluation to the curve and says whether it is the best so far.

        Arguments:
          entry: of the curve.
          score: the one that selects, of this evaluation.
          higher_is_better: of that score.
          patience_samples: the run stops when so many pairs brought nothing better; 0: never.
          minimum_samples: it does not stop before it has seen more than these.
        """
        self.curve.append(dict(entry))
        better = _is_better(score, self.best_score, higher_is_better)
        if better:
            self.best_score, self.best_at, self.best = score, entry["samples"], dict(entry["dev"])
        elif patience_samples and entry["samples"] - self.best_at >= patience_samples:
            self.stopped = entry["samples"] > minimum_samples
        return better

    def note_test(self, scores: Mapping[str, float], selection: str, higher_is_better: bool, samples: int) -> None:
        """Keeps the evaluation that was best on TEST: for comparison with papers that selected so, never the headline.

        Arguments:
          scores: of test.
          selection: the name of the one that selects.
          higher_is_better: of that score.
          samples: seen so far.
        """
        best = self.best_on_test and self.best_on_test["scores"][selection]
        if _is_better(scores[selection], best, higher_is_better):
            self.best_on_test = {"scores": dict(scores), "at_samples": samples}


def _is_better(score: float, best: float | None, higher_is_better: bool) -> bool:
    """Whether a score beats the best so far. One that is not a number is taken only while there is no other."""
    sign = 1 if higher_is_better else -1
    return best is None or best != best or sign * score > sign * best

"""Progress of one cohort in training, for the display and for listeners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxmatch.config.scores import SCORES
from jaxmatch.printable import count_text
from jaxmatch.reporting.records import read_record
from jaxmatch.sweep.following import FollowedRun, Following
from jaxmatch.training.progress import Listener

if TYPE_CHECKING:
    from jaxmatch.sweep.display import Display


def _record(run: FollowedRun) -> Mapping[str, Any] | None:
    """Returns a run's record, or None if it is not in the workdir yet.

    With a store, that is so if the command is interrupted before it has downloaded the record.
    """
    file = run.folder / "record.json"
    return read_record(file) if file.exists() else None


class CohortDisplay(Listener):
    """The display of one cohort in training.

    Arguments:
      display: the display of the whole sweep.
      name: the name of the cohort's folder.
      label: the name of the cohort in messages.
      work: the number of multiply-adds that its training takes.
      again: whether this process trained the cohort before, up to a rung.
      following: the listeners of its runs.
    """

    def __init__(self, display: Display, name: str, label: str, work: float, again: bool, following: Following):
        self._display, self._name, self._label, self._work, self._again = display, name, label, work, again
        self._reached, self._counted, self._following = 0.0, 0.0, following

    def begun(self, curves: Sequence[Sequence[Mapping]]) -> None:
        self._following.started(curves)

    def compiling(self, part: str, number: int, lengths: int) -> None:
        self._display.compiling(self._name, self._label, part, number, lengths)

    def compiled(self, part: str, seconds: float) -> None:
        self._display.compiled(self._name, part, seconds)

    def noted(self, run: int, evaluation: Mapping) -> None:
        self._following.evaluated(run, evaluation)

    def stepped(self, done: int, total: int) -> None:
        self._advance(done / total, here=True, label=self._label, steps=f"{done:,} of {total:,}")

    def evaluated(self, epoch: int, samples: int, score: str, scores: Sequence[float]) -> None:
        if scores:
            defined = [value for value in scores if not math.isnan(value)] or scores
            best = max(defined) if SCORES[score].higher_is_better else min(defined)
            several = f"best {best:.4f}, mean {sum(scores) / len(scores):.4f} of {len(scores)} runs"
            text = several if len(scores) > 1 else f"{scores[0]:.4f}"
            self._say(f"epoch {epoch}, {samples:,} pairs: dev {score} {text}")

    def resumed(self, done: int, total: int) -> None:
        if self._again:
            self._reached = done / total
        self._advance(done / total, here=False)  # earlier work says nothing about the speed here
        self._say(f"resumed from a checkpoint at step {done:,} of {total:,}")

    def fitted(self, part: str, at_once: int) -> None:
        self._say(f"device memory holds {count_text(at_once, 'run')} at once in {part}")

    def ran_out(self, part: str, at_once: int) -> None:
        self._display.slowed()
        self._say(f"out of memory in {part}; continuing with {count_text(at_once, 'run')} at once")

    def done(self) -> None:
        """Shows that the cohort is done and its records are written."""
        self._advance(1.0, here=False)
        self._following.ended(_record)
        self._say("done")

    def failed(self, message: str) -> None:
        """Shows that the cohort has failed. The others continue."""
        self._say(f"failed ({message})")

    def paused(self) -> None:
        """Shows that the cohort has reached a rung and waits there for the others."""
        self._display.pause(self._name)
        self._say("paused at the rung")

    def lost(self, reason: str) -> None:
        """Takes back the counted work, because the worker is gone.

        Another worker resumes from the last checkpoint, and counts the work up to there again.
        """
        self._display.advance(-self._counted, here=False)
        self._counted = 0.0
        self._say(f"{reason}; it resumes from its last checkpoint")

    def training_ended(self) -> None:
        """Shows that the cohort no longer trains for now, whatever the outcome."""
        self._following.ended()
        self._display.training_ended(self._name)

    def _advance(self, reached: float, **shown: Any) -> None:
        work, self._reached = (reached - self._reached) * self._work, reached
        self._counted += work
        self._display.advance(work, **shown)

    def _say(self, line: str) -> None:
        self._display.say(f"{self._label}: {line}")

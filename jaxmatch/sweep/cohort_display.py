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
    """A run's record; None where it has not come here yet, as from a store when this command is interrupted."""
    file = run.folder / "record.json"
    return read_record(file) if file.exists() else None


class CohortDisplay(Listener):
    """What is shown of a cohort in training.

    Arguments:
      display: of the whole sweep.
      name: of the cohort's folder.
      label: what it is called.
      work: multiplications that it takes.
      again: whether this process trained it before, up to a rung.
      following: calls the listeners of its runs.
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
        self._advance(done / total, here=False)  # what was done before says nothing about the speed here
        self._say(f"resumed from a checkpoint at step {done:,} of {total:,}")

    def fitted(self, part: str, at_once: int) -> None:
        self._say(f"device memory holds {count_text(at_once, 'run')} at once in {part}")

    def ran_out(self, part: str, at_once: int) -> None:
        self._display.slowed()
        self._say(f"out of memory in {part}; continuing with {count_text(at_once, 'run')} at once")

    def done(self) -> None:
        """Its records are written."""
        self._advance(1.0, here=False)
        self._following.ended(_record)
        self._say("done")

    def failed(self, message: str) -> None:
        """It has failed; the others continue."""
        self._say(f"failed ({message})")

    def paused(self) -> None:
        """It has come to a rung and waits there for the others."""
        self._display.pause(self._name)
        self._say("paused at the rung")

    def lost(self, reason: str) -> None:
        """Its worker is gone: what it has done since a checkpoint is to be done again, by another one."""
        self._display.advance(-self._counted, here=False)
        self._counted = 0.0
        self._say(f"{reason}; it resumes from its last checkpoint")

    def left(self) -> None:
        """Nothing more happens to it for now, whatever came of it."""
        self._following.ended()
        self._display.left(self._name)

    def _advance(self, reached: float, **told: Any) -> None:
        work, self._reached = (reached - self._reached) * self._work, reached
        self._counted += work
        self._display.advance(work, **told)

    def _say(self, line: str) -> None:
        self._display.say(f"{self._label}: {line}")

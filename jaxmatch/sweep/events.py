"""What a worker tells of its cohort, in a file that the driver reads: it passes through whatever the two share.

    WORKDIR/cohorts/COHORT/events.jsonl    an event a line: its attempt, a method of a listener, what it is given

An attempt is one task that was given to a worker. Of a worker that died, or was given up, nothing is shown any more.
"""

import contextlib
import functools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxmatch.sweep.cohort_display import CohortDisplay
from jaxmatch.sweep.engines import Work
from jaxmatch.sweep.grid import Run
from jaxmatch.workdir import CohortFolder

FILE = "events.jsonl"
SECONDS_BETWEEN_STEPS = 1.0
# "cohort", which makes the listener, and what training calls of it.
METHODS = frozenset(
    "cohort stepped evaluated begun noted compiling compiled resumed fitted ran_out done failed paused left".split()
)

Tell = Callable[[str, str, Sequence[Any]], None]


def writer(folder: CohortFolder, attempt: str) -> Tell:
    """What a worker tells: (name of the cohort, method, arguments). Each call is one line of the cohort's file.

    The file is opened for each, so that a network file system hands it on.
    """

    def tell(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        with open(folder.path.with_name(cohort) / FILE, "a", encoding="utf-8") as file:
            file.write(line_of(attempt, method, arguments))

    return tell


def line_of(attempt: str, method: str, arguments: Sequence[Any]) -> str:
    """An event as a line of the file."""
    return json.dumps([attempt, method, list(arguments)], default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """A number of numpy as Python's own."""
    return value.item()


class Telling:
    """Stands in a worker for the display (`claimed.Shown`).

    Arguments:
      tell: passes on what happens.
      clock: gives the time in seconds.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic):
        self._tell, self._clock = tell, clock

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> Any:
        """A cohort begins."""
        self._tell(folder.name, "cohort", ())
        return _TellingCohort(functools.partial(self._tell, folder.name), self._clock)


class _TellingCohort:
    """A listener that passes on all that it hears, steps once a second."""

    def __init__(self, tell: Callable[[str, Sequence[Any]], None], clock: Callable[[], float]):
        self._tell, self._clock, self._told_at = tell, clock, -SECONDS_BETWEEN_STEPS

    def __getattr__(self, method: str) -> Callable[..., None]:
        if method not in METHODS:
            raise AttributeError(method)
        return lambda *arguments: self._tell(method, arguments)

    def stepped(self, done: int, total: int) -> None:
        """At most once a second, but for the last."""
        now = self._clock()
        if done == total or now - self._told_at >= SECONDS_BETWEEN_STEPS:
            self._told_at = now
            self._tell("stepped", (done, total))


class Replay:
    """Shows on the driver's display what a worker tells of a cohort, in one attempt to train it.

    Arguments:
      work: what the cohort is of.
      folder: of the cohort.
      attempt: that has begun already, all of which is shown; None: a new one.
      until_ended: show only in `ended` that the cohort is done. Its records may not be in the folder before, as with a
        store.

    Attributes:
      attempt: to be given to the worker's `writer`.
      left: whether the worker has told that it trains no more.
    """

    def __init__(self, work: Work, folder: CohortFolder, attempt: str | None = None, until_ended: bool = False):
        self.attempt = secrets.token_hex(8) if attempt is None else attempt
        self._work, self._folder, self._file = work, folder, folder.path / FILE
        self._shown: CohortDisplay | None = None
        self._latest: CohortDisplay | None = None
        self.left, self._held = False, [] if until_ended else None
        # What others have told before is passed over.
        self._read = self._file.stat().st_size if attempt is None and self._file.exists() else 0

    def look(self) -> None:
        """Shows what is new."""
        told = self._new()
        if self._held is not None:
            self._held += told
            last = next((place for place, (_, method, _) in enumerate(self._held) if method == "done"), len(self._held))
            told, self._held = self._held[:last], self._held[last:]
        self._show(told)

    def _show(self, told: Iterable[Any]) -> None:
        for attempt, method, arguments in told:
            if attempt != self.attempt or method not in METHODS:
                continue
            if method == "cohort":
                self._begun()
            elif self._shown is not None:
                getattr(self._shown, method)(*arguments)
            if method == "left":
                self._shown, self.left = None, True

    def _begun(self) -> None:
        if self._shown is not None:
            self._shown.left()
        if self._latest is not None:  # a job that Slurm has queued again
            self._latest.lost("its job was queued again")
        runs = self._work.stage.left_of(self._work.plan, self._folder)
        self._shown = self._latest = self._work.display.cohort(self._folder, runs)
        self.left = False

    def ended(self, lost: str = "") -> None:
        """The attempt is over.

        Arguments:
          lost: why it did not come to its end.
        """
        self.look()
        self._show(self._held or ())
        if self._shown is not None:
            if not self._folder.done:  # a worker may die after its cohort was finished
                self._shown.lost(lost)
            self._shown.left()
            self._shown = None
        if self._folder.done:
            self._file.unlink(missing_ok=True)

    def _new(self) -> list[Any]:
        """The whole lines behind what was read."""
        try:
            with open(self._file, "rb") as file:
                file.seek(self._read)
                told = file.read()
        except FileNotFoundError:
            return []
        whole = told[: told.rfind(b"\n") + 1]
        self._read += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # cut short by a death or a full disk
                attempt, method, arguments = json.loads(line)
                found.append((attempt, method, arguments))
        return found

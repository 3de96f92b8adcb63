"""Events of a cohort, which a worker reports to the driver through a file.

    WORKDIR/cohorts/COHORT/events.jsonl    an event a line: its attempt, a method of a listener, its arguments

An attempt is one task that was given to a worker. Once a worker has died or was given up, its events are not shown any
more. With an object store, the worker sends the lines to the driver, which writes the file (`ray_places.py`).
"""

import contextlib
import functools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxmatch.sweep.display import CohortDisplay
from jaxmatch.sweep.engines import TaskContext
from jaxmatch.sweep.sweep import Run
from jaxmatch.workdir import CohortFolder

FILE = "events.jsonl"
SECONDS_BETWEEN_STEPS = 1.0
# "cohort", which makes the listener, and the methods of the listener that training calls.
METHODS = frozenset(
    "cohort stepped evaluated begun noted compiling compiled resumed fitted ran_out done failed paused "
    "training_ended".split()
)

Report = Callable[[str, str, Sequence[Any]], None]


def writer(folder: CohortFolder, attempt: str) -> Report:
    """Returns the function by which a worker reports an event: (name of the cohort, method, arguments).

    Each call appends a line to the cohort's file. It opens the file again, so that a network file system passes the
    line on.
    """

    def report(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        with open(folder.path.with_name(cohort) / FILE, "a", encoding="utf-8") as file:
            file.write(line_of(attempt, method, arguments))

    return report


def line_of(attempt: str, method: str, arguments: Sequence[Any]) -> str:
    """Returns an event as a line of the file."""
    return json.dumps([attempt, method, list(arguments)], default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Converts a NumPy number to a Python number."""
    return value.item()


class Reporter:
    """The display of a worker (`claimed.ProgressDisplay`), which passes on events.

    Arguments:
      report: the function that passes on an event.
      clock: the function that returns the time in seconds.
    """

    def __init__(self, report: Report, clock: Callable[[], float] = time.monotonic):
        self._report, self._clock = report, clock

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> Any:
        """Passes on the event that a cohort begins. Returns its listener."""
        self._report(folder.name, "cohort", ())
        return _CohortReporter(functools.partial(self._report, folder.name), self._clock)


class _CohortReporter:
    """A listener that passes on all events, but steps at most once a second."""

    def __init__(self, report: Callable[[str, Sequence[Any]], None], clock: Callable[[], float]):
        self._report, self._clock, self._stepped_at = report, clock, -SECONDS_BETWEEN_STEPS

    def __getattr__(self, method: str) -> Callable[..., None]:
        if method not in METHODS:
            raise AttributeError(method)
        return lambda *arguments: self._report(method, arguments)

    def stepped(self, done: int, total: int) -> None:
        """Passes on a step if a second has passed since the one before, or if it is the last."""
        now = self._clock()
        if done == total or now - self._stepped_at >= SECONDS_BETWEEN_STEPS:
            self._stepped_at = now
            self._report("stepped", (done, total))


class Replay:
    """The events of one attempt to train a cohort, shown on the driver's display.

    Arguments:
      context: what the cohort's task has in common with other tasks.
      folder: the folder of the cohort.
      attempt: the id of an attempt that has begun already; all its events are shown. None: a new attempt.
      until_ended: whether to show only in `ended` that the cohort is done. With a store, its records may not be in the
        folder before.

    Attributes:
      attempt: the id of the attempt, for the worker's `writer`.
      training_ended: whether the worker has reported that it no longer trains the cohort.
    """

    def __init__(
        self, context: TaskContext, folder: CohortFolder, attempt: str | None = None, until_ended: bool = False
    ):
        self.attempt = secrets.token_hex(8) if attempt is None else attempt
        self._context, self._folder, self._file = context, folder, folder.path / FILE
        self._shown: CohortDisplay | None = None
        self._latest: CohortDisplay | None = None
        self.training_ended, self._held = False, [] if until_ended else None
        # Events of earlier attempts are skipped.
        self._read = self._file.stat().st_size if attempt is None and self._file.exists() else 0

    def poll(self) -> None:
        """Shows new events."""
        events = self._new()
        if self._held is not None:
            self._held += events
            last = next((place for place, (_, method, _) in enumerate(self._held) if method == "done"), len(self._held))
            events, self._held = self._held[:last], self._held[last:]
        self._show(events)

    def _show(self, events: Iterable[Any]) -> None:
        for attempt, method, arguments in events:
            if attempt != self.attempt or method not in METHODS:
                continue
            if method == "cohort":
                self._begun()
            elif self._shown is not None:
                getattr(self._shown, method)(*arguments)
            if method == "training_ended":
                self._shown, self.training_ended = None, True

    def _begun(self) -> None:
        if self._shown is not None:
            self._shown.training_ended()
        if self._latest is not None:  # a job that Slurm has queued again
            self._latest.lost("its job was queued again")
        runs = self._context.stage.remaining_runs(self._context.plan, self._folder)
        self._shown = self._latest = self._context.display.cohort(self._folder, runs)
        self.training_ended = False

    def ended(self, lost: str = "") -> None:
        """Shows the remaining events, after the attempt is over.

        Arguments:
          lost: the reason, if the attempt ended before the cohort was done.
        """
        self.poll()
        self._show(self._held or ())
        if self._shown is not None:
            if not self._folder.done:  # a worker may die after its cohort was finished
                self._shown.lost(lost)
            self._shown.training_ended()
            self._shown = None
        if self._folder.done:
            self._file.unlink(missing_ok=True)

    def _new(self) -> list[Any]:
        """Returns the events of the complete lines that were not read yet."""
        try:
            with open(self._file, "rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # a line cut short by a death or a full disk
                attempt, method, arguments = json.loads(line)
                found.append((attempt, method, arguments))
        return found

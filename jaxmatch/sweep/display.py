"""The output of a launcher: the plan, then the progress of training, and listeners that follow the runs.

It goes to stderr; stdout is for the table.
"""

import dataclasses
import math
import re
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from jaxmatch.config.settings import SCORES
from jaxmatch.errors import InputError, count_text, printable
from jaxmatch.reporting.layout import duration_text, shared_text
from jaxmatch.reporting.records import read_record
from jaxmatch.sweep.files import load_module, load_named, user_file_errors
from jaxmatch.sweep.plan import Plan, PlannedCohort
from jaxmatch.sweep.sweep import Run
from jaxmatch.training.progress import Listener
from jaxmatch.workdir import CohortFolder

# Without a terminal to draw a bar in, a line reports the progress of training at this interval.
SECONDS_BETWEEN_LINES = 60.0
# The time left follows the speed of training over this long.
SECONDS_OF_SPEED = 600.0


@dataclasses.dataclass(frozen=True)
class FollowedRun:
    """A run in training.

    Attributes:
      name: the name of its folder, which stays the same when the run is resumed.
      sweep: the name of the sweep.
      folder: the folder that will hold its record and its model.
      seed: its seed.
      settings: its place in the grid: dotted name -> value, and "variant" -> the name of its variant if it has one.
      config: all its settings, as plain dicts.
    """

    name: str
    sweep: str
    folder: Path
    seed: int
    settings: Mapping[str, Any]
    config: Mapping[str, Any]


class RunListener:
    """Receives training events. Override the methods that you need.

    Calls never overlap, but many runs train at once: calls about other runs come between the start and the end of one.
    A listener that raises an exception is not called again, and training continues.
    """

    def started(self, run: FollowedRun, curve: Sequence[Mapping[str, Any]]) -> None:
        """Called when training begins or is resumed. `curve` holds the evaluations of the run before this point, as in
        `evaluated`. Later evaluations that were already reported are computed and reported again.
        """

    def evaluated(self, run: FollowedRun, evaluation: Mapping[str, Any]) -> None:
        """Called after an evaluation on dev: "samples" (pairs seen so far), "epoch", "train_loss", "learning_rate", and
        "dev", a dict of scores.
        """

    def ended(self, run: FollowedRun, record: Mapping[str, Any] | None) -> None:
        """Called when training ends, with the content of record.json. None: training is not finished. The run failed,
        was interrupted, or waits at a rung of successive halving.
        """


def listeners_of(names: Iterable[str]) -> list[RunListener]:
    """Creates the listeners that a command line names as "module:Class" or "file.py:Class".

    Raises:
      InputError: a class does not exist, is not a listener, or cannot be created.
    """
    made, remedy = [], "give --log module:Class or file.py:Class"
    for name in dict.fromkeys(names):
        place, _, attribute = name.rpartition(":")
        if not place:
            raise InputError(f"there is no log {name!r}", remedy=remedy)
        module = load_module(Path(place)) if place.endswith(".py") else load_named(place, remedy)
        listener_class = getattr(module, attribute, None)
        if not (isinstance(listener_class, type) and issubclass(listener_class, RunListener)):
            problem = f"{place} has no listener {attribute!r}"
            raise InputError(problem, remedy="derive the class from jaxmatch.RunListener")
        with user_file_errors(Path(place)):
            made.append(listener_class())
    return made


def plan_text(plan: Plan, finished: set[str]) -> str:
    """Describes a plan: its runs, some of which have finished, and what remains: programs, cohorts, steps, time."""
    runs, cohorts = plan.runs, plan.missing(finished)
    begin = f"sweep {plan.sweep.name}: {count_text(len(runs), 'run')}"
    if not cohorts:
        return f"{begin}, all on record"
    programs, steps = len({cohort.signature for cohort in cohorts}), sum(cohort.steps for cohort in cohorts)
    lines = [
        f"{begin} ({len(runs) - sum(len(cohort.runs) for cohort in cohorts):,} on record); remaining: "
        f"{count_text(programs, 'program')}, {count_text(len(cohorts), 'cohort')}, {count_text(steps, 'training step')}"
    ]
    for number, cohort in enumerate(cohorts, start=1):
        some = f", {cohort.chunk_size:,}" * (cohort.chunk_size < len(cohort.runs))
        lines.append(
            f"  cohort {number}: {_shared(cohort.runs)}: {count_text(len(cohort.runs), 'run')}{some} at once, "
            f"{count_text(cohort.lengths, 'padded length')}, {count_text(cohort.steps_per_epoch, 'step')} x "
            f"{count_text(cohort.runs[0].config.training.epochs, 'epoch')}, {cohort.run_bytes / 2**20:,.0f} MiB a run"
        )
    lines += dict.fromkeys(line for cohort in cohorts for line in _left_out(cohort.data.name, cohort.data.report))
    if plan.workers is not None:
        lines.append(f"  trained by {count_text(plan.workers, 'worker')} at once")
    seconds = [cohort.seconds for cohort in cohorts]
    training = duration_text(max(sum(seconds) / (plan.workers or 1), *seconds))
    compiled = sum({cohort.program: cohort.compilations for cohort in cohorts}.values())
    compiling = duration_text(compiled * cohorts[0].compilation_seconds)
    lines += [
        f"  estimated training time: {training} with scoring, if no run stops early{plan.note}",
        f"  estimated compilation time: {compiling} for {count_text(compiled, 'compilation')} in training and scoring; "
        "less for what was compiled before",
    ]
    return "\n".join(lines)


def _shared(runs: Sequence[Run]) -> str:
    """Returns the grid settings that the runs of a cohort share, or the name of their model if they share none."""
    return shared_text([(run.overrides, run.variant) for run in runs]) or runs[0].config.model.name


def _left_out(name: str, report: Mapping[str, Any]) -> list[str]:
    """Returns lines about what was left out when a data set was read, pairs and vectors, and its warnings."""
    lines = []
    dropped = report.get("dropped", {}).items()
    if counts := [f"{n:,} of {split} ({why})" for split, reasons in dropped for why, n in reasons.items() if n]:
        lines.append(f"  pairs of {name} left out: {', '.join(counts)}")
    if broken := report.get("broken_vector_lines", 0):
        example = "".join(f" ({first})" for first in report.get("broken_vector_examples", [])[:1])
        lines.append(f"  damaged lines of the vectors {report['vectors']} left out: {broken:,}{example}")
    return lines + [f"  warning about {name}: {warning}" for warning in report.get("warnings", ())]


class CohortDisplay(Listener):
    """The display of one cohort in training: its plan, the name of its folder, its name in messages, and its runs."""

    def __init__(self, display: "Display", cohort: PlannedCohort, name: str, label: str, runs: Sequence[FollowedRun]):
        self._display, self._cohort, self._name, self._label, self._runs = display, cohort, name, label, runs
        self._begun = False

    def begun(self, curves: Sequence[Sequence[Mapping]]) -> None:
        self._begun = True
        for run, curve in zip(self._runs, curves, strict=True):
            self._display.tell_listeners("started", run, [*curve])

    def noted(self, run: int, evaluation: Mapping) -> None:
        self._display.tell_listeners("evaluated", self._runs[run], evaluation)

    def compiling(self, part: str, number: int, lengths: int) -> None:
        number += self._cohort.lengths * (part == "evaluation")  # scoring is compiled after training
        text = f"{self._label}: compiling {number} of {self._cohort.compilations}"
        self._display.progress(text, text)

    def stepped(self, done: int, total: int) -> None:
        self._display.reached(self._name, self._cohort, done / total, made_here=True)
        self._display.progress(self._label, f"{self._label}: {done:,} of {total:,} steps")

    def evaluated(self, epoch: int, samples: int, score: str, scores: Sequence[float], stopped: int) -> None:
        if scores:
            defined = [value for value in scores if not math.isnan(value)] or scores
            best = max(defined) if SCORES[score].higher_is_better else min(defined)
            several = f"best {best:.4f}, mean {sum(scores) / len(scores):.4f} of {len(scores)} runs"
            several += f", {stopped} of which stopped and count with their best" * bool(stopped)
            text = several if len(scores) > 1 else f"{scores[0]:.4f}"
            self._say(f"epoch {epoch}, {samples:,} pairs: dev {score} {text}")

    def resumed(self, done: int, total: int) -> None:
        self._display.reached(self._name, self._cohort, done / total)  # earlier work says nothing about the speed here
        epoch, rest = divmod(done, self._cohort.steps_per_epoch)
        where = f"in epoch {epoch + 1}" if rest else f"after epoch {epoch}"
        self._say(f"continues {where} (step {done:,} of {total:,})")

    def ran_out(self, part: str, at_once: int) -> None:
        self._say(f"out of memory in {part}; continuing with {count_text(at_once, 'run')} at once")

    def ended(self, line: str = "", finished: bool = False) -> None:
        """Called when the cohort no longer trains for now. `finished`: its records are written."""
        if finished:
            self._display.reached(self._name, self._cohort, 1.0)
        for run in self._runs if self._begun else ():
            record = read_record(run.folder / "record.json") if finished else None
            self._display.tell_listeners("ended", run, record)
        self._begun = False
        if line:
            self._say(line)

    def _say(self, line: str) -> None:
        self._display.say(f"{self._label}: {line}")


class Times(ProgressColumn):
    """The time of the training, and about how much is left once this is known: "elapsed 0:47, about 1:49 left"."""

    def render(self, task: Task) -> Text:
        clocks = (str(timedelta(seconds=int(each or 0))) for each in (task.elapsed, task.time_remaining))
        elapsed, left = (re.sub("^0:0?", "", clock) for clock in clocks)
        return Text(f"elapsed {elapsed}" + f", about {left} left" * (task.time_remaining is not None))


class Display:
    """Live progress of a sweep: one bar with the time left (or a line a minute), and a line for every evaluation.

    Arguments:
      console: the console to write to; default: stderr.
      clock: the function that returns the time in seconds.

    Attributes:
      listeners: the listeners of every run. One that fails is removed.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self.listeners: list[RunListener] = []
        self._clock = clock
        # In a notebook, rich would bypass the file with HTML, and take FORCE_COLOR, which is set, for a terminal.
        self.console = console or Console(
            file=sys.stderr, highlight=False, soft_wrap=True, force_jupyter=False, force_terminal=sys.stderr.isatty()
        )
        self._bar: Progress | None = None
        self._said_waiting = False

    def show(self, text: str) -> None:
        """Prints lines. Control characters in them, such as those of labels or file names, are escaped."""
        self.console.print(printable(text, keep="\n"), markup=False)

    def say(self, line: str) -> None:
        """Prints a single line. Line breaks in it are escaped, too."""
        self.show(printable(line))

    def begin(self, plan: Plan, finished: set[str], note: str = "", share: float = 1.0) -> None:
        """Shows the plan with a note, and starts the bar, for the share of the work that is expected to be done."""
        self.show("\n".join([plan_text(plan, finished), *([note] if note else [])]))
        missing = plan.missing(finished)
        # The number of each run's cohort, as in the plan that was shown.
        self._numbers = {run: number for number, cohort in enumerate(missing, start=1) for run in cohort.names()}
        self._plan, self._line_at = plan, self._clock()
        self._reached: dict[str, float] = {}  # name of a cohort -> share of its steps
        if not missing:
            return
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            Times(),
            console=self.console,
            disable=not self.console.is_terminal,
            speed_estimate_period=SECONDS_OF_SPEED,
            get_time=self._clock,
        )
        self._bar.add_task("training", total=share * sum(cohort.seconds for cohort in missing))
        self._bar.start()

    def cohort(self, folder: CohortFolder, dropped: Container[str]) -> CohortDisplay:
        """Shows that a cohort begins, with its runs that were not dropped. Returns the listener of its progress."""
        cohort, followed = self._plan.cohort_of(folder.runs), []
        last = max(self._numbers.values(), default=0) + 1  # of a run on record, which may be trained again
        number = min(self._numbers.get(run, last) for run in folder.runs)
        named = list(zip(folder.runs, cohort.runs, strict=True))
        runs = [run for name, run in named if name not in dropped] or cohort.runs
        label = f"cohort {number} ({_shared(runs)})"
        self.say(f"{label}: {count_text(len(runs), 'run')}, compiling")
        for name, run in named:
            settings = ({"variant": run.variant} if run.variant else {}) | dict(run.overrides)
            where = self._plan.sweep.name, folder.workdir.run_folder(name)
            followed.append(FollowedRun(name, *where, run.seed, settings, run.config.to_dict()))
        return CohortDisplay(self, cohort, folder.name, label, followed)

    def tell_listeners(self, method: str, run: FollowedRun, *values: Any) -> None:
        """Calls a method of all listeners."""
        for listener in [*self.listeners]:
            try:
                getattr(listener, method)(run, *values)
            except Exception as error:
                self.listeners.remove(listener)
                name = type(listener).__name__
                self.say(f"{name}.{method} failed ({type(error).__name__}: {error}); {name} is not called again")

    def reached(self, name: str, cohort: PlannedCohort, share: float, made_here: bool = False) -> None:
        """Records that a cohort, by the name of its folder, has reached a share of its steps, made here or earlier."""
        work = (share - self._reached.get(name, 0.0)) * cohort.seconds
        self._reached[name] = share
        if bar := self._bar:
            made = work if made_here and work > 0 else 0.0
            bar.update(bar.task_ids[0], advance=made, total=bar.tasks[0].total - (work - made))

    def progress(self, description: str, line: str) -> None:
        """Shows the progress of the sweep: in the bar or, without a terminal, as a line once a minute."""
        if (bar := self._bar) is None:
            return
        bar.update(bar.task_ids[0], description=printable(description))
        if not self.console.is_terminal and self._clock() - self._line_at > SECONDS_BETWEEN_LINES:
            self.say(f"{line} (sweep: {Times().render(bar.tasks[0])})")
            self._line_at = self._clock()

    def rung(self, epochs: int, score: str, means: Sequence[float | None], settings: int, go_on: int) -> None:
        """Shows how many of the settings continue after the rung at `epochs`, and the mean scores of the best ones."""
        last = next((mean for mean in reversed(means[:go_on]) if mean is not None), None)
        spread = "" if last is None or means[0] is None else f" (mean {score} so far {means[0]:.4f} to {last:.4f})"
        self.say(f"rung after epoch {epochs}: {go_on} of {settings} settings continue{spread}")

    def waiting(self, cohorts: int) -> None:
        """Shows once that another launcher trains the remaining cohorts."""
        if not self._said_waiting:
            self.say(f"waiting for another launcher that trains {count_text(cohorts, 'cohort')} of this folder")
        self._said_waiting = True

    def end(self) -> None:
        """Ends the display: stops the progress bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None

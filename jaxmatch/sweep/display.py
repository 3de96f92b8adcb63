"""The output of a launcher: the plan, then the progress of training, and listeners that follow the runs.

It goes to stderr; stdout is for the table.
"""

import dataclasses
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from jaxmatch.config.settings import SCORES
from jaxmatch.errors import InputError, NotInstalled, count_text, printable
from jaxmatch.reporting.layout import duration_text, shared_text
from jaxmatch.reporting.records import read_record
from jaxmatch.sweep.files import load_module, load_named, user_file_errors
from jaxmatch.sweep.plan import SHARE_OF_PEAK, Plan, PlannedCohort, makespan, multiply_adds_a_second, program_counts
from jaxmatch.sweep.sweep import Run
from jaxmatch.training.progress import Listener
from jaxmatch.workdir import CohortFolder, Workdir

# Without a terminal to draw a bar in, a line reports the progress of training at this interval.
SECONDS_BETWEEN_LINES = 60.0
# The time left follows the speed of training over this long. It includes compilation and scoring.
SECONDS_OF_SPEED = 600.0
# The seconds that a program is assumed to take to compile. On a CPU, 36 programs of RE2 with one to five blocks took
# 359 s (benchmarks/results/earlier.md, "9 programs, first launch"). For an H200, programs of RE2 took 12 to 14 s beside
# eleven others (benchmarks/results/README.md). A TPU's compiler takes longer.
SECONDS_TO_COMPILE_ON_A_CPU, SECONDS_TO_COMPILE_ELSEWHERE = 10.0, 20.0
TENSORBOARD = "tensorboard"
METHODS = ("started", "evaluated", "ended")


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
    """

    def started(self, run: FollowedRun, curve: Sequence[Mapping[str, Any]]) -> None:
        """Called when training begins or is resumed.

        Arguments:
          run: the run.
          curve: its evaluations before this point, as in `evaluated`. Later evaluations that were already reported are
            computed and reported again.
        """

    def evaluated(self, run: FollowedRun, evaluation: Mapping[str, Any]) -> None:
        """Called after the run was evaluated on dev.

        Arguments:
          run: the run.
          evaluation: "samples" (pairs seen so far), "epoch", "train_loss", "learning_rate", and "dev", a dict of
            scores.
        """

    def ended(self, run: FollowedRun, record: Mapping[str, Any] | None) -> None:
        """Called when training ends.

        Arguments:
          run: the run.
          record: its record, as in record.json. None if training is not finished: the run failed, was interrupted, or
            waits at a rung of successive halving.
        """


class Following:
    """The listeners of a cohort's runs.

    A listener that raises an exception is removed, and training continues.

    Arguments:
      listeners: the listeners to call. A listener that fails is removed from this list.
      runs: the runs, in the order of the cohort.
      say: the function that prints a line.
    """

    _lock = threading.RLock()  # cohorts train side by side

    def __init__(self, listeners: list[RunListener], runs: Sequence[FollowedRun], say: Callable[[str], None]):
        self._listeners, self._runs, self._say = listeners, runs, say
        self._open: set[int] = set()

    def started(self, curves: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Calls `started` for all runs. `curves` holds the curve of each run so far."""
        for position, curve in enumerate(curves):
            self._call_listeners("started", position, [*curve])
            self._open.add(position)

    def evaluated(self, position: int, evaluation: Mapping[str, Any]) -> None:
        """Calls `evaluated` for a run of the cohort."""
        self._call_listeners("evaluated", position, evaluation)

    def ended(self, record_of: Callable[[FollowedRun], Mapping[str, Any] | None] = lambda run: None) -> None:
        """Calls `ended` for all runs that have started, with their records or None."""
        for position in sorted(self._open):
            self._call_listeners("ended", position, record_of(self._runs[position]) if self._listeners else None)
        self._open.clear()

    def _call_listeners(self, method: str, position: int, *values: Any) -> None:
        with self._lock:
            for listener in [*self._listeners]:
                try:
                    getattr(listener, method)(self._runs[position], *values)
                except Exception as error:
                    self._listeners.remove(listener)
                    name = type(listener).__name__
                    self._say(f"{name}.{method} failed ({type(error).__name__}: {error}); {name} is not called again")


class TensorBoard(RunListener):
    """A listener that writes the curves of runs for TensorBoard. A step is one pair seen in training.

    Arguments:
      folder: the folder to write to. Each run has a subfolder with its name.

    Raises:
      InputError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path):
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise NotInstalled("--log tensorboard", "TensorBoard", "tensorboard") from None
        self._folder, self._make_writer = Path(folder), EventFileWriter
        self._events, self._summaries = event_pb2, summary_pb2
        self._writers: dict[str, Any] = {}

    def started(self, run: FollowedRun, curve: Sequence[Mapping[str, Any]]) -> None:
        self._close(run)
        folder = self._folder / run.name
        known = any(folder.glob("events.out.tfevents.*"))
        writer = self._writers[run.name] = self._make_writer(str(folder))
        # Tells readers to drop the events of earlier files from this step on, because they are written again.
        log = self._events.SessionLog(status=self._events.SessionLog.START)
        begin = curve[-1]["samples"] + 1 if curve and known else 0
        writer.add_event(self._events.Event(wall_time=time.time(), step=begin, session_log=log))
        for evaluation in [] if known else curve:
            self.evaluated(run, evaluation)
        writer.flush()

    def evaluated(self, run: FollowedRun, evaluation: Mapping[str, Any]) -> None:
        values = {"train/loss": evaluation["train_loss"], "learning_rate": evaluation["learning_rate"]}
        self._write(run, evaluation["samples"], values | _named("dev", evaluation["dev"]))

    def ended(self, run: FollowedRun, record: Mapping[str, Any] | None) -> None:
        if record is not None and record["test"] and record["selected_at_samples"] is not None:
            self._write(run, record["selected_at_samples"], _named("test", record["test"]))
        self._close(run)

    def _write(self, run: FollowedRun, step: int, values: Mapping[str, float | None]) -> None:
        value = self._summaries.Summary.Value
        summary = self._summaries.Summary(
            value=[value(tag=tag, simple_value=number) for tag, number in values.items() if number is not None]
        )
        writer = self._writers[run.name]
        writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
        writer.flush()

    def _close(self, run: FollowedRun) -> None:
        if writer := self._writers.pop(run.name, None):
            writer.close()


def _named(split: str, scores: Mapping[str, float | None]) -> dict[str, float | None]:
    return {f"{split}/{name}": value for name, value in scores.items()}


def listeners_of(names: Iterable[str], workdir: Path) -> list[RunListener]:
    """Creates the listeners that a command line names.

    Arguments:
      names: the names, each "tensorboard", "module:Class" or "file.py:Class". A class is called without arguments.
      workdir: the folder of the sweep.

    Raises:
      InputError: a class does not exist, is not a listener, or cannot be created.
    """
    return [_listener(name, workdir) for name in dict.fromkeys(names)]


def _listener(name: str, workdir: Path) -> RunListener:
    if name == TENSORBOARD:
        return TensorBoard(workdir / TENSORBOARD)
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute.isidentifier():
        raise InputError(f"there is no log {name!r}", remedy=f"give --log {TENSORBOARD}, module:Class or file.py:Class")
    listener_class = _class_of(place, attribute)
    with user_file_errors(Path(place)):
        listener = listener_class()
    missing = [method for method in METHODS if not callable(getattr(listener, method, None))]
    if missing:
        raise InputError(f"{name} has no method {missing[0]}", remedy="derive it from jaxmatch.RunListener")
    return listener


def _class_of(place: str, attribute: str) -> Callable[[], Any]:
    if place.endswith(".py"):
        module = load_module(Path(place))
    else:
        module = load_named(place, "give --log module:Class or file.py:Class")
    listener_class = getattr(module, attribute, None)
    if not callable(listener_class):
        raise InputError(f"{place} has no class {attribute!r}", remedy="give --log module:Class")
    return listener_class


def _shared(runs: Sequence[Run]) -> str:
    """Returns the grid settings that the runs of a cohort share, or the name of their model if they share none."""
    return shared_text([(run.overrides, run.variant) for run in runs]) or runs[0].config.model.name


def _training_seconds(plan: Plan, cohorts: Sequence[PlannedCohort]) -> float:
    """Returns the expected training time of some cohorts of a plan, in seconds."""
    if plan.slots is None:
        work = makespan([(cohort.devices, cohort.device_work) for cohort in cohorts], cohorts[0].available)
    else:  # each cohort has the devices of a worker to itself
        work = makespan([(1, cohort.device_work) for cohort in cohorts], max(1, plan.slots))
    return work / ((plan.speed or multiply_adds_a_second()) * SHARE_OF_PEAK)


def _speed_note(plan: Plan) -> str:
    """Returns a remark for the time estimate if the speed of the workers was not measured, otherwise ""."""
    unknown = plan.slots is not None and plan.speed is None
    return "; at the speed of this machine's CPU, since that of the jobs is not known" if unknown else ""


def plan_text(plan: Plan, finished: set[str]) -> str:
    """Describes a plan in a few lines: runs, and what remains: programs, cohorts, steps, memory, estimated time.

    Arguments:
      plan: the plan of the whole sweep.
      finished: the names of the runs that are on record. They are counted, but not as remaining work.
    """
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
        megabytes = cohort.replica_bytes / 2**20
        epochs, runs_at_once = cohort.runs[0].config.training.epochs, f"{count_text(len(cohort.runs), 'run')} at once"
        if cohort.chunk_size < len(cohort.runs):
            runs_at_once = f"{count_text(len(cohort.runs), 'run')}, {cohort.chunk_size:,} at once"
        lines.append(
            f"  cohort {number}: {_shared(cohort.runs)}: {runs_at_once}, "
            f"{count_text(cohort.lengths, 'padded length')}, "
            f"{count_text(cohort.steps_per_epoch, 'step')} x {count_text(epochs, 'epoch')}, {megabytes:,.0f} MiB a run"
        )
    lines += _left_out(cohorts)
    if cohorts[0].platform != "cpu":
        lines.append("  the compiled programs decide how many runs fit at once")
    if plan.slots is not None:
        lines.append(f"  trained by {count_text(plan.slots, 'worker')} at once")
    compiled = sum(sum(parts.values()) for parts in program_counts(cohorts).values())
    each = SECONDS_TO_COMPILE_ON_A_CPU if cohorts[0].platform == "cpu" else SECONDS_TO_COMPILE_ELSEWHERE
    lines += [
        f"  estimated training time: {duration_text(_training_seconds(plan, cohorts))} with scoring, "
        f"if no run stops early{_speed_note(plan)}",
        f"  estimated compilation time: {duration_text(compiled * each)} "
        f"for {count_text(compiled, 'compilation')} in training and scoring; less for what was compiled before",
    ]
    return "\n".join(lines)


def _left_out(cohorts: Sequence[PlannedCohort]) -> list[str]:
    """Returns lines about the pairs and vector lines that were left out when a data set was read, and its warnings."""
    lines = []
    for data in {cohort.data.fingerprint: cohort.data for cohort in cohorts}.values():
        of_splits = [
            f"{count:,} of {split} ({reason})"
            for split, reasons in data.report.get("dropped", {}).items()
            for reason, count in reasons.items()
            if count
        ]
        if of_splits:
            lines.append(f"  pairs of {data.name} left out: {', '.join(of_splits)}")
        if broken := data.report.get("broken_vector_lines", 0):
            example = "".join(f" ({first})" for first in data.report.get("broken_vector_examples", [])[:1])
            lines.append(f"  damaged lines of the vectors {data.report['vectors']} left out: {broken:,}{example}")
        lines += [f"  warning about {data.name}: {warning}" for warning in data.report.get("warnings", ())]
    return list(dict.fromkeys(lines))


def _record(run: FollowedRun) -> Mapping[str, Any] | None:
    """Returns a run's record, or None if it is not in the workdir."""
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

    def __init__(self, display: "Display", name: str, label: str, work: float, again: bool, following: Following):
        self._display, self._name, self._label, self._work, self._again = display, name, label, work, again
        self._reached, self._counted, self._following = 0.0, 0.0, following

    def begun(self, curves: Sequence[Sequence[Mapping]]) -> None:
        self._following.started(curves)

    def compiling(self, part: str, number: int, lengths: int) -> None:
        scoring = " the scoring" if part == "evaluation" else ""
        text = f"{self._label}: compiling{scoring}, length {number} of {lengths}"
        self._display.progress(text, text)

    def noted(self, run: int, evaluation: Mapping) -> None:
        self._following.evaluated(run, evaluation)

    def stepped(self, done: int, total: int) -> None:
        self._display.advance(self._work_until(done / total))
        self._display.progress(self._label, f"{self._label}: {done:,} of {total:,} steps")

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
        self._display.leave_out(self._work_until(done / total))  # earlier work says nothing about the speed here
        self._say(f"resumed from a checkpoint at step {done:,} of {total:,}")

    def fitted(self, part: str, at_once: int) -> None:
        self._say(f"device memory holds {count_text(at_once, 'run')} at once in {part}")

    def ran_out(self, part: str, at_once: int) -> None:
        self._say(f"out of memory in {part}; continuing with {count_text(at_once, 'run')} at once")

    def done(self) -> None:
        """Shows that the cohort is done and its records are written."""
        self._display.leave_out(self._work_until(1.0))
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
        self._display.leave_out(-self._counted)
        self._counted = 0.0
        self._say(f"{reason}; it resumes from its last checkpoint")

    def training_ended(self) -> None:
        """Shows that the cohort no longer trains for now, whatever the outcome."""
        self._following.ended()

    def _work_until(self, reached: float) -> float:
        """Returns the multiply-adds from the share of training that was reached before to another one."""
        work, self._reached = (reached - self._reached) * self._work, reached
        self._counted += work
        return work

    def _say(self, line: str) -> None:
        self._display.say(f"{self._label}: {line}")


class Display:
    """Live progress of a sweep: one bar with the time left (or a line a minute), and a line for every evaluation.

    Arguments:
      console: the console to write to; default: stderr.
      clock: the function that returns the time in seconds.

    Attributes:
      listeners: the listeners of every run.
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
        (self._bar.console if self._bar else self.console).print(printable(text, keep="\n"), markup=False)

    def begin(self, plan: Plan, finished: set[str], note: str = "", share: float = 1.0) -> None:
        """Shows the plan and starts the progress bar.

        Arguments:
          plan: the plan of the whole sweep.
          finished: the names of the runs that are on record.
          note: a line to add to the plan.
          share: the fraction of the work that is expected to be done.
        """
        self.show("\n".join([plan_text(plan, finished), *([note] if note else [])]))
        missing = plan.missing(finished)
        # The number of each run's cohort, as in the plan that was shown.
        self._numbers = {run: number for number, cohort in enumerate(missing, start=1) for run in cohort.names()}
        self._plan, self._paused, self._line_at = plan, set(), self._clock()
        if not missing:
            return
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            speed_estimate_period=SECONDS_OF_SPEED,
            get_time=self._clock,
        )
        # In multiply-adds.
        self._bar.add_task("training", total=share * sum(cohort.device_work * cohort.devices for cohort in missing))
        self._bar.start()

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> CohortDisplay:
        """Shows that a cohort begins. Returns the listener that shows its progress."""
        known = [self._numbers[run] for run in folder.runs if run in self._numbers]
        number = min(known, default=len(set(self._numbers.values())) + 1)  # a run on record may be trained again
        cohort = self._plan.cohort_of(folder.runs)
        label, paused = f"cohort {number} ({_shared(runs)})", folder.name in self._paused
        self.say(f"{label}: {count_text(len(runs), 'run')}, compiling")
        followed = Following(self.listeners, [self._followed(folder, name) for name in folder.runs], self.say)
        return CohortDisplay(self, folder.name, label, cohort.device_work * cohort.devices, paused, followed)

    def _followed(self, folder: CohortFolder, name: str) -> FollowedRun:
        run, place = self._plan.runs[name][0], Workdir(folder.path.parent.parent).run_folder(name)
        variant = {"variant": run.variant} if run.variant else {}
        return FollowedRun(
            name, self._plan.sweep.name, place, run.seed, variant | dict(run.overrides), run.config.to_dict()
        )

    def advance(self, work: float) -> None:
        """Records multiply-adds that this process has done. Negative: steps are repeated."""
        if bar := self._bar:
            bar.update(bar.task_ids[0], advance=work)

    def leave_out(self, work: float) -> None:
        """Records multiply-adds that this process need not do, such as those before a checkpoint. Negative: it must."""
        if bar := self._bar:
            bar.update(bar.task_ids[0], total=bar.tasks[0].total - work)

    def progress(self, description: str, line: str) -> None:
        """Shows the progress of the sweep: in the bar or, without a terminal, as a line once a minute."""
        if (bar := self._bar) is None:
            return
        bar.update(bar.task_ids[0], description=printable(description))
        if not self.console.is_terminal and self._clock() - self._line_at > SECONDS_BETWEEN_LINES:
            left = bar.tasks[0].time_remaining
            self.say(line if left is None else f"{line}, about {duration_text(left)} left for the whole sweep")
            self._line_at = self._clock()

    def pause(self, name: str) -> None:
        """Records that a cohort waits at a rung. When it continues, its work so far is not counted again."""
        self._paused.add(name)

    def rung(self, epochs: int, score: str, means: Sequence[float | None], settings: int, go_on: int) -> None:
        """Shows how many settings continue after a rung.

        Arguments:
          epochs: the place of the rung, in epochs.
          score: the score by which settings were compared.
          means: the mean scores of the settings that did not diverge, the best first.
          settings: the number of settings that were compared.
          go_on: the number of settings that continue.
        """
        last = next((mean for mean in reversed(means[:go_on]) if mean is not None), None)
        spread = "" if last is None or means[0] is None else f" (mean {score} so far {means[0]:.4f} to {last:.4f})"
        self.say(f"rung after epoch {epochs}: {go_on} of {settings} settings continue{spread}")

    def saved(self, saving: Mapping[str, Mapping[str, float]]) -> None:
        """Shows, at the end, what successive halving has saved (`halving.saving`)."""
        steps = ", ".join(
            f"{saving[part]['made']:,.0f} of {saving[part]['whole']:,.0f} {part.replace('_', ' ')}"
            + (f" ({100 * saving[part]['made'] / saving[part]['whole']:.0f}%)" if saving[part]["whole"] else "")
            for part in ("lockstep_steps", "replica_steps")
        )
        seconds, compiling = saving["train_seconds"], saving["compile_seconds"]["made"]
        self.say(
            f"successive halving: {steps}; trained for {duration_text(seconds['made'])}, the whole grid would take "
            f"about {duration_text(seconds['whole'])}; compilation {duration_text(compiling)}"
        )

    def waiting(self, cohorts: int) -> None:
        """Shows once that another launcher trains the remaining cohorts."""
        if not self._said_waiting:
            self.say(f"waiting for another launcher that trains {count_text(cohorts, 'cohort')} of this folder")
        self._said_waiting = True

    def best(self, record: Mapping[str, Any], folder: Path) -> None:
        """Shows the best trained model, once all runs are on record."""
        score = record["dev"][record["selected_on"].removeprefix("dev.")]
        self.say(f"best on dev: {folder} ({record['selected_on']} {score:.4f}, seed {record['seed']})")

    def end(self) -> None:
        """Ends the display: stops the progress bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def say(self, line: str) -> None:
        """Prints a single line. Line breaks in it are escaped, too."""
        self.show(printable(line))

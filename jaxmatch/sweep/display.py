"""The output of a launcher: the plan, then the progress of training. It goes to stderr; stdout is for the table."""

import datetime
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from jaxmatch.printable import count_text, printable
from jaxmatch.reporting.layout import duration_text, shared_text
from jaxmatch.sweep.cohort_display import CohortDisplay
from jaxmatch.sweep.device_jobs import DeviceJob, makespan
from jaxmatch.sweep.following import FollowedRun, Following, RunListener
from jaxmatch.sweep.grid import Run
from jaxmatch.sweep.plan import Plan, PlannedCohort, program_counts
from jaxmatch.sweep.speed import SHARE_OF_PEAK, multiply_adds_a_second
from jaxmatch.sweep.time_left import TimeLeft, assumed_seconds
from jaxmatch.workdir import CohortFolder, Workdir

# Without a terminal to draw a bar in, a line reports the progress of training at this interval.
SECONDS_BETWEEN_LINES = 60.0


def _shared(runs: Sequence[Run]) -> str:
    """Returns the grid settings that the runs of a cohort share, or the name of their model if they share none."""
    return shared_text([(run.overrides, run.variant) for run in runs]) or runs[0].config.model.name


def _training_seconds(plan: Plan, cohorts: Sequence[PlannedCohort]) -> float:
    """Returns the expected training time of some cohorts of a plan, in seconds."""
    if plan.slots is None:
        work = makespan([DeviceJob(cohort.devices, cohort.device_work) for cohort in cohorts], cohorts[0].available)
    else:  # each cohort has the devices of a worker to itself
        work = makespan([DeviceJob(1, cohort.device_work) for cohort in cohorts], max(1, plan.slots))
    return work / ((plan.speed or multiply_adds_a_second()) * SHARE_OF_PEAK)


def _speed_note(plan: Plan) -> str:
    """Returns a remark for the time estimate if the speed of the workers was not measured, otherwise ""."""
    unknown = plan.slots is not None and plan.speed is None
    return "; at the speed of this machine's CPU, since that of the jobs is not known" if unknown else ""


def _platform(cohorts: Sequence[PlannedCohort]) -> str:
    """Returns the platform of the devices that the cohorts are planned for: "cpu" or "accelerator"."""
    return "cpu" if cohorts[0].needs.most is not None else "accelerator"


def _clock_text(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


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
        lines.append(
            f"  cohort {number}: {_shared(cohort.runs)}: {count_text(len(cohort.runs), 'run')} at once, "
            f"{count_text(cohort.buckets, 'padded length')}, {count_text(cohort.steps_per_epoch, 'step')} x "
            f"{count_text(cohort.runs[0].config.training.epochs, 'epoch')}, {megabytes:,.0f} MiB a run"
        )
        if not cohort.fits:
            longest = f"{cohort.data.splits['train'].lengths.max():,} tokens in its longest pair"
            lines.append(f"    more than a device has, as estimated: {longest}; see --config.data.maximum_length")
    lines += _left_out(cohorts)
    if cohorts[0].needs.most is None:
        lines.append("  memory is an estimate; the compiled programs decide how many runs fit at once")
    if plan.slots is not None:
        lines.append(f"  trained by {count_text(plan.slots, 'worker')} at once")
    compiled = sum(sum(parts.values()) for parts in program_counts(cohorts).values())
    each = assumed_seconds(_platform(cohorts))
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


class Display:
    """Live progress of a sweep: one bar with the time left (or a line a minute), and a line for every evaluation.

    Arguments:
      console: the console to write to; default: stderr.
      clock: the function that returns the time in seconds.

    Attributes:
      listeners: the listeners of every run (`following.py`).
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self.listeners: list[RunListener] = []
        self._clock = clock
        # In a notebook, rich would bypass the file with HTML, and take FORCE_COLOR, which is set, for a terminal.
        self.console = console or Console(
            file=sys.stderr, highlight=False, soft_wrap=True, force_jupyter=False, force_terminal=sys.stderr.isatty()
        )
        self._bar: Progress | None = None
        self._time_left: TimeLeft | None = None
        self._said_waiting, self._lock = False, threading.RLock()

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
        self._plan, self._paused, self._compiled_for = plan, set(), {}
        self._time_left = None
        if not missing:
            return
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        work = share * sum(cohort.device_work * cohort.devices for cohort in missing)  # in multiply-adds
        assumed = share * _training_seconds(plan, missing), assumed_seconds(_platform(missing))
        self._time_left, self._line_at = TimeLeft(work, program_counts(missing), *assumed, self._clock), self._clock()
        self._task = self._bar.add_task("training", total=work, left=_clock_text(self._time_left.seconds()))
        self._bar.start()

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> CohortDisplay:
        """Shows that a cohort begins. Returns the listener that shows its progress."""
        known = [self._numbers[run] for run in folder.runs if run in self._numbers]
        number = min(known, default=len(set(self._numbers.values())) + 1)  # a run on record may be trained again
        cohort = self._plan.cohort_of(folder.runs)
        label, paused = f"cohort {number} ({_shared(runs)})", folder.name in self._paused
        self.say(f"{label}: {count_text(len(runs), 'run')}, compiling")
        self._compiled_for[folder.name] = cohort.program
        with self._lock:
            if self._time_left:
                self._time_left.begun(folder.name)
        followed = Following(self.listeners, [self._followed(folder, name) for name in folder.runs], self.say)
        return CohortDisplay(self, folder.name, label, cohort.device_work * cohort.devices, paused, followed)

    def _followed(self, folder: CohortFolder, name: str) -> FollowedRun:
        run, place = self._plan.runs[name][0], Workdir(folder.path.parent.parent).run_folder(name)
        variant = {"variant": run.variant} if run.variant else {}
        return FollowedRun(
            name, self._plan.sweep.name, place, run.seed, variant | dict(run.overrides), run.config.to_dict()
        )

    def advance(self, work: float, *, here: bool, label: str = "", steps: str = "") -> None:
        """Records work that a cohort has done.

        Arguments:
          work: the number of multiply-adds.
          here: whether this process has just done the work, so that it counts toward the speed.
          label: the name of the cohort, for the bar.
          steps: the steps that the cohort has done, as text, for a line.
        """
        with self._lock:
            if self._time_left:
                self._time_left.add_work(work, here=here)
            if self._bar and here:
                self._update(label, f"{label}: {steps} steps")

    def compiling(self, name: str, label: str, part: str, number: int, lengths: int) -> None:
        """Shows that a cohort compiles a program of "training" or "evaluation" for length `number` of `lengths`."""
        with self._lock:
            if self._time_left and self._bar:
                self._time_left.compiling(name, self._compiled_for[name], part, lengths)
                text = (
                    f"{label}: compiling{' the scoring' if part == 'evaluation' else ''}, length {number} of {lengths}"
                )
                self._update(text, text)

    def compiled(self, name: str, part: str, seconds: float) -> None:
        """Records that a cohort has compiled a program."""
        with self._lock:
            if self._time_left:
                self._time_left.compiled(name, self._compiled_for[name], part, seconds)

    def slowed(self) -> None:
        """Records that a cohort trains fewer runs at once from now on."""
        with self._lock:
            if self._time_left:
                self._time_left.slowed()

    def training_ended(self, name: str) -> None:
        """Records that a cohort no longer trains."""
        with self._lock:
            if self._time_left:
                self._time_left.training_ended(name)

    def _update(self, description: str, line: str) -> None:
        """Shows the progress of the sweep: in the bar or, without a terminal, as a line once a minute."""
        left, now = self._time_left.seconds(), self._clock()
        self._bar.update(
            self._task, completed=self._time_left.done, description=printable(description), left=_clock_text(left)
        )
        if not self.console.is_terminal and now - self._line_at > SECONDS_BETWEEN_LINES:
            self.say(f"{line}, about {duration_text(left)} left for the whole sweep")
            self._line_at = now

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
        """Shows, at the end, what successive halving has saved (`rungs.saving`)."""
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

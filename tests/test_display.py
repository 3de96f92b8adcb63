"""The display of a sweep: what the plan estimates, and lines of progress with the time left."""

import dataclasses
import io
import re

import pytest
import small_sweep
from rich.console import Console

from jaxmatch.reporting.layout import duration_text
from jaxmatch.sweep import display, launch
from jaxmatch.sweep import plan as planning
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.plan import make_plan
from jaxmatch.training import chunks
from jaxmatch.workdir import CohortFolder


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def begun(small_files, tmp_path, clock, monkeypatch):
    """The cohort of the small sweep, its display, and a function that returns the lines shown so far.

    The training takes 600 s, and each compilation 300 s, according to the plan.
    """
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files)))
    (cohort,) = plan.cohorts
    cohort = dataclasses.replace(cohort, run_seconds=600 * cohort.devices / cohort.slots)
    plan = dataclasses.replace(plan, cohorts=(cohort,))
    monkeypatch.setattr(planning, "SECONDS_TO_COMPILE_ELSEWHERE", 300.0)
    monkeypatch.setitem(planning.SECONDS_TO_COMPILE, "cpu", 300.0)
    text = io.StringIO()
    whole = Display(Console(file=text, width=200), clock=clock)
    whole.begin(plan, set())
    folder = CohortFolder(tmp_path / "cohorts" / "one", cohort.signature, tuple(plan.runs))
    yield cohort, whole.cohort(folder, ()), lambda: text.getvalue().splitlines()
    whole.end()


def test_plan_estimates_the_times_of_training_and_compilation(begun):
    cohort, _, lines = begun
    assert cohort.scored_lengths >= 1 and any("estimated training time: 10 min with" in line for line in lines())
    about = f"{duration_text(cohort.compilations * 300)} for {cohort.compilations} compilations in training and scoring"
    assert any(line.startswith(f"  estimated compilation time: {about}; less for what was") for line in lines())


def test_progress_is_a_line_a_minute_with_the_time_left(begun, clock):
    cohort, shown, lines = begun

    def after(seconds, call, *arguments):
        before = len(lines())
        clock.now += seconds
        call(*arguments)
        return [line.partition(": ")[2] for line in lines()[before:]]

    compiling = f"compiling 1 of {cohort.compilations} (sweep: elapsed 1:01)"
    assert after(61, shown.compiling, "training", 1, 1) == [compiling]
    assert after(61, shown.stepped, 10, 100) == ["10 of 100 steps (sweep: elapsed 2:02)"]
    assert after(59, shown.stepped, 20, 100) == []  # a line a minute
    scoring = f"compiling {cohort.lengths + 1} of {cohort.compilations} (sweep: elapsed 3:03, about 7:52 left)"
    assert after(2, shown.compiling, "evaluation", 1, 1) == [scoring]


def test_the_time_left_follows_steps_made_here(begun, clock):
    _, shown, lines = begun
    shown.stepped(10, 100)
    shown.resumed(50, 100)  # steps before the checkpoint took no time here
    for done in (60, 70):
        clock.now += 61
        shown.stepped(done, 100)
    assert lines()[-1].endswith("70 of 100 steps (sweep: elapsed 2:02, about 3:04 left)")
    shown.ended("its worker is gone")
    shown.resumed(0, 100)  # all steps are to be made again
    for done in (10, 20):
        clock.now += 61
        shown.stepped(done, 100)
    assert lines()[-1].endswith("20 of 100 steps (sweep: elapsed 4:04, about 8:08 left)")


def test_the_mean_of_all_runs_counts_stopped_ones_with_their_best(begun):
    _, shown, lines = begun
    shown.evaluated(3, 96, "accuracy", [0.9, 0.6], 0)
    shown.evaluated(4, 128, "accuracy", [0.9, 0.7], 1)
    found = [line.partition("pairs: ")[2] for line in lines()[-2:]]
    assert found[0] == "dev accuracy best 0.9000, mean 0.7500 of 2 runs"
    assert found[1] == "dev accuracy best 0.9000, mean 0.8000 of 2 runs, 1 of which stopped and count with their best"


def test_training_and_scoring_report_which_program_is_compiled(small_files, tmp_path, monkeypatch):
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)  # a program for each length
    overrides = {"training.maximum_buckets": 2, "training.batch_size": 8}
    _, watcher = small_sweep.launched(small_files, tmp_path / "out", overrides=overrides)
    found = [tuple(map(int, each)) for each in re.findall(r"compiling (\d+) of (\d+)", watcher.text)]
    assert [number for number, _ in found] == list(range(1, found[0][1] + 1)) and len(found) > 2

"""The display of a sweep: what the plan estimates, and lines of progress with the time left."""

import io

import pytest
import small_sweep
from rich.console import Console

from jaxmatch.reporting.layout import duration_text
from jaxmatch.sweep import display, launch
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
def begun(small_files, tmp_path, clock):
    """The cohort of the small sweep, its display, and a function that returns the lines shown so far."""
    plan, text = (
        make_plan(launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))),
        io.StringIO(),
    )
    whole = Display(Console(file=text, width=200), clock=clock)
    whole.begin(plan, set())
    (cohort,) = plan.cohorts
    folder = CohortFolder(tmp_path / "cohorts" / "one", cohort.signature, tuple(plan.runs))
    yield cohort, whole.cohort(folder, cohort.runs), lambda: text.getvalue().splitlines()
    whole.end()


def test_plan_estimates_the_compilation_time(begun):
    cohort, _, lines = begun
    shapes = cohort.lengths + cohort.scored_lengths
    assert cohort.scored_lengths >= 1
    about = duration_text(shapes * display.SECONDS_TO_COMPILE_ON_A_CPU)
    wanted = (
        f"  estimated compilation time: {about} for {shapes} compilations in training and scoring; less for what was"
    )
    assert [line for line in lines() if line.startswith(wanted)]


def test_progress_lines_name_what_is_compiled_and_the_time_left(begun, clock):
    _, shown, lines = begun

    def after(seconds, call, *arguments):
        before = len(lines())
        clock.now += seconds
        call(*arguments)
        return [line.partition(": ")[2] for line in lines()[before:]]

    assert after(61, shown.compiling, "training", 1, 3) == ["compiling, length 1 of 3"]
    assert after(59, shown.stepped, 10, 100) == []  # a line a minute
    assert after(62, shown.stepped, 20, 100) == ["20 of 100 steps, about 8 min left for the whole sweep"]
    about = ["compiling the scoring, length 1 of 1, about 8 min left for the whole sweep"]
    assert after(61, shown.compiling, "evaluation", 1, 1) == about


def test_the_time_left_follows_steps_made_here(begun, clock):
    _, shown, lines = begun
    shown.stepped(10, 100)
    shown.resumed(50, 100)  # steps before the checkpoint took no time here
    for done in (60, 70):
        clock.now += 61
        shown.stepped(done, 100)
    assert lines()[-1].endswith("70 of 100 steps, about 3 min left for the whole sweep")
    shown.lost("its worker is gone")  # all steps are to be made again
    for done in (80, 90):
        clock.now += 61
        shown.stepped(done, 100)
    assert lines()[-1].endswith("90 of 100 steps, about 8 min left for the whole sweep")


def test_training_and_scoring_report_which_length_is_compiled(small_files, tmp_path, monkeypatch):
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)  # a program for each length
    overrides = {"training.maximum_buckets": 2, "training.batch_size": 8}
    _, watcher = small_sweep.launched(small_files, tmp_path / "out", overrides=overrides)
    lines = [line.partition(": compiling")[2].partition(", about")[0] for line in watcher.text.splitlines()]
    assert [line for line in lines if line.startswith(", length")] == [", length 1 of 2", ", length 2 of 2"]
    scoring = [line for line in lines if line.startswith(" the scoring")]
    assert scoring and scoring == [f" the scoring, length {n + 1} of {len(scoring)}" for n in range(len(scoring))]

"""The estimated time left includes compilation, and the display names what is compiled. The tests set the clock."""

import io

import pytest
import small_sweep
from rich.console import Console

from jaxmatch.reporting.layout import duration_text
from jaxmatch.sweep import launch
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.plan import make_plan, program_counts
from jaxmatch.sweep.time_left import TimeLeft, assumed_seconds
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


def compile_for(left: TimeLeft, clock: Clock, seconds: float, part: str = "training", lengths: int = 3) -> None:
    left.compiling("cohort", "key", part, lengths)
    clock.now += seconds
    left.compiled("cohort", "key", part, seconds)


def steps(left: TimeLeft, clock: Clock, count: int, seconds: float = 1.0, work: float = 1.0) -> None:
    for _ in range(count):
        clock.now += seconds
        left.add_work(work, here=True)


def test_compilation_is_not_counted_as_training_time(clock):
    """100 steps of 3 seconds follow a minute of compilation: after two steps, 294 seconds are left, not 51 minutes."""
    left = TimeLeft(100.0, {"key": {"training": 1}}, 500.0, 10.0, clock)
    left.begun("cohort")
    compile_for(left, clock, 60.0, lengths=1)
    steps(left, clock, 2, seconds=3.0)
    assert left.seconds() == pytest.approx(294.0)


def test_time_until_memory_runs_out_is_not_counted_as_training_time(clock):
    """Steps of 1 second, then 60 seconds without one until memory has run out, then steps of 2 seconds."""
    left = TimeLeft(100.0, {"key": {"training": 1}}, 500.0, 10.0, clock)
    left.begun("cohort")
    compile_for(left, clock, 10.0, lengths=1)
    steps(left, clock, 3)
    assert left.seconds() == pytest.approx(97.0)
    clock.now += 60.0
    left.slowed()
    assert left.seconds() == pytest.approx(0.97 * 500.0)  # as planned, until the new speed is known
    steps(left, clock, 3, seconds=2.0)
    assert left.seconds() == pytest.approx(2 * 94.0)


def test_pending_compilations_count_from_the_start(clock):
    left = TimeLeft(100.0, {"key": {"training": 3, "evaluation": 1}, "other": {"training": 2}}, 500.0, 10.0, clock)
    left.begun("cohort")
    compile_for(left, clock, 60.0)
    steps(left, clock, 2)
    # 98 steps; two lengths, the scoring, and two lengths of another program.
    assert left.seconds() == pytest.approx(98.0 + 5 * 60.0)
    compile_for(left, clock, 30.0)
    assert left.seconds() == pytest.approx(98.0 + 4 * 45.0)
    compile_for(left, clock, 10.0, "evaluation", lengths=2)
    # Lengths of training count at the mean of training. Scoring has one length more than expected, which counts at the
    # mean of scoring.
    assert left.seconds() == pytest.approx(98.0 + 3 * 45.0 + 1 * 10.0)
    for _ in range(5):  # compilations for fewer runs: the number of pending ones is never negative
        compile_for(left, clock, 45.0)
    assert left.seconds() == pytest.approx(98.0 + 2 * 45.0 + 10.0)


def test_time_left_before_the_first_steps_uses_planned_and_assumed_times(clock):
    """50 seconds of training are expected, and four programs of 10 seconds each."""
    left = TimeLeft(100.0, {"key": {"training": 3, "evaluation": 1}}, 50.0, 10.0, clock)
    assert left.seconds() == 50.0 + 40.0
    left.add_work(20.0, here=False)  # work that is already on record
    assert left.seconds() == 40.0 + 40.0
    left.begun("cohort")
    compile_for(left, clock, 16.0)
    assert left.seconds() == 40.0 + 3 * 16.0, "the measured compilation time replaces the assumed one"
    clock.now += 30.0  # arrays were placed meanwhile, too
    left.add_work(1.0, here=True)
    assert left.seconds() == 79.0 / 2 + 3 * 16.0, "one step is not enough to measure the speed"
    clock.now += 1.0
    left.add_work(1.0, here=True)
    assert left.seconds() == 78.0 + 3 * 16.0


@pytest.mark.parametrize("reports", [(0.0,), (0.0, 0.0), (5.0, 0.0), (0.0, 5.0, -5.0), (5.0, 5.0, -10.0)])
def test_reports_without_net_work_keep_the_estimate_within_the_plan(clock, reports):
    """A cohort that resumes at its end reports no steps; one whose memory ran out takes some back."""
    left = TimeLeft(100.0, {}, 50.0, 10.0, clock)
    left.begun("cohort")
    for work in reports:
        clock.now += 1.0
        left.add_work(work, here=True)
        assert 0 < left.seconds() <= 50.0


def test_plan_and_first_progress_line_include_compilation_time(small_files, tmp_path, clock):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    plan, text = make_plan(planned), io.StringIO()
    display = Display(Console(file=text, width=200), clock=clock)
    display.begin(plan, set())
    (cohort,) = plan.cohorts
    shapes = cohort.buckets + cohort.scored_shapes
    assert cohort.scored_shapes >= 1
    about = duration_text(shapes * assumed_seconds("cpu"))
    assert f"estimated compilation time: {about} for {shapes} compilations in training and scoring" in text.getvalue()
    folder = CohortFolder(tmp_path / "cohorts" / "one", cohort.signature, tuple(plan.runs))
    shown = display.cohort(folder, cohort.runs)
    clock.now += 61.0
    shown.compiling("training", 1, cohort.buckets)
    shown.training_ended()
    display.end()
    last = text.getvalue().splitlines()[-1]
    assert last.endswith(f"compiling, length 1 of {cohort.buckets}, about {about} left for the whole sweep")


def test_one_program_holds_all_lengths_with_several_steps_per_dispatch(small_files):
    several = {"execution.steps_at_once": 8, "training.maximum_buckets": 3}
    changes = small_sweep.overrides(small_files) | several
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=changes))
    (parts,) = program_counts(plan.cohorts).values()
    assert plan.cohorts[0].buckets > 1 and parts["training"] == 1


def test_steps_of_a_cohort_count_while_another_cohort_compiles(clock):
    left = TimeLeft(10.0, {}, 500.0, 10.0, clock)
    left.begun("cohort")
    left.begun("beside")
    left.compiling("cohort", "key", "training", 1)
    steps(left, clock, 2, seconds=10.0, work=2.5)  # by the other cohort
    left.compiled("cohort", "key", "training", 20.0)
    assert left.seconds() == pytest.approx(20.0)
    left.training_ended("beside")
    compile_for(left, clock, 100.0, lengths=2)
    assert left.seconds() == pytest.approx(20.0)
    left.add_work(5.0, here=False)  # work done elsewhere does not change the measured speed
    assert left.seconds() == 0.0


def test_waiting_for_a_worker_is_not_counted_as_training_time(clock):
    left = TimeLeft(10.0, {}, 500.0, 10.0, clock)
    clock.now += 100.0
    left.begun("cohort")
    steps(left, clock, 2, seconds=2.5, work=2.5)
    left.training_ended("cohort")
    clock.now += 100.0
    left.begun("next")
    assert left.seconds() == pytest.approx(5.0)


def test_progress_lines_name_what_is_compiled(small_files, tmp_path, clock):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    plan, text = make_plan(planned), io.StringIO()
    display = Display(Console(file=text, width=200), clock=clock)
    display.begin(plan, set())
    (cohort,) = plan.cohorts
    folder = CohortFolder(tmp_path / "cohorts" / "one", cohort.signature, tuple(plan.runs))
    shown = display.cohort(folder, cohort.runs)
    for number, seconds in ((1, 61.0), (2, 61.0)):
        shown.compiling("training", number, 3)
        clock.now += seconds
        shown.compiled("training", seconds)
        clock.now += 1.0
        shown.stepped(10 * number, 100)
    clock.now += 61.0
    shown.compiling("evaluation", 1, 1)
    shown.training_ended()
    display.end()
    lines = [line.partition(": ")[2] for line in text.getvalue().splitlines() if line.startswith("cohort 1")][1:]
    assert lines == [
        # A tenth took a second, so 9 seconds are left, and two lengths of 61 seconds, and the scoring. If compilation
        # counted as training, it would be 9 minutes.
        "10 of 100 steps, about 3 min left for the whole sweep",
        "20 of 100 steps, about 2 min left for the whole sweep",
        "compiling the scoring, length 1 of 1, about 10 min left for the whole sweep",
    ]


def test_training_and_scoring_report_which_length_is_compiled(small_files, tmp_path):
    class Bar(small_sweep.Watcher):
        events = []

        def compiling(self, name, label, part, number, lengths):
            self.events.append((part, number, lengths))
            super().compiling(name, label, part, number, lengths)

    overrides = small_sweep.overrides(small_files) | {"training.maximum_buckets": 2, "training.batch_size": 8}
    launch.sweep(small_files / "small.py", workdir=tmp_path / "out", display=Bar(), overrides=overrides)
    assert [event[1:] for event in Bar.events if event[0] == "training"] == [(1, 2), (2, 2)]
    scoring = [event[1:] for event in Bar.events if event[0] == "evaluation"]
    assert scoring and scoring == [(number, len(scoring)) for number in range(1, len(scoring) + 1)]

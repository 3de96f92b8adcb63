"""A worker trains a cohort with its part of the plan: it makes the same records and reports through a file."""

import dataclasses
import json
import os
import pickle
import threading

import pytest
import small_sweep
from filelock import FileLock
from small_records import record

from jaxmatch.sweep import chunks, launch, worker
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import RunListener
from jaxmatch.sweep.engines import Engine, TaskContext
from jaxmatch.sweep.events import FILE, Replay, Reporter, line_of, writer
from jaxmatch.sweep.failures import FailedCohorts, mark_failed
from jaxmatch.sweep.plan import make_plan
from jaxmatch.workdir import Workdir
from jaxmatch.workdir.packing import pack


class ByWorkers(Engine):
    """An engine that does what engines with workers do, but runs one task after the other in this process."""

    def run(self, tasks, work):
        trained = False
        for task in tasks:
            part, data = worker.part_of(work.plan, task.folder)
            replay, before = Replay(work, task.folder), work.before.get(task.folder.name)
            order = worker.Order(part, task.folder.name, work.stage, before, replay.attempt)
            order, data = pickle.loads(pickle.dumps((order, data)))
            order = dataclasses.replace(order, plan=worker.with_data(order.plan, data))
            report = writer(task.folder, replay.attempt)
            trained |= worker.execute_cohort(order, work.workdir.path, report, threading.Event())
            replay.ended()
        return trained


def without_times(text):
    return [line for line in text.splitlines() if "estimated" not in line]


def test_a_worker_makes_the_same_records_and_display_as_one_process(small_files, tmp_path, finished_sweep):
    workdir, table, watcher = finished_sweep
    found, seen = small_sweep.launched(small_files, tmp_path, engine=ByWorkers())
    assert found == table and small_sweep.results(tmp_path) == small_sweep.results(workdir)
    shown = [line for line in without_times(seen.text) if "best on dev" not in line]
    assert shown == [line for line in without_times(watcher.text) if "best on dev" not in line]
    assert not list(tmp_path.glob(f"cohorts/*/{FILE}"))
    assert small_sweep.launched(small_files, tmp_path, engine=ByWorkers())[1].trained == []


def test_halving_with_workers_equals_halving_in_one_process(small_files, tmp_path):
    from jaxmatch.sweep import halving

    grid = {"optimizer.learning_rate": "0.01,0.003,0.03"}
    changes = {"overrides": small_sweep.overrides(small_files), "grid_overrides": grid}
    planned = launch.resolve(small_files / "small.py", **changes)
    rule = lambda plan: halving.settle(plan, rungs=(1,), eta=3)  # noqa: E731
    found = []
    for name, engine in (("here", None), ("workers", ByWorkers())):
        launch.run(planned, tmp_path / name, small_sweep.Watcher(), rule, engine=engine)
        found.append(small_sweep.results(tmp_path / name))
    assert found[0] == found[1]
    assert sorted(record["status"] for record, _ in found[0].values()) == ["dropped", "dropped", "finished"]


def test_a_failed_cohort_is_retried_only_by_the_next_launch(small_files, tmp_path, monkeypatch):
    small_sweep.fail_training(monkeypatch, RuntimeError("no"))
    with pytest.raises(FailedCohorts, match="RuntimeError: no; 2 of 2 runs are missing"):
        small_sweep.launched(small_files, tmp_path, engine=ByWorkers())
    _, watcher = small_sweep.launched(small_files, tmp_path, engine=ByWorkers())
    assert len(watcher.trained) == 1 and len(small_sweep.records(tmp_path)) == 2


@pytest.fixture
def claimed(small_files, tmp_path):
    """A plan, its cohort's folder, the working folder, and an engine's work. No checkpoint is due by time."""
    settings = small_sweep.overrides(small_files) | {"execution.checkpoint_seconds": "3600"}
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=settings))
    workdir = Workdir(tmp_path / "work")
    (folder,) = workdir.claim([(cohort.signature, cohort.names()) for cohort in plan.cohorts])
    watcher = small_sweep.Watcher()
    watcher.begin(plan, set())
    yield plan, folder, workdir, TaskContext(plan, workdir, watcher, Stage(), {})
    watcher.end()


def trained(claimed, report=lambda *event: None, stop=None, failed_before=None):
    plan, folder, workdir, _ = claimed
    stop = stop or threading.Event()
    order = worker.Order(plan, folder.name, Stage(), failed_before)
    return worker.execute_cohort(order, workdir.path, report, stop)


def test_a_stopped_worker_saves_a_checkpoint_and_its_cohort_resumes(claimed, finished_sweep):
    _, folder, workdir, _ = claimed
    stop, events = threading.Event(), []

    def report(cohort, method, arguments):
        events.append(method)
        if method == "evaluated":
            stop.set()

    assert trained(claimed, report, stop) is False
    assert (
        events[-1] == "training_ended"
        and events.count("evaluated") == 1
        and not folder.done
        and folder.failure() is None
    )
    assert [path.name for path in folder.checkpoints.iterdir()] == ["4"]
    later = []
    assert trained(claimed, lambda cohort, method, arguments: later.append((method, *arguments))) is True
    assert ("resumed", 4, 12) in later and later[-2:] == [("done",), ("training_ended",)]
    assert without_settings(workdir.path) == without_settings(finished_sweep[0])


def without_settings(workdir):
    """Returns the lasting parts without the settings, because the time between checkpoints differs."""
    found = small_sweep.results(workdir)
    return {run: ({**record, "config": ""}, parameters) for run, (record, parameters) in found.items()}


def test_a_worker_waits_for_the_lock_of_its_cohort(claimed, monkeypatch):
    _, folder, workdir, _ = claimed
    monkeypatch.setattr(worker, "SECONDS_FOR_THE_LOCK", 0.2)
    holder = FileLock(folder.lock().lock_file, thread_local=False)
    with holder:
        assert trained(claimed) is False and not folder.done
    monkeypatch.setattr(worker, "SECONDS_FOR_THE_LOCK", 60.0)
    holder.acquire()
    later = threading.Timer(0.5, holder.release, kwargs={"force": True})
    later.start()
    assert trained(claimed) is True and folder.done
    later.join()
    assert trained(claimed) is False  # done already
    (folder.path / FILE).touch()
    folder.clean()
    assert not (folder.path / FILE).exists()


def test_truncated_event_lines_are_skipped(claimed):
    _, folder, workdir, work = claimed
    replay = Replay(work, folder)
    with open(folder.path / FILE, "a") as file:
        file.write('["some", "epo["some", "cohort", []]\n' + "[1]\n")
    # A line that is being written is shown once it is whole.
    line = line_of(replay.attempt, "cohort", ())
    for part in (line[:9], line[9:]):
        with open(folder.path / FILE, "a") as file:
            file.write(part)
        replay.poll()
    replay.ended("its worker died")
    assert "its worker died" in work.display.text


def test_a_cohort_that_failed_elsewhere_or_is_missing_is_skipped(claimed):
    _, folder, workdir, _ = claimed
    mark_failed(folder, RuntimeError("elsewhere"))
    assert trained(claimed) is False
    assert worker.execute_cohort(worker.Order(claimed[0], "gone", Stage(), None), workdir.path, None, None) is False
    assert trained(claimed, failed_before=folder.failure()) is True


def test_the_driver_shows_one_attempt_and_subtracts_its_lost_work(claimed):
    plan, folder, workdir, work = claimed
    other, ours = Replay(work, folder), Replay(work, folder)
    for replay, steps in ((other, 9), (ours, 6)):
        shown = Reporter(writer(folder, replay.attempt)).cohort(folder, plan.cohorts[0].runs)
        shown.compiling("training", 1, 1)
        shown.stepped(steps, 12)
    with open(folder.path / FILE, "a") as file:
        file.write(json.dumps([ours.attempt, "show", ["not a method of a listener"]]) + "\n" + '["half a li')
    ours.poll()
    left = []
    assert work.display.trained == [folder.runs]
    before = Replay(work, folder)  # begins after all these events
    before.poll()
    leave_out = work.display.leave_out
    work.display.leave_out = lambda amount: (left.append(amount), leave_out(amount))
    ours.ended("its node died")
    folder.clean()
    assert (folder.path / FILE).exists()
    (cohort,) = plan.cohorts
    assert left == [pytest.approx(-cohort.device_work / 2)]
    assert "its node died; it resumes from its last checkpoint" in work.display.text
    assert work.display.trained == [folder.runs] and "not a method" not in work.display.text


def test_with_a_store_a_cohort_is_done_when_its_records_have_arrived(claimed):
    """The worker reports that it is done before its records are in the store."""
    plan, folder, workdir, work = claimed
    ended = []

    class Listening(RunListener):
        def ended(self, run, record):
            ended.append(record)

    work.display.listeners.append(Listening())
    for arrived in (True, False):  # False: the command is interrupted before that
        ended.clear()
        replay = Replay(work, folder, until_ended=True)
        shown = Reporter(writer(folder, replay.attempt)).cohort(folder, plan.cohorts[0].runs)
        shown.begun([[] for _ in folder.runs])
        shown.done()
        shown.training_ended()
        replay.poll()
        assert not ended and ": done" not in work.display.text.splitlines()[-1]
        records = [workdir.run_folder(run) / "record.json" for run in folder.runs]
        for file in records:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record()) if arrived else "")
            if not arrived:
                file.unlink()
        replay.ended("its worker was told to stop")
        assert [one is not None for one in ended] == [arrived] * len(records)


def test_a_worker_death_after_its_cohort_is_done_is_not_reported(claimed):
    plan, folder, _, work = claimed
    replay = Replay(work, folder)
    Reporter(writer(folder, replay.attempt)).cohort(folder, plan.cohorts[0].runs)
    replay.poll()
    (folder.path / "DONE").touch()
    replay.ended("its worker died")
    assert "its worker died" not in work.display.text and not (folder.path / FILE).exists()


def test_steps_are_reported_once_a_second_and_the_last_step_always(claimed):
    reported, now = [], [0.0]
    shown = Reporter(lambda *event: reported.append(event[2]), lambda: now[0]).cohort(claimed[1], ())
    for step in range(1, 31):
        now[0] += 0.125
        shown.stepped(step, 30)
    assert reported[1:] == [(1, 30), (9, 30), (17, 30), (25, 30), (30, 30)]
    with pytest.raises(AttributeError):
        shown.anything()


def test_workers_receive_environment_variables_that_change_results(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("NPROC", raising=False)
    variables = worker.variables()
    assert variables["NPROC"] == str(len(os.sched_getaffinity(0))) and "JAX_PLATFORMS" not in variables
    assert variables["XLA_FLAGS"] == "--some" and variables["JAX_ENABLE_X64"] == "1"
    monkeypatch.setenv("NPROC", "7")
    assert worker.variables()["NPROC"] == "7"


def sizes(plan):
    return [len(cohort.runs) for cohort in plan.cohorts]


def test_cohorts_are_split_to_fill_the_workers(small_files):
    changes = {"overrides": small_sweep.overrides(small_files), "seeds": 10}
    plan = make_plan(
        launch.resolve(small_files / "small.py", **changes, grid_overrides={"optimizer.learning_rate": ""})
    )
    work = plan.cohorts[0].device_work
    assert sizes(plan) == [10] and sizes(chunks.split(plan, 1, 0.0)) == [10]
    assert sizes(chunks.split(plan, 3, 0.0)) == [4, 4, 2]  # 4, 3, 3 would be packed as 4, 4, 2
    assert sizes(chunks.split(plan, 4, work / 20)) == [3, 3, 3, 1]
    assert sizes(chunks.split(plan, 10, 0.0)) == [1] * 10
    assert sizes(chunks.split(plan, 10, 30 * work)) == [10]  # starting another worker takes longer
    for slots in range(1, 12):
        cut = chunks.split(plan, slots, work / 100)
        planned = [(cohort.signature, cohort.names()) for cohort in cut.cohorts]
        assert pack(planned, lambda run: True) == planned
        assert cut.runs.keys() == plan.runs.keys()
    many = dataclasses.replace(plan, cohorts=plan.cohorts * 16)
    assert chunks.split(many, 2, 0.0) is many

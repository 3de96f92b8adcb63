"""What workers elsewhere share with this process: locks of cohorts, environment variables, smaller cohorts."""

import dataclasses
import os
import threading

import pytest
import small_sweep
from filelock import FileLock

from jaxmatch.devices import available_devices
from jaxmatch.sweep import launch
from jaxmatch.sweep.execute import Training, train_cohort, variables
from jaxmatch.sweep.plan import make_plan, split_cohorts
from jaxmatch.workdir import Workdir, pack


@pytest.fixture
def cohort(small_files, tmp_path):
    """The folder of a cohort, and a function that trains it: (seconds to wait, failure before) -> whether."""
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files)))
    workdir, watcher = Workdir(tmp_path / "work"), small_sweep.Watcher()
    (folder,) = workdir.assign(plan.groups)
    watcher.begin(plan, set())
    devices, stop = tuple(available_devices()[:1]), threading.Event()
    yield (
        folder,
        lambda wait=0.0, before=None: train_cohort(
            Training(plan, watcher, {folder.name: before}), folder, devices, stop, wait
        ),
    )
    watcher.end()


def test_a_worker_waits_for_the_lock_of_its_cohort(cohort):
    folder, train = cohort
    holder = FileLock(folder.lock().lock_file, thread_local=False)
    with holder:
        assert train(wait=0.2) is False and not folder.done
    holder.acquire()
    later = threading.Timer(0.5, holder.release, kwargs={"force": True})
    later.start()
    assert train(wait=60.0) is True and folder.done
    later.join()
    assert train() is False  # done already


def test_a_cohort_that_failed_elsewhere_is_skipped(cohort):
    folder, train = cohort
    folder.mark_failed(RuntimeError("elsewhere"))
    assert train() is False
    assert train(before=folder.failure()) is True


def test_workers_receive_environment_variables_that_change_results(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("NPROC", raising=False)
    found = variables()
    assert found["NPROC"] == str(len(os.sched_getaffinity(0))) and "JAX_PLATFORMS" not in found
    assert found["XLA_FLAGS"] == "--some" and found["JAX_ENABLE_X64"] == "1"
    monkeypatch.setenv("NPROC", "7")
    assert variables()["NPROC"] == "7"


def sizes(plan):
    return [len(cohort.runs) for cohort in plan.cohorts]


def test_cohorts_are_split_to_fill_the_workers(small_files):
    changes = {"overrides": small_sweep.overrides(small_files), "seeds": 10}
    plan = make_plan(
        launch.resolve(small_files / "small.py", **changes, grid_overrides={"optimizer.learning_rate": ""})
    )

    def split(workers, seconds):
        """Splits the plan if its cohort takes `seconds` and the start of another worker takes 30."""
        (cohort,) = plan.cohorts
        cohort = dataclasses.replace(cohort, run_seconds=cohort.run_seconds * seconds / cohort.seconds)
        return split_cohorts(dataclasses.replace(plan, cohorts=(cohort,)), workers)

    assert sizes(plan) == [10] and sizes(split(1, 30)) == [10]
    assert sizes(split(3, 1e6)) == [4, 4, 2]  # 4, 3, 3 would be packed as 4, 4, 2
    assert sizes(split(4, 600)) == [3, 3, 3, 1]
    assert sizes(split(10, 1e6)) == [1] * 10
    assert sizes(split(10, 1)) == [10]  # starting another worker takes longer
    for workers in range(1, 12):
        cut = split(workers, 3000)
        planned = [(cohort.signature, cohort.names()) for cohort in cut.cohorts]
        assert pack(planned, lambda run: True) == planned
        assert cut.runs.keys() == plan.runs.keys()
    many = dataclasses.replace(plan, cohorts=plan.cohorts * 16)
    assert split_cohorts(many, 2).cohorts == many.cohorts

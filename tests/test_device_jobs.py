"""How a process or a worker trains a cohort: its devices, its lock, its environment, and its share of the workers."""

import dataclasses
import os
import threading

import pytest
import small_sweep
from filelock import FileLock
from small_sweep import on_devices

from jaxmatch.sweep import launch
from jaxmatch.sweep.launch import Training, train_cohort
from jaxmatch.sweep.plan import make_plan, split_cohorts
from jaxmatch.sweep.remote import variables
from jaxmatch.training.chunks import devices_filled
from jaxmatch.workdir import Workdir, pack


def test_cohort_takes_the_fewest_devices_without_more_runs_per_device():
    assert [devices_filled(runs, 8) for runs in (1, 3, 8, 9, 10, 16, 17, 24, 25)] == [1, 3, 8, 5, 5, 8, 6, 8, 7]
    for devices in range(1, 9):
        for runs in range(1, 40):
            filled = devices_filled(runs, devices)
            assert filled <= devices and -(-runs // filled) == -(-runs // devices)
            assert filled == 1 or -(-runs // (filled - 1)) > -(-runs // devices)


# Devices are fixed when JAX starts, so this needs its own process.
PROGRAM = """
import pathlib, sys
import jax
import small_sweep

assert len(jax.devices()) == 8
folder = pathlib.Path(sys.argv[1])
# Two cohorts of three runs.
grid, overrides = {"optimizer.learning_rate": "0.01,0.003"}, {"execution.maximum_replicas": "3"}
files = small_sweep.write_files(folder / "files")
_, watcher = small_sweep.launched(files, folder / "work", seeds=3, grid_overrides=grid, overrides=overrides)
lines = [line for line in watcher.text.splitlines() if "compiling" in line or line.endswith(": done")]
assert ["compiling" in line for line in lines] == [True, False, True, False], lines
records = small_sweep.records(folder / "work")
assert len(records) == 6 and {record["device"].split(" x ")[0] for record in records.values()} == {"3"}
assert all(record["times"]["replica_steps"] == 3 * record["times"]["lockstep_steps"] for record in records.values())
print("on three devices")
"""


@pytest.mark.slow
def test_cohorts_train_one_after_another_on_the_devices_that_they_fill(tmp_path):
    assert "on three devices" in on_devices(8, [str(tmp_path)], "-c", PROGRAM)[0]


@pytest.fixture
def cohort(small_files, tmp_path):
    """The folder of a cohort, and a function that trains it: (seconds to wait, failure before) -> whether."""
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files)))
    workdir, watcher = Workdir(tmp_path / "work"), small_sweep.Watcher()
    (folder,) = workdir.assign(plan.groups)
    watcher.begin(plan, set())
    yield (
        folder,
        lambda wait=0.0, before=None: train_cohort(
            Training(plan, watcher, {folder.name: before}), folder, threading.Event(), wait
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

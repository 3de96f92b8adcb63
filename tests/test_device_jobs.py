"""Cohorts that do not fill the devices are trained concurrently, each on its own devices."""

import dataclasses
import os
import threading

import pytest
import small_sweep
from filelock import FileLock
from small_sweep import on_devices

from jaxmatch.devices import available_devices
from jaxmatch.sweep import launch
from jaxmatch.sweep.execute import Training, spread, train_cohort, variables
from jaxmatch.sweep.plan import make_plan, split_cohorts
from jaxmatch.training.chunks import devices_filled
from jaxmatch.workdir import Workdir, pack

DEVICES = tuple("abcdefgh")


def test_cohort_takes_the_fewest_devices_without_more_runs_per_device():
    assert [devices_filled(runs, 8) for runs in (1, 3, 8, 9, 10, 16, 17, 24, 25)] == [1, 3, 8, 5, 5, 8, 6, 8, 7]
    for devices in range(1, 9):
        for runs in range(1, 40):
            filled = devices_filled(runs, devices)
            assert filled <= devices and -(-runs // filled) == -(-runs // devices)
            assert filled == 1 or -(-runs // (filled - 1)) > -(-runs // devices)


def test_cohorts_that_fit_are_trained_at_once_on_their_own_devices():
    meeting, started = threading.Barrier(2, timeout=20), []

    def train(number, devices, stop):
        started.append(devices)
        meeting.wait()  # fails unless two are trained at the same time
        return devices

    returned = spread([(3, 1.0), (2, 2.0), (4, 4.0), (3, 3.0)], DEVICES, train)
    assert [len(devices) for devices in returned] == [3, 2, 4, 3]
    assert {frozenset(started[0]), frozenset(started[1])} == {frozenset("abcd"), frozenset("efg")}  # longest first
    assert not set(started[0]) & set(started[1]) and not set(returned[0]) & set(returned[1])


def test_cohorts_that_do_not_fit_together_are_trained_in_order():
    begun = []

    def train(number, devices, stop):
        begun.append(number)
        return number, devices

    cohorts = [(5, 1.0), (8, 2.0), (4, 3.0)]
    assert spread(cohorts, DEVICES, train) == [(n, DEVICES[:size]) for n, (size, _) in enumerate(cohorts)]
    assert begun == [0, 1, 2]
    assert spread(cohorts[2:], DEVICES, train) == [(0, DEVICES[:4])] and spread([], DEVICES, train) == []


def test_an_exception_stops_the_other_cohorts_and_is_raised():
    stopped = []

    def train(number, devices, stop):
        if number == 1:
            raise OSError(28, "No space left on device")
        stopped.append(stop.wait(20))

    with pytest.raises(OSError, match="No space left"):
        spread([(3, 1.0), (3, 1.0), (3, 0.5)], DEVICES, train)
    assert stopped == [True]  # the third never begins


# Devices are fixed when JAX starts, so this needs its own process.
PROGRAM = """
import os, pathlib, signal, sys, threading, time
import jax
import pytest
import small_sweep
from jaxmatch.cli.main import raise_lost_interrupts
from jaxmatch.sweep import execute
from jaxmatch.training import cohort as selection

raise_lost_interrupts()
assert len(jax.devices()) == 8
folder = pathlib.Path(sys.argv[1])
files = small_sweep.write_files(folder / "files")
# Two cohorts of three runs.
rates, most = {"optimizer.learning_rate": "0.01,0.003"}, {"execution.maximum_replicas": "3"}
what = dict(seeds=3, grid_overrides=rates, overrides=most)

def launched(name, watcher=None):
    watcher = watcher or small_sweep.Watcher()
    overrides = small_sweep.overrides(files) | what["overrides"]
    arguments = {**what, "overrides": overrides, "workdir": folder / name, "display": watcher}
    return small_sweep.launch.sweep(files / "small.py", **arguments), watcher

# Concurrently: the second cohort begins before the first is done. Arrays computed outside of a cohort's programs are
# on its own devices, too.
rate_of, used = selection.rate_of, set()

def watched(*arguments):
    rate = rate_of(*arguments)
    used.update(device.id for device in rate.devices())
    return rate

selection.rate_of = watched
table, watcher = launched("beside")
selection.rate_of = rate_of
assert used == {0, 3}, used
lines = [line for line in watcher.text.splitlines() if "compiling" in line or line.endswith(": done")]
assert ["compiling" in line for line in lines] == [True, True, False, False], lines
assert all("cohort 1" in line or "cohort 2" in line for line in lines)
records = small_sweep.records(folder / "beside")
assert len(records) == 6 and {record["device"].split(" x ")[0] for record in records.values()} == {"3"}
assert all(record["times"]["replica_steps"] == 3 * record["times"]["lockstep_steps"] for record in records.values())

# Sequentially: bitwise equal results.
with pytest.MonkeyPatch.context() as patch:
    alone = threading.Event()
    def in_turn(cohorts, devices, train, on_interrupt):
        return [train(number, tuple(devices[:size]), alone) for number, (size, _) in enumerate(cohorts)]
    patch.setattr(execute, "spread", in_turn)
    other, watcher = launched("in turn")
    lines = [line for line in watcher.text.splitlines() if "compiling" in line or line.endswith(": done")]
    assert ["compiling" in line for line in lines] == [True, False, True, False]
    assert other == table and small_sweep.results(folder / "in turn") == small_sweep.results(folder / "beside")

# Ctrl-C while both train: both resume from their checkpoints.
class Interrupting(small_sweep.Watcher):
    meeting = threading.Barrier(2, timeout=100)

    def cohort(self, cohort, runs):
        shown, calls = super().cohort(cohort, runs), []
        before = shown.evaluated

        def evaluated(*arguments):
            before(*arguments)
            calls.append(1)
            if len(calls) == 2:  # the first is in a checkpoint
                if self.meeting.wait() == 0:
                    os.kill(os.getpid(), signal.SIGINT)
                time.sleep(2)

        shown.evaluated = evaluated
        return shown

with pytest.raises(KeyboardInterrupt):
    launched("interrupted", Interrupting())
assert not (folder / "interrupted" / "runs").exists() and not list(folder.glob("interrupted/cohorts/*/error.json"))
assert len({checkpoint.parent for checkpoint in folder.glob("interrupted/cohorts/*/checkpoints/*")}) == 2
other, watcher = launched("interrupted")
assert watcher.text.count(": continues ") == 2
assert other == table and small_sweep.results(folder / "interrupted") == small_sweep.results(folder / "beside")

print("side by side")
"""


@pytest.mark.slow
def test_concurrent_cohorts_equal_sequential_ones_and_resume(tmp_path):
    assert "side by side" in on_devices(8, [str(tmp_path)], "-c", PROGRAM)[0]


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

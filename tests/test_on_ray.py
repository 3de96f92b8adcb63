"""Cohorts as tasks of Ray give the records of one process, even if workers die.

Most tests replace Ray's scheduler by one in this process. test_ray_clusters.py has clusters of several nodes.
"""

import pickle
import shutil
import signal
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import small_sweep
from ray_driver import Driver, on
from ray_nodes import Nodes

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.sweep import halving, launch, provenance, remote
from jaxmatch.sweep.on_ray import RayEngine
from jaxmatch.workdir import FailedCohorts

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")


class Scheduler:
    """A stand-in for the module `ray` that runs tasks in this process.

    Arguments:
      deaths: number of a task, counted from 1 -> the event at which its worker dies.
    """

    exceptions = ray.exceptions

    def __init__(self, deaths):
        self.started, self._deaths, self.events = 0, deaths, Counter()

    def init(self, address, **options):
        assert address == "auto"

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 1.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def remote(self, **options):
        def task(function, *arguments):
            found = function(*pickle.loads(pickle.dumps(arguments)))
            if not hasattr(found, "send"):  # the measurement
                return found
            self.started += 1
            return Events(found, self._deaths.get(self.started), self.events)

        return lambda function: SimpleNamespace(remote=lambda *arguments: task(function, *arguments))

    def put(self, value):
        return value

    def get(self, value):
        if isinstance(value, Exception):
            raise value
        return value

    def wait(self, tasks, timeout, num_returns=1):
        return tasks[:num_returns], tasks[num_returns:]

    def cancel(self, task, force=False):
        task.close()

    def shutdown(self):
        pass


class Interrupted(small_sweep.Watcher):
    """Ends the command after the first epoch."""

    def say(self, line):
        super().say(line)
        if "epoch 1," in line:
            raise KeyboardInterrupt


class Events:
    """The events of a task, until its worker dies."""

    def __init__(self, task, death, events):
        self._task, self._death, self._events = task, death, events

    def __next__(self):
        try:
            event = next(self._task)
        except StopIteration:
            raise
        except Exception as error:
            return ray.exceptions.RayTaskError("task", "", error, "process", 1, "node")
        if event[0] == self._death:
            self.close()
            return ray.exceptions.WorkerCrashedError()
        self._events[event[0]] += 1
        return event

    def completed(self):
        return self

    def close(self):
        self._task.close()


@pytest.fixture
def engine(monkeypatch):
    """A function that makes an engine on a `Scheduler`."""

    def made(deaths=(), store=""):
        monkeypatch.setitem(sys.modules, "ray", Scheduler(dict(deaths)))
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        return RayEngine(store=store)

    before = signal.getsignal(signal.SIGINT)  # a worker, which is this process here, handles it
    yield made
    signal.signal(signal.SIGINT, before)


def test_records_and_display_equal_those_of_one_process(small_files, tmp_path, engine, finished_sweep):
    workdir, table, watcher = finished_sweep
    found, seen = small_sweep.launched(small_files, tmp_path, engine=engine())
    assert found == table and small_sweep.results(tmp_path) == small_sweep.results(workdir)
    assert sys.modules["ray"].events["stepped"]

    def shown(text):
        return [line for line in text.splitlines() if "estimated" not in line]

    assert [line for line in shown(seen.text) if "trained by 1 worker at once" not in line] == shown(watcher.text)
    assert small_sweep.launched(small_files, tmp_path, engine=engine())[1].trained == []


# With so many epochs, a cohort is not done before this process has handled a death or an interrupt.
LONG = {"training.epochs": "8"}


@pytest.fixture(scope="module")
def long_sweep(small_files, tmp_path_factory):
    """The table and the results of a longer training in one process."""
    workdir = tmp_path_factory.mktemp("long")
    table, _ = small_sweep.launched(small_files, workdir, overrides=LONG)
    return table, small_sweep.results(workdir)


def test_a_cohort_whose_worker_dies_is_resumed(small_files, tmp_path, engine, long_sweep):
    """Deaths count since the last checkpoint, and all but the first come after one."""
    dying = engine({1: "begun", 2: "evaluated", 3: "evaluated"})
    table, watcher = small_sweep.launched(small_files, tmp_path, engine=dying, overrides=LONG)
    assert (table, small_sweep.results(tmp_path)) == long_sweep
    assert watcher.text.count("its worker died (WorkerCrashedError); it resumes from its last checkpoint") == 3
    assert watcher.text.count(": continues ") >= 2


def test_a_cohort_whose_workers_keep_dying_fails_and_the_others_are_trained(small_files, tmp_path, engine):
    rates = {
        "grid_overrides": {"optimizer.learning_rate": "0.01,0.003"},
        "overrides": {"execution.maximum_replicas": "1"},
    }
    dying = engine({number: "begun" for number in (1, 3, 4)})
    with pytest.raises(FailedCohorts, match=r"WorkerCrashedError\), 3 times without a new checkpoint; 1 of 2 runs are"):
        small_sweep.launched(small_files, tmp_path, engine=dying, **rates)
    assert len(small_sweep.records(tmp_path)) == 1
    _, watcher = small_sweep.launched(small_files, tmp_path, engine=engine(), **rates)
    assert len(watcher.trained) == 1 and len(small_sweep.records(tmp_path)) == 2


def test_an_interrupted_cohort_saves_a_checkpoint_and_is_resumed(small_files, tmp_path, engine):
    settings = small_sweep.overrides(small_files) | LONG | {"execution.checkpoint_seconds": "3600"}
    launched = lambda display, name: launch.sweep(  # noqa: E731
        small_files / "small.py", workdir=tmp_path / name, display=display, overrides=settings, engine=engine()
    )
    with pytest.raises(KeyboardInterrupt):
        launched(Interrupted(), "work")
    assert len(list(tmp_path.glob("work/cohorts/*/checkpoints/*"))) == 1 and not small_sweep.records(tmp_path / "work")
    watcher = small_sweep.Watcher()
    assert launched(watcher, "work") == launched(small_sweep.Watcher(), "other")
    assert ": continues " in watcher.text
    assert small_sweep.results(tmp_path / "work") == small_sweep.results(tmp_path / "other")


def test_halving_equals_halving_in_one_process(small_files, tmp_path, engine):
    changes = {"overrides": small_sweep.overrides(small_files)}
    planned = launch.resolve(
        small_files / "small.py", **changes, grid_overrides={"optimizer.learning_rate": "0.01,0.003,0.03"}
    )
    rule = lambda plan: halving.halving_rule(plan, rungs=(1,), eta=3)  # noqa: E731
    found = []
    for name, where in (("here", None), ("ray", engine())):
        launch.run(planned, tmp_path / name, small_sweep.Watcher(), rule, engine=where)
        found.append(small_sweep.results(tmp_path / name))
    assert found[0] == found[1]
    assert sorted(record["status"] for record, _ in found[0].values()) == ["dropped", "dropped", "finished"]


def test_a_store_replaces_the_shared_folder(small_files, tmp_path, engine, long_sweep):
    """The first command and its folder are lost. A worker of the second command dies."""
    url, settings = f"file://{tmp_path}/store", small_sweep.overrides(small_files) | LONG
    planned = launch.resolve(small_files / "small.py", overrides=settings)
    where = engine(store=url)
    with pytest.raises(KeyboardInterrupt):
        launch.run(planned, tmp_path / "lost", Interrupted(), engine=where)
    where.close()
    shutil.rmtree(tmp_path / "lost")
    dying = engine({1: "evaluated"}, store=url)
    table, watcher = small_sweep.launched(small_files, tmp_path / "work", engine=dying, overrides=LONG)
    assert (table, small_sweep.results(tmp_path / "work")) == long_sweep
    assert watcher.text.count(": continues ") == 2
    # With another seed, what the store holds is not trained again.
    watcher = small_sweep.Watcher()
    more = launch.changed(planned, seeds=2)
    launch.run(more, tmp_path / "other", watcher, engine=engine(store=url))
    found = small_sweep.results(tmp_path / "other")
    assert set(watcher.trained[0]) == found.keys() - long_sweep[1].keys() and len(watcher.trained) == 1
    assert long_sweep[1].items() <= found.items()


def other_versions(monkeypatch):
    found = iter(({"jax": "0.1"}, {"jax": "0.2"}))  # of the command, of the worker
    for module in (remote, provenance):
        monkeypatch.setattr(module, "versions", lambda: next(found))


def no_folder(monkeypatch):
    real = launch.Training.reached

    def reached(training, folder):
        shutil.rmtree(folder.path)
        monkeypatch.setattr(launch.Training, "reached", real)
        return False

    monkeypatch.setattr(launch.Training, "reached", reached)


def unseen_gpu(monkeypatch):
    monkeypatch.setattr(Scheduler, "nodes", lambda _: [{"Alive": True, "Resources": {"CPU": 1.0, "GPU": 1.0}}])


def full_disk(monkeypatch):
    small_sweep.fail_training(monkeypatch, OSError(28, "No space left on device"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (other_versions, "runs jax 0.2, not 0.1; install the same versions there"),
        (no_folder, "does not reach this folder; give a --workdir on a file system that all nodes share"),
        (unseen_gpu, "have GPUs that JAX does not see there"),
        (full_disk, r"cannot continue \(\[Errno 28\] No space left on device\); fix that there"),
    ],
)
def test_a_worker_that_cannot_train_ends_the_command(small_files, tmp_path, engine, monkeypatch, fault, message):
    fault(monkeypatch)
    with pytest.raises(InputError, match=message):
        small_sweep.launched(small_files, tmp_path, engine=engine())


@pytest.mark.slow
def test_a_cluster_makes_the_same_records(small_files, tmp_path, finished_sweep):
    nodes = Nodes(1)
    try:
        table, found = Driver(small_files, tmp_path, *on(nodes)).finished(tmp_path)
        assert table == finished_sweep[1] and found == small_sweep.results(finished_sweep[0])
    finally:
        nodes.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "ray"), "Ray cannot be used at auto (Could not find any running Ray instance."),
        (("--on", "ray:127.0.0.1:1"), "Ray cannot be used at 127.0.0.1:1 ([Errno 111] Connection refused); start it"),
        (("--on", "rai"), "cohorts cannot be trained on 'rai'; give --on ray"),
        (("--on", "ray", "--distributed"), "--on and --distributed cannot be combined; give one"),
    ],
)
def test_invalid_options_are_reported_in_one_line(small_files, tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "nothing"))  # where Ray notes the cluster of this machine
    assert main(small_sweep.command(small_files, tmp_path / "runs", *words)) == 2
    output, errors = capsys.readouterr()
    assert not output and errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_missing_ray_is_reported_with_an_install_command(small_files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", "ray")) == 2
    message = "jaxmatch: --on ray needs Ray, which is not installed; pip install 'jaxmatch[ray]'\n"
    assert capsys.readouterr().err == message

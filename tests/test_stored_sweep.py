"""Sweeps through a store: workers and commands that share only the store make the same records as one process."""

import errno
import json
import os
import shutil
import tempfile
import threading
import time

import fsspec
import pytest
import small_sweep
from small_sweep import Stop

from jaxmatch.errors import InputError
from jaxmatch.store import Store, StoreError
from jaxmatch.sweep import halving, launch, stored_training, worker
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.events import Replay, writer
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.stored_cohort import StoredCohort
from jaxmatch.sweep.stored_sweep import StoredSweep
from jaxmatch.training.cohort import Cohort


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("jaxmatch.store.WAITS", (0.0,))
    monkeypatch.setattr(stored_training, "SECONDS_BETWEEN_POLLS", 0.01)
    return Store(f"memory://{tmp_path.name}")


@pytest.fixture(autouse=True)
def node(tmp_path, monkeypatch):
    """A function that simulates another machine: it sets a separate temporary folder, and returns it."""

    def move(name):
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        return place

    move("node")
    return move


class ByStore(Engine):
    """An engine that uses a store like the engine for Ray, but runs the tasks sequentially in this process.

    Arguments:
      store: the store.
      dies: a function that is called with the stored cohort and each event of a worker. An error that it raises ends
        the worker.
    """

    def __init__(self, store, dies=lambda stored, method: None):
        super().__init__()
        self._store, self._dies = store, dies

    def begin(self, workdir, name, dry_run=False):
        self._sweep = StoredSweep(self._store, "", workdir)
        self._sweep.check(name)
        self._sweep.synchronize()

    def run(self, tasks, work):
        trained = False
        for task in tasks:
            part, data = worker.part_of(work.plan, task.folder)
            replay = Replay(work, task.folder)
            self._sweep.prepare_cohort(task.folder, replay.attempt)
            place = self._sweep.place(task.folder)
            local = writer(task.folder, replay.attempt)

            def notify(cohort, method, arguments):
                local(cohort, method, arguments)
                self._dies(StoredCohort(self._store, place), method)

            trained |= stored_training.execute_stored(
                self._store.url,
                place,
                worker.Order(
                    worker.with_data(part, data),
                    task.folder.name,
                    work.stage,
                    work.before.get(task.folder.name),
                    replay.attempt,
                ),
                notify,
                threading.Event(),
            )
            self._sweep.take(task.folder)
            replay.ended()
        return trained


def after_a_checkpoint(stored, method):
    if method == "evaluated":
        end = time.monotonic() + 20
        while not stored.state().checkpoints:
            assert time.monotonic() < end
            time.sleep(0.01)
        raise Stop


def test_stopped_worker_is_resumed_on_another_machine_from_the_store(
    small_files, tmp_path, store, node, finished_sweep, monkeypatch
):
    whole, full = StoredCohort.put_checkpoint, iter([OSError(errno.ENOSPC, "for a moment")])

    def put_checkpoint(*arguments):
        for error in full:
            raise error
        return whole(*arguments)

    monkeypatch.setattr(StoredCohort, "put_checkpoint", put_checkpoint)
    with pytest.raises(Stop):
        small_sweep.launched(small_files, tmp_path / "first", engine=ByStore(store, after_a_checkpoint))
    assert not list(tmp_path.glob("first/cohorts/*/checkpoints"))
    shutil.rmtree(tmp_path / "first")
    elsewhere = node("elsewhere")
    table, watcher = small_sweep.launched(small_files, tmp_path / "second", engine=ByStore(store))
    assert "resumed from a checkpoint" in watcher.text and table == finished_sweep[1]
    assert small_sweep.results(tmp_path / "second") == small_sweep.results(finished_sweep[0])
    assert [path.name for path in elsewhere.rglob("*")] == ["jaxmatch-store-" + str(os.getuid())]
    (cohort,) = store.names("cohorts")
    assert len(store.names(f"cohorts/{cohort}")) == 2  # the state, and one archive
    # A new working folder, which is filled from the store only.
    table, watcher = small_sweep.launched(small_files, tmp_path / "third", engine=ByStore(store))
    assert watcher.trained == [] and table == finished_sweep[1]
    assert small_sweep.results(tmp_path / "third") == small_sweep.results(finished_sweep[0])
    (vectors,) = tmp_path.glob("third/vectors/*.npy")
    assert all(file.samefile(vectors) for file in tmp_path.glob("third/runs/*/model/vectors.npy"))
    # A missing run is restored.
    run = next(tmp_path.glob("third/runs/*-seed0"))
    shutil.rmtree(run)
    assert small_sweep.launched(small_files, tmp_path / "third", engine=ByStore(store))[1].trained == []
    assert vectors.stat().st_nlink == 1 + len(list(tmp_path.glob("third/runs/*/model/vectors.npy")))
    assert not list(tmp_path.glob("third/.*.partial"))


def test_sweep_started_without_the_store_resumes_with_it(small_files, tmp_path, store, finished_sweep):
    with pytest.raises(Stop):
        launch.sweep(
            small_files / "small.py",
            workdir=tmp_path / "work",
            display=small_sweep.StopAt("evaluated", 2),
            overrides=small_sweep.overrides(small_files),
        )
    # Folders left by killed workers.
    left = [tmp_path / "node" / f"jaxmatch-store-{os.getuid()}" / name for name in ("long ago", "lately")]
    for folder in left:
        folder.mkdir(parents=True)
        folder.with_suffix(".lock").touch()
    os.utime(left[0].with_suffix(".lock"), (1e9, 1e9))
    _, watcher = small_sweep.launched(small_files, tmp_path / "work", engine=ByStore(store))
    assert {path.name for path in left[0].parent.iterdir()} == {"lately", "lately.lock"}
    assert "resumed from a checkpoint" in watcher.text
    assert small_sweep.results(tmp_path / "work") == small_sweep.results(finished_sweep[0])


def test_sweep_trained_without_the_store_is_uploaded(small_files, tmp_path, store, finished_sweep):
    shutil.copytree(finished_sweep[0], tmp_path / "work")
    for place in ("work", "empty"):
        assert small_sweep.launched(small_files, tmp_path / place, engine=ByStore(store))[1].trained == []
    assert small_sweep.results(tmp_path / "empty") == small_sweep.results(finished_sweep[0])


def test_a_result_that_could_not_be_uploaded_is_kept(small_files, tmp_path, store, node, monkeypatch, finished_sweep):
    with monkeypatch.context() as patch:
        patch.setattr(StoredCohort, "put_folder", lambda *arguments: store.write("no/such\0name", None))
        patch.setattr(type(fsspec.filesystem("memory")), "pipe_file", refuse_odd_names)
        with pytest.raises(StoreError):
            small_sweep.launched(small_files, tmp_path / "work", engine=ByStore(store))
    node("node")  # the same machine again
    monkeypatch.setattr(Cohort, "train", None)
    small_sweep.launched(small_files, tmp_path / "work", engine=ByStore(store))
    assert small_sweep.results(tmp_path / "work") == small_sweep.results(finished_sweep[0])


WHOLE = type(fsspec.filesystem("memory")).pipe_file


def refuse_odd_names(self, path, *arguments, **options):
    if "\0" in path:
        raise ConnectionError("no network")
    return WHOLE(self, path, *arguments, **options)


def test_worker_failure_is_reported_and_retried_by_the_next_launch(small_files, tmp_path, store, monkeypatch):
    small_sweep.fail_training(monkeypatch, RuntimeError("no"))
    with pytest.raises(FailedCohorts, match="RuntimeError: no; 2 of 2 runs are missing"):
        small_sweep.launched(small_files, tmp_path / "work", engine=ByStore(store))
    shutil.rmtree(tmp_path / "work")
    small_sweep.launched(small_files, tmp_path / "work", engine=ByStore(store))
    assert len(small_sweep.records(tmp_path / "work")) == 2 and not list(tmp_path.glob("work/cohorts/*/error.json"))


@pytest.mark.slow
def test_halving_through_a_store_equals_local_halving(small_files, tmp_path, store):
    grid = {"optimizer.learning_rate": "0.01,0.003,0.03"}
    changes = {"overrides": small_sweep.overrides(small_files), "grid_overrides": grid}
    planned = launch.resolve(small_files / "small.py", **changes)
    rule = lambda plan: halving.settle(plan, rungs=(1,), eta=3)  # noqa: E731
    found = []
    for name, engine in (("here", None), ("store", ByStore(store)), ("again", ByStore(store))):
        watcher = small_sweep.Watcher()
        launch.run(planned, tmp_path / name, watcher, rule, engine=engine)
        found.append(small_sweep.results(tmp_path / name))
    assert found[0] == found[1] == found[2] and watcher.trained == []
    # A plain sweep of the same runs trains the dropped runs from the start to their end.
    halved = json.loads((tmp_path / "store" / "halving.json").read_text())
    assert json.loads((tmp_path / "again" / "halving.json").read_text())["rule"] == halved["rule"]
    whole = [
        launch.run(planned, tmp_path / name, small_sweep.Watcher(), engine=engine)
        for name, engine in (("here", None), ("again", ByStore(store)))
    ]
    assert small_sweep.results(tmp_path / "here") == small_sweep.results(tmp_path / "again")
    assert {record["status"] for record in whole[1]} == {"finished"}


def test_notes_and_journals_are_synchronized_through_the_store(tmp_path, store):
    other_folder = tmp_path / "other_folder"
    other_folder.mkdir()
    (other_folder / "sweep.json").write_text('{"name": "some"}')
    (other_folder / "arrivals.jsonl").write_text("1\n")
    StoredSweep(store, "", other_folder).push_notes()
    here = tmp_path / "here"
    here.mkdir()
    (here / "arrivals.jsonl").write_text("1\n2\n")  # the command died before its upload
    sweep = StoredSweep(store, "", here)
    sweep.check("some")
    sweep.synchronize()
    assert (here / "sweep.json").read_text() == '{"name": "some"}' and (here / "arrivals.jsonl").read_text() == "1\n2\n"
    sweep.push_notes()
    StoredSweep(store, "", other_folder).synchronize()
    assert (other_folder / "arrivals.jsonl").read_text() == "1\n2\n"
    with pytest.raises(InputError, match='this store holds the sweep "some", not "other"; give a --store of its own'):
        sweep.check("other")
    store.write("sweep.json", b"[")
    with pytest.raises(InputError, match="sweep.json: the object is damaged"):
        sweep.check("some")

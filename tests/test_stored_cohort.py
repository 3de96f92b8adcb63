"""Cohorts in a store: an upload counts only if it is complete and comes from the worker that holds the cohort."""

import dataclasses
import json
import shutil

import pytest

from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.store import Store
from jaxmatch.sweep import stored_training
from jaxmatch.sweep.stored_cohort import State, StoredCohort, Superseded
from jaxmatch.sweep.stored_sweep import StoredSweep
from jaxmatch.workdir import CohortFolder, Workdir
from jaxmatch.workdir.cohort_folder import STORED

RUNS = ("some-seed0", "some-seed1")


@pytest.fixture
def store(tmp_path):
    return Store(f"memory://{tmp_path.name}")


@pytest.fixture
def started_cohort(tmp_path, store):
    """A cohort in a store, and its folder with two fake checkpoints."""
    folder = CohortFolder(tmp_path / "work" / "cohorts" / "abc", "signature", RUNS)
    for number in (4, 8):
        place = folder.checkpoints / str(number) / "arrays"
        place.mkdir(parents=True)
        (place / "content").write_text(str(number))
    (folder.path / "cohort.json").write_text(json.dumps({"signature": "signature", "runs": RUNS}))
    stored = StoredCohort(store, "cohorts/abc")
    stored.replace(State("id", "first", "signature", RUNS))
    return stored, folder


def downloaded(stored, tmp_path):
    folder = CohortFolder(tmp_path / "other" / "cohorts" / "abc", "signature", RUNS)
    folder.path.mkdir(parents=True)
    stored.get_checkpoint(stored.state(), folder)
    found = {path.parent.parent.name: path.read_text() for path in folder.path.rglob("content")}
    shutil.rmtree(tmp_path / "other")
    return found


def upload(stored, folder, number, attempt="first"):
    archive = stored.put_checkpoint(folder, number)
    stored.update(attempt, lambda state: state.with_checkpoint(number, archive))


def test_interrupted_upload_is_ignored(started_cohort, tmp_path, store):
    stored, folder = started_cohort
    assert downloaded(stored, tmp_path) == {}
    upload(stored, folder, 4)
    stored.put_checkpoint(folder, 8)  # and then the worker is killed
    assert len(store.names("cohorts/abc")) == 3 and downloaded(stored, tmp_path) == {"4": "4"}
    upload(stored, folder, 8)
    assert len(store.names("cohorts/abc")) == 3 and downloaded(stored, tmp_path) == {"8": "8"}


def test_damaged_checkpoint_is_skipped(started_cohort, tmp_path, store):
    stored, folder = started_cohort
    upload(stored, folder, 4)
    upload(stored, folder, 8)
    name = f"cohorts/abc/{stored.state().checkpoints[8].name}"
    content = bytearray(store.read(name))
    content[len(content) // 2] ^= 1
    store.write(name, bytes(content))
    assert downloaded(stored, tmp_path) == {"4": "4"}
    store.remove(name)
    assert downloaded(stored, tmp_path) == {"4": "4"}
    store.write("cohorts/abc/state.json", b"{")
    with pytest.raises(InputError, match="cohorts/abc/state.json: the object is damaged"):
        stored.state()


def test_old_checkpoint_is_refused_and_the_newest_is_uploaded(started_cohort):
    stored, folder = started_cohort
    for number in (12, 16):
        shutil.copytree(folder.checkpoints / "8", folder.checkpoints / str(number))
    with pytest.raises(FileNotFoundError):
        stored.put_checkpoint(folder, 4)  # training removes old checkpoints
    stored_training.put_newest(stored, folder, "first")
    assert list(stored.state().checkpoints) == [16]


def test_unreadable_checkpoint_does_not_block_later_uploads(started_cohort, tmp_path, store):
    """Its archive is intact, but the checkpoint in it is damaged: training resumed from the previous checkpoint."""
    stored, folder = started_cohort
    upload(stored, folder, 4)
    upload(stored, folder, 8)
    shutil.move(folder.checkpoints / "8", folder.checkpoints / "6")
    assert stored_training.put_newest(stored, folder, "first") == 6
    assert list(stored.state().checkpoints) == [4, 6] and downloaded(stored, tmp_path) == {"6": "8"}
    shutil.rmtree(folder.checkpoints)
    assert stored_training.put_newest(stored, folder, "first") == -1


def test_superseded_worker_cannot_upload(started_cohort, tmp_path, store):
    stored, folder = started_cohort
    sweep = StoredSweep(store, "", tmp_path / "work")
    shutil.rmtree(folder.checkpoints / "8")
    sweep.prepare_cohort(folder, "second")
    shutil.copytree(folder.checkpoints / "4", folder.checkpoints / "8")
    with pytest.raises(Superseded):
        upload(stored, folder, 8)
    assert list(stored.state().checkpoints) == [4]
    upload(stored, folder, 8, "second")
    assert list(stored.state().checkpoints) == [4, 8]


def test_cohort_finished_but_not_yet_seen_is_not_trained_again(started_cohort, tmp_path, store):
    """The worker or the command died after the worker's last upload, before the command checked the store again."""
    stored, folder = started_cohort
    sweep = StoredSweep(store, "", tmp_path / "work")
    sweep.take(folder)
    archive = stored.put_folder(Workdir(tmp_path / "work"), folder)
    stored.update("first", lambda state: dataclasses.replace(state, folder=archive, done=True))
    sweep.prepare_cohort(folder, "second")
    assert stored.state() == State("id", "second", "signature", RUNS, folder=archive, done=True)
    # A cohort that was seen to be finished is handed out to be trained again.
    write_json(folder.path / STORED, {"url": stored.url, "folder": archive.name, "checkpoints": []})
    sweep.prepare_cohort(folder, "third")
    assert not stored.state().done and stored.state().id != "id" and list(stored.state().checkpoints) == [8]


def test_local_checkpoints_are_kept_and_uploaded(started_cohort, tmp_path, store):
    stored, folder = started_cohort
    sweep = StoredSweep(store, "", tmp_path / "work")
    upload(stored, folder, 4)
    sweep.synchronize()
    sweep.prepare_cohort(folder, "second")  # checkpoint 8 was made locally since then
    assert list(stored.state().checkpoints) == [4, 8]
    for elsewhere in (Store(f"memory://{tmp_path.name}-other"), store):
        store.remove("cohorts/abc/state.json")
        StoredSweep(elsewhere, "", tmp_path / "work").synchronize()
        assert (folder.checkpoints / "8").exists()
    shutil.rmtree(folder.checkpoints)
    sweep.synchronize()
    assert not folder.path.exists()


def test_stored_cohort_is_restored_and_cannot_be_claimed_in_part(started_cohort, tmp_path, store):
    stored, folder = started_cohort
    upload(stored, folder, 8)
    shutil.rmtree(folder.path)
    workdir = Workdir(tmp_path / "work")
    sweep = StoredSweep(store, "", workdir.path)
    sweep.synchronize()
    (found,) = workdir.cohorts()
    assert found.newest_checkpoint() == 8 and found.runs == folder.runs
    with pytest.raises(InputError, match=rf"^{store.url}/cohorts/abc: this cohort of 2 unfinished runs contains runs"):
        workdir.claim([("signature", RUNS[:1])])
    store.remove("cohorts/abc/state.json")  # the user discards the cohort
    sweep.synchronize()
    assert [claimed.runs for claimed in workdir.claim([("signature", RUNS[:1])])] == [RUNS[:1]]

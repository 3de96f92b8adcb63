"""Training of a cohort of an object store in a worker: in a folder of its own, from the last checkpoint in the store.

A separate thread uploads checkpoints, so that training is not slowed down. Records are uploaded at the end. Files that
could not be uploaded stay in the worker's folder, and the next attempt on the same machine uploads them.
"""

import contextlib
import dataclasses
import hashlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError
from jaxmatch.files import remove_abandoned, write_json
from jaxmatch.store import Store, StoreError
from jaxmatch.sweep import worker
from jaxmatch.sweep.events import Report
from jaxmatch.sweep.stored_cohort import State, StoredCohort, Superseded, newest
from jaxmatch.workdir import CohortFolder, Workdir

SECONDS_BETWEEN_POLLS = 0.5
# How often the store is asked whether another worker was given the cohort, as long as no checkpoint is uploaded.
SECONDS_BETWEEN_QUERIES = 60.0
# A folder that no worker has used for this long is removed.
SECONDS_OF_A_SCRATCH = 7 * 86_400.0


def execute_stored(url: str, place: str, order: worker.Order, report: Report, stop: threading.Event) -> bool:
    """Trains a cohort in a store as `worker.execute_cohort` does.

    Arguments:
      url: the URL of the store.
      place: the folder of the cohort in the store.
      order: the order for the worker. Nothing is done unless the state of the cohort names its attempt.

    Raises:
      StoreError: the store cannot be used.
    """
    stored = StoredCohort(Store(url), place)
    state = stored.state()
    if state is None or state.attempt != order.attempt:
        return False
    workdir = Workdir(scratch(stored.url, state))
    workdir.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_old(workdir.path.parent)
    folder = CohortFolder(workdir.path / "cohorts" / order.cohort, state.signature, state.runs)
    lock = workdir.path.with_suffix(".lock")
    try:
        with FileLock(lock).acquire(timeout=worker.SECONDS_FOR_THE_LOCK):
            os.utime(lock)  # acquiring an existing lock does not change its age
            workdir.path.mkdir(exist_ok=True)
            _download(stored, state, workdir, folder)
            with _uploading_checkpoints(stored, folder, order.attempt, stop):
                trained = worker.execute_cohort(order, workdir.path, report, stop)
            _finish(stored, workdir, folder, order.attempt)
            shutil.rmtree(workdir.path, ignore_errors=True)
            lock.unlink(missing_ok=True)
            return trained
    except (Superseded, Timeout):  # another worker continues, or still trains the cohort
        return False


def scratch(url: str, state: State) -> Path:
    """Returns the folder of a worker for a cohort. It is the same for each attempt on a machine."""
    name = hashlib.sha256(f"{url} {state.id}".encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"jaxmatch-store-{user}" / name


def _remove_old(scratches: Path) -> None:
    """Removes the folders that dead workers left here long ago."""
    for lock in scratches.glob("*.lock"):
        with contextlib.suppress(OSError, Timeout):
            if time.time() - lock.stat().st_mtime > SECONDS_OF_A_SCRATCH:
                with FileLock(lock).acquire(blocking=False):
                    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                    lock.unlink()


def _download(stored: StoredCohort, state: State, workdir: Workdir, folder: CohortFolder) -> None:
    """Downloads what the store holds of a cohort to an empty folder.

    If an attempt that died has left its folder, only a newer checkpoint is downloaded.
    """
    for place in (workdir.path, folder.path):
        remove_abandoned(place)
    if folder.done:  # only the upload is missing
        return
    if state.folder is not None and not (folder.path / "cohort.json").exists():
        if not stored.get(state.folder, workdir.path):
            raise StoreError(stored.url, f"{state.folder.name} is damaged")
    write_json(folder.path / "cohort.json", {"signature": state.signature, "runs": state.runs})
    stored.get_checkpoint(state, folder)


@contextlib.contextmanager
def _uploading_checkpoints(stored: StoredCohort, folder: CohortFolder, attempt: str, stop: threading.Event):
    """Uploads the checkpoints that are written in the block.

    If another worker is given the cohort, training is told to stop.
    """
    ended = threading.Event()

    def upload() -> None:
        uploaded, checked_at = -1, time.monotonic()
        try:
            while not ended.wait(SECONDS_BETWEEN_POLLS):
                with contextlib.suppress(StoreError, InputError, OSError):  # the upload is tried again soon
                    if newest(folder) != uploaded:
                        uploaded = put_newest(stored, folder, attempt)
                    elif time.monotonic() - checked_at > SECONDS_BETWEEN_QUERIES:
                        checked_at = time.monotonic()
                        stored.state_of(attempt)
        except Superseded:
            stop.set()

    thread = threading.Thread(target=upload, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def put_newest(stored: StoredCohort, folder: CohortFolder, attempt: str) -> int:
    """Uploads the newest checkpoint of a folder, unless the store has it, and returns its number, or -1 for none.

    A checkpoint in the store with a higher number was downloaded but could not be read, so training began before it.
    It is removed.

    Raises:
      FileNotFoundError: the checkpoint was removed meanwhile, because a newer one exists or the cohort is done.
      Superseded: another attempt has begun since, or the state of the cohort was removed.
    """
    number = newest(folder)
    if number >= 0 and number not in stored.state_of(attempt).checkpoints:
        archive = stored.put_checkpoint(folder, number)
        stored.update(attempt, lambda state: state.before(number).with_checkpoint(number, archive))
    return number


def _finish(stored: StoredCohort, workdir: Workdir, folder: CohortFolder, attempt: str) -> None:
    """Uploads the state of a cohort: its records, its failure, or the results of its runs at a rung."""
    if not folder.done:
        put_newest(stored, folder, attempt)
    archive = stored.put_folder(workdir, folder)
    checkpoints = {"checkpoints": {}} if folder.done else {}
    stored.update(attempt, lambda state: dataclasses.replace(state, folder=archive, done=folder.done, **checkpoints))

"""A sweep in an object store, as the command sees it: the working folder holds finished work, the store everything.

    STORE/lease        the command that drives the sweep (store_lease.py)
    STORE/cohorts/     the cohorts (stored_cohort.py)
    STORE/*.json, ...  the notes of the working folder: sweep.json and the like, and journals
    STORE/final/       the sweep of the chosen setting, for `jaxmatch tune`

The command downloads what the working folder lacks before anything is planned, and whenever a cohort is over. It
uploads what the store lacks because it was trained without the store.
"""

import dataclasses
import json
import os
import secrets
import shutil
from pathlib import Path

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import directory_atomically, scratch_folder, write_atomically, write_json
from jaxmatch.reporting.records import notes_file
from jaxmatch.store import Store
from jaxmatch.sweep.stored_cohort import STATE, State, StoredCohort, newest
from jaxmatch.workdir import Workdir
from jaxmatch.workdir.cohort_folder import STORED, CohortFolder

# The suffixes of notes in a working folder. Lines that are added to journals decide what is trained next.
_NOTES = (".json", ".jsonl", ".journal")
_JOURNALS = (".jsonl", ".journal")


class StoredSweep:
    """A working folder and its copy in a store.

    Arguments:
      store: the store.
      prefix: the prefix of the names of objects, "" or "final/".
      workdir: the folder.
    """

    def __init__(self, store: Store, prefix: str, workdir: Path):
        self._store, self._prefix, self._workdir = store, prefix, Workdir(workdir)
        self._pushed: dict[str, tuple[int, int]] = {}

    def check(self, name: str) -> None:
        """Checks that the store does not hold another sweep.

        Raises:
          InputError: the store holds another sweep, or its notes are damaged.
        """
        key = self._prefix + notes_file(Path()).name
        with report_damage(self._store.at(key), "remove it", "the object"):
            owner = json.loads(self._store.read(key) or b"{}").get("name")
        if owner not in (None, name):
            raise InputError(
                f'this store holds the sweep "{owner}", not "{name}"',
                path=self._store.url,
                remedy="give a --store of its own",
            )

    def synchronize(self) -> None:
        """Downloads what the working folder lacks, and uploads what the store lacks."""
        names = [name for name in self._store.names(self._prefix.rstrip("/")) if name.endswith(_NOTES)]
        for name, content in self._store.read_all(self._prefix + name for name in names).items():
            self._write_note(self._workdir.path / name.removeprefix(self._prefix), content)
        cohorts = {name: self._cohort(name) for name in self._store.names(f"{self._prefix}cohorts")}
        contents = self._store.read_all(f"{cohort.place}/{STATE}" for cohort in cohorts.values())
        states = {
            name: cohort.state(content)
            for name, cohort in cohorts.items()
            if (content := contents.get(f"{cohort.place}/{STATE}")) is not None
        }
        for name, state in states.items():
            self._download_cohort(cohorts[name], state)
        for folder in self._workdir.cohorts():
            if folder.done and all(map(self._has_record, folder.runs)):
                self._upload_cohort(self._cohort(folder.name), states.get(folder.name), folder)
            elif folder.name not in states and folder.stored().get("url") == self._cohort(folder.name).url:
                if newest(folder) < 0:  # the store lost the cohort, and nothing was trained here since
                    shutil.rmtree(folder.path)

    def prepare_cohort(self, folder: CohortFolder, attempt: str) -> None:
        """Prepares the store for a worker that will train a cohort: uploads what it needs, and notes its attempt.

        Arguments:
          folder: the folder of the cohort, in the working folder.
          attempt: the id of the attempt.
        """
        self.push_notes()
        stored = self._cohort(folder.name)
        state, known = stored.state(), folder.stored()
        # The cohort was finished since it was downloaded, for example by a worker of a command that died. `take` will
        # download it.
        unseen = state is not None and state.done and known and known.get("folder") != state.folder.name
        # The cohort is new, or its records are not all that is wanted. It starts from the beginning.
        if state is None or (state.done and not unseen):
            state = State(secrets.token_hex(8), attempt, folder.signature, folder.runs)
            if any(folder.path.glob("rung-*.json")):
                state = dataclasses.replace(state, folder=stored.put_folder(self._workdir, folder))
        number = newest(folder)
        if not state.done and number > max(state.checkpoints, default=-1):  # trained here without the store
            state = state.with_checkpoint(number, stored.put_checkpoint(folder, number))
        stored.replace(dataclasses.replace(state, attempt=attempt))

    def take(self, folder: CohortFolder) -> None:
        """Downloads the state of a cohort whose worker has ended."""
        stored = self._cohort(folder.name)
        if state := stored.state():
            self._download_cohort(stored, state)

    def push_notes(self) -> None:
        """Uploads the notes of the working folder that have changed."""
        for file in sorted(self._workdir.path.glob("*")):
            if file.suffix in _NOTES and not file.name.startswith(".") and file.is_file():
                now = file.stat()
                if self._pushed.get(file.name) != (now.st_mtime_ns, now.st_size):
                    self._store.write(self._prefix + file.name, file.read_bytes())
                    self._pushed[file.name] = now.st_mtime_ns, now.st_size

    def place(self, folder: CohortFolder) -> str:
        """Returns the folder of a cohort in the store."""
        return self._cohort(folder.name).place

    def _cohort(self, name: str) -> StoredCohort:
        return StoredCohort(self._store, f"{self._prefix}cohorts/{name}")

    def _write_note(self, file: Path, content: bytes) -> None:
        local = file.read_bytes() if file.exists() else b""
        if file.suffix in _JOURNALS and local.startswith(content):
            return  # the file here has lines that were added after the last upload
        if local != content:
            write_atomically(file, content)

    def _download_cohort(self, stored: StoredCohort, state: State) -> None:
        name = stored.place.rpartition("/")[2]
        folder = CohortFolder(self._workdir.path / "cohorts" / name, state.signature, state.runs)
        archive = state.folder and state.folder.name
        lacks_runs = state.done and not (folder.done and all(map(self._has_record, state.runs)))
        if archive and (lacks_runs or folder.stored().get("folder") != archive):
            self._unpack(stored, state, folder)
        elif not (folder.path / "cohort.json").exists():
            write_json(folder.path / "cohort.json", {"signature": state.signature, "runs": state.runs})
        write_json(
            folder.path / STORED, {"url": stored.url, "folder": archive, "checkpoints": sorted(state.checkpoints)}
        )

    def _has_record(self, run: str) -> bool:
        return (self._workdir.run_folder(run) / "record.json").exists()

    def _unpack(self, stored: StoredCohort, state: State, folder: CohortFolder) -> None:
        with scratch_folder(self._workdir.path) as scratch:
            if not stored.get(state.folder, scratch):
                raise InputError(
                    "the archive is damaged",
                    path=f"{stored.url}/{state.folder.name}",
                    remedy="remove all objects in the cohort's folder of the store, and start again",
                )
            found = Workdir(scratch)
            for vectors in found.path.glob("vectors/*.npy"):
                self._link_vectors(vectors, found)
            for run in state.runs if state.done else ():
                with directory_atomically(self._workdir.run_folder(run)) as place:
                    for path in found.run_folder(run).iterdir():
                        os.rename(path, place / path.name)
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.error_file.unlink(missing_ok=True)
            files = sorted((found.path / "cohorts" / folder.name).iterdir(), key=lambda file: file.name == "DONE")
            for file in files:
                os.replace(file, folder.path / file.name)
            if state.done:
                shutil.rmtree(folder.checkpoints, ignore_errors=True)

    def _link_vectors(self, vectors: Path, found: Workdir) -> None:
        """Makes unpacked models share the vectors that the models of the working folder share."""
        ours = self._workdir.path / "vectors" / vectors.name
        if not ours.exists() or ours.read_bytes() != vectors.read_bytes():
            ours.parent.mkdir(parents=True, exist_ok=True)
            scratch = vectors.with_suffix(".linked")
            os.link(vectors, scratch)
            os.replace(scratch, ours)
            return
        for file in found.path.glob("runs/*/model/*.npy"):
            if file.samefile(vectors):
                file.unlink()
                os.link(ours, file)

    def _upload_cohort(self, stored: StoredCohort, state: State | None, folder: CohortFolder) -> None:
        """Uploads a cohort that was trained without the store."""
        if state is None or not state.done:
            state = state or State(secrets.token_hex(8), "", folder.signature, folder.runs)
            archive = stored.put_folder(self._workdir, folder)
            stored.replace(dataclasses.replace(state, attempt="", checkpoints={}, folder=archive, done=True))

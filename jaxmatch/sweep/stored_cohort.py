"""A cohort in an object store: its checkpoints and, at the end, its records.

    STORE/cohorts/COHORT/state.json              the state: the valid archives, each with its digest
    STORE/cohorts/COHORT/checkpoint-NUMBER-*.tar a checkpoint
    STORE/cohorts/COHORT/folder-*.tar            other files of the cohort and folders of its runs, as in a workdir

Archives are uploaded first, each under a new name. Then state.json is replaced. Only archives that it names are valid,
so an interrupted upload is never seen.
"""

import dataclasses
import json
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jaxmatch.errors import report_damage
from jaxmatch.files import hash_file, scratch_folder
from jaxmatch.store import Store
from jaxmatch.training.checkpoints import KEPT
from jaxmatch.workdir import Workdir
from jaxmatch.workdir.cohort_folder import STORED, CohortFolder

STATE = "state.json"


class Superseded(Exception):
    """The cohort was given to another worker."""


@dataclasses.dataclass(frozen=True)
class Archive:
    """An archive in the store.

    Attributes:
      name: the name of the object, without its folder.
      sha256: the digest of its bytes.
    """

    name: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class State:
    """The content of a store for a cohort.

    Attributes:
      id: an id that differs between two trainings from the start.
      attempt: the id of the attempt that may write.
      signature: the signature of the runs.
      runs: the names of the runs.
      checkpoints: number -> archive, the newest last.
      folder: the archive of the other files, or None.
      done: whether all runs are on record.
    """

    id: str
    attempt: str
    signature: str
    runs: tuple[str, ...]
    checkpoints: dict[int, Archive] = dataclasses.field(default_factory=dict)
    folder: Archive | None = None
    done: bool = False

    def json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self), indent=1).encode()

    def before(self, number: int) -> "State":
        """Returns the state without the checkpoints of this number and above."""
        return dataclasses.replace(
            self, checkpoints={each: at for each, at in self.checkpoints.items() if each < number}
        )

    def with_checkpoint(self, number: int, archive: Archive) -> "State":
        """Returns the state with one more checkpoint, limited to the newest `KEPT` checkpoints."""
        kept = sorted((self.checkpoints | {number: archive}).items())[-KEPT:]
        return dataclasses.replace(self, checkpoints=dict(kept))


def _parsed(content: bytes) -> State:
    found: dict[str, Any] = json.loads(content)
    archives = {int(number): Archive(**archive) for number, archive in found.pop("checkpoints").items()}
    folder = found.pop("folder")
    state = State(**found, checkpoints=archives, folder=folder and Archive(**folder))
    return dataclasses.replace(state, runs=tuple(state.runs))


class StoredCohort:
    """A cohort in a store.

    Arguments:
      store: the store.
      place: the folder of the cohort in the store.
    """

    def __init__(self, store: Store, place: str):
        self._store, self.place = store, place

    @property
    def url(self) -> str:
        return self._store.at(self.place)

    def state(self, content: bytes | None = None) -> State | None:
        """Returns the state of the cohort, or None if the store has no state of it.

        Arguments:
          content: the content of state.json, if it was already read.

        Raises:
          InputError: state.json is damaged.
        """
        if content is None:
            content = self._store.read(f"{self.place}/{STATE}")
        remedy = "remove all objects in the cohort's folder of the store, and start again"
        with report_damage(f"{self.url}/{STATE}", remedy, "the object"):
            return None if content is None else _parsed(content)

    def replace(self, state: State) -> None:
        """Writes a new state, and removes all archives that are not part of it."""
        self._store.write(f"{self.place}/{STATE}", state.json())
        named = {STATE, *(each.name for each in (*state.checkpoints.values(), state.folder) if each)}
        removed = [name for name in self._store.names(self.place) if name not in named]
        self._store.remove(*(f"{self.place}/{name}" for name in removed))

    def state_of(self, attempt: str) -> State:
        """Returns the state of the cohort, for an attempt.

        Raises:
          Superseded: another attempt has begun since, or the state was removed.
        """
        state = self.state()
        if state is None or state.attempt != attempt:
            raise Superseded(self.url)
        return state

    def update(self, attempt: str, change: Callable[[State], State]) -> None:
        """Changes the state of the cohort, for an attempt.

        Raises:
          Superseded: another attempt has begun since, or the state was removed.
        """
        self.replace(change(self.state_of(attempt)))

    def put_checkpoint(self, folder: CohortFolder, number: int) -> Archive:
        """Uploads a checkpoint of a folder and returns its archive.

        Raises:
          FileNotFoundError: the checkpoint was removed meanwhile.
        """
        return self._put(
            f"checkpoint-{number}",
            folder.path,
            folder.checkpoints,
            [str(number)],
            lambda: number in folder.checkpoint_numbers()[-KEPT:],
        )

    def put_folder(self, workdir: Workdir, folder: CohortFolder) -> Archive:
        """Uploads the other files of a folder and returns their archive.

        If the cohort is done, the archive includes the folders of its runs and the shared word vectors.
        """
        paths = [path for path in folder.path.glob("*.json") if path.name != STORED]
        if folder.done:
            # Models that share vectors by hard links also share them in the archive.
            paths += [*workdir.path.glob("vectors/*.npy"), *map(workdir.run_folder, folder.runs), folder.path / "DONE"]
        return self._put("folder", folder.path, workdir.path, [str(path.relative_to(workdir.path)) for path in paths])

    def _put(
        self,
        name: str,
        scratch_place: Path,
        root: Path,
        paths: Iterable[str],
        whole: Callable[[], bool] = lambda: True,
    ) -> Archive:
        with scratch_folder(scratch_place) as scratch:
            file = scratch / "archive.tar"
            with tarfile.open(file, "w") as archive:
                for path in paths:
                    archive.add(root / path, arcname=path)
            if not whole():
                raise FileNotFoundError(name)
            made = Archive(f"{name}-{secrets.token_hex(4)}.tar", hash_file(file))
            self._store.upload(f"{self.place}/{made.name}", file)
            return made

    def get(self, archive: Archive, place: Path) -> bool:
        """Downloads an archive and unpacks it in an empty folder. Returns False if it is missing or damaged."""
        file = place / "archive.tar"
        if not self._store.download(f"{self.place}/{archive.name}", file) or hash_file(file) != archive.sha256:
            return False
        with tarfile.open(file) as content:
            # Python versions before 3.11.4 have no filter.
            content.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        file.unlink()
        return True

    def get_checkpoint(self, state: State, folder: CohortFolder) -> None:
        """Downloads the newest intact checkpoint to a folder, unless the folder has one at least as new."""
        for number, archive in sorted(state.checkpoints.items(), reverse=True):
            if number <= newest(folder):
                return
            with scratch_folder(folder.path) as scratch:
                if self.get(archive, scratch):
                    folder.checkpoints.mkdir(exist_ok=True)
                    shutil.move(scratch / str(number), folder.checkpoints / str(number))
                    return


def newest(folder: CohortFolder) -> int:
    """Returns the number of the newest checkpoint in a folder, or -1."""
    return max(folder.checkpoint_numbers(), default=-1)

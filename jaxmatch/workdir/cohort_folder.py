"""The folder of a cohort."""

import contextlib
import dataclasses
import hashlib
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json, remove_abandoned, write_atomically, write_json
from jaxmatch.training.unfinished_checkpoints import half_written, remove_half_written


@dataclasses.dataclass(frozen=True)
class CohortFolder:
    """A cohort on disk: some runs of one signature, trained together.

    Attributes:
      path: the folder of the cohort.
      signature: the signature of its runs.
      runs: the names of its runs.
    """

    path: Path
    signature: str
    runs: tuple[str, ...]

    @classmethod
    def new(cls, cohorts: Path, signature: str, runs: tuple[str, ...]) -> "CohortFolder":
        """Creates the folder of a cohort of some runs in the folder `cohorts`."""
        path = cohorts / hashlib.sha256("\n".join((signature, *runs)).encode()).hexdigest()[:12]
        if path.exists():  # an earlier cohort of these runs, whose records or cohort.json are gone
            shutil.rmtree(path)
        write_json(path / "cohort.json", {"signature": signature, "runs": runs})
        return cls(path, signature, runs)

    @classmethod
    def read(cls, path: Path) -> "CohortFolder | None":
        """Returns the cohort in a folder, or None if another launcher has just removed it.

        Raises:
          InputError: the file cohort.json is damaged.
        """
        file = path / "cohort.json"
        with contextlib.suppress(FileNotFoundError), report_damage(file, "remove its folder and start again"):
            notes = read_json(file)
            signature, runs = notes["signature"], notes["runs"]
            if isinstance(runs, str) or not all(isinstance(text, str) for text in (signature, *runs)):
                raise TypeError("signature or runs are not strings")
            return cls(path, signature, tuple(runs))
        return None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    @property
    def error_file(self) -> Path:
        """The file that states why the cohort failed. It exists only if the cohort failed."""
        return self.path / "error.json"

    def checkpoint_numbers(self) -> list[int]:
        """Returns the numbers of the checkpoints in this folder, the newest last."""
        return sorted(int(path.name) for path in self.checkpoints.glob("*") if path.name.isdigit())

    def newest_checkpoint(self) -> int:
        """Returns the number of the newest checkpoint, or -1 if none exists."""
        return max(self.checkpoint_numbers(), default=-1)

    def failure(self) -> bytes | None:
        """Returns the content of `error_file`, unique to each failure, or None if the cohort has not failed."""
        try:
            return self.error_file.read_bytes()
        except FileNotFoundError:
            return None

    def clean(self) -> None:
        """Removes the files that killed launchers left half written or had no time to remove.

        Checkpoints stay while a process holds the lock of the cohort.
        """
        remove_abandoned(self.path)
        if half_written(self.checkpoints) or (self.done and self.checkpoints.exists()):
            try:
                with self.lock().acquire(blocking=False):
                    remove_half_written(self.checkpoints)
                    if self.done:
                        shutil.rmtree(self.checkpoints, ignore_errors=True)
            except Timeout:
                pass

    def abandon(self) -> bool:
        """Removes the cohort because it holds runs that are no longer needed, unless a process is training it.

        Returns:
          Whether the cohort was removed.

        Raises:
          InputError: the cohort has a checkpoint, which only the user may give up.
        """
        try:
            with self.lock().acquire(blocking=False):
                if self.newest_checkpoint() >= 0:
                    raise InputError(
                        f"this cohort of {len(self.runs)} unfinished runs contains runs that are not in the sweep now",
                        path=self.path,
                        remedy="use the earlier seeds and values to resume it, or remove this folder",
                    )
                shutil.rmtree(self.path)
                return True
        except Timeout:
            return False

    def rung(self, epochs: int) -> Path:
        """Returns the path of the file that states how the runs did when the cohort paused after `epochs` epochs."""
        return self.path / f"rung-{epochs}.json"

    def mark_done(self) -> None:
        """Marks that all runs of the cohort are on record, and removes the checkpoints, which are no longer needed."""
        write_atomically(self.path / "DONE", "")
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def lock(self) -> FileLock:
        """Returns the lock that the process that trains the cohort holds.

        The system frees the lock when that process ends, however it ends.
        """
        return FileLock(self.path.with_name(f"{self.path.name}.lock"))

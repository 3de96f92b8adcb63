"""The folder of a cohort."""

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError
from jaxmatch.files import read_json, remove_abandoned, write_atomically, write_json
from jaxmatch.training.remains import half_written, remove_half_written

STORED = "stored.json"


@dataclasses.dataclass(frozen=True)
class CohortFolder:
    """A cohort on disk: some runs of one signature, trained together.

    Attributes:
      path: its folder.
      signature: of its runs.
      runs: their names.
    """

    path: Path
    signature: str
    runs: tuple[str, ...]

    @classmethod
    def new(cls, cohorts: Path, signature: str, runs: tuple[str, ...]) -> "CohortFolder":
        """Makes the folder of some runs, below `cohorts`."""
        path = cohorts / hashlib.sha256("\n".join((signature, *runs)).encode()).hexdigest()[:12]
        (path / "DONE").unlink(missing_ok=True)  # of a cohort of these runs whose notes and records are gone
        write_json(path / "cohort.json", {"signature": signature, "runs": runs})
        return cls(path, signature, runs)

    @classmethod
    def read(cls, path: Path) -> "CohortFolder | None":
        """The cohort in a folder; None where another launcher has just abandoned it.

        Raises:
          InputError: its notes are damaged.
        """
        file = path / "cohort.json"
        try:
            notes = read_json(file)
            signature, runs = notes["signature"], notes["runs"]
            if isinstance(runs, str) or not all(isinstance(text, str) for text in (signature, *runs)):
                raise TypeError("signature or runs are not texts")
            return cls(path, signature, tuple(runs))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"the file is damaged ({error})", path=file, remedy="remove its folder and start again"
            ) from None

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
    def error(self) -> Path:
        """Says why it failed, if it did."""
        return self.path / "error.json"

    def checkpoint_numbers(self) -> list[int]:
        """The numbers of the checkpoints here, the newest last."""
        return sorted(int(path.name) for path in self.checkpoints.glob("*") if path.name.isdigit())

    def newest_checkpoint(self) -> int:
        """The number of its newest checkpoint, here or in an object store; -1: it has none."""
        return max((*self.checkpoint_numbers(), *self.stored().get("checkpoints", ())), default=-1)

    @property
    def place(self) -> str | Path:
        """Where its checkpoints are: its folder, or a URL in an object store."""
        return self.stored().get("url") or self.path

    def stored(self) -> Mapping[str, Any]:
        """What an object store held of it when that was last asked: "url", "folder" (an archive), "checkpoints"
        (numbers). Without a store, or where the file is damaged: nothing.
        """
        try:
            found = read_json(self.path / STORED)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def failure(self) -> bytes | None:
        """What tells its last failure from any other, or None where it did not fail."""
        try:
            return self.error.read_bytes()
        except FileNotFoundError:
            return None

    def clean(self) -> None:
        """Removes what killed launchers left half written or had no time to remove, unless somebody is at the
        cohort.
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
        if self.done:
            (self.path / "events.jsonl").unlink(missing_ok=True)

    def abandon(self) -> bool:
        """Removes it because it holds runs nobody wants any more, unless somebody is at it.

        Raises:
          InputError: it has a checkpoint, which only the user may give up.
        """
        try:
            with self.lock().acquire(blocking=False):
                if self.newest_checkpoint() >= 0:
                    raise InputError(
                        f"this cohort of {len(self.runs)} unfinished runs contains runs that are not in the sweep now",
                        path=self.place,
                        remedy="use the earlier seeds and values to resume it, or remove this folder (with --store, in "
                        "the workdir, too)",
                    )
                shutil.rmtree(self.path)
                return True
        except Timeout:
            return False

    def rung(self, epochs: int) -> Path:
        """The file that says how its runs did when it paused after so many epochs."""
        return self.path / f"rung-{epochs}.json"

    def mark_done(self) -> None:
        """Says that all its runs are on record, and drops the checkpoints, which nobody needs any more."""
        write_atomically(self.path / "DONE", "")
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def lock(self) -> FileLock:
        """Held by the process that trains the cohort; the system frees it when that process ends, however it ends."""
        return FileLock(self.path.with_name(f"{self.path.name}.lock"))

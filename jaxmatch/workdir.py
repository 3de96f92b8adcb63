"""The folder of a sweep: unfinished cohorts, finished runs, and which process or job works on which cohort.

WORKDIR/
  sweep.json              name, layout of the table and run names of the sweep started last
  floors.json             scores of the floors that its table shows (baselines.py), if it shows any
  runs/RUN/record.json    the record of a run; the folder appears whole or not at all
  runs/RUN/mistakes.json  its worst predictions on dev, if it has a model (training/evaluation.py)
  runs/RUN/model/         the trained model with all files that it needs to predict
  cohorts/COHORT/         cohort.json (its runs), checkpoints/, rung-EPOCHS.json (how its runs did by then), DONE, or
                          error.json (why it failed)
  vectors/                embedding tables that the models of this folder share by hard links
  slurm/                  jobs.json (which job trains which cohort), logs, and the input of jobs (sweep/on_slurm.py)
"""

import contextlib
import dataclasses
import glob
import hashlib
import os
import secrets
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json, remove_abandoned, write_atomically, write_json
from jaxmatch.training.unfinished_checkpoints import half_written, remove_half_written

# The result of a timing, in a folder of its own.
TIMING_FILE = "timing.json"
FLOORS_FILE = "floors.json"
MISTAKES_FILE = "mistakes.json"


def pack(
    cohorts: Iterable[tuple[str, Sequence[str]]], wanted: Callable[[str], bool]
) -> list[tuple[str, tuple[str, ...]]]:
    """Packs the wanted runs of some cohorts into as few cohorts as their sizes allow.

    Arguments:
      cohorts: (signature, run names) for each cohort. The largest cohort of a signature determines how many of its runs
        fit.
      wanted: a function that returns whether to keep a run.
    """
    kept: dict[str, list[str]] = {}
    size: dict[str, int] = {}
    for signature, runs in cohorts:
        kept.setdefault(signature, []).extend(run for run in runs if wanted(run))
        size[signature] = max(size.get(signature, 1), len(runs))
    return [
        (signature, tuple(runs[start : start + size[signature]]))
        for signature, runs in kept.items()
        for start in range(0, len(runs), size[signature])
    ]


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


_LONGEST_MESSAGE = 400


def prevents_all_training(error: Exception) -> bool:
    """Returns whether an error would affect every other cohort, too: the disk is full, a folder is gone, or standard
    error is closed.
    """
    return isinstance(error, OSError) and error.errno is not None


def mark_failed(folder: CohortFolder, error: Exception) -> str:
    """Stores an error in the folder of its cohort, and returns its message in one line."""
    if isinstance(error, InputError):
        message = "; ".join(filter(None, (error.problem, error.remedy)))
    else:
        message = f"{type(error).__name__}: {error}".removesuffix(": ")
    message = " ".join(message.split())[:_LONGEST_MESSAGE]
    # The number distinguishes this failure from an earlier one with the same words.
    notes = {
        "failure": secrets.token_hex(8),
        "message": message,
        "traceback": "".join(traceback.format_exception(error)),
    }
    write_json(folder.error_file, notes)
    return message


def failure_message(folder: CohortFolder) -> str:
    """Returns why a cohort failed, in one line."""
    try:
        return str(read_json(folder.error_file)["message"])
    except (OSError, ValueError, KeyError, TypeError):  # another launcher tries again, or the file is damaged
        return "the reason is lost"


class FailedCohorts(InputError):
    """Some cohorts failed; the others were trained.

    Arguments:
      folders: the folders of the cohorts that failed.
      runs: the number of runs that were planned.

    Attributes:
      records: the records of the runs that did not fail.
      table: the table of these records, in Markdown, or "" if there is no table.
    """

    def __init__(self, folders: Sequence[CohortFolder], runs: int):
        self.records: Sequence[Mapping[str, Any]] = ()
        self.table = ""
        first, missing = folders[0], sum(len(folder.runs) for folder in folders)
        others = "" if len(folders) == 1 else f" (and {len(folders) - 1} more failed)"
        super().__init__(
            f"this cohort failed: {failure_message(first)}{others}",
            path=first.path,
            remedy=f"{missing} of {runs} runs are missing: their training failed; see {first.error_file.name}; run the "
            "same command to try again",
        )


FOLDERS = ("runs", "cohorts", "vectors", "slurm")
_PLAIN_FILES = (
    "*.json",
    "*.jsonl",
    "cohorts/*/*.json",
    "cohorts/*/DONE",
    "runs/*/record.json",
    "vectors/*.npy",
)


def check_usable(workdir: Path) -> None:
    """Checks, before training starts, that a sweep can be stored in a folder. Writes nothing.

    Raises:
      InputError: the path is not UTF-8, the folder cannot be written, or a pipe, a folder or a dangling link is in the
        place of a file.
    """
    try:
        str(workdir.absolute()).encode()
    except UnicodeEncodeError:  # Orbax could not write checkpoints
        raise InputError("this path is not UTF-8", path=workdir, remedy="give another --workdir") from None
    for folder in (workdir, *(workdir / name for name in FOLDERS)):
        _check_folder(folder)
    for folder in _existing_paths(workdir, "runs/*-seed*"):
        _check_folder(folder, os.R_OK | os.X_OK)  # a run's folder is complete when it appears
    for folder in _existing_paths(workdir, "cohorts/*"):
        if folder.suffix != ".lock":
            _check_folder(folder)
            _check_folder(folder / "checkpoints")
    for pattern in _PLAIN_FILES:
        for file in _existing_paths(workdir, pattern):
            # Another launcher may have removed the file since.
            if not file.is_file() and os.path.lexists(file):
                raise InputError(
                    "this is not a regular file", path=file, remedy="remove it, and run the same command again"
                )


def _existing_paths(workdir: Path, pattern: str) -> Iterator[Path]:
    """Returns the existing paths that match a pattern, including dangling links but not hidden files."""
    return (workdir / name for name in glob.iglob(pattern, root_dir=workdir))


def _check_folder(folder: Path, access: int = os.R_OK | os.W_OK | os.X_OK) -> None:
    """Checks that a folder can be used, or created if it does not exist.

    Raises:
      InputError: a file or a dangling link is in its place, or the folder does not permit the required access.
    """
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(
            f"the folder cannot be used ({error.strerror})", path=folder, remedy="give another --workdir"
        ) from None
    ancestor = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    if not ancestor.exists():
        raise InputError(
            "the target of this link does not exist", path=ancestor, remedy="remove the link, or create its target"
        )
    if not ancestor.is_dir():
        raise InputError("this is a file, not a folder", path=ancestor, remedy="remove it, or give another --workdir")
    if not os.access(ancestor, access):
        raise InputError(
            "nothing can be written here", path=ancestor, remedy="change its permissions, or give another --workdir"
        )


# A function of a run's name and record that returns whether nothing is left to train.
Settled = Callable[[str, Mapping[str, Any]], bool]


def trained_to_its_end(run: str, record: Mapping[str, Any]) -> bool:
    """Returns whether a record is that of a run that was not dropped."""
    return record.get("status") != "dropped"


class Workdir:
    """The folder of a sweep."""

    def __init__(self, path: Path):
        self.path = Path(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError("this is a file, not a folder", path=self.path, remedy="give --workdir another name")

    def clean(self) -> None:
        """Removes the files that killed launchers left half written. Files that live launchers are writing stay."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            remove_abandoned(folder)
        for path in (self.path / "cohorts").glob("*"):
            if path.is_dir():
                CohortFolder(path, "", ()).clean()

    def run_folder(self, run: str) -> Path:
        return self.path / "runs" / run

    def remove_partial_runs(self, runs: Iterable[str]) -> None:
        """Removes the partial folders of runs that a killed process left. The caller must hold their cohort's lock."""
        for run in runs:
            for remains in (self.path / "runs").glob(f".{run}.*.partial"):
                shutil.rmtree(remains, ignore_errors=True)

    def shared_vectors(self, fingerprint: str) -> Path:
        return self.path / "vectors" / f"{fingerprint}.npy"

    def cohorts(self) -> list[CohortFolder]:
        """Returns all cohorts in the folder, finished or not."""
        files = sorted((self.path / "cohorts").glob("*/cohort.json"))
        return [cohort for file in files if (cohort := CohortFolder.read(file.parent))]

    def finished(self, runs: Iterable[str], settled: Settled = trained_to_its_end) -> set[str]:
        """Returns those of `runs` whose record exists and is settled."""
        records = ((run, self._record(run)) for run in runs)
        return {run for run, record in records if record is not None and settled(run, record)}

    def _record(self, run: str) -> Mapping[str, Any] | None:
        """Returns a run's record, or None if it does not exist.

        A damaged record counts as existing and is returned empty. The code that uses it reports the damage.
        """
        try:
            record = read_json(self.run_folder(run) / "record.json")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def claim(
        self,
        groups: Iterable[tuple[str, Sequence[str]]],
        settled: Settled = trained_to_its_end,
    ) -> list[CohortFolder]:
        """Decides which cohorts train the missing runs.

        A cohort that was begun and lacks records continues as it is. The other runs without a record form new cohorts.
        The decision is made under a lock, so that two launchers that start at once agree.

        Arguments:
          groups: (signature, run names) for each cohort, as planned for an empty folder.
          settled: a function that decides whether a run on record is settled; a run that is not is trained again.

        Returns:
          The unfinished cohorts that hold planned runs: first those that were begun or claimed before, in the order of
          the plan, then new ones.

        Raises:
          InputError: a cohort with a checkpoint holds runs that are no longer planned. To continue without them, it
            would have to start again.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path / ".lock"):
            groups = [(signature, tuple(runs)) for signature, runs in groups]
            wanted = {run for _, runs in groups for run in runs}
            # Read before the records, because another launcher may finish a cohort at any moment.
            unfinished = [cohort for cohort in self.cohorts() if not cohort.done]
            missing = wanted - self.finished(wanted, settled)
            claimed: list[CohortFolder] = []
            for cohort in unfinished:
                if not missing.intersection(cohort.runs):
                    if self.finished(cohort.runs).issuperset(cohort.runs):  # killed after the last record
                        cohort.mark_done()
                    continue
                if not wanted.issuperset(cohort.runs) and cohort.abandon():
                    continue
                claimed.append(cohort)
                missing.difference_update(cohort.runs)
            # In the order of the plan, so that an interrupted launch continues with the cohort that it was training.
            place = {run: number for number, run in enumerate(run for _, runs in groups for run in runs)}
            claimed.sort(key=lambda cohort: min(place.get(run, len(place)) for run in cohort.runs))
            return claimed + [
                CohortFolder.new(self.path / "cohorts", *each) for each in pack(groups, missing.__contains__)
            ]

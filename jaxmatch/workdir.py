"""The folder of a sweep: finished runs, unfinished cohorts, and which process works on which cohort.

WORKDIR/
  sweep.json              name, layout of the table and run names of the sweep started last
  baselines.json          scores of the baselines that its table shows (baselines.py), if it shows any
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
import hashlib
import os
import secrets
import shutil
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json, remove_abandoned, write_atomically, write_json

SWEEP_FILE, BASELINES_FILE, MISTAKES_FILE = "sweep.json", "baselines.json", "mistakes.json"
TIMING_FILE = "timing.json"  # the result of a timing, in a folder of its own
FOLDERS = ("runs", "cohorts", "vectors", "slurm")


def pack(
    cohorts: Iterable[tuple[str, Sequence[str]]], wanted: Callable[[str], bool]
) -> list[tuple[str, tuple[str, ...]]]:
    """Packs the wanted runs of cohorts, (signature, run names), into as few cohorts as their sizes allow.

    The largest cohort of a signature determines how many of its runs fit.
    """
    kept, size = {}, {}
    for signature, runs in cohorts:
        kept.setdefault(signature, []).extend(filter(wanted, runs))
        size[signature] = max(size.get(signature, 1), len(runs))
    return [
        (signature, tuple(runs[start : start + size[signature]]))
        for signature, runs in kept.items()
        for start in range(0, len(runs), size[signature])
    ]


@dataclasses.dataclass(frozen=True)
class CohortFolder:
    """A cohort on disk: the runs with some names, which share a signature and are trained together."""

    path: Path
    signature: str
    runs: tuple[str, ...]

    @classmethod
    def new(cls, cohorts: Path, signature: str, runs: tuple[str, ...]) -> "CohortFolder":
        """Creates the folder of a cohort in the folder `cohorts`."""
        path = cohorts / hashlib.sha256("\n".join((signature, *runs)).encode()).hexdigest()[:12]
        if path.exists():  # an earlier cohort of these runs, whose records or cohort.json are gone
            shutil.rmtree(path)
        write_json(path / "cohort.json", {"signature": signature, "runs": runs})
        return cls(path, signature, runs)

    @classmethod
    def read(cls, path: Path) -> "CohortFolder | None":
        """Returns the cohort in a folder, or None if there is none, for example because another launcher removed it.
        Raises an `InputError` if the file cohort.json is damaged.
        """
        file = path / "cohort.json"
        with contextlib.suppress(FileNotFoundError), report_damage(file, "remove its folder and start again"):
            notes = read_json(file)
            return cls(path, notes["signature"], tuple(notes["runs"]))
        return None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def workdir(self) -> "Workdir":
        return Workdir(self.path.parents[1])

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

    def rung(self, epochs: int) -> Path:
        """Returns the path of the file that states how the runs did when the cohort paused after `epochs` epochs."""
        return self.path / f"rung-{epochs}.json"

    def newest_checkpoint(self) -> int:
        """Returns the number of the newest checkpoint, or -1 if none exists."""
        return max((int(path.name) for path in self.checkpoints.glob("*") if path.name.isdigit()), default=-1)

    def failure(self) -> bytes | None:
        """Returns the content of `error_file`, unique to each failure, or None if the cohort has not failed."""
        with contextlib.suppress(FileNotFoundError):
            return self.error_file.read_bytes()
        return None

    def mark_failed(self, error: Exception) -> str:
        """Stores an error, and returns its message in one line."""
        message = f"{type(error).__name__}: {error}".removesuffix(": ")
        if isinstance(error, InputError):
            message = "; ".join(filter(None, (error.problem, error.remedy)))
        message = " ".join(message.split())[:400]
        # "failure" distinguishes this failure from an earlier one with the same words.
        notes = {"failure": secrets.token_hex(8), "message": message}
        write_json(self.error_file, notes | {"traceback": "".join(traceback.format_exception(error))})
        return message

    def failure_message(self) -> str:
        """Returns why the cohort failed, in one line."""
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            return read_json(self.error_file)["message"]
        return "the reason is lost"  # another launcher tries again, or the file is damaged

    def mark_done(self) -> None:
        """Marks that all runs of the cohort are on record, and removes the checkpoints, which are no longer needed."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        write_atomically(self.path / "DONE", "")

    def lock(self) -> FileLock:
        """Returns the lock that the process that trains the cohort holds.

        The system frees the lock when that process ends, however it ends.
        """
        return FileLock(self.path.with_name(f"{self.path.name}.lock"))

    def remove_unless_training(self) -> bool:
        """Removes the cohort, which holds runs that are not planned, and returns True, unless a process is training it.
        Raises an `InputError` if the cohort has a checkpoint, which only the user may give up.
        """
        with contextlib.suppress(Timeout), self.lock().acquire(blocking=False):
            if self.newest_checkpoint() >= 0:
                problem = f"this cohort of {len(self.runs)} unfinished runs contains runs that are not in the sweep now"
                remedy = "use the earlier seeds and values to resume it, or remove this folder"
                raise InputError(problem, path=self.path, remedy=remedy)
            shutil.rmtree(self.path)
            return True
        return False


class FailedCohorts(InputError):
    """Some cohorts failed, of a plan with a number of runs; the others were trained.

    Attributes:
      records: the records of the runs that did not fail.
      table: the table of these records, in Markdown, or "" if there is no table.
    """

    def __init__(self, folders: Sequence[CohortFolder], runs: int):
        self.records: Sequence[Mapping[str, Any]] = ()
        self.table = ""
        first, missing = folders[0], sum(len(folder.runs) for folder in folders)
        others = "" if len(folders) == 1 else f" (and {len(folders) - 1} more failed)"
        lost = f"{missing} of {runs} runs are missing: their training failed; see {first.error_file.name}"
        remedy = f"{lost}; run the same command to try again"
        super().__init__(f"this cohort failed: {first.failure_message()}{others}", path=first.path, remedy=remedy)


def check_usable(workdir: Path, file: str, name: str) -> None:
    """Checks, before anything is computed, that `file` of the sweep or timing `name` can be written. Writes nothing.

    Raises:
      InputError: a file or a dangling link is in the place of a folder, a folder cannot be written, or it holds another
        sweep or timing.
    """
    for folder in (workdir, *(workdir / name for name in FOLDERS)):
        existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
        if not (os.path.isdir(existing) and os.access(existing, os.R_OK | os.W_OK | os.X_OK)):
            raise InputError("this is no folder that can be written", path=existing, remedy="give another --workdir")
    for other in (SWEEP_FILE, TIMING_FILE):
        held = None
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            held = read_json(workdir / other)["name"]
        if (workdir / other).exists() and (other != file or held not in (None, name)):
            problem = f"this folder holds another {other.removesuffix('.json')}" + f' ("{held}")' * bool(held)
            raise InputError(problem, path=workdir, remedy="give a --workdir of its own")


def is_complete(run: str, record: Mapping[str, Any]) -> bool:
    """Returns whether nothing of a run is left to train: its record is not that of a run that was dropped."""
    return record.get("status") != "dropped"


@dataclasses.dataclass(frozen=True)
class Workdir:
    """The folder of a sweep."""

    path: Path

    def run_folder(self, run: str) -> Path:
        return self.path / "runs" / run

    def clean(self) -> None:
        """Removes the files that killed launchers left half written. Files that live launchers are writing stay."""
        for folder in (self.path, *(self.path / name for name in FOLDERS), *(self.path / "cohorts").glob("*/")):
            remove_abandoned(folder)

    def cohorts(self) -> list[CohortFolder]:
        """Returns all cohorts in the folder, finished or not."""
        files = sorted((self.path / "cohorts").glob("*/cohort.json"))
        return [cohort for file in files if (cohort := CohortFolder.read(file.parent))]

    def finished(
        self, runs: Iterable[str], complete: Callable[[str, Mapping[str, Any]], bool] = is_complete
    ) -> set[str]:
        """Returns those of `runs` whose record exists and is complete.

        A damaged record counts as complete. The code that uses it reports the damage.
        """
        found = set()
        for run in runs:
            with contextlib.suppress(FileNotFoundError):
                record = None
                with contextlib.suppress(ValueError):
                    record = read_json(self.run_folder(run) / "record.json")
                if not isinstance(record, dict) or complete(run, record):
                    found.add(run)
        return found

    def recorded(self, runs: Iterable[str]) -> set[str]:
        """Returns those of `runs` that have a record, even if they were dropped."""
        return {run for run in runs if (self.run_folder(run) / "record.json").exists()}

    def assign(
        self,
        groups: Iterable[tuple[str, Sequence[str]]],
        complete: Callable[[str, Mapping[str, Any]], bool] = is_complete,
    ) -> list[CohortFolder]:
        """Assigns the runs without a complete record to cohorts.

        A cohort that was begun and lacks records continues as it is. The other runs without a record form new cohorts.
        The decision is made under a lock, so that two launchers that start at once agree.

        Arguments:
          groups: (signature, run names) for each cohort, as planned for an empty folder.
          complete: returns, for a run's name and record, whether nothing of the run is left to train.

        Returns:
          The unfinished cohorts with planned runs: those that existed before, in the order of the plan, then new ones.

        Raises:
          InputError: a cohort with a checkpoint, from which it could continue, holds runs that are no longer planned.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path / ".lock"):
            groups = [(signature, tuple(runs)) for signature, runs in groups]
            # In the order of the plan, so that an interrupted launch continues with the cohort that it was training.
            place = {run: number for number, run in enumerate(run for _, runs in groups for run in runs)}
            # Read before the records, because another launcher may finish a cohort at any moment.
            unfinished = [cohort for cohort in self.cohorts() if not cohort.done]
            missing = place.keys() - self.finished(place, complete)
            existing: list[CohortFolder] = []
            for cohort in unfinished:
                if not missing.intersection(cohort.runs):
                    if self.finished(cohort.runs).issuperset(cohort.runs):  # killed after the last record
                        cohort.mark_done()
                elif place.keys() >= set(cohort.runs) or not cohort.remove_unless_training():
                    existing.append(cohort)
                    missing.difference_update(cohort.runs)
            existing.sort(key=lambda cohort: min(place.get(run, len(place)) for run in cohort.runs))
            new = pack(groups, missing.__contains__)
            return existing + [CohortFolder.new(self.path / "cohorts", *each) for each in new]

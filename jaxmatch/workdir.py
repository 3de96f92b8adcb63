"""The folder of a sweep: cohorts in the making, finished runs, and who is working on what.

WORKDIR/
  sweep.json              name, layout of the table and run names of the sweep started last
  floors.json             scores of the floors that its table shows (baselines/), if it asks for some
  runs/RUN/record.json    what a run left; the folder appears whole or not at all
  runs/RUN/mistakes.json  its worst answers on dev, where it has a model (training/mistakes.py)
  runs/RUN/model/         the trained model with all it needs to answer
  cohorts/COHORT/         cohort.json (its runs), checkpoints/, rung-EPOCHS.json (how its runs did by then), DONE, or
                          error.json (why it failed); events.jsonl (how it goes, of a worker elsewhere)
  vectors/                embedding tables that the models of this folder share by hard links
  slurm/                  jobs.json (which job trains which cohort), logs, and what jobs are given (sweep/slurm_jobs.py)
"""

import dataclasses
import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError
from jaxmatch.files import read_json, remove_abandoned, write_atomically, write_json
from jaxmatch.training.remains import half_written, remove_half_written

# What a timing leaves, in a folder of its own.
TIMING_FILE = "timing.json"
FLOORS_FILE = "floors.json"
MISTAKES_FILE = "mistakes.json"

_FOLDERS = ("runs", "cohorts", "vectors", "slurm")
_FILES = (
    "*.json",
    "*.jsonl",
    "optuna.journal",
    "cohorts/*/*.json",
    "cohorts/*/DONE",
    "cohorts/*/events.jsonl",
    "runs/*/record.json",
    "vectors/*.npy",
)


def pack(
    cohorts: Iterable[tuple[str, Sequence[str]]], wanted: Callable[[str], bool]
) -> list[tuple[str, tuple[str, ...]]]:
    """The wanted runs of some cohorts in as few cohorts as their sizes allow.

    Arguments:
      cohorts: (signature, run names) for each; the largest of a signature says how many of its runs fit.
      wanted: says of a run whether to keep it.
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


def trained_to_its_end(run: str, record: Mapping[str, Any]) -> bool:
    """Whether a record is of a run that was not dropped on the way."""
    return record.get("status") != "dropped"


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


def _check_folder(folder: Path, access: int = os.R_OK | os.W_OK | os.X_OK) -> None:
    """Refuses a folder that cannot be used, or made where it is missing.

    Raises:
      InputError: a file or a link that leads nowhere is in its way, or it does not give the access that is needed.
    """
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(
            f"the folder cannot be used ({error.strerror})", path=folder, remedy="give another --workdir"
        ) from None
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    if not there.exists():
        raise InputError("this link leads nowhere", path=there, remedy="remove it, or make what it names")
    if not there.is_dir():
        raise InputError("this is a file, not a folder", path=there, remedy="remove it, or give another --workdir")
    if not os.access(there, access):
        raise InputError(
            "nothing can be written here", path=there, remedy="change its permissions, or give another --workdir"
        )


class Workdir:
    """The folder of a sweep."""

    def __init__(self, path: Path):
        self.path = Path(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError("this is a file, not a folder", path=self.path, remedy="give --workdir another name")

    def check(self) -> None:
        """Refuses, before anything is trained, a folder in which that could not be kept; writes nothing.

        Raises:
          InputError: it cannot be written, or a pipe, a folder or a dangling link is in the place of a
            file.
        """
        for folder in (self.path, *(self.path / name for name in _FOLDERS)):
            _check_folder(folder)
        for folder in self._there("runs/*-seed*"):
            _check_folder(folder, os.R_OK | os.X_OK)  # whole when it appears
        for folder in self._there("cohorts/*"):
            if folder.suffix != ".lock":
                _check_folder(folder)
                _check_folder(folder / "checkpoints")
        for pattern in _FILES:
            for file in self._there(pattern):
                # Another launcher may have removed it since.
                if not file.is_file() and os.path.lexists(file):
                    raise InputError(
                        "this is no plain file", path=file, remedy="remove it, and give the same command again"
                    )

    def _there(self, pattern: str) -> Iterator[Path]:
        """What a pattern finds, links that lead nowhere as well; not what is hidden, or has just been removed."""
        return (self.path / name for name in glob.iglob(pattern, root_dir=self.path))

    def clean(self) -> None:
        """Removes what killed launchers left half written; what live ones are writing stays."""
        for folder in (self.path, *(self.path / name for name in _FOLDERS)):
            remove_abandoned(folder)
        for path in (self.path / "cohorts").glob("*"):
            if path.is_dir():
                CohortFolder(path, "", ()).clean()

    def run_folder(self, run: str) -> Path:
        return self.path / "runs" / run

    def clear_remains(self, runs: Iterable[str]) -> None:
        """Removes what a killed process had begun to write for runs whose cohort the caller holds."""
        for run in runs:
            for remains in (self.path / "runs").glob(f".{run}.*.partial"):
                shutil.rmtree(remains, ignore_errors=True)

    def shared_vectors(self, fingerprint: str) -> Path:
        return self.path / "vectors" / f"{fingerprint}.npy"

    def cohorts(self) -> list[CohortFolder]:
        """All cohorts there are, finished or not."""
        found = []
        for file in sorted((self.path / "cohorts").glob("*/cohort.json")):
            try:
                notes = read_json(file)
                runs = tuple(notes["runs"])
                if not all(isinstance(text, str) for text in (notes["signature"], *runs)) or isinstance(
                    notes["runs"], str
                ):
                    raise TypeError("signature or runs are no texts")
                found.append(CohortFolder(file.parent, notes["signature"], runs))
            except FileNotFoundError:  # another launcher has just abandoned it
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"the file is damaged ({error})", path=file, remedy="remove its folder and start again"
                ) from None
        return found

    def finished(self, settled: Callable[[str, Mapping[str, Any]], bool] = trained_to_its_end) -> set[str]:
        """The runs that are on record and whose cohort is done.

        Arguments:
          settled: says of a run's name and record whether there is nothing left to train.
        """
        return self.recorded((run for cohort in self.cohorts() if cohort.done for run in cohort.runs), settled)

    def recorded(self, runs: Iterable[str], settled: Callable[[str, Mapping[str, Any]], bool]) -> set[str]:
        records = ((run, self._record(run)) for run in runs)
        return {run for run, record in records if record is not None and settled(run, record)}

    def _record(self, run: str) -> Mapping[str, Any] | None:
        """A run's record, or None without one; what is damaged is there, and whoever uses it says what is wrong with
        it.
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
        planned: Iterable[tuple[str, Sequence[str]]],
        settled: Callable[[str, Mapping[str, Any]], bool] = trained_to_its_end,
    ) -> list[CohortFolder]:
        """Settles which cohorts train the runs that are missing.

        A cohort that was begun goes on as it is; only what no cohort holds yet makes new ones. Settled under a lock, so
        two launchers that start at once agree.

        Arguments:
          planned: (signature, run names) for each cohort, as planned if nothing were there.
          settled: as for `finished`; a run that is on record but not settled is trained anew.

        Returns:
          The unfinished cohorts that hold planned runs: those that were begun or claimed before, in the order of the
          plan, then new ones.

        Raises:
          InputError: a cohort that was begun holds runs which are not planned any more; to go on without them it would
            start anew.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path / ".lock"):
            planned = [(signature, tuple(runs)) for signature, runs in planned]
            wanted = {run for _, runs in planned for run in runs}
            # Looked at once: another launcher may finish a cohort at any moment, and must not be seen half finished.
            there = [(cohort, cohort.done) for cohort in self.cohorts()]
            missing = wanted - self.recorded((run for cohort, done in there if done for run in cohort.runs), settled)
            claimed: list[CohortFolder] = []
            for cohort, done in there:
                if not missing.intersection(cohort.runs):
                    continue
                whole = wanted.issuperset(cohort.runs)
                if done:  # records of it are gone: it starts again, unless it holds runs that nobody wants any more
                    if not whole or None not in map(self._record, missing.intersection(cohort.runs)):
                        if missing.issuperset(cohort.runs):  # a new cohort of the same runs gets the same folder
                            self._abandon(cohort)
                        continue
                    (cohort.path / "DONE").unlink()
                elif not whole and self._abandon(cohort):
                    continue
                claimed.append(cohort)
                missing.difference_update(cohort.runs)
            # As planned, so that an interrupted launch goes on with the cohort that it was at.
            place = {run: number for number, run in enumerate(run for _, runs in planned for run in runs)}
            claimed.sort(key=lambda cohort: min(place.get(run, len(place)) for run in cohort.runs))
            return claimed + [self._new_cohort(*each) for each in pack(planned, missing.__contains__)]

    def _abandon(self, cohort: CohortFolder) -> bool:
        """Removes a cohort that holds runs nobody wants any more, unless somebody is at it.

        Raises:
          InputError: it has a checkpoint, which only the user may give up.
        """
        try:
            with cohort.lock().acquire(blocking=False):
                if any(path.name.isdigit() for path in cohort.checkpoints.glob("*")):  # whole ones
                    raise InputError(
                        f"{len(cohort.runs)} runs were begun here together, some of which are not asked for now",
                        path=cohort.path,
                        remedy="ask for the same seeds and values as before to go on, or remove this folder to start anew",
                    )
                shutil.rmtree(cohort.path)
                return True
        except Timeout:
            return False

    def _new_cohort(self, signature: str, runs: tuple[str, ...]) -> CohortFolder:
        name = hashlib.sha256("\n".join((signature, *runs)).encode()).hexdigest()[:12]
        path = self.path / "cohorts" / name
        (path / "DONE").unlink(missing_ok=True)  # of a cohort of these runs whose notes and records are gone
        write_json(path / "cohort.json", {"signature": signature, "runs": runs})
        return CohortFolder(path, signature, runs)

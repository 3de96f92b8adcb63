"""The folder of a sweep: cohorts in the making, finished runs, and who is working on what.

WORKDIR/
  sweep.json              name, layout of the table and run names of the sweep started last
  floors.json             scores of the floors that its table shows (baselines/), if it asks for some
  runs/RUN/record.json    what a run left; the folder appears whole or not at all
  runs/RUN/mistakes.json  its worst answers on dev, where it has a model (training/mistakes.py)
  runs/RUN/model/         the trained model with all it needs to answer
  cohorts/COHORT/         cohort.json (its runs), checkpoints/, rung-EPOCHS.json (how its runs did by then), DONE, or
                          error.json (why it failed); events.jsonl (how it goes, of a worker elsewhere);
                          stored.json (what an object store holds of it, sweep/stored_sweep.py)
  vectors/                embedding tables that the models of this folder share by hard links
  slurm/                  jobs.json (which job trains which cohort), logs, and what jobs are given (sweep/slurm_jobs.py)
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from jaxmatch.errors import InputError
from jaxmatch.files import read_json, remove_abandoned
from jaxmatch.workdir.cohort_folder import CohortFolder
from jaxmatch.workdir.packing import pack
from jaxmatch.workdir.usable import FOLDERS

# What a timing leaves, in a folder of its own.
TIMING_FILE = "timing.json"
FLOORS_FILE = "floors.json"
MISTAKES_FILE = "mistakes.json"

# Says of a run's name and its record whether there is nothing left to train.
Settled = Callable[[str, Mapping[str, Any]], bool]


def trained_to_its_end(run: str, record: Mapping[str, Any]) -> bool:
    """Whether a record is of a run that was not dropped on the way."""
    return record.get("status") != "dropped"


class Workdir:
    """The folder of a sweep."""

    def __init__(self, path: Path):
        self.path = Path(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError("this is a file, not a folder", path=self.path, remedy="give --workdir another name")

    def clean(self) -> None:
        """Removes what killed launchers left half written; what live ones are writing stays."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
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
        files = sorted((self.path / "cohorts").glob("*/cohort.json"))
        return [cohort for file in files if (cohort := CohortFolder.read(file.parent))]

    def finished(self, settled: Settled = trained_to_its_end) -> set[str]:
        """The runs that are on record and whose cohort is done."""
        return self.recorded((run for cohort in self.cohorts() if cohort.done for run in cohort.runs), settled)

    def recorded(self, runs: Iterable[str], settled: Settled) -> set[str]:
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
        settled: Settled = trained_to_its_end,
    ) -> list[CohortFolder]:
        """Settles which cohorts train the runs that are missing.

        A cohort that was begun goes on as it is; only what no cohort holds yet makes new ones. Settled under a lock, so
        two launchers that start at once agree.

        Arguments:
          planned: (signature, run names) for each cohort, as planned if nothing were there.
          settled: a run that is on record but not settled is trained anew.

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
                            cohort.abandon()
                        continue
                    (cohort.path / "DONE").unlink()
                elif not whole and cohort.abandon():
                    continue
                claimed.append(cohort)
                missing.difference_update(cohort.runs)
            # As planned, so that an interrupted launch goes on with the cohort that it was at.
            place = {run: number for number, run in enumerate(run for _, runs in planned for run in runs)}
            claimed.sort(key=lambda cohort: min(place.get(run, len(place)) for run in cohort.runs))
            return claimed + [
                CohortFolder.new(self.path / "cohorts", *each) for each in pack(planned, missing.__contains__)
            ]

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

# The result of a timing, in a folder of its own.
TIMING_FILE = "timing.json"
FLOORS_FILE = "floors.json"
MISTAKES_FILE = "mistakes.json"

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

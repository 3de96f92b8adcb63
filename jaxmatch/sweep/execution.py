"""Training what a plan still misses, safely beside other launchers."""

import time
from collections.abc import Container
from typing import Any

from jaxmatch.reporting.records import placed, read_record
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.engines import Engine, Work
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder, Workdir

SECONDS_BETWEEN_TRIES = 1.0


def execute(plan: Plan, workdir: Workdir, display: Display, engine: Engine | None = None) -> list[dict[str, Any]]:
    """Trains the runs of a plan that are not on record, and returns all its records.

    Several processes may execute plans on one folder: each cohort is trained by one of them, and the others wait for
    it. What a killed process leaves is taken up from its last checkpoint.

    Arguments:
      plan: what to train.
      workdir: where.
      display: told how it goes.
      engine: trains the cohorts; default: this process, on all its devices.

    Raises:
      FailedCohorts: some failed; the others are trained.
    """
    display.begin(plan, workdir.finished())
    execute_stage(plan, workdir, display, Stage(), engine)
    display.end()
    return records_of(plan, workdir)


def records_of(plan: Plan, workdir: Workdir, names: Container[str] | None = None) -> list[dict[str, Any]]:
    """The records of the runs of a plan, each at its place in the plan.

    Arguments:
      plan: of these.
      workdir: where.
      names: of the runs to read; default: all.

    Raises:
      InputError: one is missing or damaged.
    """
    return [
        placed(read_record(workdir.run_folder(name) / "record.json"), run.variant, run.overrides)
        for name, (run, _) in plan.runs.items()
        if names is None or name in names
    ]


def execute_stage(plan: Plan, workdir: Workdir, display: Display, stage: Stage, engine: Engine | None = None) -> None:
    """Trains the runs of a plan as far as a stage goes; other launchers on the folder as in `execute`.

    A cohort that fails is marked, and the others go on. What failed before is tried again, once.

    Raises:
      FailedCohorts: some failed, here or in another launcher; the others have come as far as the stage goes.
      OSError: the system hinders all of them, as by a full disk.
    """
    engine = engine or Engine()
    planned = [(cohort.signature, cohort.names()) for cohort in plan.cohorts]
    wanted = {run for _, runs in planned for run in runs}
    before = {folder.name: folder.failure() for folder in workdir.cohorts()}
    work = Work(plan, workdir, display, stage, before)

    def failed(folder: CohortFolder) -> bool:
        """Whether it has failed since this began, whoever trained it."""
        return folder.failure() not in (None, before.get(folder.name))

    while claimed := [folder for folder in workdir.claim(planned, stage.settled) if not stage.reached(folder)]:
        if all(map(failed, claimed)):
            raise FailedCohorts(claimed, len(wanted))
        # Somebody may have stopped at one that holds runs which are not planned here, and which the next claim
        # abandons.
        trained = engine.run([engine.task(plan, folder) for folder in claimed if wanted.issuperset(folder.runs)], work)
        left = [folder for folder in claimed if not stage.reached(folder) and not failed(folder)]
        if not trained and left:
            display.waiting(len(left))
            time.sleep(SECONDS_BETWEEN_TRIES)

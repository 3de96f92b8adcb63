"""Training of the runs that a plan still lacks, safe beside other launchers."""

import time
from collections.abc import Container
from typing import Any

from jaxmatch.errors import count_text
from jaxmatch.reporting.records import placed, read_record
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.engines import Engine, TaskContext
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder, FailedCohorts, Workdir

SECONDS_BETWEEN_TRIES = 1.0


def execute(plan: Plan, workdir: Workdir, display: Display, engine: Engine | None = None) -> list[dict[str, Any]]:
    """Trains the runs of a plan that are not on record, and returns all records of the plan.

    Several processes may execute plans on one folder: each cohort is trained by one of them, and the others wait for
    it. A cohort that a killed process leaves is resumed from its last checkpoint.

    Arguments:
      plan: the plan to train.
      workdir: the folder of the sweep.
      display: the display that shows the progress.
      engine: the engine that trains the cohorts; default: this process, on all its devices.

    Raises:
      FailedCohorts: some cohorts failed. The others are trained.
    """
    display.begin(plan, workdir.finished(plan.runs), note=resumed_text(plan, workdir))
    execute_stage(plan, workdir, display, Stage(), engine)
    display.end()
    return records_of(plan, workdir)


def resumed_text(plan: Plan, workdir: Workdir) -> str:
    """Returns a line about the cohorts that resume from a checkpoint, which the plan counts in full; "" if none do."""
    begun = [folder for folder in workdir.cohorts() if not folder.done and folder.checkpoint_numbers()]
    begun = [folder for folder in begun if plan.runs.keys() & set(folder.runs)]
    if not begun:
        return ""
    return f"  {count_text(len(begun), 'cohort')} will resume from a checkpoint; the plan counts steps made before, too"


def records_of(plan: Plan, workdir: Workdir, names: Container[str] | None = None) -> list[dict[str, Any]]:
    """Reads the records of a plan's runs, in the order of the plan, each with the run's place in the grid.

    Arguments:
      plan: the plan of the runs.
      workdir: the folder of the sweep.
      names: the names of the runs whose records are read. Default: all.

    Raises:
      InputError: a record is missing or damaged.
    """
    return [
        placed(read_record(workdir.run_folder(name) / "record.json"), run.variant, run.overrides)
        for name, (run, _) in plan.runs.items()
        if names is None or name in names
    ]


def execute_stage(plan: Plan, workdir: Workdir, display: Display, stage: Stage, engine: Engine | None = None) -> None:
    """Trains the runs of a plan to the end of a stage. As in `execute`, other launchers may work on the folder.

    A cohort that fails is marked, and the others continue. A cohort that failed before is tried again, once.

    Raises:
      FailedCohorts: some cohorts failed, here or in another launcher. The others have reached the end of the stage.
      OSError: the system prevents all training, for example because the disk is full.
    """
    engine = engine or Engine()
    wanted = plan.runs.keys()
    before = {folder.name: folder.failure() for folder in workdir.cohorts()}
    context = TaskContext(plan, workdir, display, stage, before)

    def failed(folder: CohortFolder) -> bool:
        """Returns whether a cohort has failed since the stage began, in any process."""
        return folder.failure() not in (None, before.get(folder.name))

    while claimed := [folder for folder in workdir.claim(plan.groups, stage.settled) if not stage.reached(folder)]:
        if all(map(failed, claimed)):
            raise FailedCohorts(claimed, len(wanted))
        # A cohort with runs that are not planned here belongs to another process. If that has stopped, the next claim
        # abandons the cohort.
        trained = engine.run([engine.task(plan, folder) for folder in claimed if wanted >= set(folder.runs)], context)
        unfinished = [folder for folder in claimed if not stage.reached(folder) and not failed(folder)]
        if not trained and unfinished:
            display.waiting(len(unfinished))
            time.sleep(SECONDS_BETWEEN_TRIES)

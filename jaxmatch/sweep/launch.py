"""The launchers behind the commands: plan, train what is missing, make the table."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.caches import keep_compiled_programs
from jaxmatch.config.settings import flatten
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import best_record, name_of_sweep
from jaxmatch.reporting.table import check_layout, folder_table
from jaxmatch.sweep import rungs
from jaxmatch.sweep.display import Display, RunListener, listeners_of, plan_text
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.execution import execute, records_of, resumed_text
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.files import config_file, load_module, resolve
from jaxmatch.sweep.floors_kept import check_floors, keep_floors
from jaxmatch.sweep.halving import Halving
from jaxmatch.sweep.notes import write_notes
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.sweep import Sweep, changed, with_scores
from jaxmatch.training.scores import score_names
from jaxmatch.workdir import TIMING_FILE, Workdir
from jaxmatch.workdir.usable import check_usable


def sweep(
    file: Path,
    *,
    workdir: Path,
    seeds: int | None = None,
    dry_run: bool = False,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    floors: str | None = None,
    smoke: bool = False,
    display: Display | None = None,
    log: Sequence[str] = (),
    command: str = "",
    engine: Engine | None = None,
) -> str:
    """Runs a sweep file: shows the plan, trains what is missing, and returns the table.

    Arguments:
      file: a Python file with `get_sweep()`, or with `get_config()` for a single setting.
      workdir: the folder of the sweep.
      seeds: the number of seeds, starting with the first of the file.
      dry_run: whether to show the plan and train nothing.
      overrides: dotted setting -> value or its text, for all runs.
      grid_overrides: dotted setting -> comma-separated values of a grid axis; "" removes the axis.
      options: the options of `files.OF_THE_DATA`, and those that the file's `get_sweep` takes.
      floors: the simple baselines of the table (`baselines.named_floors`). None: those of the file.
      smoke: whether to shrink everything to seconds, on generated data (see `smoke_sweep`).
      display: the display that shows the progress.
      log: the names of listeners (`display.listeners_of`).
      command: the command line that the user gave. It is stored beside the records.
      engine: the engine that trains the cohorts; default: this process.

    Returns:
      The table in Markdown, or "" for a dry run.

    Raises:
      InputError: something is wrong that the user can fix.
      FailedCohorts: some runs failed. The error holds the table of the others.
    """
    changes: dict[str, Any] = {"overrides": overrides, "grid_overrides": grid_overrides, "options": options}
    resolved = resolve(file, seeds=seeds, floors=floors, smoke=smoke, command=command, **changes)
    listeners = listeners_of(log, workdir)
    if dry_run:
        show_plan(resolved, workdir, display, engine=engine)
        return ""
    run(resolved, workdir, display, listeners=listeners, engine=engine)
    return folder_table(workdir)


def train(file: Path, **arguments: Any) -> str:
    """Runs a config file as `sweep` does, with one seed by default."""
    if arguments.get("grid_overrides"):
        raise InputError("a training has no grid", remedy="use jaxmatch sweep for --grid.…")
    if hasattr(load_module(config_file(file)[0]), "get_sweep"):
        raise InputError("it is a sweep", path=file, remedy=f"give it to jaxmatch sweep: jaxmatch sweep {file}")
    if arguments.get("seeds") is None:
        arguments["seeds"] = 1
    return sweep(file, **arguments)


def show_plan(
    sweep: Sweep,
    workdir: Path,
    display: Display | None = None,
    halve: Callable[[Plan], Halving] | None = None,
    engine: Engine | None = None,
) -> None:
    """Shows what a sweep would train in a folder, and trains nothing.

    Arguments: as in `run`.
    """
    display, folder = display or Display(), Workdir(workdir)
    plan, halving = _checked_plan(sweep, folder, engine or Engine(), halve, dry_run=True)
    settled = (rungs.any_record,) if halving else ()
    finished = folder.finished(plan.runs, *settled)
    lines = [plan_text(plan, finished), *filter(None, [resumed_text(plan, folder)])]
    if halving is not None:
        lines.append(halving.text(plan.replica_steps))
    display.show("\n".join(lines))


def run(
    sweep: Sweep,
    workdir: str | Path,
    display: Display | None = None,
    halve: Callable[[Plan], Halving] | None = None,
    listeners: Iterable[RunListener] = (),
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Trains the runs of a sweep that its folder lacks.

    Arguments:
      sweep: the sweep.
      workdir: the folder.
      display: the display that shows the progress.
      halve: the function that returns the rule that drops the worst settings; default: none is dropped.
      listeners: the listeners that are called when a run starts, is scored and ends.
      engine: the engine that trains the cohorts; default: this process.

    Returns:
      The records of the sweep's runs (docs/reference/files.md), including those that were trained before.

    Raises:
      InputError: the data cannot be read, the grid holds a run twice, the grid cannot be halved, the table requests
        what no run will have, or the folder cannot be written or belongs to a timing or another sweep.
      FailedCohorts: some runs failed. This `InputError` (jaxmatch.sweep.failures) holds the `records` of the others,
        and their `table`.
    """
    display, engine = display or Display(), engine or Engine()
    display.listeners += listeners
    sweep = changed(sweep)  # the table of a sweep made in Python may lack an axis
    folder = Workdir(Path(workdir))
    plan, halving = _checked_plan(sweep, folder, engine, halve)
    if halving is not None:
        rungs.store_or_check_rule(plan, folder, halving)
    folder.clean()
    write_notes(folder, plan, plan_text(plan, set()))
    keep_floors(plan, folder, display)
    try:
        if halving is None:
            records = execute(plan, folder, display, engine)
        else:
            records = rungs.execute(plan, folder, display, halving, engine)
    except FailedCohorts as failed:
        failed.records = records_of(plan, folder, folder.finished(plan.runs, rungs.any_record))
        failed.table = folder_table(folder.path) if failed.records else ""
        raise
    finally:
        display.end()
    try:
        if best := best_record(records):
            display.best(best, folder.run_folder(best["run"]))
    except InputError as incomparable:
        display.say(incomparable.problem)
    return records


def _checked_plan(
    sweep: Sweep, folder: Workdir, engine: Engine, halve: Callable[[Plan], Halving] | None, dry_run: bool = False
) -> tuple[Plan, Halving | None]:
    """Plans a sweep, and checks all that can be checked before anything is written."""
    keep_compiled_programs(sweep.config.execution.cache_directory)
    check_sweep_folder(sweep, folder.path)
    check_floors(sweep)
    engine.begin(folder.path, sweep.name, dry_run)
    plan = engine.plan(sweep)
    scores = {name for cohort in plan.cohorts for name in score_names(cohort.data.task, len(cohort.data.labels))}
    configs = [run.config for run, _ in plan.runs.values()]
    table = with_scores(plan.sweep.table, configs)
    check_layout(table, map(flatten, configs), scores | {"loss"})
    plan = dataclasses.replace(plan, sweep=dataclasses.replace(plan.sweep, table=table))
    return plan, halve(plan) if halve else None


def check_sweep_folder(sweep: Sweep, workdir: Path) -> None:
    """Checks that a sweep can be stored in a folder. Writes nothing.

    Raises:
      InputError: the folder cannot be written, or belongs to a timing or another sweep.
    """
    folder = Workdir(workdir)
    check_usable(folder.path)
    if (folder.path / TIMING_FILE).exists():
        raise InputError("this folder holds a timing", path=folder.path, remedy="give a --workdir of its own")
    name = name_of_sweep(folder.path)
    if name not in (None, sweep.name):
        problem = f'this folder holds the sweep "{name}", not "{sweep.name}"'
        raise InputError(problem, path=folder.path, remedy="give a --workdir of its own")

"""The launchers behind the commands: plan, train what is missing, make the table."""

import ast
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.caches import keep_compiled_programs
from jaxmatch.config import TrainingConfig
from jaxmatch.data import catalog
from jaxmatch.data.readers.own_layout import SETTINGS
from jaxmatch.errors import InputError, nearest
from jaxmatch.reporting.floors_file import floor_rows
from jaxmatch.reporting.records import best_record
from jaxmatch.reporting.sweep_folder import name_of_sweep
from jaxmatch.reporting.tables import Published, TableLayout, check_layout, make_table
from jaxmatch.reporting.tables.contents import FloorRow
from jaxmatch.settings import flatten, with_overrides
from jaxmatch.sweep import asha, rungs
from jaxmatch.sweep.display import Display, plan_text
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.execution import execute, records_of
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.floors_kept import check_floors, keep_floors
from jaxmatch.sweep.following import RunListener, listeners_of
from jaxmatch.sweep.grid import NOT_IDENTITY, Sweep
from jaxmatch.sweep.halving import Halving
from jaxmatch.sweep.launcher_files import called, config_file, load_config, load_module, mistakes_of
from jaxmatch.sweep.notes import write_notes
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.preparation import guessed_task
from jaxmatch.sweep.smoke import smoked
from jaxmatch.training.scores import score_names
from jaxmatch.workdir import TIMING_FILE, Workdir

MOST_SEEDS = 100_000

# Options of the command line that change a setting of the data.
OF_THE_DATA = {
    "data_directory": "data.directory",
    "vectors": "data.vectors",
    **{name: f"data.{name}" for name in SETTINGS},
}

# What a table shows for the score that chose the checkpoint, where its layout names no scores.
SHOWN_SCORES = {
    "mrr": ("dev.mrr", "test.map", "test.mrr"),
    "map": ("dev.map", "test.map", "test.mrr"),
    "recall_at_1": ("dev.recall_at_1", "test.recall_at_1", "test.recall_at_2", "test.recall_at_5", "test.accuracy"),
    "f1": ("dev.f1", "test.f1", "test.accuracy"),
    "pearson": ("dev.pearson", "test.pearson", "test.spearman"),
}


def sweep(
    file: Path,
    *,
    workdir: Path,
    seeds: int | None = None,
    dry_run: bool = False,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    smoke: bool = False,
    display: Display | None = None,
    log: Sequence[str] = (),
    command: str = "",
    engine: Engine | None = None,
) -> str:
    """Runs a sweep file: shows the plan, trains what is missing, writes and returns the table.

    Arguments:
      file: a Python file with `get_sweep()`, or with `get_config()` for a single setting.
      workdir: its folder.
      seeds: how many seeds, from the file's first on.
      dry_run: show the plan and train nothing.
      overrides: dotted setting -> value or its text, for all runs.
      grid_overrides: dotted setting -> comma-separated values of a grid axis; "" removes the axis.
      options: those of `OF_THE_DATA`, and whatever the file's `get_sweep` takes.
      smoke: shrink everything to seconds, on generated data (see `smoke.smoked`).
      display: shows progress.
      log: names of listeners (`following.listeners_of`).
      command: the words that a user gave, kept beside the records.
      engine: trains the cohorts; default: this process.

    Returns:
      The table in Markdown, or "" for a dry run.

    Raises:
      InputError: anything the user can mend.
      FailedCohorts: some runs failed; it brings the table of the others.
    """
    changes: dict[str, Any] = {"overrides": overrides, "grid_overrides": grid_overrides, "options": options}
    planned = resolve(file, seeds=seeds, smoke=smoke, command=command, **changes)
    listeners = listeners_of(log, workdir)
    if dry_run:
        show_plan(planned, workdir, display, engine=engine)
        return ""
    with table_of_the_others(planned.table, floors=lambda: floor_rows(workdir, planned.lines)):
        records = run(planned, workdir, display, listeners=listeners, engine=engine)
        return make_table(records, planned.table, floor_rows(workdir, planned.lines)).markdown()


@contextlib.contextmanager
def table_of_the_others(
    layout: TableLayout, before: Sequence[str] = (), floors: Callable[[], Sequence[FloorRow]] = tuple
) -> Iterator[None]:
    """Adds to the error about failed cohorts the table of the runs that did not fail.

    Arguments:
      layout: of the table.
      before: tables in Markdown that stand before it.
      floors: gives its lines without runs.
    """
    try:
        yield
    except FailedCohorts as failed:
        tables = [*before]
        if failed.records:
            told = dataclasses.replace(layout, notes=(*layout.notes, failed.note))
            tables.append(make_table(failed.records, told, floors()).markdown())
        failed.table = "\n".join(tables)
        raise


def show_plan(
    planned: Sweep,
    workdir: Path,
    display: Display | None = None,
    halve: Callable[[Plan], Halving] | None = None,
    engine: Engine | None = None,
) -> None:
    """Shows what a sweep would train in a folder, and trains nothing.

    Arguments: as of `run`.
    """
    display, engine = display or Display(), engine or Engine()
    keep_compiled_programs(planned.config.execution.cache_directory)
    folder = Workdir(workdir)
    check_folder(planned, workdir)
    check_floors(planned)
    engine.begin(folder.path, dry_run=True)
    plan = engine.plan(planned)
    _check_layout(plan)
    halving = halve(plan) if halve else None
    if halving is not None and not halving.barrier:
        plan = asha.one_setting_each(plan)
    settled = (rungs.on_record,) if halving else ()
    finished = folder.finished(*settled) if folder.path.exists() else set()
    lines = [plan_text(plan, finished)]
    if halving is not None:
        lines.append(halving.text(sum(cohort.steps * len(cohort.runs) for cohort in plan.cohorts)))
    display.show("\n".join(lines))


def run(
    planned: Sweep,
    workdir: Path,
    display: Display | None = None,
    halve: Callable[[Plan], Halving] | None = None,
    listeners: Iterable[RunListener] = (),
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Trains what a folder lacks of a sweep; its records.

    Arguments:
      planned: as `resolve` gives it, or made in Python.
      workdir: the folder.
      display: shows progress.
      halve: settles at which rungs trailing settings are dropped; None: all are trained to the end.
      listeners: told when a run starts, is scored and ends.
      engine: trains the cohorts; default: this process.

    Raises:
      InputError: the data cannot be read, a run stands in the grid twice, the grid cannot be halved, the table asks for
        what no run will have, or the folder cannot be written, or is that of a timing or of another sweep.
      FailedCohorts: some runs failed; it brings the records of the others.
    """
    display, engine = display or Display(), engine or Engine()
    display.listeners += listeners
    planned = changed(planned)  # of Python, its table may lack scores
    keep_compiled_programs(planned.config.execution.cache_directory)
    folder = Workdir(workdir)
    check_folder(planned, workdir)
    check_floors(planned)
    engine.begin(folder.path)
    plan = engine.plan(planned)
    _check_layout(plan)
    halving = halve(plan) if halve else None
    if halving is not None:
        if not halving.barrier:
            plan = asha.one_setting_each(plan)
            asha.check_folder(plan, folder)
        rungs.agree(plan, folder, halving)
    folder.clean()
    write_notes(folder, plan, plan_text(plan, set()))
    keep_floors(plan, folder, display)
    try:
        if halving is None:
            records = execute(plan, folder, display, engine)
        else:
            records = (rungs if halving.barrier else asha).execute(plan, folder, display, halving, engine)
    except FailedCohorts as failed:
        failed.records = records_of(plan, folder, folder.finished(rungs.on_record))
        raise
    finally:
        display.end()
    if best := best_record(records):
        display.best(best, folder.run_folder(best["run"]))
    return records


def check_folder(planned: Sweep, workdir: Path) -> None:
    """Refuses a folder that a sweep cannot be kept in; writes nothing.

    Raises:
      InputError: the folder cannot be written, or is that of a timing or of another sweep.
    """
    folder = Workdir(workdir)
    folder.check()
    if (folder.path / TIMING_FILE).exists():
        raise InputError("this folder holds a timing", path=folder.path, remedy="give a --workdir of its own")
    name = name_of_sweep(folder.path)
    if name not in (None, planned.name):
        problem = f'this folder holds the sweep "{name}", not "{planned.name}"'
        raise InputError(problem, path=folder.path, remedy="give a --workdir of its own")


def _check_layout(plan: Plan) -> None:
    scores = {name for cohort in plan.cohorts for name in score_names(cohort.data.task, len(cohort.data.labels))}
    check_layout(plan.sweep.table, (flatten(run.config) for run, _ in plan.runs.values()), scores | {"loss"})


def train(file: Path, **arguments: Any) -> str:
    """As `sweep`, for a config file: one seed unless told otherwise."""
    if arguments.get("grid_overrides"):
        raise InputError("a training has no grid", remedy="use jaxmatch sweep for --grid.…")
    if arguments.get("seeds") is None:
        arguments["seeds"] = 1
    return sweep(file, **arguments)


def resolve(
    file: Path,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    smoke: bool = False,
    command: str = "",
) -> Sweep:
    """The sweep that a file and a command line describe together; see `sweep` for the arguments."""
    options, overrides = dict(options or {}), dict(overrides or {})
    for option, setting in OF_THE_DATA.items():
        value = options.pop(option, None)
        if value is not None and not smoke:  # generated data needs none of them
            overrides[setting] = value
    planned = _load_sweep(Path(file), options)
    if not smoke:
        overrides = _with_selection(planned, overrides)
    planned = dataclasses.replace(smoked(planned) if smoke else planned, command=command)
    return changed(planned, seeds=seeds, overrides=overrides, grid_overrides=grid_overrides)


def _with_selection(planned: Sweep, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """The overrides, with the score of the data set as `training.selection` where none was asked for: that of the
    catalog, or MRR for one's own data with groups.
    """
    asked = {*overrides, *planned.grid, *(key for settings in planned.variants.values() for key in settings)}
    if "training.selection" in asked or planned.config.training.selection != TrainingConfig().selection:
        return overrides
    data = {key: value for key, value in overrides.items() if key.startswith("data.")}
    config = with_overrides(planned.config, data)
    if config.data.name in catalog.CATALOG:
        selection = catalog.CATALOG[config.data.name].selection
    else:
        selection = catalog.SELECTION[guessed_task(config) or "classification"]
    return overrides if selection == TrainingConfig().selection else {**overrides, "training.selection": selection}


def _load_sweep(file: Path, options: Mapping[str, str]) -> Sweep:
    file, named = config_file(file)
    module, options = load_module(file), named | dict(options)
    if hasattr(module, "get_sweep"):
        planned = called(module, "get_sweep", options, file)
        if not isinstance(planned, Sweep):
            raise InputError(f"get_sweep() returns a {type(planned).__name__}", path=file, remedy="return a Sweep")
        return planned
    if hasattr(module, "get_timing"):
        raise InputError("this file describes a timing, not a training", path=file, remedy="use jaxmatch timing")
    if not hasattr(module, "get_config"):
        raise InputError("the file has neither get_sweep() nor get_config()", path=file, remedy="define one of them")
    name = "_".join((file.stem, *options.values()))
    layout = getattr(module, "TABLE", None) or TableLayout(title=name, rows=(), scores=())
    config = load_config(file, **options)
    with mistakes_of(file):
        return Sweep(name=name, config=config, grid={}, seeds=(0,), table=layout)


def changed(
    planned: Sweep,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
) -> Sweep:
    """A sweep with what a command line changes in it; see `sweep` for the arguments.

    Raises:
      InputError: a setting that does not exist or a value it cannot have; an override of a grid axis, or of what a
        variant sets.
    """
    overrides, grid_overrides = overrides or {}, grid_overrides or {}
    known = flatten(planned.config)
    grid = dict(planned.grid)
    removed = {key for key, text in grid_overrides.items() if not text.strip()}
    for key in removed:
        if key not in grid:
            raise InputError(f"{key} is no axis of this sweep's grid", remedy=nearest(key, grid))
        del grid[key]
    settings = known if "model.name" not in overrides else flatten(with_overrides(planned.config, overrides))
    for key, text in grid_overrides.items():
        if key in removed:
            continue
        if key not in settings:
            raise InputError(
                f'there is no setting "config.{key}" to make a grid axis of', remedy=nearest(key, list(settings))
            )
        grid[key] = _values(text)
    for key in overrides:
        if key in grid:
            raise InputError(
                f"config.{key} is an axis of this sweep's grid", remedy=f"give its values with --grid.{key}=…"
            )
        if planned.variants and all(key in settings for settings in planned.variants.values()):
            raise InputError(
                f"every variant of this sweep sets config.{key}", remedy="leave it out, or change the sweep file"
            )
        if key.startswith("model.") and any("model.name" in settings for settings in planned.variants.values()):
            raise InputError(
                f"config.{key} is not common to the models of this sweep",
                remedy="leave it out, or change the sweep file",
            )
        # It would be lost there without a word.
        if own := [name for name, settings in planned.variants.items() if key in settings]:
            raise InputError(
                f"config.{key} is a setting of the variant {' and of '.join(own)} itself and would not reach it",
                remedy="leave it out, or change the sweep file",
            )
    config = with_overrides(planned.config, overrides)
    rows = tuple(key for key in planned.table.rows if key not in removed) + tuple(
        key for key in grid if key not in planned.table.rows and key != planned.table.columns
    )
    order = {**planned.table.order, **grid}
    selection = config.training.selection
    scores = planned.table.scores or SHOWN_SCORES.get(selection, (f"dev.{selection}", f"test.{selection}"))
    published = planned.table.published
    if config.training.best_on_test:
        on_test = [score.replace("test.", "best_on_test.", 1) for score in scores if score.startswith("test.")]
        scores = (*scores, *(score for score in on_test or [f"best_on_test.{selection}"] if score not in scores))
        published = tuple(dataclasses.replace(row, scores={**row.scores, **_on_test(row)}) for row in published)
    now = flatten(config)
    # A reader compares with the settings of the file; where the data lies and how a run is made are not settings of a
    # result.
    different = [
        f"{key}={now[key]}" for key in overrides if now[key] != known.get(key) and not key.startswith(NOT_IDENTITY)
    ]
    notes = planned.table.notes + (
        (f"Settings changed from the sweep file's: {', '.join(different)}",) if different else ()
    )
    for key in grid:
        if own := [name for name, settings in planned.variants.items() if key in settings]:
            notes += (f"{key} is an axis of the grid, whose values stand in place of that of {' and of '.join(own)}",)
    columns = "" if planned.table.columns in removed else planned.table.columns
    layout = dataclasses.replace(
        planned.table, rows=rows, columns=columns, order=order, scores=scores, notes=notes, published=published
    )
    if seeds is not None:
        if seeds > MOST_SEEDS:
            raise InputError(f"{seeds} seeds are more than can be planned", remedy=f"give up to {MOST_SEEDS}")
        first = tuple(planned.seeds)[:seeds]
        following = max(first, default=-1) + 1
        first += tuple(range(following, following + seeds - len(first)))
        planned = dataclasses.replace(planned, seeds=first)
    return dataclasses.replace(planned, config=config, grid=grid, table=layout)


def _on_test(row: Published) -> dict[str, str]:
    """Published test scores that go with "best on test", because they were chosen there."""
    return {
        score.replace("test.", "best_on_test.", 1): text
        for score, text in row.scores.items()
        if row.chosen_on_test and score.startswith("test.")
    }


def _values(text: str) -> Sequence[Any]:
    """ "1,2,3" as (1, 2, 3) and "3,(1,3)" as (3, (1, 3)); words stay words."""
    try:
        return ast.literal_eval(f"({text},)")
    except (ValueError, SyntaxError):
        pass
    values = []
    for part in text.split(","):
        try:
            values.append(ast.literal_eval(part.strip()))
        except (ValueError, SyntaxError):
            values.append(part.strip())
    return tuple(values)

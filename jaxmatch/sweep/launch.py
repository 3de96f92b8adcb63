"""What the commands do with a sweep: plan it, train what is missing, make the table and its baselines."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jaxmatch import baselines
from jaxmatch.config.settings import flatten
from jaxmatch.devices import keep_compiled_programs
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.reporting.records import BASELINES_FORMAT, read_baselines
from jaxmatch.reporting.table import check_layout, folder_table
from jaxmatch.sweep.display import Display, RunListener, listeners_of, plan_text
from jaxmatch.sweep.execute import Engine, commit, records_of, train_plan, versions
from jaxmatch.sweep.files import config_file, data_settings, load_module, resolve
from jaxmatch.sweep.halving import Halving, execute_halving, store_or_check_rule
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.sweep import Sweep, changed, with_scores
from jaxmatch.training.scores import score_names
from jaxmatch.workdir import BASELINES_FILE, SWEEP_FILE, FailedCohorts, Workdir, check_usable


def sweep(
    file: Path,
    *,
    workdir: Path,
    dry_run: bool = False,
    display: Display | None = None,
    log: Sequence[str] = (),
    engine: Engine | None = None,
    **changes: Any,
) -> str:
    """Runs a sweep file: shows the plan, trains what is missing, and returns the table.

    Arguments:
      file: a Python file with `get_sweep()`, or with `get_config()` for a single setting.
      workdir: the folder of the sweep.
      dry_run: whether to show the plan and train nothing.
      display: the display that shows the progress.
      log: the names of listeners (`display.listeners_of`).
      engine: the engine that trains the cohorts; default: this process.
      **changes: what `files.resolve` takes: `seeds` (their number, starting with the first of the file), `overrides`
        (dotted setting -> value or its text, for all runs), `grid_overrides` (dotted setting -> comma-separated values
        of a grid axis; "" removes the axis), `options` (of `files.OF_THE_DATA`, and those that `get_sweep` takes),
        `baselines` (`baselines.named_baselines`), `smoke` (whether to shrink everything to seconds, on generated data),
        and `command` (the command line, which is stored beside the records).

    Returns:
      The table in Markdown, with a short caption, or "" for a dry run.

    Raises:
      InputError: something is wrong that the user can fix.
      FailedCohorts: some runs failed. The error holds the table of the others.
    """
    resolved = resolve(file, **changes)
    run(resolved, workdir, display, listeners=listeners_of(log), engine=engine, dry_run=dry_run)
    return "" if dry_run else folder_table(workdir, verbose=False)


def train(file: Path, **arguments: Any) -> str:
    """Runs a config file as `sweep` does, with one seed by default."""
    if hasattr(load_module(config_file(file)[0]), "get_sweep"):
        raise InputError("it is a sweep", path=file, remedy=f"give it to jaxmatch sweep: jaxmatch sweep {file}")
    if arguments.get("seeds") is None:
        arguments["seeds"] = 1
    return sweep(file, **arguments)


def run(
    sweep: Sweep,
    workdir: str | Path,
    display: Display | None = None,
    halve: Callable[[Plan], Halving] | None = None,
    listeners: Iterable[RunListener] = (),
    engine: Engine | None = None,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """Trains the runs of a sweep that its folder lacks.

    Arguments:
      sweep: the sweep.
      workdir: the folder.
      display: the display that shows the progress.
      halve: the function that returns the rule that drops the worst settings; default: none is dropped.
      listeners: the listeners that are called when a run starts, is scored and ends.
      engine: the engine that trains the cohorts; default: this process.
      dry_run: whether to show the plan, train nothing and return no records.

    Returns:
      The records of the sweep's runs (docs/reference/files.md), including those that were trained before.

    Raises:
      InputError: the data cannot be read, the grid holds a run twice, the grid cannot be halved, the table requests
        what no run will have, or the folder cannot be written or belongs to a timing or another sweep.
      FailedCohorts: some runs failed. This `InputError` (jaxmatch.workdir) holds the `records` of the others,
        and their `table`.
    """
    display, engine, folder = display or Display(), engine or Engine(), Workdir(Path(workdir))
    sweep = changed(sweep)  # the table of a sweep made in Python may lack an axis
    keep_compiled_programs(sweep.config.execution.cache_directory)
    check_usable(folder.path, SWEEP_FILE, sweep.name)
    engine.begin(folder.path, dry_run)
    plan = engine.plan(sweep)
    scores = {name for cohort in plan.cohorts for name in score_names(cohort.data.task, len(cohort.data.labels))}
    configs = [run.config for run, _ in plan.runs.values()]
    table = with_scores(sweep.table, configs)
    check_layout(table, map(flatten, configs), scores | {"loss"})
    plan = dataclasses.replace(plan, sweep=dataclasses.replace(sweep, table=table))
    halving = halve(plan) if halve else None
    if dry_run:
        finished = folder.recorded(plan.runs) if halving else folder.finished(plan.runs)
        display.show(plan_text(plan, finished))
        if halving:
            display.show(halving.text(plan.run_steps))
        return []
    if halving is not None:
        store_or_check_rule(plan, folder, halving)
    display.listeners += listeners
    folder.clean()
    _write_notes(folder, plan)
    keep_baselines(plan, folder, display)
    try:
        if halving is None:
            display.begin(plan, folder.finished(plan.runs))
            return train_plan(plan, folder, display, engine)
        return execute_halving(plan, folder, display, halving, engine)
    except FailedCohorts as failed:
        failed.records = records_of(plan, folder, folder.recorded(plan.runs))
        failed.table = folder_table(folder.path, verbose=False) if failed.records else ""
        raise
    finally:
        display.end()


def _write_notes(folder: Workdir, plan: Plan) -> None:
    """Writes the notes of a sweep, which `read_sweep_folder` reads besides records."""
    places = {
        name: {"variant": run.variant, "overrides": dict(run.overrides), "seed": run.seed}
        for name, (run, _) in plan.runs.items()
    }
    notes = {
        "name": plan.sweep.name,
        "layout": dataclasses.asdict(plan.sweep.table),
        "runs": list(places),
        "places": places,
        "analyses": {name: dict(options) for name, options in plan.sweep.analyses.items()},
        **({"baselines": list(plan.sweep.baselines)} if plan.sweep.baselines else {}),
        **({"command": plan.sweep.command} if plan.sweep.command else {}),
        "plan": plan_text(plan, set()),
    }
    write_json(folder.path / SWEEP_FILE, notes)


def keep_baselines(plan: Plan, folder: Workdir, display: Display) -> None:
    """Computes the baselines that a sweep requests, unless its folder holds them for the same data.

    The baselines of one data set say nothing about others, so a sweep over several data sets has none.

    Raises:
      InputError: a baseline cannot be computed here, or the stored ones are damaged.
    """
    if not plan.sweep.baselines:
        return
    requested = list(filter(baselines.is_installed, plan.sweep.baselines))
    _, cohort = next(iter(plan.runs.values()))
    # Baselines read the texts, and no other feature of their words.
    texts = {
        dataclasses.replace(data_settings(each.config), tags=False, exact_match=False, characters=0)
        for each, _ in plan.runs.values()
    }
    if len(texts) > 1:
        display.say("the runs are of several data sets: the table has no baselines")
        (folder.path / BASELINES_FILE).unlink(missing_ok=True)
        return
    kept = read_baselines(folder.path)
    if kept and kept["fingerprint"] == cohort.data.fingerprint and kept.get("asked") == requested:
        return
    task = cohort.data.task
    missing = {name: "pip install 'jaxmatch[baselines]'" for name in plan.sweep.baselines if name not in requested}
    of_others = [name for name in plan.sweep.baselines if task not in baselines.BASELINES[name].tasks]
    left_out = missing | dict.fromkeys(of_others, f"not for a {task}")
    fitted = [name for name in plan.sweep.baselines if name not in left_out]
    note = "; left out: " * bool(left_out) + ", ".join(f"{name} ({reason})" for name, reason in left_out.items())
    display.say(f"fitting the baselines: {', '.join(fitted)}{note}")
    rows = baselines.measured(cohort.data, fitted)
    notes = {"format": BASELINES_FORMAT, "asked": requested, "fingerprint": cohort.data.fingerprint, "rows": rows}
    write_json(folder.path / BASELINES_FILE, notes | {"versions": versions(), "commit": commit()})

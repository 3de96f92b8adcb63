"""A launch: the plan of a sweep, the training of the runs that its folder lacks, its table and its baselines.

An `Engine` trains cohorts, each under the lock of its folder, safe beside other launchers, and stores the outcome: the
records, or the error. The default engine trains in this process; others pass cohorts to workers (remote.py).
"""

import concurrent.futures
import dataclasses
import io
import itertools
import threading
import time
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from filelock import Timeout

from jaxmatch import baselines
from jaxmatch.baselines import named_baselines
from jaxmatch.config.settings import flatten, with_overrides
from jaxmatch.data.encoding import EncodedData, data_settings
from jaxmatch.devices import available_devices, is_out_of_memory, keep_compiled_programs
from jaxmatch.errors import InputError, count_text, without_nan
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.inference import model_folder
from jaxmatch.layers.words import with_fixed_words
from jaxmatch.reporting.records import BASELINES_FORMAT, grouped, read_baselines, read_record
from jaxmatch.reporting.table import check_layout, folder_table
from jaxmatch.sweep.display import Display, RunListener, listeners_of, plan_text
from jaxmatch.sweep.files import OF_THE_DATA, config_file, load_module, load_sweep
from jaxmatch.sweep.plan import Plan, PlannedCohort, make_plan, prepare
from jaxmatch.sweep.provenance import check_versions, commit, make_record, origin, versions
from jaxmatch.sweep.sweep import Run, Sweep, changed, smoke_sweep, with_scores
from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort
from jaxmatch.training.evaluation import mistakes
from jaxmatch.training.scores import score_names
from jaxmatch.workdir import (
    BASELINES_FILE,
    MISTAKES_FILE,
    SWEEP_FILE,
    CohortFolder,
    FailedCohorts,
    Workdir,
    check_usable,
    is_complete,
)

# Waits are short because another thread may raise an interrupt again (cli/main.py), which does not end a wait.
SECONDS_BETWEEN_POLLS = 1.0
PAUSED = "paused at the rung"


@dataclasses.dataclass(frozen=True)
class Training:
    """What the cohorts of a plan have in common while they are trained."""

    plan: Plan
    display: Any  # a `Display`, or in a worker what passes its calls on
    failures: Mapping[str, bytes | None]  # name of a cohort -> its `CohortFolder.failure` when training began
    until: int | None = None  # the number of epochs after which cohorts pause. None: they are trained to the end
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)  # name of a run -> the epochs until it stops
    halving: Mapping[str, Any] | None = None  # the rule by which runs were dropped, for their records

    def complete(self, run: str, record: Mapping[str, Any]) -> bool:
        """Returns whether a run need not be trained any further than its record says."""
        wanted = self.dropped.get(run, self.until)
        reached = wanted is not None and (record.get("dropped") or {}).get("after_epochs", 0) >= wanted
        return reached or is_complete(run, record)

    def reached(self, folder: CohortFolder) -> bool:
        """Returns whether a cohort is done or has paused."""
        return folder.done or (self.until is not None and folder.rung(self.until).exists())

    def failed(self, folder: CohortFolder) -> bool:
        """Returns whether a cohort has failed since training began, in any process."""
        return folder.failure() not in (None, self.failures.get(folder.name))


def train_cohort(
    training: Training,
    folder: CohortFolder,
    stop: threading.Event,
    wait: float = 0.0,
    following: PlannedCohort | None = None,
) -> bool:
    """Trains a cohort unless another process trains it or has done so. Marks it if it fails.

    Arguments:
      training, folder: what it has in common with other cohorts, and its folder.
      stop: an event that ends training early, with a checkpoint.
      wait: the number of seconds to wait while another process holds the cohort.
      following: the cohort that trains next, whose programs an accelerator's host compiles meanwhile.

    Returns:
      Whether the cohort was trained here.

    Raises:
      Stopped: `stop` was set.
      OSError: the system prevents all training: the disk is full, a folder is gone, or standard error is closed.
      Exception: training failed in one of several processes, which cannot continue together.
    """
    try:
        with folder.lock().acquire(timeout=wait):
            # Another process may have finished or removed the cohort meanwhile.
            begun = (folder.path / "cohort.json").exists()
            if not begun or training.reached(folder) or training.failed(folder):
                return False
            shown = training.display.cohort(folder, training.dropped)
            folder.error_file.unlink(missing_ok=True)
            try:
                done = _train(training, folder, shown, stop, following)
                shown.ended("done" if done else PAUSED, done)
            except Exception as error:  # of any kind: it need not affect other cohorts
                if hosts.is_multiprocess() or (isinstance(error, OSError) and error.errno is not None):
                    raise
                shown.ended(f"failed ({folder.mark_failed(error)})")
            finally:
                shown.ended()
            return True
    except Timeout:
        return False


def _train(
    training: Training, folder: CohortFolder, listener: Any, stop: threading.Event, following: PlannedCohort | None
) -> bool:
    """Trains a cohort until it ends or pauses. Returns whether its records are written."""
    planned, until = training.plan.cohort_of(folder.runs), training.until
    runs, data = planned.runs, planned.data
    # Several processes train a cohort together, so it has the devices of all.
    devices = tuple(available_devices()[: None if hosts.is_multiprocess() else planned.devices])
    numbers = [number for number, name in enumerate(folder.runs) if name in training.dropped]
    dropped = grouped(numbers, lambda number: training.dropped[folder.runs[number]])  # epochs -> runs
    try:
        hosts.decide(lambda: (runs, data.content, until, dropped))  # for `_follow`
        cohort = Cohort(**_settings(runs, data), devices=devices)
        # A CPU would only train more slowly meanwhile.
        if following and following.devices == len(devices) and devices[0].platform != "cpu":
            cohort.compile_ahead(_settings(following.runs, following.data))
        cohort.origins.append(origin(devices))  # the code that trains, not that of the checkout at the end
        results = cohort.train(Checkpoints(folder.checkpoints), listener, until=until, dropped=dropped, stop=stop)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not is_out_of_memory(error):
            raise
        problem = f"this cohort of {count_text(len(runs), 'run')} does not fit in memory"
        smaller = "shorter texts or a smaller --batch-size or --config.execution.maximum_replicas"
        remedy = f"free memory, or remove this folder and run again with {smaller}"
        raise InputError(problem, path=folder.path, remedy=remedy) from error
    if results is None:
        histories = {
            name: {"curve": progress.curve, "diverged_at_samples": progress.diverged_at}
            for name, progress in zip(folder.runs, cohort.runs, strict=True)
        }
        write_json(folder.rung(until), without_nan({"runs": histories}))
        return False
    workdir = folder.workdir
    vectors = _shared_vectors(workdir.path / "vectors" / f"{data.fingerprint}.npy", data)
    about = {"sweep": training.plan.sweep.name, "folder": folder, "halving": training.halving}
    for run, result in zip(runs, results, strict=True):
        record = make_record(run, result, data=data, cohort=cohort, devices=devices, **about)
        with directory_atomically(workdir.run_folder(record["run"])) as run_folder:
            if result.progress.best is not None and result.progress.status != "dropped":
                settings, parameters, words = with_fixed_words(run.config.model.to_dict(), result.parameters)
                model_folder.save(
                    run_folder / "model",
                    model_settings=settings,
                    params=parameters,
                    vocabulary_words=data.vocabulary.words,
                    vectors=words,
                    vectors_file=vectors if words is None else None,
                    labels=data.labels,
                    task=data.task,
                    preprocessing=dataclasses.asdict(data.preprocessing),
                    config=run.config.to_dict(),
                )
                if worst := mistakes(data, result.dev_outputs):
                    write_json(run_folder / MISTAKES_FILE, worst)
            write_json(run_folder / "record.json", without_nan(record))
    folder.mark_done()
    return True


def _settings(runs: Sequence[Run], data: EncodedData) -> dict[str, Any]:
    """Returns the arguments of `Cohort`."""
    config = runs[0].config
    return {
        "model": config.model.to_dict(),
        "training": config.training.to_dict(),
        "execution": config.execution.to_dict(),
        "data": data,
        "seeds": [run.seed for run in runs],
        "optimizer": [run.config.optimizer.to_dict() for run in runs],
    }


def _shared_vectors(path: Path, data: EncodedData) -> Path:
    """Stores the embedding table, which all models of the folder share, unless it is stored. Returns its path."""
    content = io.BytesIO()
    np.save(content, np.asarray(data.vectors, np.float32), allow_pickle=False)
    if not path.exists() or path.read_bytes() != content.getvalue():
        write_atomically(path, content.getvalue())
    return path


class Submitted(Exception):
    """Cohorts were submitted as jobs, which train them later. The text says how many."""


class Engine:
    """An engine that trains cohorts in this process, on all available devices."""

    def begin(self, workdir: Path, dry_run: bool = False) -> None:
        """Prepares the engine to train a sweep in a folder, before anything is planned or written there.

        Raises:
          InputError: the engine cannot train the sweep.
        """

    def plan(self, sweep: Sweep) -> Plan:
        """Plans a sweep for the devices that will train it. Raises the errors of `make_plan`."""
        return make_plan(sweep)

    def run(self, training: Training, folders: Sequence[CohortFolder]) -> bool:
        """Trains cohorts, one after another. One that another process trains is left to it; one that fails is marked.

        Returns:
          Whether any cohort was trained.

        Raises:
          OSError: the system prevents all training, for example because the disk is full.
          Submitted: the engine has submitted the cohorts, which are trained later.
        """
        stop, plans = threading.Event(), [training.plan.cohort_of(folder.runs) for folder in folders]

        # Training has a thread of its own: an interrupt of this one lets it end with a checkpoint.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            try:
                trained = []
                for folder, following in itertools.zip_longest(folders, plans[1:]):
                    future = thread.submit(train_cohort, training, folder, stop, following=following)
                    while not future.done():
                        concurrent.futures.wait([future], SECONDS_BETWEEN_POLLS)
                    trained.append(future.result())
                return any(trained)
            except KeyboardInterrupt:
                text = "interrupted: training ends with a checkpoint, or at once after a second interrupt"
                training.display.say(text)
                raise
            finally:
                stop.set()


def records_of(plan: Plan, workdir: Workdir, names: Container[str] | None = None) -> list[dict[str, Any]]:
    """Reads the records of a plan's runs, or of those with some names, each with the run's place in the grid.

    Raises:
      InputError: a record is missing or damaged.
    """
    return [
        read_record(workdir.run_folder(name) / "record.json")
        | {"variant": run.variant, "overrides": dict(run.overrides)}
        for name, (run, _) in plan.runs.items()
        if names is None or name in names
    ]


def train_plan(plan: Plan, workdir: Workdir, display: Display, engine: Engine, **limits: Any) -> list[dict[str, Any]]:
    """Trains the runs of a plan that are not on record, and returns all their records, unless they pause.

    Several processes may train plans in one folder: each cohort is trained by one of them, and the others wait for it.
    A cohort that a killed process leaves is resumed from its last checkpoint. A cohort that fails is marked, and the
    others continue. One that failed before is tried again, once.

    Arguments:
      plan: the plan.
      workdir: the folder of the sweep.
      display: the display that shows the progress.
      engine: the engine that trains the cohorts.
      **limits: `until`, `dropped` and `halving`, as in `Training`.

    Raises:
      FailedCohorts: some cohorts failed, here or in another launcher. The others are trained.
      OSError: the system prevents all training, for example because the disk is full.
    """
    failures = {folder.name: folder.failure() for folder in workdir.cohorts()}
    training = Training(plan, display, failures, **limits)
    while folders := [each for each in workdir.assign(plan.groups, training.complete) if not training.reached(each)]:
        if all(map(training.failed, folders)):
            raise FailedCohorts(folders, len(plan.runs))
        # A cohort with runs that are not planned here belongs to another process. If that has stopped, the next
        # assignment removes the cohort.
        own = [folder for folder in folders if plan.runs.keys() >= set(folder.runs)]
        trained = bool(own) and engine.run(training, own)
        unfinished = [folder for folder in folders if not training.reached(folder) and not training.failed(folder)]
        if not trained and unfinished:
            display.waiting(len(unfinished))
            time.sleep(SECONDS_BETWEEN_POLLS)
    return [] if training.until is not None else records_of(plan, workdir)


def resolve(
    file: Path,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    baselines: str | None = None,
    smoke: bool = False,
    command: str = "",
) -> Sweep:
    """Returns the sweep that a file and a command line describe together. See `sweep` for the arguments."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    options = {name: value for name, value in given.items() if name not in OF_THE_DATA}
    overrides = {**(overrides or {}), **{OF_THE_DATA[name]: given[name] for name in given if name in OF_THE_DATA}}
    if smoke:  # generated data needs none of them
        overrides = {name: value for name, value in overrides.items() if name not in OF_THE_DATA.values()}
    sweep = dataclasses.replace(load_sweep(file, options), command=command)
    if smoke:  # these only select the generated data that resembles the user's
        hints = {key: overrides.pop(key) for key in ("data.task", "training.selection") if key in overrides}
        sweep = smoke_sweep(dataclasses.replace(sweep, config=with_overrides(sweep.config, hints)))
    if baselines is not None:
        sweep = dataclasses.replace(sweep, baselines=named_baselines(baselines))
    return changed(sweep, seeds=seeds, overrides=overrides, grid_overrides=grid_overrides)


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
      **changes: what `resolve` takes: `seeds` (their number, starting with the first of the file), `overrides`
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
    halve: Callable[[Plan], Any] | None = None,
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
        halving.store_or_check(plan, folder)
    display.listeners += listeners
    folder.clean()
    _write_notes(folder, plan)
    keep_baselines(plan, folder, display)
    try:
        if halving is None:
            display.begin(plan, folder.finished(plan.runs))
            return train_plan(plan, folder, display, engine)
        return halving.train(plan, folder, display, engine)
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


def on_all_hosts(
    run: Callable[[], None], coordinator: str | None = None, process: int | None = None, processes: int | None = None
) -> None:
    """Runs a launcher as one process of several: process 0 calls `run`, and the others train its cohorts with it.

    Process 0 alone plans, writes and displays. The others read the data of each cohort themselves. The other arguments
    are those of `hosts.join`. Raises InputError if the processes cannot connect, or run different versions.
    """
    hosts.join(coordinator, process, processes)
    check_versions(hosts.decide(versions), f"process {jax.process_index()}")
    if jax.process_index():
        _follow()
    else:
        run()
        hosts.decide(lambda: None)  # ends `_follow`
    jax.distributed.shutdown()


def _follow() -> None:
    """Trains every cohort that process 0 trains, until process 0 says that nothing is left."""
    data, checkpoints = None, types.SimpleNamespace(save=lambda *given: None)  # process 0 alone reads and writes them
    while (cohort := hosts.decide(lambda: None)) is not None:
        runs, content, until, dropped = cohort
        keep_compiled_programs(runs[0].config.execution.cache_directory)
        if data is None or data.content != content:
            data = prepare(runs[0].config)
        if data.content != content:
            raise InputError("the data differ from those of process 0", remedy="give all hosts the same files")
        Cohort(**_settings(runs, data), devices=tuple(jax.devices())).train(checkpoints, until=until, dropped=dropped)

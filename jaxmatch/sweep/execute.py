"""Training of the runs that a plan still lacks, safe beside other launchers, and their records.

An `Engine` trains cohorts, each under the lock of its folder, and stores the outcome: the records, or the error. The
default engine trains in this process; others pass cohorts to workers (on_ray.py, on_slurm.py).
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import io
import itertools
import os
import platform
import socket
import subprocess
import threading
import time
import types
from collections.abc import Callable, Container, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from filelock import Timeout

import jaxmatch
from jaxmatch.data import catalog
from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import available_devices, cores, is_out_of_memory, keep_compiled_programs, products_of
from jaxmatch.errors import InputError, count_text, without_nan
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.inference import model_folder
from jaxmatch.layers.words import with_fixed_words
from jaxmatch.models import count_parameters
from jaxmatch.reporting.records import FORMAT, grouped, read_record
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.files import prepare
from jaxmatch.sweep.plan import Plan, PlannedCohort, make_plan
from jaxmatch.sweep.sweep import Run, Sweep
from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort, RunResult, Stopped
from jaxmatch.training.evaluation import mistakes
from jaxmatch.workdir import MISTAKES_FILE, CohortFolder, FailedCohorts, Workdir, is_complete

# Waits are short because another thread may raise an interrupt again (cli/main.py), which does not end a wait.
SECONDS_BETWEEN_POLLS = 1.0
PAUSED = "paused at the rung"
# How long a dead worker may seem to hold its cohort. This is longer than NFS waits for a client (90 s).
SECONDS_FOR_THE_LOCK = 120.0


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


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of Python, jaxmatch and the packages that a result may depend on."""
    packages = ("jax", "jaxlib", "flax", "optax", "numpy", "nltk", "ml-collections")
    found = {name: metadata.version(name) for name in packages}
    return {"python": platform.python_version(), "jaxmatch": jaxmatch.__version__, **found}


def check_versions(expected: Mapping[str, str], where: str) -> None:
    """Checks that this process runs the versions of the process that sent it here. Raises InputError if not."""
    for name, version in versions().items():
        if version != expected[name]:
            problem = f"{where} runs {name} {version}, not {expected[name]}"
            raise InputError(problem, remedy="install the same versions there")


# Linux's list of processors.
PROCESSORS = Path("/proc/cpuinfo")


def device_name(devices: Sequence[jax.Device]) -> str:
    """Returns a description of devices, such as "1 x cpu (AMD EPYC, AVX2, 2 cores)".

    Virtual machines often name only the family of a processor, and processors of one family can differ in the widest
    vector instructions.
    """
    if devices[0].platform != "cpu":
        return f"{len(devices)} x {devices[0].device_kind}"
    about: dict[str, str] = {}
    with contextlib.suppress(OSError):
        pairs = (line.partition(":") for line in PROCESSORS.read_text().split("\n\n")[0].splitlines())
        about = {key.strip(): value.strip() for key, _, value in pairs}
    flags = about.get("flags", "").split()
    vectors = "AVX-512, " if "avx512f" in flags else "AVX2, " if "avx2" in flags else ""
    name = about.get("model name") or platform.processor() or platform.machine()
    return f"{len(devices)} x cpu ({name}, {vectors}{os.cpu_count()} cores)"


@functools.cache
def commit(*others: str) -> str:
    """Returns the commit of the checkout that this package runs from; "" outside of a checkout.

    It ends in "+" if files of the package, or others that match patterns such as "benchmarks/*.py", have changed since.
    """

    def git(*words: str) -> str:
        folder = Path(jaxmatch.__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        # Other processes may use git at the same time, hence no locks. The user's own settings may hide new files.
        status = ("--no-optional-locks", "status", "--porcelain", "--untracked-files=normal", "--", ".")
        changed = git(*status, *(f":/{pattern}" for pattern in others))
        return git("rev-parse", "HEAD").strip() + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""


def origin(devices: Sequence[jax.Device]) -> dict[str, Any]:
    """Returns what trains in this process: the "commit", the "versions" of packages, and the "device"."""
    return {"commit": commit(), "versions": versions(), "device": device_name(devices)}


def make_record(
    run: Run,
    result: RunResult,
    *,
    sweep: str,
    folder: CohortFolder,
    data: EncodedData,
    cohort: Cohort,
    devices: Sequence[jax.Device],
    halving: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the record of a run, as plain values for JSON (docs/reference/files.md).

    Its times are those of the whole cohort, which trains together. `trained_by` is there if training was resumed with
    other code, packages or devices, and `ran_out` if memory ran out.
    """
    progress, dropped = result.progress, None
    if progress.status == "dropped":
        after = progress.dropped_at // data.splits["train"].pairs
        dropped = {"after_epochs": after, "at_samples": progress.dropped_at, **(halving or {})}
    runs, answered = len(cohort.runs), cohort.evaluator.totals
    microseconds = 1e6 * answered["seconds"] / answered["pairs"] if answered["pairs"] else None
    return {
        "format": FORMAT,
        "run": run.identity(data.fingerprint),
        "sweep": sweep,
        "cohort": folder.name,
        "seed": run.seed,
        "variant": run.variant,
        "overrides": dict(run.overrides),
        "config": run.config.to_dict(),
        "status": progress.status,
        "dropped": dropped,
        "diverged_at_samples": progress.diverged_at,
        "selected_on": f"dev.{run.config.training.selection}",
        "selected_at_samples": progress.best_at if progress.best is not None else None,
        "stopped_early": progress.stopped,
        "dev": progress.best,
        "test": result.test,
        **({"test_sampling": result.test_sampling} if result.test_sampling else {}),
        "best_on_test": progress.best_on_test,
        "curve": progress.curve,
        "times": {
            **{f"{name}_seconds": round(value, 3) for name, value in cohort.seconds.items()},
            **{f"{name}_steps": number for name, number in cohort.steps.items()},
            "replicas": runs,
            "train_seconds_a_run": round(cohort.seconds["train"] / runs, 3),
            "inference_microseconds_a_pair": microseconds and round(microseconds, 3),
        },
        **origin(devices),
        **({"trained_by": cohort.origins} if len(cohort.origins) > 1 else {}),
        "products": products_of(run.config.model.precision, devices[0]),
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint,
            "files": dict(data.files),
            **{split: data.splits[split].pairs if split in data.splits else 0 for split in ("train", "dev", "test")},
            "about": {split: text for split, text in catalog.about(data.name).items() if split in data.splits},
            **{name: data.report.get(name) for name in ("dropped", "in_train", "vectors", "coverage")},
        },
        "parameters": count_parameters(result.parameters),
        **({"ran_out": cohort.ran_out} if cohort.ran_out else {}),
    }


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


def worker_device(platform: str, memory: int) -> Any:
    """Returns a stand-in for the device of a worker, with `memory` bytes, with which a plan is made."""
    return types.SimpleNamespace(platform=platform, process_index=0, memory_stats=lambda: {"bytes_limit": memory})


# Variables that workers do not inherit. A driver that does not train may have another platform than its workers.
NOT_SHARED = {"JAX_PLATFORMS", "JAX_COORDINATOR_ADDRESS"}


def variables() -> dict[str, str]:
    """Returns the variables that a worker needs before JAX is loaded, so that it computes what this process would."""
    shared = {name: value for name, value in os.environ.items() if name.startswith(("JAX_", "XLA_FLAGS"))}
    return {name: value for name, value in shared.items() if name not in NOT_SHARED} | {"NPROC": str(cores())}


@dataclasses.dataclass(frozen=True)
class RemoteCohort:
    """A cohort for a worker elsewhere, without its data, which many cohorts share."""

    training: Training  # only what the cohort needs, and without a display
    folder: CohortFolder
    extend: Callable[[], None] | None  # loads extensions of the package, before training
    versions: Mapping[str, str]  # those that the worker must run

    @classmethod
    def of(cls, training: Training, folder: CohortFolder, extend: Callable[[], None] | None) -> "RemoteCohort":
        """Returns what a worker needs to train a cohort of this process."""
        sweep, cohort = training.plan.sweep, training.plan.cohort_of(folder.runs)
        # The table and the grid of the sweep may hold objects that only this process can load.
        plan = Plan(Sweep(name=sweep.name, config=sweep.config), (dataclasses.replace(cohort, data=None),))
        here = dataclasses.replace(folder, path=folder.path.absolute())
        return cls(dataclasses.replace(training, plan=plan, display=None), here, extend, versions())

    def train(self, data: EncodedData, display: Any, stop: threading.Event) -> None:
        """Trains the cohort in a worker, or returns if another process holds the cohort for long.

        Raises OSError as `train_cohort` does, and InputError if the worker cannot train as the process that sent the
        cohort would.
        """
        (cohort,), host = self.training.plan.cohorts, socket.gethostname()
        if self.extend is not None:
            self.extend()
        check_versions(self.versions, host)
        if jax.default_backend() != cohort.platform:  # a CPU would be many times slower than a GPU, and nobody sees why
            raise InputError(f"JAX finds no {cohort.platform} on {host}", remedy="install the same packages there")
        keep_compiled_programs(self.training.plan.sweep.config.execution.cache_directory)
        plan = dataclasses.replace(self.training.plan, cohorts=(dataclasses.replace(cohort, data=data),))
        display.begin(plan, set())
        training = dataclasses.replace(self.training, plan=plan, display=display)
        with contextlib.suppress(Stopped):
            train_cohort(training, self.folder, stop, SECONDS_FOR_THE_LOCK)


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

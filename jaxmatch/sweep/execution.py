"""Training what a plan still misses, safely beside other launchers."""

import dataclasses
import io
import threading
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from filelock import Timeout

from jaxmatch.data.encoded import EncodedData
from jaxmatch.devices import devices_there_are
from jaxmatch.errors import InputError
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.inference import model_folder
from jaxmatch.layers.words import with_fixed_words
from jaxmatch.printable import without_nan
from jaxmatch.reporting.records import placed, read_record
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.failures import FailedCohorts, mark_failed, of_the_machine
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.recording import make_record
from jaxmatch.sweep.side_by_side import Job, Stopped, run_jobs
from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort, RunResult
from jaxmatch.training.mistakes import mistakes
from jaxmatch.training.progress import Listener
from jaxmatch.training.replicas import devices_filled
from jaxmatch.training.room import ran_out
from jaxmatch.workdir import MISTAKES_FILE, CohortFolder, Workdir, trained_to_its_end

SECONDS_BETWEEN_TRIES = 1.0


@dataclasses.dataclass(frozen=True)
class Stage:
    """How far a plan is to be trained.

    Attributes:
      until: epochs after which its cohorts pause; None: to the end.
      dropped: names of runs that were given up -> the epochs they were trained for.
      halving: by what rule, for their records.
    """

    until: int | None = None
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    halving: Mapping[str, Any] | None = None

    def settled(self, run: str, record: Mapping[str, Any]) -> bool:
        """Whether a record holds all that this stage wants of a run."""
        if trained_to_its_end(run, record):
            return True
        wanted = self.dropped.get(run, self.until)
        return wanted is not None and (record.get("dropped") or {}).get("after_epochs", 0) >= wanted

    def reached(self, folder: CohortFolder) -> bool:
        """Whether a cohort is done, or pauses where this stage does."""
        return folder.done or (self.until is not None and folder.rung(self.until).exists())


def execute(
    plan: Plan, workdir: Workdir, display: Display, devices: Sequence[jax.Device] | None = None
) -> list[dict[str, Any]]:
    """Trains the runs of a plan that are not on record, and returns all its records.

    Several processes may execute plans on one folder: each cohort is trained by one of them, and the others wait for
    it. What a killed process leaves is taken up from its last checkpoint.

    Arguments:
      plan: what to train.
      workdir: where.
      display: told how it goes.
      devices: default: all there are.

    Raises:
      FailedCohorts: some failed; the others are trained.
    """
    display.begin(plan, workdir.finished())
    execute_stage(plan, workdir, display, Stage(), devices)
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


def execute_stage(
    plan: Plan, workdir: Workdir, display: Display, stage: Stage, devices: Sequence[jax.Device] | None = None
) -> None:
    """Trains the runs of a plan as far as a stage goes; other launchers on the folder as in `execute`.

    A cohort takes the devices that it fills; on the others the next ones are trained beside it. One that fails is
    marked, and the others go on. What failed before is tried again, once.

    Raises:
      FailedCohorts: some failed, here or in another launcher; the others have come as far as the stage goes.
      OSError: the system hinders all of them, as by a full disk.
    """
    devices = tuple(devices or devices_there_are())
    planned = [(cohort.signature, cohort.names()) for cohort in plan.cohorts]
    wanted = {run for _, runs in planned for run in runs}
    before = {folder.name: folder.failure() for folder in workdir.cohorts()}

    def failed(folder: CohortFolder) -> bool:
        """Whether it has failed since this began, whoever trained it."""
        return folder.failure() not in (None, before.get(folder.name))

    def job(folder: CohortFolder) -> Job:
        runs = tuple(plan.runs[name][0] for name in folder.runs)
        lasts = dataclasses.replace(plan.runs[folder.runs[0]][1], runs=runs).device_work

        def train(taken: tuple[jax.Device, ...], stop: threading.Event) -> bool:
            """Trains it unless somebody else does or has; whether it did."""
            try:
                with folder.lock().acquire(blocking=False):
                    # Somebody may have finished it, or taken it away, since it was claimed.
                    there = (folder.path / "cohort.json").exists()
                    if there and not stage.reached(folder) and not failed(folder):
                        _try(plan, folder, workdir, display, stage, taken, stop)
                        return True
            except Timeout:
                pass
            return False

        # Devices of one process alone are nothing that the others could follow.
        filled = len(devices) if hosts.several() else devices_filled(len(folder.runs), len(devices))
        return Job(filled, lasts, train)

    while claimed := [folder for folder in workdir.claim(planned, stage.settled) if not stage.reached(folder)]:
        if all(map(failed, claimed)):
            raise FailedCohorts(claimed, len(wanted))
        # Somebody may have stopped at one that holds runs which are not planned here, and which the next claim
        # abandons.
        trained = any(run_jobs([job(folder) for folder in claimed if wanted.issuperset(folder.runs)], devices))
        left = [folder for folder in claimed if not stage.reached(folder) and not failed(folder)]
        if not trained and left:
            display.waiting(len(left))
            time.sleep(SECONDS_BETWEEN_TRIES)


class _Stoppable:
    """A listener that ends training when an event says so."""

    def __init__(self, listener: Listener, stop: threading.Event):
        self._listener, self._stop = listener, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def stepped(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self._listener.stepped(done, total)


def _try(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    display: Display,
    stage: Stage,
    devices: tuple[jax.Device, ...],
    stop: threading.Event,
) -> None:
    """Trains a cohort, and marks it if that fails."""
    folder.error.unlink(missing_ok=True)
    runs = [plan.runs[name][0] for name in folder.runs if name not in stage.dropped]
    shown = display.cohort(folder, runs or [plan.runs[name][0] for name in folder.runs])
    try:
        if _train(plan, folder, workdir, _Stoppable(shown, stop), stage, devices):
            shown.done()
        else:
            shown.paused()
    except Exception as error:  # whatever it is, other cohorts need not meet it
        if of_the_machine(error) or isinstance(error, hosts.OutOfStep):
            raise
        shown.failed(mark_failed(folder, error))
    finally:
        shown.left()


def _train(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    listener: Listener,
    stage: Stage,
    devices: tuple[jax.Device, ...],
) -> bool:
    """Trains a cohort as far as the stage goes; whether it has its records."""
    planned = plan.runs
    runs = [planned[name][0] for name in folder.runs]
    data = planned[folder.runs[0]][1].data
    config = runs[0].config
    dropped: dict[int, list[int]] = {}
    for position, name in enumerate(folder.runs):
        if name in stage.dropped:
            dropped.setdefault(stage.dropped[name], []).append(position)
    checkpoints = Checkpoints(folder.checkpoints)
    settings = {
        "model": config.model.to_dict(),
        "training": config.training.to_dict(),
        "execution": config.execution.to_dict(),
        "data": data,
        "seeds": [run.seed for run in runs],
        "optimizer": [run.config.optimizer.to_dict() for run in runs],
    }
    try:
        with several_hosts.followed(settings, stage.until, dropped):
            cohort = Cohort(**settings, devices=devices)
            results = cohort.train(checkpoints, listener, until=stage.until, dropped=dropped)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not ran_out(error):
            raise
        raise InputError(
            f"{len(runs)} runs at once do not fit the memory of the device",
            path=folder.path,
            remedy="free memory, or remove this folder and start anew with a smaller --config.execution.maximum_replicas",
        ) from error
    finally:
        checkpoints.close()
    if results is None:
        _note_pause(folder.rung(stage.until), folder, cohort)
        return False
    vectors = _shared_vectors(workdir, data)
    workdir.clear_remains(folder.runs)
    for run, result in zip(runs, results, strict=True):
        record = make_record(
            run,
            sweep=plan.sweep.name,
            cohort=folder,
            data=data,
            result=result,
            seconds=cohort.seconds,
            answered=cohort.evaluator.answered,
            replicas=len(runs),
            devices=devices,
            steps=cohort.steps,
            halving=stage.halving,
            ran_out=cohort.ran_out,
        )
        with directory_atomically(workdir.run_folder(record["run"])) as run_folder:
            if result.progress.best is not None and result.progress.status != "dropped":
                _save_model(run_folder / "model", run, data, result, vectors)
                if worst := mistakes(data, result.dev_outputs):
                    write_json(run_folder / MISTAKES_FILE, worst)
            write_json(run_folder / "record.json", without_nan(record))
    folder.mark_done()
    return True


def _note_pause(path: Path, folder: CohortFolder, cohort: Cohort) -> None:
    """Writes down how the runs of a paused cohort have done so far, with what it took."""
    histories = {
        name: {"curve": progress.curve, "diverged_at_samples": progress.diverged_at}
        for name, progress in zip(folder.runs, cohort.progress, strict=True)
    }
    write_json(path, without_nan({"runs": histories, "seconds": cohort.seconds, "steps": cohort.steps}))


def _shared_vectors(workdir: Workdir, data: EncodedData) -> Path:
    """One copy of the embedding table for all models of the folder; one that is damaged is replaced."""
    path, vectors = workdir.shared_vectors(data.fingerprint), np.asarray(data.vectors, np.float32)
    try:
        there = np.load(path, mmap_mode="r", allow_pickle=False)
        whole = there.dtype == vectors.dtype and np.array_equal(there, vectors)
    except (FileNotFoundError, ValueError, EOFError):
        whole = False
    if not whole:
        content = io.BytesIO()
        np.save(content, vectors, allow_pickle=False)
        write_atomically(path, content.getvalue())
    return path


def _save_model(path, run, data: EncodedData, result: RunResult, vectors) -> None:
    settings, parameters, trained_words = with_fixed_words(run.config.model.to_dict(), result.parameters)
    model_folder.save(
        path,
        model_settings=settings,
        params=parameters,
        vocabulary_words=data.vocabulary.words,
        vectors=trained_words,
        vectors_file=vectors if trained_words is None else None,
        labels=data.labels,
        task=data.task,
        preprocessing=dataclasses.asdict(data.preprocessing),
        config=run.config.to_dict(),
    )

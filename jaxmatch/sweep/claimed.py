"""Training of a claimed cohort, under its lock. The outcome is stored: its records, or the error."""

import contextlib
import dataclasses
import io
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from filelock import Timeout

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import is_out_of_memory
from jaxmatch.errors import InputError, count_text, without_nan
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.inference import model_folder
from jaxmatch.layers.words import with_fixed_words
from jaxmatch.sweep import several_hosts
from jaxmatch.sweep.device_jobs import Stopped
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.recording import make_record, origin
from jaxmatch.sweep.sweep import Run
from jaxmatch.training import hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.chunks import TooLarge
from jaxmatch.training.cohort import Cohort, RunResult
from jaxmatch.training.evaluation import mistakes
from jaxmatch.training.progress import Listener
from jaxmatch.workdir import (
    MISTAKES_FILE,
    CohortFolder,
    Workdir,
    mark_failed,
    prevents_all_training,
    trained_to_its_end,
)

SECONDS_BETWEEN_TRIES = 0.5


@dataclasses.dataclass(frozen=True)
class Stage:
    """The point up to which a plan is trained.

    Attributes:
      until: the number of epochs after which its cohorts pause. None: they are trained to the end.
      dropped: names of runs that were dropped -> the number of epochs after which they stop.
      halving: the rule by which runs were dropped, for their records.
    """

    until: int | None = None
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    halving: Mapping[str, Any] | None = None

    def settled(self, run: str, record: Mapping[str, Any]) -> bool:
        """Returns whether a record holds everything that this stage requires of a run."""
        if trained_to_its_end(run, record):
            return True
        wanted = self.dropped.get(run, self.until)
        return wanted is not None and (record.get("dropped") or {}).get("after_epochs", 0) >= wanted

    def remaining_runs(self, plan: Plan, folder: CohortFolder) -> list[Run]:
        """Returns the runs of a cohort that were not dropped, or all of its runs if every run was dropped."""
        left = [plan.runs[name][0] for name in folder.runs if name not in self.dropped]
        return left or [plan.runs[name][0] for name in folder.runs]

    def reached(self, folder: CohortFolder) -> bool:
        """Returns whether a cohort is done or has paused where this stage ends."""
        return folder.done or (self.until is not None and folder.rung(self.until).exists())


class ProgressDisplay(Protocol):
    """An object that shows the progress of cohorts: a `Display`, or one in a worker that passes it on."""

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> Any:
        """Shows that a cohort begins.

        Returns:
          A `Listener` that also has `done`, `paused`, `failed` and `training_ended`.
        """


def train_claimed(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    display: ProgressDisplay,
    stage: Stage,
    devices: tuple[jax.Device, ...],
    stop: threading.Event,
    failed_before: bytes | None,
    wait: float = 0.0,
) -> bool:
    """Trains a cohort unless another process is training it or has done so.

    Arguments:
      plan: the plan that holds the runs of the cohort.
      folder: the folder of the cohort.
      workdir: the folder of the sweep, in which that folder is.
      display: the display that shows the progress.
      stage: the stage to train the cohort to.
      devices: the devices to train on.
      stop: an event that ends training early, with a checkpoint.
      failed_before: `CohortFolder.failure` when the stage began. A cohort that has failed since is not tried again.
      wait: the number of seconds to wait while another process holds the cohort.

    Returns:
      Whether the cohort was trained here. That includes training that failed.

    Raises:
      Stopped: `stop` was set.
      OSError: the system prevents training, for example because the disk is full.
    """
    try:
        with folder.lock().acquire(timeout=wait, poll_interval=SECONDS_BETWEEN_TRIES):
            # Another process may have finished or removed the cohort since it was claimed.
            begun = (folder.path / "cohort.json").exists()
            if begun and not stage.reached(folder) and folder.failure() in (None, failed_before):
                shown = display.cohort(folder, stage.remaining_runs(plan, folder))
                listener = _Stoppable(shown, stop)
                _train_or_mark_failed(folder, shown, lambda: _train(plan, folder, workdir, listener, stage, devices))
                return True
    except Timeout:
        pass
    return False


class _Stoppable:
    """A listener that requests a checkpoint once an event is set, and ends training when the checkpoint is saved."""

    def __init__(self, listener: Listener, stop: threading.Event):
        self._listener, self._stop = listener, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def wants_checkpoint(self) -> bool:
        return self._stop.is_set()

    def saved(self) -> None:
        self._listener.saved()
        if self._stop.is_set():
            raise Stopped


def _train_or_mark_failed(folder: CohortFolder, shown: Any, train: Callable[[], bool]) -> None:
    """Trains a cohort and shows the outcome. Marks the cohort if it fails, unless the error would affect the others.

    `train` returns whether the records of the cohort are written.
    """
    folder.error_file.unlink(missing_ok=True)
    try:
        if train():
            shown.done()
        else:
            shown.paused()
    except Exception as error:  # of any kind: it need not affect other cohorts
        if prevents_all_training(error) or isinstance(error, hosts.OutOfStep):
            raise
        shown.failed(mark_failed(folder, error))
    finally:
        shown.training_ended()


def _train(
    plan: Plan,
    folder: CohortFolder,
    workdir: Workdir,
    listener: Listener,
    stage: Stage,
    devices: tuple[jax.Device, ...],
) -> bool:
    """Trains a cohort to the end of the stage. Returns whether its records are written."""
    cohort = plan.cohort_of(folder.runs)
    runs, data, config = cohort.runs, cohort.data, cohort.runs[0].config
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
        with several_hosts.train_on_all_hosts(settings, stage.until, dropped), _default_device_from(devices):
            cohort = Cohort(**settings, devices=devices)
            cohort.origins.append(origin(devices))  # the code that trains, not that of the checkout at the end
            results = cohort.train(checkpoints, listener, until=stage.until, dropped=dropped)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not is_out_of_memory(error):
            raise
        of_the_host = isinstance(error, MemoryError) and not isinstance(error, TooLarge)
        raise InputError(
            f"{count_text(len(runs), 'run')} at once {'does' if len(runs) == 1 else 'do'} not fit in "
            f"{'host' if of_the_host else 'device'} memory",
            path=folder.path,
            remedy=(
                "free memory, or run again with shorter texts (--config.data.maximum_length) or smaller batches "
                "(--batch-size)"
                if len(runs) == 1
                else "free memory, or remove this folder (with --store, in the store, too) and run again with a "
                "smaller --config.execution.maximum_replicas"
            ),
        ) from error
    finally:
        checkpoints.close()
    if results is None:
        _write_rung_file(folder.rung(stage.until), folder, cohort)
        return False
    vectors = _shared_vectors(workdir, data)
    workdir.remove_partial_runs(folder.runs)
    for run, result in zip(runs, results, strict=True):
        record = make_record(
            run,
            sweep=plan.sweep.name,
            cohort=folder,
            data=data,
            result=result,
            seconds=cohort.seconds,
            answered=cohort.evaluator.totals,
            replicas=len(runs),
            devices=devices,
            steps=cohort.steps,
            origins=cohort.origins,
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


def _default_device_from(devices: tuple[jax.Device, ...]) -> contextlib.AbstractContextManager:
    """Returns a context in which JAX's default device is one of the cohort's own.

    It serves computations outside of the cohort's programs: another cohort may use the first device of this process.
    """
    own, default = hosts.local(devices)[0], jax.local_devices()[0]
    return contextlib.nullcontext() if own == default else jax.default_device(own)


def _write_rung_file(path: Path, folder: CohortFolder, cohort: Cohort) -> None:
    """Stores the curve and any divergence of each run of a paused cohort, and the seconds and steps of training."""
    histories = {
        name: {"curve": progress.curve, "diverged_at_samples": progress.diverged_at}
        for name, progress in zip(folder.runs, cohort.runs, strict=True)
    }
    write_json(path, without_nan({"runs": histories, "seconds": cohort.seconds, "steps": cohort.steps}))


def _shared_vectors(workdir: Workdir, data: EncodedData) -> Path:
    """Returns the file of the embedding table, which all models of the folder share. Replaces a damaged file."""
    path, vectors = workdir.shared_vectors(data.fingerprint), np.asarray(data.vectors, np.float32)
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        whole = stored.dtype == vectors.dtype and np.array_equal(stored, vectors)
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

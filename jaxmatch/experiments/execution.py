"""Training what a plan still misses, safely beside other launchers."""

import dataclasses
import io
import math
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from filelock import Timeout

from jaxmatch import model_folder
from jaxmatch.data.encoding import EncodedData
from jaxmatch.experiments.display import Display
from jaxmatch.experiments.plan import Plan
from jaxmatch.experiments.records import make_record, read_record
from jaxmatch.experiments.workdir import CohortFolder, Workdir
from jaxmatch.files import directory_atomically, write_atomically, write_json
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort, RunResult

SECONDS_BETWEEN_TRIES = 1.0


def execute(plan: Plan, workdir: Workdir, display: Display, devices: Sequence[jax.Device] | None = None) -> list[dict]:
    """Trains the runs of a plan that are not on record, and returns all its records.

    Several processes may execute plans on one folder: each cohort is trained by one of them, and the others wait for it. What
    a killed process leaves is taken up from its last checkpoint.

    Arguments:
      plan: what to train.
      workdir: where.
      display: told how it goes.
      devices: default: all there are.
    """
    devices = tuple(devices or jax.devices())
    planned = [(cohort.signature, cohort.names()) for cohort in plan.cohorts]
    wanted = {run for _, runs in planned for run in runs}
    display.begin(plan, workdir.finished())
    while claimed := workdir.claim(planned):
        trained = False
        for folder in claimed:
            try:
                with folder.lock().acquire(blocking=False):
                    # Somebody may have finished it, or taken it away, since it was claimed; or stopped at one that holds
                    # runs which are not planned here, and which the next claim abandons.
                    if not folder.done and (folder.path / "cohort.json").exists() and wanted.issuperset(folder.runs):
                        _train(plan, folder, workdir, display, devices)
                        trained = True
            except Timeout:
                continue
        if not trained and any(not folder.done for folder in claimed):
            display.waiting(len(claimed))
            time.sleep(SECONDS_BETWEEN_TRIES)
    display.end()
    return [read_record(workdir.run_folder(run) / "record.json") for run in plan.runs]


def _train(plan: Plan, folder: CohortFolder, workdir: Workdir, display: Display, devices: tuple[jax.Device, ...]) -> None:
    planned = plan.runs
    runs = [planned[name][0] for name in folder.runs]
    data = planned[folder.runs[0]][1].data
    config = runs[0].config
    display.cohort(folder, runs)
    cohort = Cohort(
        model=config.model.to_dict(),
        training=config.training.to_dict(),
        execution=config.execution.to_dict(),
        data=data,
        seeds=[run.seed for run in runs],
        optimizer=[run.config.optimizer.to_dict() for run in runs],
        devices=devices,
    )
    checkpoints = Checkpoints(folder.checkpoints)
    try:
        results = cohort.train(checkpoints, display)
    finally:
        checkpoints.close()
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
            answered=cohort.answered,
            replicas=len(runs),
            devices=devices,
        )
        with directory_atomically(workdir.run_folder(record["run"])) as run_folder:
            if result.progress.best is not None:
                _save_model(run_folder / "model", run, data, result, vectors)
            write_json(run_folder / "record.json", plain(record))
    folder.mark_done()
    display.cohort_done(folder)


def _shared_vectors(workdir: Workdir, data: EncodedData):
    """One copy of the embedding table for all models of the folder."""
    path = workdir.shared_vectors(data.fingerprint)
    if not path.exists():
        content = io.BytesIO()
        np.save(content, np.asarray(data.vectors, np.float32), allow_pickle=False)
        write_atomically(path, content.getvalue())
    return path


def _save_model(path, run, data: EncodedData, result: RunResult, vectors) -> None:
    model_folder.save(
        path,
        model_settings=run.config.model.to_dict(),
        params=result.parameters,
        vocabulary_words=data.vocabulary.words,
        vectors=None,
        vectors_file=vectors,
        labels=data.labels,
        task=data.task,
        preprocessing=dataclasses.asdict(data.preprocessing),
        config=run.config.to_dict(),
    )


def plain(value: Any) -> Any:
    """The same with None for every number that JSON does not know (a score that is not defined, a loss gone infinite)."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

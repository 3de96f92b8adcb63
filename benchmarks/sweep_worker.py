"""Launches a sweep, or trains a few steps of one cohort, in a fresh process. `items/sweep.py` starts it."""

import collections
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks import fresh_process
from benchmarks.call_times import Watch, unattributed
from jaxmatch.reporting import folder_table
from jaxmatch.reporting.records import read_record
from jaxmatch.settings import with_overrides
from jaxmatch.sweep import claimed, engines, launch, preparation
from jaxmatch.sweep.launcher_files import load_config
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort

TRAINING = ("compile", "train", "evaluate", "checkpoint")
# Events of the persistent cache: a request, and a hit. A program that was requested without a hit was compiled.
REQUEST, HIT = "/jax/compilation_cache/compile_requests_use_cache", "/jax/compilation_cache/cache_hits"


def sweep(request: dict) -> dict:
    """Launches a sweep and measures the time from the sweep file to the table."""
    watch, events, cohorts = Watch(), collections.Counter(), []
    watch.on(preparation, "prepare", "data")
    watch.on(folder_table, "table", "tables")
    watch.on(engines, "make_plan", "plan")
    watch.on(claimed, "_save_model", "models")
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
    original = claimed.Cohort

    def recorded(**arguments) -> Cohort:
        cohorts.append(original(**arguments))
        return cohorts[-1]

    claimed.Cohort = recorded
    start = time.perf_counter()
    launch.sweep(
        Path(request["file"]),
        workdir=Path(request["workdir"]),
        seeds=request.get("seeds"),
        overrides=request["overrides"],
        grid_overrides=request.get("grid"),
    )
    seconds = time.perf_counter() - start
    times = {}  # a cohort's times are in the record of each of its runs
    for path in Path(request["workdir"]).glob("runs/*/record.json"):
        record = read_record(path)
        times[record["cohort"]] = record["times"]
    parts = dict(watch.seconds)
    for part in TRAINING:
        parts[part] = sum(each[f"{part}_seconds"] for each in times.values())
    if not cohorts:  # all runs were on record: another launch spent those times
        parts |= dict.fromkeys(TRAINING, 0.0)
    return {
        "seconds": seconds,
        "parts": {**parts, "other": unattributed(seconds, parts)},
        "runs": sum(each["replicas"] for each in times.values()),
        **_counted(cohorts),
        "compiled": events[REQUEST] - events[HIT],
    }


def _counted(cohorts: list[Cohort]) -> dict:
    """Counts the signatures, the executables of their training programs, and the shapes that these were made for."""
    programs = {id(cohort.lockstep.programs): cohort for cohort in cohorts}
    shapes: dict[int, set] = {name: set() for name in programs}
    for cohort in cohorts:
        slots = cohort.lockstep.seeds.shape[0]
        lengths = {cohort.lockstep.buckets[bucket] for bucket in cohort.lockstep.batches.batch_rows}
        shapes[id(cohort.lockstep.programs)] |= {(length, slots) for length in lengths}
    return {
        "signatures": len(programs),
        "executables": sum(
            program.compilations
            for cohort in programs.values()
            for program in (cohort.lockstep.programs.train, cohort.lockstep.programs.train_many)
        ),
        "shapes": sum(map(len, shapes.values())),
    }


def steps(request: dict) -> dict:
    """Times some steps of a config, and the second of two evaluations and of two checkpoints."""
    config = with_overrides(load_config(Path(request["file"])), request["overrides"])
    data = preparation.prepare(config)
    cohort = Cohort(
        model=config.model.to_dict(),
        training=config.training.to_dict(),
        execution=config.execution.to_dict(),
        data=data,
        seeds=range(request["replicas"]),
        optimizer=[config.optimizer.to_dict()] * request["replicas"],
    )
    lockstep = cohort.lockstep
    state, epoch = lockstep.initial(), lockstep.epoch(0)
    before, seconds = 0, []
    for index in range(min(request["steps"], len(epoch.sequence))):
        compiled = lockstep.compile_seconds
        jax.block_until_ready(state)
        start = time.perf_counter()
        state = jax.block_until_ready(lockstep.step(state, epoch, index))
        seconds.append(time.perf_counter() - start - (lockstep.compile_seconds - compiled))
        before = index
    evaluations, saves = [], []
    checkpoints = Checkpoints(Path(request["workdir"]))
    for number in range(2):
        start = time.perf_counter()
        cohort.evaluator.scores("dev", cohort.evaluator.outputs("dev", state.parameters, request["replicas"]))
        evaluations.append(time.perf_counter() - start)
        start = time.perf_counter()
        checkpoints.save(number, {"state": state, "best": state.parameters}, {})
        saves.append(time.perf_counter() - start)
    checkpoints.close()
    return {
        "pairs": int(epoch.samples[before]),
        "step_seconds": float(np.sum(seconds)),
        "evaluate_seconds": evaluations[-1],
        "checkpoint_seconds": saves[-1],
        "checkpoint_every": config.execution.checkpoint_seconds,
        "evaluate_every": config.training.evaluate_every_samples,
        "dev": data.splits["dev"].pairs,
        "compile_seconds": lockstep.compile_seconds,
    }


def main() -> None:
    request = fresh_process.request()
    done = steps(request) if "steps" in request else sweep(request)
    fresh_process.answer({**done, "import_seconds": request["import_seconds"]})


if __name__ == "__main__":
    main()

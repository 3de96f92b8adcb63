"""Times RE2's training steps as training dispatches them: one in a dispatch, and as many as a GPU gets by default.

    python -m benchmarks.device.dispatches '{"replicas": 10, "batch": 64, "precision": "float32", "asked_at": 0}'

A device may be idle between the steps of a program that makes several; only a device shows whether that costs more than
dispatching each. The model is that of configs/re2_snli.py, the pairs are embedded ones, all padded to one length.
"""

import time
from collections.abc import Mapping
from typing import Any

import jax

from benchmarks import fresh
from jaxmatch.settings import with_overrides
from jaxmatch.sweep import preparation
from jaxmatch.sweep.launcher_files import load_config
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.step import STEPS_AT_ONCE

SECONDS_TO_MEASURE = 3.0


def measured(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a step, by the number of steps in a dispatch.

    Arguments:
      spec: "replicas", "batch", "precision"; "overrides": changes of the config, if any.

    Returns:
      The spec; "kind" of the device; "length" of the rows; "times": for each number of steps in a dispatch "count",
      "seconds" of a step among those that are started one after the other, "steps" that were timed, and
      "compile_seconds" of the first dispatch.
    """
    config = with_overrides(
        load_config("re2", dataset="snli"),
        {
            "data.name": "embedded_inference",
            "model.precision": spec["precision"],
            "training.batch_size": spec["batch"],
            **spec.get("overrides", {}),
        },
    )
    data = preparation.prepare(config)
    times = []
    for most in (1, STEPS_AT_ONCE):
        lockstep = Lockstep(
            model=config.model.to_dict(),
            data=data,
            batch_size=spec["batch"],
            maximum_buckets=1,
            seeds=range(spec["replicas"]),
            optimizer=[config.optimizer.to_dict()] * spec["replicas"],
            devices=(jax.devices()[0],),
            steps_at_once=most,
        )
        times.append({"count": most, **_timed(lockstep)})
    return {**spec, "kind": jax.devices()[0].device_kind, "length": lockstep.buckets[0], "times": times}


def _timed(lockstep: Lockstep) -> dict[str, Any]:
    epoch = lockstep.epoch(0)
    count = min(lockstep.steps_at_once, len(epoch.sequence))
    starts = range(0, len(epoch.sequence) - count + 1, count)
    began = time.perf_counter()
    state = jax.block_until_ready(lockstep.step(lockstep.initial(), epoch, 0, count))
    compile_seconds = time.perf_counter() - began
    for warm in (True, False):  # a GPU raises its clocks only under load
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS_TO_MEASURE / (1 + warm):
            for start in starts:
                state = lockstep.step(state, epoch, start, count)
                steps += count
            jax.block_until_ready(state)
        seconds = (time.perf_counter() - began) / steps
    return {"seconds": seconds, "steps": steps, "compile_seconds": round(compile_seconds, 1)}


if __name__ == "__main__":
    asked = fresh.asked()
    for word in ("asked_at", "import_seconds"):
        del asked[word]
    fresh.answer(measured(asked))

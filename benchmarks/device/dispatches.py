"""Times RE2's training steps as training dispatches them, one and many in a dispatch.

    python -m benchmarks.device.dispatches '{"replicas": 10, "batch": 64, "precision": "float32", "sent_at": 0}'

A device may be idle between the steps of a program that makes several. Only a device shows whether that costs more than
dispatching each step, and whether it waits for the host to choose the length of a step. The model is that of
configs/re2_snli.py. The pairs are those of the embedded set, padded to two lengths, which are mixed as in an epoch.
"""

import functools
import os
import statistics
import time
from collections.abc import Mapping
from typing import Any

import jax

from benchmarks import fresh_process, stopwatch
from benchmarks.device import kernels
from benchmarks.items.dispatch import STEPS_AT_ONCE, Dispatches
from jaxmatch.config.settings import with_overrides
from jaxmatch.devices import compiler_options
from jaxmatch.sweep import files
from jaxmatch.sweep.files import load_config

# A GPU raises its clocks only under load.
STEPS_TO_WARM, STEPS_TO_MEASURE, ROUNDS = 2 * STEPS_AT_ONCE, 4 * STEPS_AT_ONCE, 3


def measured(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Measures the seconds of a step, by the number of steps in a dispatch.

    Arguments:
      spec: "replicas", "batch", "precision"; "overrides": changes to the config, if any.

    Returns:
      The spec; "xla_flags" of the environment, and training's "compiler_options"; the "kind" of the device; the
      "lengths" of the rows; and "times", which has for each number of steps in a dispatch:
      "count", that number.
      "seconds" of a step among steps that start one after the other, the median of some rounds.
      "busy_seconds", in which kernels run in a step; None without a trace.
      "compile_seconds", of the first steps.
    """
    config = with_overrides(
        load_config("re2", dataset="snli"),
        {
            "data.name": "embedded_inference",
            "model.precision": spec["precision"],
            "training.batch_size": spec["batch"],
            "training.maximum_buckets": 2,  # a program of several steps chooses among lengths
            **spec.get("overrides", {}),
        },
    )
    data = files.prepare(config)
    compile_seconds, busy_seconds, candidates = {}, {}, {}
    for count in (1, STEPS_AT_ONCE):
        steps = Dispatches(config, data, count, spec["replicas"])
        began = time.perf_counter()
        for number in range(STEPS_AT_ONCE // count):  # steps of both lengths
            steps.seconds(count, 1, number)
        compile_seconds[count] = round(time.perf_counter() - began, 1)
        steps.seconds(count, STEPS_TO_WARM // count)
        all_steps = functools.partial(steps.seconds, count, STEPS_AT_ONCE // count)
        busy_seconds[count] = kernels.traced(all_steps, STEPS_AT_ONCE).get("trace", {}).get("busy_seconds")
        candidates[str(count)] = lambda steps=steps, count=count: steps.seconds(count, STEPS_TO_MEASURE // count)
    found = stopwatch.in_turn(candidates, ROUNDS, warm=0)
    times = [
        {
            "count": count,
            "seconds": statistics.median(found[str(count)]) / count,
            "busy_seconds": busy_seconds[count],
            "compile_seconds": seconds,
        }
        for count, seconds in compile_seconds.items()
    ]
    device = jax.devices()[0]
    about = {
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "compiler_options": compiler_options(device.platform),
        "kind": device.device_kind,
        "lengths": list(steps.lengths),
    }
    return {**spec, **about, "times": times}


if __name__ == "__main__":
    request = fresh_process.request()
    for word in ("sent_at", "import_seconds"):
        del request[word]
    fresh_process.answer(measured(request))

"""Compiles a training program on the device that is here, runs it, and says what it holds, moves and takes.

    python -m benchmarks.device.case '{"model": "re2", "replicas": 10, "batch": 512, "precision": "float32", "asked_at":
    0}'

The program is that of `python -m benchmarks.accelerators`, which compiles it without a device. Each has a process of
its own: the most memory that was in use is counted for a whole process.
"""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import ceiling, fresh
from benchmarks.accelerators import hlo, worker
from benchmarks.accelerators.products import products
from benchmarks.accelerators.targets import target_of
from benchmarks.device import kernels
from jaxmatch import models
from jaxmatch.devices import compiler_options
from jaxmatch.sweep import memory
from jaxmatch.training import hyperparameters
from jaxmatch.training.step import flattening, initial_state

# Steps after which the losses are checked.
STEPS_TO_CHECK = 3
# Steps before those that count: a GPU raises its clocks only under load.
WARM_STEPS, SECONDS_TO_WARM = 3, 0.5
# How programs are compiled without a device, which cannot be tried out there: cuBLAS with the algorithm that it names
# first, and none of XLA's products of Triton.
UNTUNED = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
# A name of a case that is no model of `benchmarks.accelerators` -> that model, and options of the compiler other than
# training's.
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "re2-untuned": ("re2", UNTUNED),
    "re2-triton": ("re2", {"xla_gpu_enable_triton_gemm": True}),
}
# Steps in a trace of the profiler.
STEPS_TO_TRACE = 3
# Steps are repeated for so long, but so often at least and at most.
SECONDS_OF_STEPS, LEAST_STEPS, MOST_STEPS = 2.0, 5, 100


def measured(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a training program.

    Arguments:
      spec: as in `benchmarks.accelerators`, without a target; "model" may be one of `VARIANTS`.

    Returns:
      The spec; "compiler_options"; "seconds" of a step, the median of steps that are each waited for, and
      "seconds_in_a_row", of steps started one after the other; "loss" after the first steps, the same for all programs
      that compute the same; "in_use", bytes, or None where the device does not report it. Of the program "temporaries"
      and "arguments", bytes by `memory_analysis()`; "moved" and "kernels", read from its text;
      "operations" of all matrix products, and "products", what they use; "least_seconds", its bound, or None for a
      device that is not in the table of benchmarks/accelerators/targets.py. What of these cannot be read is left out,
      and "unread" says why. Of what the device ran "trace", or "untraced".
    """
    device = jax.devices()[0]
    asked, (model, options) = spec, VARIANTS.get(spec["model"], (spec["model"], {}))
    spec, options = {**spec, "model": model}, {**compiler_options(device.platform), **options}
    program = worker.program_of({**spec, "program": "train"}, target_of(device.device_kind), None)
    started = time.perf_counter()
    compiled = program.compile(compiler_options=options or None)
    compile_seconds = time.perf_counter() - started
    state, *rest = arguments_of(program, spec)
    for _ in range(STEPS_TO_CHECK):
        state = compiled(state, *rest)
    loss = loss_of(state)
    seconds, in_a_row, state = step_times(lambda state: compiled(state, *rest), state)
    in_use = (device.memory_stats() or {}).get("peak_bytes_in_use")
    found = {
        **asked,
        "compiler_options": options,
        "kind": device.device_kind,
        "loss": loss,
        "seconds": statistics.median(seconds),
        "seconds_in_a_row": in_a_row,
        "steps": len(seconds),
        "compile_seconds": round(compile_seconds, 1),
        "in_use": in_use,
    }
    return found | read_program(compiled, spec, device) | traced(lambda state: compiled(state, *rest), state)


def traced(step: Callable[[Any], Any], state: Any) -> dict[str, Any]:
    """Which kernels take the time (`kernels.told`)."""

    def run() -> None:
        now = state
        for _ in range(STEPS_TO_TRACE):
            now = step(now)
        jax.block_until_ready(now)

    return kernels.told(run, STEPS_TO_TRACE)


def loss_of(state: Any) -> float:
    """The mean loss of all replicas since training began.

    Raises:
      RuntimeError: of one it is not finite, or training has marked it as diverged. What computes such numbers need not
        be timed.
    """
    loss = np.asarray(state.loss_sum) / np.asarray(state.loss_weight)
    if not np.isfinite(loss).all() or (np.asarray(state.diverged_at) >= 0).any():
        raise RuntimeError(f"wrong numbers: after {STEPS_TO_CHECK} steps the losses are {loss.tolist()}")
    return float(loss.mean())


def read_program(compiled: Any, spec: Mapping[str, Any], device: jax.Device) -> dict[str, Any]:
    """What a compiled program says of itself, and the bound that follows."""
    found: dict[str, Any] = {}
    unread = []

    def memory_held() -> dict[str, Any]:
        held = compiled.memory_analysis()
        return {"temporaries": held.temp_size_in_bytes, "arguments": held.argument_size_in_bytes}

    def work_done() -> dict[str, Any]:
        work = hlo.work(compiled.as_text())
        # As in the worker: the compiler of a TPU counts itself, and its padding with it.
        counted = (compiled.cost_analysis() or {}).get("bytes accessed") if device.platform == "tpu" else None
        return {"moved": counted or work.moved, "kernels": work.kernels, "kernels_in_loops": work.in_loops}

    def bound() -> dict[str, Any]:
        target, moved, operations = target_of(device.device_kind), found["moved"], found["operations"]
        least = target.least_seconds(spec["precision"], moved, operations, found["kernels"]) if target else None
        return {"least_seconds": least}

    for read in (
        memory_held,
        work_done,
        lambda: {"operations": operations_of(spec)},
        bound,
        lambda: {"products": sorted({product.uses(device) for product in products(compiled.as_text())})},
    ):
        try:
            found |= read()
        except Exception as error:
            # What a new XLA writes otherwise must not cost what was measured, nor the rest.
            unread.append(f"{type(error).__name__}: {error}")
    return found | ({"unread": "; ".join(unread)} if unread else {})


def _module(spec: Mapping[str, Any]) -> Any:
    return models.build(worker.config_of(spec).model.to_dict(), outputs=worker.CLASSES)


def operations_of(spec: Mapping[str, Any]) -> int:
    """Operations of the matrix products of a step of all replicas, two for a multiply-add."""
    module, shape = _module(spec), (spec["batch"], worker.LENGTH)
    most_words = worker.most_words_of(spec, module)
    step = memory.step_program(module, "classification", worker.DIMENSIONS, *shape, most_words=most_words)
    return 2 * spec["replicas"] * ceiling.count_program(step).multiply_adds


def arguments_of(program: Any, spec: Mapping[str, Any]) -> list[Any]:
    """Arrays to run a training program with: fresh replicas, random words in pairs that fill their rows, random
    vectors.

    Arguments:
      program: of `worker.program_of`, lowered.
      spec: of it.
    """
    (state, settings, seeds, active, order, weights, batch, split, vectors), _ = program.args_info
    draw = np.random.default_rng(0)
    vectors = jax.tree.map(lambda leaf: jnp.asarray(_random(draw, leaf, 50)), vectors)
    settings = hyperparameters.stack([worker.config_of(spec).optimizer.to_dict()] * spec["replicas"])
    seeds = np.arange(spec["replicas"], dtype=seeds.dtype)
    flat = flattening(_module(spec), worker.DIMENSIONS)
    initial = jax.jit(jax.vmap(functools.partial(initial_state, flat), in_axes=(0, 0, None)))
    words = worker.most_words_of(spec, _module(spec)) or worker.WORDS  # no batch may have more
    tokens = {name: _random(draw, leaf, words if name == "ids" else 2) for name, leaf in split["tokens"].items()}
    pairs, longest = split["sentences"].shape
    sentences = np.where(np.arange(longest) < worker.LENGTH // 2, 1, 2)  # each has half of what a row is cut to
    rest = (
        settings,
        seeds,
        np.ones(active.shape, active.dtype),
        draw.integers(pairs, size=order.shape, dtype=order.dtype),
        np.ones(weights.shape, weights.dtype),
        np.zeros(batch.shape, batch.dtype),
        {
            "tokens": tokens,
            "sentences": np.broadcast_to(sentences, (pairs, longest)).astype(split["sentences"].dtype),
            "labels": _random(draw, split["labels"], worker.CLASSES),
        },
    )
    return [initial(seeds, settings, vectors), *jax.device_put(rest), vectors]


def _random(draw: np.random.Generator, leaf: Any, below: int) -> np.ndarray:
    """Random numbers of an array's shape and type: about as large as word vectors have, or whole ones below `below`."""
    if np.issubdtype(leaf.dtype, np.floating):
        return (draw.standard_normal(leaf.shape, np.float32) / 3).astype(leaf.dtype)
    return draw.integers(below, size=leaf.shape, dtype=leaf.dtype)


def step_times(step: Callable[[Any], Any], state: Any) -> tuple[list[float], float, Any]:
    """Seconds of single steps, and of a step among those that are started one after the other; and the last state."""
    began, warm = time.perf_counter(), 0
    while warm < WARM_STEPS or time.perf_counter() - began < SECONDS_TO_WARM:
        state = jax.block_until_ready(step(state))
        warm += 1
    seconds: list[float] = []
    while len(seconds) < LEAST_STEPS or (sum(seconds) < SECONDS_OF_STEPS and len(seconds) < MOST_STEPS):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state))
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in seconds:
        state = step(state)
    jax.block_until_ready(state)
    return seconds, (time.perf_counter() - start) / len(seconds), state


if __name__ == "__main__":
    jax.config.update("jax_enable_compilation_cache", False)  # what comes out of it took no time to compile
    asked = fresh.asked()
    for word in ("asked_at", "import_seconds"):
        del asked[word]
    fresh.answer(measured(asked))

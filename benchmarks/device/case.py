"""Compiles a training program on the present device, runs it, and reports its memory, its memory traffic and its time.

    python -m benchmarks.device.case '{"model": "re2", "replicas": 10, "batch": 512, "precision": "float32", "sent_at":
    0}'

The program is that of `python -m benchmarks.accelerators`, which compiles it without a device. Each program has a
process of its own, because the peak of the memory in use is counted for a whole process.
"""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import fresh_process
from benchmarks.accelerators import hlo, worker
from benchmarks.accelerators.products import products
from benchmarks.accelerators.targets import target_of
from benchmarks.device import kernels
from jaxmatch.devices import compiler_options
from jaxmatch.sweep import matrix_products, memory
from jaxmatch.training import step
from jaxmatch.training.step import flattening, initial_state

# The number of steps after which the losses are checked.
STEPS_TO_CHECK = 3
# Steps before those that count: a GPU raises its clocks only under load.
WARM_STEPS, SECONDS_TO_WARM = 3, 0.5
# Options as for programs that are compiled without a device, where kernels cannot be tried out: cuBLAS with the
# algorithm that it names first, and none of XLA's Triton products.
UNTUNED = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
# Name of a case that is not a model of `benchmarks.accelerators` -> its model, and the compiler options that differ
# from training's.
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "re2-untuned": ("re2", UNTUNED),
    "re2-triton": ("re2", {"xla_gpu_enable_triton_gemm": True}),
}
# The number of steps in a trace of the profiler.
STEPS_TO_TRACE = 3
# Steps are repeated for this many seconds, but at least and at most this often.
SECONDS_OF_STEPS, LEAST_STEPS, MOST_STEPS = 2.0, 5, 100


def measured(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles and runs a training program, and returns its figures.

    Arguments:
      spec: a spec as in `benchmarks.accelerators`, without a target; "model" may be one of `VARIANTS`.

    Returns:
      The spec, "compiler_options", the "kind" of the device, and "compile_seconds".
      "seconds" of a step, the median of "steps" steps that are each waited for, and "seconds_in_a_row", of steps that
      are started one after the other.
      "loss" after the first steps, the same for all programs that compute the same.
      "in_use", the peak memory in bytes, or None if the device does not report it.
      "temporaries" and "arguments" of the program, bytes by `memory_analysis()`.
      "moved", "kernels" and "kernels_in_loops", read from the text of the program.
      "operations" of all matrix products, and "products", what they use.
      "least_seconds", the bound, or None for a device that is not in the table of benchmarks/accelerators/targets.py.
      "unread", why a figure of the program cannot be read. Such figures are left out.
      "trace", of what the device ran, or "untraced", why there is no trace.
    """
    device = jax.devices()[0]
    given, (model, options) = spec, VARIANTS.get(spec["model"], (spec["model"], {}))
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
        **given,
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
    """Returns the kernels that take the time (`kernels.traced`)."""

    def run() -> None:
        now = state
        for _ in range(STEPS_TO_TRACE):
            now = step(now)
        jax.block_until_ready(now)

    return kernels.traced(run, STEPS_TO_TRACE)


def loss_of(state: Any) -> float:
    """Returns the mean loss of all replicas since training began.

    Raises:
      RuntimeError: the loss of a replica is not finite, or training has marked the replica as diverged. A program that
        computes wrong numbers need not be timed.
    """
    loss = np.asarray(state.loss_sum) / np.asarray(state.loss_weight)
    if not np.isfinite(loss).all() or (np.asarray(state.diverged_at) >= 0).any():
        raise RuntimeError(f"wrong numbers: after {STEPS_TO_CHECK} steps the losses are {loss.tolist()}")
    return float(loss.mean())


def read_program(compiled: Any, spec: Mapping[str, Any], device: jax.Device) -> dict[str, Any]:
    """Reads the figures of a compiled program, and computes the bound that follows from them."""
    found: dict[str, Any] = {}
    unread = []

    def memory_held() -> dict[str, Any]:
        held = compiled.memory_analysis()
        return {"temporaries": held.temp_size_in_bytes, "arguments": held.argument_size_in_bytes}

    def work_done() -> dict[str, Any]:
        work = hlo.work(compiled.as_text())
        # As in the worker: the compiler of a TPU counts the bytes itself, and includes padding.
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
            # If a new XLA writes something differently, the measurements and the other figures must not be lost.
            unread.append(f"{type(error).__name__}: {error}")
    return found | ({"unread": "; ".join(unread)} if unread else {})


def operations_of(spec: Mapping[str, Any]) -> int:
    """Counts the operations of the matrix products in a step of all replicas. A multiply-add is two operations."""
    module, shape = worker.module_of(spec), (spec["batch"], worker.LENGTH)
    most_words = worker.most_words_of(spec, module)
    step = memory.step_program(module, "classification", worker.DIMENSIONS, *shape, most_words=most_words)
    return 2 * spec["replicas"] * matrix_products.count_program(step).multiply_adds


def arguments_of(program: Any, spec: Mapping[str, Any]) -> list[Any]:
    """Makes arrays to run a training program with: fresh replicas, pairs of random words that fill their rows, and
    random vectors.

    Arguments:
      program: the program of `worker.program_of`, lowered.
      spec: the spec of the program.
    """
    (state, settings, seeds, active, order, weights, batch, split, vectors), _ = program.args_info
    draw = np.random.default_rng(0)
    vectors = jax.tree.map(lambda leaf: jnp.asarray(_random(draw, leaf, 50)), vectors)
    settings = step.stack([worker.config_of(spec).optimizer.to_dict()] * spec["replicas"])
    seeds = np.arange(spec["replicas"], dtype=seeds.dtype)
    flat = flattening(worker.module_of(spec), worker.DIMENSIONS)
    initial = jax.jit(jax.vmap(functools.partial(initial_state, flat), in_axes=(0, 0, None)))
    words = worker.most_words_of(spec, worker.module_of(spec)) or worker.WORDS  # no batch may have more distinct words
    tokens = {name: _random(draw, leaf, words if name == "ids" else 2) for name, leaf in split["tokens"].items()}
    pairs, longest = split["sentences"].shape
    sentences = np.where(np.arange(longest) < worker.LENGTH // 2, 1, 2)  # each sentence has half of a row as it is cut
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
    """Draws random numbers of an array's shape and type: floats about as large as in word vectors, or integers below
    `below`.
    """
    if np.issubdtype(leaf.dtype, np.floating):
        return (draw.standard_normal(leaf.shape, np.float32) / 3).astype(leaf.dtype)
    return draw.integers(below, size=leaf.shape, dtype=leaf.dtype)


def step_times(step: Callable[[Any], Any], state: Any) -> tuple[list[float], float, Any]:
    """Measures the seconds of single steps, and of a step among steps that start one after the other. Also returns the
    last state.
    """
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
    jax.config.update("jax_enable_compilation_cache", False)  # a program from the cache takes no time to compile
    request = fresh_process.request()
    for word in ("sent_at", "import_seconds"):
        del request[word]
    fresh_process.answer(measured(request))

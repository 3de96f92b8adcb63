"""A trial of a device: a timed training step of a small model in each precision."""

import dataclasses
import functools
import statistics
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.config.settings import SECTIONS
from jaxmatch.devices import compiler_options, products_of
from jaxmatch.errors import first_line
from jaxmatch.layers.core import PRECISIONS
from jaxmatch.models import build
from jaxmatch.reporting.records import grouped
from jaxmatch.training.step import Batch, BatchShape, Shared, Slot, flattening, initial_state, stack, train_step

BATCH, LENGTH, HIDDEN, DIMENSIONS, WORDS, CLASSES = 64, 32, 150, 300, 1000, 3
MODEL = {"name": "re2", "blocks": 1, "encoder_layers": 1, "hidden_size": HIDDEN}
WHAT = f"RE2 of one block with one convolution, hidden size {HIDDEN}, one run, {BATCH} pairs of {LENGTH} tokens"
# Each repeat dispatches steps one after another, as in training, for about this many seconds.
SECONDS_OF_A_REPEAT, REPEATS = 0.1, 3
SETTINGS = dataclasses.asdict(SECTIONS["optimizer"]())


@dataclasses.dataclass(frozen=True)
class Trial:
    """The times of a training step.

    Attributes:
      precisions: the precisions of `matmul.PRECISIONS` that the trial stands for, which are the same on the device.
      products: the precision that matrix products actually have there (`devices.products_of`).
      compile_seconds: the time until the step could begin, including tracing.
      step_seconds: the time of a step, the median of `REPEATS` repeats, after one that is not counted.
      problem: the reason why the times are missing, or "".
    """

    precisions: tuple[str, ...]
    products: str
    compile_seconds: float | None = None
    step_seconds: float | None = None
    problem: str = ""


def trials(device: jax.Device) -> Iterator[Trial]:
    """Yields a trial of a device for each kind of matrix products.

    A trial compiles `WHAT` for the device and trains it briefly on random words.
    """
    for products, precisions in grouped(PRECISIONS, lambda precision: products_of(precision, device)).items():
        try:
            with jax.default_device(device):
                yield Trial(tuple(precisions), products, *seconds_of(precisions[0], device.platform))
        except (jax.errors.JaxRuntimeError, FloatingPointError, ValueError) as error:  # another precision may work
            yield Trial(tuple(precisions), products, problem=first_line(error))


def seconds_of(precision: str, platform: str) -> tuple[float, float]:
    """Measures the seconds to compile a step, as training does on the devices of a platform, and those of a step.

    Raises:
      FloatingPointError: the loss or its gradient is not finite.
    """
    module, random = build({**MODEL, "precision": precision}, outputs=CLASSES), np.random.default_rng(0)
    flat = flattening(module, DIMENSIONS, platform=platform)
    vectors = jnp.asarray(random.normal(size=(WORDS, DIMENSIONS)).astype(np.float32))
    settings = jax.tree.map(lambda values: jax.device_put(values[0]), stack([SETTINGS]))
    split = {
        "tokens": {"ids": random.integers(1, WORDS, (BATCH, LENGTH)).astype(np.int32)},
        "sentences": np.repeat(np.int8([1, 2]), LENGTH // 2)[None].repeat(BATCH, axis=0),
        "labels": random.integers(0, CLASSES, BATCH).astype(np.int32),
    }
    parameters = random.normal(0.0, 0.1, flat.count).astype(np.float32)
    rows, weights = np.arange(BATCH, dtype=np.int32), np.ones(BATCH, np.float32)
    batch, shared = jax.device_put((Batch(rows, weights), Shared(split, vectors, np.int32(LENGTH))))
    others = jax.device_put((np.uint32(0), settings, np.bool_(True)))
    shapes = jax.eval_shape(functools.partial(initial_state, flat), np.uint32(0), settings, vectors)
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    state = state._replace(parameters=jax.device_put(parameters), diverged_at=jnp.int32(-1))

    def one_step(state, others, batch, shared):
        return train_step(flat, "classification", BatchShape(LENGTH), Slot(state, *others), batch, shared)

    start = time.perf_counter()
    jitted = jax.jit(one_step, donate_argnums=0, compiler_options=compiler_options(platform) or None)
    step = jitted.lower(state, others, batch, shared).compile()
    compiled = time.perf_counter() - start

    def time_steps(state, steps):
        jax.block_until_ready(state)
        start = time.perf_counter()
        for _ in range(steps):
            state = step(state, others, batch, shared)
        jax.block_until_ready(state)
        return state, (time.perf_counter() - start) / steps

    for _ in range(2):  # the first step is slow
        state, seconds = time_steps(state, 1)
    found = []
    for _ in range(1 + REPEATS):
        state, seconds = time_steps(state, max(1, round(SECONDS_OF_A_REPEAT / seconds)))
        found.append(seconds)
    if state.diverged_at >= 0:
        raise FloatingPointError("the loss is not finite")
    return compiled, statistics.median(found[1:])

"""Training programs of many runs, compiled but not run."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from jaxmatch.experiments import memory
from jaxmatch.training.step import cohort_step, flattening


@contextlib.contextmanager
def without_cache() -> Iterator[None]:
    """Nothing is taken from JAX's cache of compiled programs on disk."""
    before = jax.config.jax_enable_compilation_cache
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def compile_step(
    module: Any, task: str, dimensions: int, *, batch: int, length: int, replicas: int
) -> tuple[jax.stages.Compiled, float]:
    """The training step of some replicas, and the seconds that it took from the trace to the executable.

    Arguments:
      module: the model.
      task: which loss.
      dimensions: of the word vectors.
      batch: pairs a step.
      length: tokens of a pair, padding included.
      replicas: trained at once.
    """
    *of_a_run, rows, weights, split, vectors = memory.step_shapes(module, task, dimensions, batch, length)
    order = jax.tree.map(lambda leaf: _behind(1, leaf), (rows, weights))
    by_replica = jax.tree.map(lambda leaf: _behind(replicas, leaf), (*of_a_run, *order))
    step = jax.jit(cohort_step(flattening(module, dimensions), task), static_argnums=0, donate_argnums=1)
    number = jax.ShapeDtypeStruct((), np.int32)
    with without_cache():
        start = time.perf_counter()
        compiled = step.lower(length, *by_replica, number, split, vectors).compile()
        return compiled, time.perf_counter() - start


def _behind(extent: int, leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """The shape with another axis before it."""
    return jax.ShapeDtypeStruct((extent, *leaf.shape), leaf.dtype)

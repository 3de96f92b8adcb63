"""The time to compile ten runs of every model at once, and the memory of one of these runs. Nothing is trained."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from benchmarks.item import Column, Item, Settings
from benchmarks.items.models import BATCH, CLASSES, DIMENSIONS, LENGTH, config_of, models_of
from benchmarks.memory_worker import compiled_bytes
from jaxmatch import models
from jaxmatch.data.distinct_words import program_words
from jaxmatch.devices import compiler_options
from jaxmatch.sweep import memory
from jaxmatch.training.replicas import at_once, most_at_once
from jaxmatch.training.step import BatchShape, cohort_step, flattening

REPLICAS = 10
TASK = "classification"
# The maximum seconds to compile, on two cores of a CPU.
GOAL = 60.0


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for every model, and notes."""
    rows = []
    for name, config_name, changes in models_of(settings):
        config = config_of(settings, config_name, changes)
        module = models.build(config.model.to_dict(), outputs=CLASSES)
        shape = {"batch": config.training.batch_size, "length": LENGTH}
        most_words = most_words_of(module, **shape)
        executable, seconds = compile_step(module, TASK, DIMENSIONS, **shape, replicas=REPLICAS, most_words=most_words)
        pairs_and_tokens = tuple(shape.values())
        counted = {pairs_and_tokens: most_words}
        needs = memory.needs(module, TASK, DIMENSIONS, [pairs_and_tokens], jax.default_backend(), most_words=counted)
        row = {"model": name, "seconds": seconds, "planned": needs.of(REPLICAS) / REPLICAS / 2**20}
        held = compiled_bytes(executable)
        if held is not None:
            best = needs.parameters  # a cohort also keeps its best parameters
            row["memory"] = (held / REPLICAS + best) / 2**20
        row["goal"] = GOAL if jax.default_backend() == "cpu" else ""
        rows.append(row)
    return rows, [
        f"The training step of {REPLICAS} runs at once, {BATCH} pairs of {LENGTH} tokens each; from its trace on, with "
        "nothing taken from a cache.",
        "Memory: what that program's own account says it holds at most, a tenth of it, and a run's best parameters so "
        "far; without data and word vectors. Planned: what a plan takes it for.",
    ]


@contextlib.contextmanager
def without_cache() -> Iterator[None]:
    """Disables JAX's cache of compiled programs on disk within the block."""
    before = jax.config.jax_enable_compilation_cache
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def most_words_of(module: Any, batch: int, length: int) -> int | None:
    """Returns the most distinct words of a batch, as in `BatchShape`, or None if the model takes no characters. The
    number is about that of SNLI, a quarter of the batch's tokens.
    """
    return program_words(batch * length // 4, batch * length) if module.takes_characters else None


def compile_step(
    module: Any, task: str, dimensions: int, *, batch: int, length: int, replicas: int, most_words: int | None
) -> tuple[jax.stages.Compiled, float]:
    """Compiles the training step of some replicas. Also returns the seconds from the trace to the executable.

    Arguments:
      module: the model.
      task: the task, which determines the loss.
      dimensions: the dimensions of the word vectors.
      batch: the number of pairs in a step.
      length: the tokens of a pair, padding included.
      replicas: the number of replicas that train at once.
      most_words: the most distinct words of a batch, as in `BatchShape`.
    """
    *of_a_run, rows, weights, split, vectors = memory.step_shapes(module, task, dimensions, batch, length)
    order = jax.tree.map(lambda leaf: _behind(1, leaf), (rows, weights))
    by_replica = jax.tree.map(lambda leaf: _behind(replicas, leaf), (*of_a_run, *order))
    platform = jax.default_backend()
    flat = flattening(module, dimensions, platform=platform)
    options = compiler_options(platform) or None
    step = jax.jit(cohort_step(flat, task), static_argnums=(0, 1), donate_argnums=2, compiler_options=options)
    side_by_side = at_once(replicas, most_at_once(batch, platform))
    number = jax.ShapeDtypeStruct((), np.int32)
    with without_cache():
        start = time.perf_counter()
        compiled = step.lower(
            BatchShape(length, most_words), side_by_side, *by_replica, number, split, vectors
        ).compile()
        return compiled, time.perf_counter() - start


def _behind(extent: int, leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """Returns the shape with another axis in front."""
    return jax.ShapeDtypeStruct((extent, *leaf.shape), leaf.dtype)


ITEM = Item(
    title="Compiling the training step of ten runs.",
    needs=(),
    columns=(
        Column("model", "model"),
        Column("seconds", "to compile, s", ".0f"),
        Column("goal", "goal (2 cores), at most, s", ".0f"),
        Column("memory", "memory of a run, MiB", ",.0f"),
        Column("planned", "planned, MiB", ",.0f"),
    ),
    run=run,
)

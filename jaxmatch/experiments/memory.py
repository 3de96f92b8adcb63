"""How many replicas fit."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.experiments.liveness import peak_bytes
from jaxmatch.layers.words import WordTable
from jaxmatch.training.hyperparameters import Hyperparameters
from jaxmatch.training.step import flattening, initial_state, train_step

# Parameters, Adam's two moments and the best so far, which stay from step to step.
COPIES_OF_PARAMETERS = 4
# What a compiled step holds beside that, of what it must: copies in another layout and what is scheduled early come on top.
# Measured with `memory_analysis()` of the training program on a CPU, 1 to 3 blocks, 8 to 512 pairs of 24 to 96 tokens: 1.45 to
# 1.65. `python -m benchmarks memory` measures it anew.
SHARE_HELD = 1.5
# Kept free for the runtime, the data and everything an estimate leaves out.
SHARE_TO_USE = 0.7


def _array(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def parameter_count(module: Any, dimensions: int) -> int:
    """How many numbers a model over `dimensions`-dimensional word vectors trains."""
    return _state(module, dimensions)[0].parameters.size


def _state(module: Any, dimensions: int) -> tuple[Any, Hyperparameters, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """The shapes of a run's state, settings and seed, and of the word vectors; of those as few as do."""
    settings = Hyperparameters(*(_array((), np.float32) for _ in Hyperparameters._fields))
    seed, vectors = _array((), np.uint32), _array((2, dimensions), np.float32)
    initial = functools.partial(initial_state, flattening(module, dimensions))
    return jax.eval_shape(initial, seed, settings, vectors), settings, seed, vectors


def step_shapes(module: Any, task: str, dimensions: int, batch: int, length: int) -> tuple:
    """What one training step of one run is given, behind what is static; as shapes (training/step.py).

    Arguments: as of `step_program`.

    Returns:
      state, settings, seed, active, rows, weights, split, vectors.
    """
    state, settings, seed, vectors = _state(module, dimensions)
    if module.takes_characters:
        vectors = WordTable(vectors, _array((2, LONGEST_WORD), np.uint16))
    features = {name: _array((batch, length), np.int8) for name in module.token_features}
    split = {
        "tokens": {"ids": _array((batch, length), np.int32), **features},
        "sentences": _array((batch, length), np.int8),
        "labels": _array((batch,), np.float32 if task == "regression" else np.int32),
    }
    rows, weights, active = _array((batch,), np.int32), _array((batch,), np.float32), _array((), bool)
    return state, settings, seed, active, rows, weights, split, vectors


def step_program(module: Any, task: str, dimensions: int, batch: int, length: int) -> Any:
    """The `jaxpr` of one training step of one run.

    Arguments:
      module: the model.
      task: which loss.
      dimensions: of the word vectors.
      batch: pairs a step.
      length: tokens of a pair, padding included.
    """
    step = functools.partial(train_step, flattening(module, dimensions), task, length)
    return jax.make_jaxpr(step)(*step_shapes(module, task, dimensions, batch, length)).jaxpr


@functools.lru_cache(maxsize=256)
def replica_bytes(module: Any, task: str, dimensions: int, batch: int, length: int) -> int:
    """An estimate of the device memory one replica needs in a step at the largest shape; nothing is compiled or run.

    Arguments: as of `step_program`.
    """
    held = peak_bytes(step_program(module, task, dimensions, batch, length))
    return int(SHARE_HELD * held) + COPIES_OF_PARAMETERS * 4 * parameter_count(module, dimensions)


def device_bytes(device: jax.Device) -> int:
    """The memory that one device offers."""
    statistics: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // max(1, len(jax.devices()))


def replicas_that_fit(needed: int, devices: tuple[jax.Device, ...]) -> int:
    """How many replicas of `needed` bytes the devices hold together; at least one on each."""
    return len(devices) * max(1, int(SHARE_TO_USE * device_bytes(devices[0]) / needed))

"""How many replicas fit."""

import functools
import math
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.training.losses import LOSSES

# Parameters, gradients, Adam's two moments, the best so far, and the copy an update makes before the old one is freed.
COPIES_OF_PARAMETERS = 6
# Kept free for the runtime, the data and everything an estimate leaves out.
SHARE_TO_USE = 0.7


@functools.lru_cache(maxsize=256)
def replica_bytes(module: Any, task: str, dimensions: int, batch: int, length: int) -> int:
    """An estimate of the device memory one replica needs in a step at the largest shape; nothing is compiled or run.

    What the backward pass keeps from the forward pass is read off the shapes of the linearised loss, which a compiler can
    only make smaller.

    Arguments:
      module: the model.
      task: which loss.
      dimensions: of the word vectors.
      batch: pairs a step.
      length: tokens of a pair, padding included.
    """
    tokens = {"ids": jax.ShapeDtypeStruct((batch, length), np.int32)}
    sentences = jax.ShapeDtypeStruct((batch, length), np.int8)
    vectors = jax.ShapeDtypeStruct((2, dimensions), np.float32)
    labels = jax.ShapeDtypeStruct((batch,), np.float32 if task == "regression" else np.int32)
    initialize = functools.partial(module.init, method="match")
    parameters = jax.eval_shape(initialize, jax.random.key(0), tokens, sentences, vectors)["params"]

    def backward(parameters, tokens, sentences, vectors, labels):
        def loss(parameters):
            outputs = module.apply(
                {"params": parameters},
                tokens,
                sentences,
                vectors,
                dropout_rate=0.1,
                rngs={"dropout": jax.random.key(0)},
                method="match",
            )
            return LOSSES[task](outputs, labels).sum()

        return jax.vjp(loss, parameters)[1]

    residuals = jax.eval_shape(backward, parameters, tokens, sentences, vectors, labels)
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(residuals))
    return size + COPIES_OF_PARAMETERS * 4 * models.count_parameters(parameters)


def device_bytes(device: jax.Device) -> int:
    """The memory that one device offers."""
    statistics: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // max(1, len(jax.devices()))


def replicas_that_fit(needed: int, devices: tuple[jax.Device, ...]) -> int:
    """How many replicas of `needed` bytes the devices hold together; at least one on each."""
    return len(devices) * max(1, int(SHARE_TO_USE * device_bytes(devices[0]) / needed))

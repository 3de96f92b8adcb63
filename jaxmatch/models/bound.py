"""A model together with its parameters and word vectors: all that turns word ids into logits."""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.errors import InputError

_SMALLEST = 8


@functools.partial(jax.jit, static_argnums=0)
def _logits(module: nn.Module, params: Any, vectors: jax.Array, ids_a: jax.Array, ids_b: jax.Array) -> jax.Array:
    return module.apply({"params": params}, {"ids": ids_a}, {"ids": ids_b}, vectors)


def _room(extent: int) -> int:
    """The smallest power of two, from 8 on, that holds `extent`."""
    return max(_SMALLEST, 1 << (extent - 1).bit_length())


def _checked(ids: np.ndarray, words: int, name: str) -> np.ndarray:
    ids = np.asarray(ids)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{name} is {ids.dtype} of shape {ids.shape}", remedy="give integers of shape (batch, length)")
    if ids.size and not (0 <= ids.min() and ids.max() < words):
        raise InputError(f"{name} holds ids from {ids.min()} to {ids.max()}", remedy=f"give ids from 0 to {words - 1}")
    return ids.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class BoundModel:
    """A model that answers.

    Attributes:
      module: the model (jaxmatch/models).
      params: its parameters, of one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids point into.
    """

    module: nn.Module
    params: Any
    vectors: jax.Array | np.ndarray

    def __post_init__(self):
        # Moved to the device once, not with every batch.
        object.__setattr__(self, "params", jax.tree.map(jnp.asarray, self.params))
        object.__setattr__(self, "vectors", jnp.asarray(self.vectors, jnp.float32))

    def logits(self, ids_a: np.ndarray, ids_b: np.ndarray) -> np.ndarray:
        """Matches pairs of padded sentences.

        Batch and lengths are padded to powers of two, so that few programs are compiled whatever comes.

        Arguments:
          ids_a: <int32>[batch, length_a], 0 = padding.
          ids_b: <int32>[batch, length_b].

        Returns:
          <float32>[batch, outputs].

        Raises:
          InputError: if the shapes do not fit or an id is outside the table.
        """
        words = self.vectors.shape[0]
        ids_a, ids_b = _checked(ids_a, words, "ids_a"), _checked(ids_b, words, "ids_b")
        batch = ids_a.shape[0]
        if ids_b.shape[0] != batch:
            raise InputError(f"ids_a has {batch} rows and ids_b has {ids_b.shape[0]}", remedy="give one row a pair in each")
        padded = []
        for ids in (ids_a, ids_b):
            room = np.zeros((_room(batch), _room(ids.shape[1])), np.int32)
            room[:batch, : ids.shape[1]] = ids
            padded.append(room)
        return np.asarray(_logits(self.module, self.params, self.vectors, *padded))[:batch]

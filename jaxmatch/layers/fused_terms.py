"""What a fused layer computes: a sum of matrix products (layers/fused.py)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxmatch.layers.dropout import Drop
from jaxmatch.layers.gelu import gelu_and_slope


class Term(NamedTuple):
    """A product of the sum: `times * (input * ... * input @ weights)`.

    Attributes:
      inputs: which arrays are multiplied element by element, as indices.
      distance: how many tokens ahead the inputs are read; what is read of another sentence counts as 0.
      columns: first and last + 1 of the columns in which the weights are not 0; None: of all.
      rows: of the rows, likewise.
      transposed: whether the weights are given as <float32>[features, size].
      times: the index of an array of the output's shape that the product is multiplied by, or None.
    """

    inputs: tuple[int, ...]
    distance: int = 0
    columns: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    transposed: bool = False
    times: int | None = None


class Dropped(NamedTuple):
    """Dropout of an array whose columns are some of those that one draw covers.

    Attributes:
      drop: the draw, over all columns.
      first: the array's first column among them, <int32>[].
      columns: how many there are, <int32>[].
    """

    drop: Drop
    first: jax.Array
    columns: jax.Array

    def factor(self, tokens: jax.Array, features: jax.Array) -> jax.Array:
        """What the numbers at these tokens and columns of the array are multiplied by: <float32>[tokens, features]."""
        places = tokens[:, None] * self.columns + (features[None] + self.first)
        return jnp.where(self.drop.keeps(places.astype(jnp.uint32)), self.drop.scale, 0.0)


class Activation(NamedTuple):
    """What follows a sum: a bias, GeLU and dropout.

    Attributes:
      bias: <float32>[features].
      dropped: dropout of the output, or None.
    """

    bias: jax.Array
    dropped: Dropped | None


def activated(total: jax.Array, bias: jax.Array, kept: jax.Array | float) -> tuple[jax.Array, jax.Array]:
    """The output of an activation and its derivative by the sum: <float32>[...] each."""
    value, slope = gelu_and_slope(total + bias)
    return value * kept, slope * kept


def same_sentence(sentences: jax.Array, distance: int) -> jax.Array:
    """Whether the token so far ahead is in the row and of the same sentence: <bool>[batch, length]."""
    place = jnp.arange(sentences.shape[1]) + distance
    there = (place >= 0) & (place < sentences.shape[1])
    return there[None] & (jnp.roll(sentences, -distance, axis=1) == sentences)

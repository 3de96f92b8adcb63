"""Sequences in parts.

The input of a layer consists of several arrays: the embeddings, a residual, contextual features. They are passed on as
a tuple of arrays, `<float32>[batch, length, size]` each, which stands for their concatenation along the last axis. The
concatenation is never made: the products of each part with its rows of a kernel sum to the product of the
concatenation with the kernel. This saves the copies and, above all, the gradient of parts that are not trained: no
gradient is computed for a part that consists of fixed word embeddings.
"""

from collections.abc import Sequence

import jax

Parts = tuple[jax.Array, ...]


def sizes(parts: Sequence[jax.Array]) -> tuple[int, ...]:
    """Returns the number of features of each part."""
    return tuple(part.shape[-1] for part in parts)


def split(whole: jax.Array, extents: Sequence[int], axis: int = -1) -> list[jax.Array]:
    """Splits an axis into pieces of the given extents.

    The pieces are slices that cost nothing. Their gradients are concatenated, not added.
    """
    return jax.lax.split(whole, extents, axis % whole.ndim)

"""Sequences in parts.

What a layer sees is made of several things side by side: the embeddings, a residual, contextual features. They are
handed on as a tuple of arrays, `<float32>[batch, length, size]` each, and stand for their concatenation along the last
axis, which is never made: a product with each part's rows of a kernel is the product with the concatenation. It saves
the copies, and above all the gradient of what is not trained: nothing is computed backward into a part that is the word
embeddings.
"""

from collections.abc import Sequence

import jax

Parts = tuple[jax.Array, ...]


def sizes(parts: Sequence[jax.Array]) -> tuple[int, ...]:
    """The number of features of each part."""
    return tuple(part.shape[-1] for part in parts)


def split(whole: jax.Array, extents: Sequence[int], axis: int = -1) -> list[jax.Array]:
    """Cuts an axis into pieces of the given extents, as slices that cost nothing; their gradients are put side by side,
    not added.
    """
    return jax.lax.split(whole, extents, axis % whole.ndim)

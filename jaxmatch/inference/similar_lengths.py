"""Batches of pairs of similar length, which need little padding."""

from collections.abc import Iterator, Sequence

import numpy as np

# Of a batch; an array of them takes 256 MiB, and a model holds several.
_MOST_ATTENTION_WEIGHTS = 2**26


def batches(sides_a: Sequence[Sequence[int]], sides_b: Sequence[Sequence[int]], most: int) -> Iterator[np.ndarray]:
    """Batches of pairs of similar length, from the shortest to the longest. Batches of very long pairs are smaller.

    Arguments:
      sides_a: the tokens of the first texts.
      sides_b: of the second texts.
      most: pairs of a batch, at most.

    Returns:
      <int64>[pairs], the indices of the pairs of each batch.
    """
    tokens = np.array([len(a) + len(b) for a, b in zip(sides_a, sides_b, strict=True)], np.int64)
    order, start = np.argsort(tokens, kind="stable"), 0
    while start < len(order):
        size = min(most, len(order) - start)
        # Attention has a weight for each two tokens of a row.
        while size > 1 and size * tokens[order[start + size - 1]] ** 2 > _MOST_ATTENTION_WEIGHTS:
            size -= 1
        yield order[start : start + size]
        start += size

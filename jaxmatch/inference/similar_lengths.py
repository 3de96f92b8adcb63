"""Batches of pairs of similar length, which need little padding."""

from collections.abc import Iterator, Sequence

import numpy as np

# The maximum number of attention weights of a batch. Such an array takes 256 MiB, and a model holds several of them.
_MOST_ATTENTION_WEIGHTS = 2**26


def batches(sides_a: Sequence[Sequence[int]], sides_b: Sequence[Sequence[int]], most: int) -> Iterator[np.ndarray]:
    """Yields batches of pairs of similar length, the shortest pairs first. Batches of very long pairs are smaller.

    Arguments:
      sides_a: the tokens of the first texts.
      sides_b: the tokens of the second texts.
      most: the maximum number of pairs in a batch.

    Returns:
      An iterator over the batches: <int64>[pairs], the indices of the pairs in a batch.
    """
    tokens = np.array([len(a) + len(b) for a, b in zip(sides_a, sides_b, strict=True)], np.int64)
    order, start = np.argsort(tokens, kind="stable"), 0
    while start < len(order):
        size = min(most, len(order) - start)
        # Attention has a weight for every two tokens of a row.
        while size > 1 and size * tokens[order[start + size - 1]] ** 2 > _MOST_ATTENTION_WEIGHTS:
            size -= 1
        yield order[start : start + size]
        start += size

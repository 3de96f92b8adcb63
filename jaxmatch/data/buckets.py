"""Length buckets: the few static lengths that the pairs of a split are padded to.

A compiled program has fixed shapes. The two sentences of a pair are stored side by side in one row of tokens, so that a
shape is a single number, the length of the row. The lengths are chosen so that they add the least possible padding.
"""

from collections.abc import Iterable

import numpy as np

from jaxmatch.errors import InputError


def plan_buckets(lengths: np.ndarray, *, maximum_buckets: int) -> tuple[int, ...]:
    """Chooses the lengths that pad a split with the fewest tokens. The solution is exact, by dynamic programming.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair, 1 or more.
      maximum_buckets: the maximum number of lengths.

    Returns:
      Distinct lengths, ascending; the last one is the length of the longest pair.

    Raises:
      InputError: the split has no pairs, or `maximum_buckets` is less than 1.
    """
    if maximum_buckets < 1:
        raise InputError(f"{maximum_buckets} length buckets cannot hold a split", remedy="ask for 1 or more")
    if len(lengths) == 0:
        raise InputError("a split without pairs has no length buckets")
    sizes, counts = np.unique(np.asarray(lengths, np.int64), return_counts=True)
    pairs_up_to = np.concatenate([[0], np.cumsum(counts)])
    # cost[i]: the number of tokens, padding included, in the pairs of the first i sizes with the buckets so far. The
    # last of these buckets is sizes[i - 1].
    cost = np.concatenate([[0.0], pairs_up_to[1:] * sizes.astype(np.float64)])
    choices = []
    for _ in range(min(maximum_buckets, len(sizes)) - 1):
        # One more bucket: it ends at sizes[i - 1], and the buckets before it hold the first j sizes.
        with_bucket = cost[None, :] + (pairs_up_to[1:, None] - pairs_up_to[None, :]) * sizes[:, None]
        with_bucket[np.arange(len(sizes) + 1)[None, :] > np.arange(len(sizes))[:, None]] = np.inf
        before = np.argmin(with_bucket, axis=1)
        choices.append(before)
        cost = np.concatenate([[0.0], with_bucket[np.arange(len(sizes)), before]])
    chosen, end = [int(sizes[-1])], len(sizes)
    for before in reversed(choices):
        end = int(before[end - 1])
        if end == 0:
            break
        chosen.append(int(sizes[end - 1]))
    return tuple(sorted(chosen))


def assign(lengths: np.ndarray, buckets: tuple[int, ...]) -> np.ndarray:
    """Assigns each pair to the shortest bucket that holds it.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair.
      buckets: the lengths of the buckets, ascending.

    Returns:
      <int32>[pairs], indices in `buckets`.

    Raises:
      ValueError: a pair is longer than every bucket.
    """
    lengths = np.asarray(lengths)
    if len(lengths) and lengths.max() > buckets[-1]:
        raise ValueError(f"a pair of {lengths.max()} tokens does not fit a bucket of {buckets[-1]}")
    return np.searchsorted(np.asarray(buckets), lengths).astype(np.int32)


def largest(shapes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the shapes (rows, length) that no other shape reaches or exceeds in both numbers.

    Memory is planned for these shapes alone, because tracing a program for each shape takes a second or more.
    """
    kept: list[tuple[int, int]] = []
    for rows, length in sorted(set(shapes), reverse=True):
        if not kept or length > kept[-1][1]:
            kept.append((rows, length))
    return kept

"""A function of every replica: side by side, or on a CPU a few after the other."""

from collections.abc import Callable
from typing import Any

import jax

# A CPU has no more to gain from wider arrays, and their working memory grows with the replicas (benchmarks/NOTES.md).
PAIRS_AT_ONCE_ON_A_CPU = 128


def most_at_once(batch: int, platform: str) -> int | None:
    """How many replicas of `batch` pairs are computed side by side at most; None: as many as there are."""
    return max(1, PAIRS_AT_ONCE_ON_A_CPU // batch) if platform == "cpu" else None


def at_once(replicas: int, most: int | None) -> int:
    """How many of some replicas on one device are computed side by side: the same number each time, at most `most`."""
    if most is None or replicas <= most:
        return replicas
    return max(count for count in range(1, most + 1) if replicas % count == 0)


def over_replicas(function: Callable, arguments: tuple, most: int | None) -> Any:
    """`function(*arguments)` of every replica.

    Arguments:
      function: of one replica's arguments.
      arguments: arrays whose leading axis is that of the replicas of one device.
      most: see `at_once`; the numbers that come out are the same but for rounding.

    Returns:
      the results, with that axis.
    """
    (replicas,) = {leaf.shape[0] for leaf in jax.tree.leaves(arguments)}
    side_by_side = at_once(replicas, most)
    if side_by_side == replicas:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(lambda given: function(*given), arguments, batch_size=side_by_side)

"""A function of every replica: side by side, or where that does not pay or does not fit, a few after the other."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# A CPU has no more to gain from wider arrays, and their working memory grows with the replicas (benchmarks/NOTES.md).
PAIRS_AT_ONCE_ON_A_CPU = 128


def most_at_once(batch: int, platform: str) -> int | None:
    """The most replicas of `batch` pairs to compute at once; None: no limit."""
    return max(1, PAIRS_AT_ONCE_ON_A_CPU // batch) if platform == "cpu" else None


def at_once(replicas: int, most: int | None, limit: int | None = None) -> int:
    """The number of replicas that one device computes at once, in a turn.

    Arguments:
      replicas: how many there are.
      most: more bring nothing (`most_at_once`). Each turn has the same number then, and none is computed twice.
      limit: more do not fit the device's memory. The turns are as few as can be, and some replicas may be computed
        twice.
    """
    side_by_side = replicas
    if most is not None and replicas > most:
        side_by_side = max(count for count in range(1, most + 1) if replicas % count == 0)
    if limit is not None and side_by_side > limit:
        side_by_side = -(-replicas // turns(replicas, limit))
    return side_by_side


def turns(replicas: int, side_by_side: int) -> int:
    """The number of turns to compute all replicas on one device."""
    return -(-replicas // side_by_side)


def devices_filled(replicas: int, devices: int) -> int:
    """The fewest devices on which none has more replicas than if they were spread over all."""
    return -(-replicas // -(-replicas // devices))


def over_replicas(function: Callable, arguments: tuple, side_by_side: int) -> Any:
    """`function(*arguments)` of every replica.

    Arguments:
      function: of one replica's arguments.
      arguments: arrays whose leading axis is that of the replicas of one device.
      side_by_side: how many are computed in a turn (`at_once`); the numbers that come out are the same but for
        rounding.

    Returns:
      the results, with that axis.
    """
    (replicas,) = {leaf.shape[0] for leaf in jax.tree.leaves(arguments)}
    if side_by_side >= replicas:
        return jax.vmap(function)(*arguments)
    if replicas % side_by_side == 0:
        return jax.lax.map(lambda given: function(*given), arguments, batch_size=side_by_side)
    return _in_overlapping_turns(function, arguments, replicas, side_by_side)


def _in_overlapping_turns(function: Callable, arguments: tuple, replicas: int, side_by_side: int) -> Any:
    """As `over_replicas`. The last turn overlaps the one before, so that all have one size and share a program."""

    def turn(number, results):
        start = number * side_by_side  # a slice that would pass the end begins earlier
        given = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, side_by_side), arguments)
        computed = jax.vmap(function)(*given)
        return jax.tree.map(
            lambda there, new: jax.lax.dynamic_update_slice_in_dim(there, new, start, 0), results, computed
        )

    shapes = jax.eval_shape(jax.vmap(function), *arguments)
    results = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    return jax.lax.fori_loop(0, turns(replicas, side_by_side), turn, results)

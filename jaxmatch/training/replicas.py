"""A function computed for every replica: side by side, or a few at a time if more bring no gain or do not fit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# A CPU gains nothing from wider arrays, and their working memory grows with the replicas (benchmarks/NOTES.md).
PAIRS_AT_ONCE_ON_A_CPU = 128


def most_at_once(batch: int, platform: str) -> int | None:
    """Returns the most replicas to compute at once if each has a batch of `batch` pairs. None means no limit."""
    return max(1, PAIRS_AT_ONCE_ON_A_CPU // batch) if platform == "cpu" else None


def at_once(replicas: int, most: int | None, limit: int | None = None) -> int:
    """Returns the number of replicas that one device computes at once, in a turn.

    Arguments:
      replicas: the number of replicas on the device.
      most: the most replicas that are worth computing at once (`most_at_once`). If there are more, every turn has the
        same number, and no replica is computed twice.
      limit: the most replicas that fit the device's memory. If it is exceeded, the turns are as few as possible, and
        some replicas may be computed twice.
    """
    side_by_side = replicas
    if most is not None and replicas > most:
        side_by_side = max(count for count in range(1, most + 1) if replicas % count == 0)
    if limit is not None and side_by_side > limit:
        side_by_side = -(-replicas // turns(replicas, limit))
    return side_by_side


def turns(replicas: int, side_by_side: int) -> int:
    """Returns the number of turns in which one device computes all its replicas."""
    return -(-replicas // side_by_side)


def devices_filled(replicas: int, devices: int) -> int:
    """Returns the fewest devices on which no device has more replicas than if they were spread over all devices."""
    return -(-replicas // -(-replicas // devices))


def over_replicas(function: Callable, arguments: tuple, side_by_side: int) -> Any:
    """Computes `function(*arguments)` for every replica.

    Arguments:
      function: a function of one replica's arguments.
      arguments: arrays whose leading axis is the replica axis of one device.
      side_by_side: the number of replicas in a turn (`at_once`). It changes the results by no more than rounding.

    Returns:
      The results, with the replica axis.
    """
    (replicas,) = {leaf.shape[0] for leaf in jax.tree.leaves(arguments)}
    if side_by_side >= replicas:
        return jax.vmap(function)(*arguments)
    if replicas % side_by_side == 0:
        return jax.lax.map(lambda given: function(*given), arguments, batch_size=side_by_side)
    return _in_overlapping_turns(function, arguments, replicas, side_by_side)


def _in_overlapping_turns(function: Callable, arguments: tuple, replicas: int, side_by_side: int) -> Any:
    """Computes `over_replicas` in turns of one size that share a program: the last turn overlaps the one before."""

    def turn(number, results):
        start = number * side_by_side  # a slice that would pass the end is moved back
        given = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, side_by_side), arguments)
        computed = jax.vmap(function)(*given)
        return jax.tree.map(
            lambda before, new: jax.lax.dynamic_update_slice_in_dim(before, new, start, 0), results, computed
        )

    shapes = jax.eval_shape(jax.vmap(function), *arguments)
    results = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    return jax.lax.fori_loop(0, turns(replicas, side_by_side), turn, results)

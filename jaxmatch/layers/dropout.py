"""Dropout whose rate is an array, so that runs with different rates share one compiled program."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

_LEVELS = 1 << 16


def _mixed(words: jax.Array) -> jax.Array:
    """A bijection of <uint32>[...] in which each bit that goes in flips each that comes out about half of the time
    ("lowbias32").
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def random_levels(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Uniform integers below 65536, a hash of the key and the place: <uint32>[*shape].

    Threefry, which `jax.random` has, takes several times as many operations. XLA computes it once and keeps its bits
    for the backward pass; these few it computes again wherever they are read, and no mask is ever in memory. The
    constants are those of https://nullprogram.com/blog/2018/07/31/.
    """
    first, second = jax.random.key_data(key)
    places = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _mixed(_mixed(places ^ first) + second) >> 16


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` and scales the rest so that the mean stays.

    The random numbers depend on the key `dropout` only, not on the rate: raising the rate drops more of the same
    positions. A rate counts in steps of 1/65536.
    """

    def __call__(self, inputs: jax.Array, rate: jax.Array | float | None) -> jax.Array:
        """<float32>[...] -> the same; `rate` is a number or a scalar array below 1, or None in evaluation."""
        return self.in_parts((inputs,), rate)[0]

    def in_parts(self, parts: Parts, rate: jax.Array | float | None) -> Parts:
        """As a call with the concatenation of the parts (layers/parts.py)."""
        if rate is None:
            return parts
        extents = sizes(parts)
        levels = random_levels(self.make_rng("dropout"), (*parts[0].shape[:-1], sum(extents)))
        dropped_levels = jnp.round(jnp.asarray(rate, jnp.float32) * _LEVELS)
        least, scale = dropped_levels.astype(jnp.uint32), _LEVELS / (_LEVELS - dropped_levels)
        # Compared part by part: cut from one comparison, XLA's CPU compiler reads the rate anew for each number and
        # does not vectorise.
        return tuple(
            jnp.where(own >= least, part * scale.astype(part.dtype), 0.0)
            for own, part in zip(split(levels, extents), parts, strict=True)
        )

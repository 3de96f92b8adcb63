"""Dropout whose rate is an array, so that runs with different rates share one compiled program."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

_LEVELS = 1 << 16


def _lowbias32(words: jax.Array) -> jax.Array:
    """Applies a bijection of <uint32>[...] ("lowbias32"): each input bit flips each output bit about half of the
    time.
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def random_levels(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns uniform integers below 65536, a hash of the key and the position: <uint32>[*shape].

    Threefry, the generator of `jax.random`, takes several times as many operations. XLA computes it once and stores its
    bits for the backward pass. It computes the few operations of this hash again wherever the integers are read, so
    they are never in memory; XLA may store which numbers were kept, one byte each. The constants are those of
    https://nullprogram.com/blog/2018/07/31/.
    """
    first, second = jax.random.key_data(key)
    indices = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _lowbias32(_lowbias32(indices ^ first) + second) >> 16


class Dropout(nn.Module):
    """A dropout layer, which zeroes each number with probability `rate` and scales the others so that the mean stays.

    The random numbers depend on the key `dropout` only, not on the rate: a higher rate drops the same positions and
    more. The rate is rounded to a multiple of 1/65536.
    """

    def __call__(self, inputs: jax.Array, rate: jax.Array | float | None) -> jax.Array:
        """Applies dropout: <float32>[...] -> the same shape.

        `rate` is a number or a scalar array below 1, or None in evaluation.
        """
        return self.in_parts((inputs,), rate)[0]

    def in_parts(self, parts: Parts, rate: jax.Array | float | None) -> Parts:
        """Applies dropout to parts (layers/parts.py), as a call does to their concatenation."""
        if rate is None:
            return parts
        extents = sizes(parts)
        levels = random_levels(self.make_rng("dropout"), (*parts[0].shape[:-1], sum(extents)))
        dropped_levels = jnp.round(jnp.asarray(rate, jnp.float32) * _LEVELS)
        threshold, scale = dropped_levels.astype(jnp.uint32), _LEVELS / (_LEVELS - dropped_levels)
        # Each part is compared separately. If one comparison were cut into parts, XLA's CPU compiler would read the
        # rate again for each number and would not vectorize.
        return tuple(
            jnp.where(own >= threshold, part * scale.astype(part.dtype), 0.0)
            for own, part in zip(split(levels, extents), parts, strict=True)
        )

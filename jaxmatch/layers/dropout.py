"""Dropout whose rate is an array, so that runs with different rates share one compiled program."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

# Where RE2 drops. As released: the embeddings, what an encoder makes, and the inputs of all layers but a block's first convolution
# and the first networks of a fusion. The paper (section 3.2): the input of "every fully-connected or convolutional layer".
PLACEMENTS = ("released", "every_layer")
_LEVELS = 1 << 16


def random_levels(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Uniform integers below 65536: <uint16>[*shape], two from each 32 random bits, whose drawing is what dropout costs."""
    size = 1
    for extent in shape:
        size *= extent
    words = jax.random.bits(key, ((size + 1) // 2,), jnp.uint32)
    return jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(-1)[:size].reshape(shape)


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` and scales the rest so that the mean stays.

    The random numbers depend on the key `dropout` only, not on the rate: raising the rate drops more of the same positions. A
    rate counts in steps of 1/65536.
    """

    def __call__(self, inputs: jax.Array, rate: jax.Array | float | None) -> jax.Array:
        """<float32>[...] -> the same; `rate` is a number or a scalar array below 1, or None in evaluation."""
        return self.in_parts((inputs,), rate)[0]

    @nn.compact
    def in_parts(self, parts: Parts, rate: jax.Array | float | None) -> Parts:
        """As a call with the concatenation of the parts (layers/parts.py)."""
        if rate is None:
            return parts
        dropped_levels = jnp.round(jnp.asarray(rate, jnp.float32) * _LEVELS)
        extents = sizes(parts)
        levels = random_levels(self.make_rng("dropout"), (*parts[0].shape[:-1], sum(extents)))
        least, scale = dropped_levels.astype(jnp.uint16), _LEVELS / (_LEVELS - dropped_levels)
        # Compared part by part: cut from one comparison, XLA's CPU compiler reads the rate anew for each number and does not vectorise.
        return tuple(
            jnp.where(own >= least, part * scale, 0.0) for own, part in zip(split(levels, extents), parts, strict=True)
        )

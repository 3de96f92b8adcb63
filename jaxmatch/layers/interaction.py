"""The sentences of a row as arrays of a fixed length, and their interactions word by word (DIIN, section 3.1)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import DIINConfig
from jaxmatch.layers.dense_net import scaled
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear


def gathered(
    tokens: dict[str, jax.Array], sentences: jax.Array, which: int, length: int
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Gathers the tokens of one sentence of each row, from the left without gaps. Tokens beyond `length` are cut.

    Arguments:
      tokens: named arrays, <integer or float32>[batch, row, ...] each.
      sentences: <int8>[batch, row], the sentence of each token, 1 or 2; 0 is padding.
      which: the sentence, 1 or 2.
      length: the number of tokens that are kept.

    Returns:
      the gathered arrays under the same names, <...>[batch, length, ...], zeros after the sentence's end; and a mask,
      <bool>[batch, length], True where there is a token.
    """
    is_of_it = sentences == which
    places = jnp.argsort(~is_of_it, axis=1, stable=True)[:, :length]
    places = jnp.pad(places, ((0, 0), (0, length - places.shape[1])))
    is_token = jnp.arange(length)[None] < jnp.sum(is_of_it, axis=1, keepdims=True)

    def taken(values: jax.Array) -> jax.Array:
        found = jax.vmap(lambda row, at: row[at])(jnp.asarray(values), places)
        return jnp.where(is_token.reshape(*is_token.shape, *(1,) * (found.ndim - 2)), found, 0)

    return {name: taken(values) for name, values in tokens.items()}, is_token


class Interaction(nn.Module):
    """The interaction tensor, I_ij = a_i * b_j, whose channels are scaled down by a linear layer.

    Where either sentence has no token, the product is zero, and the layer returns its bias.

    Arguments:
      config: the settings, of which `first_scale` and `precision` apply.
    """

    config: DIINConfig

    @nn.compact
    def __call__(
        self, a: jax.Array, b: jax.Array, is_token: tuple[jax.Array, jax.Array], dropout_rate: jax.Array | None
    ) -> jax.Array:
        """Computes the tensor: a, b <float32>[batch, length, size] -> <float32>[batch, length, length, channels].

        `is_token` is <bool>[batch, length] for each sentence.
        """
        a, b = (jnp.where(known[..., None], one, 0.0) for one, known in zip((a, b), is_token, strict=True))
        interaction = Dropout()(a[:, :, None] * b[:, None], dropout_rate)
        channels = scaled(a.shape[-1], self.config.first_scale)
        return Linear(channels, precision=self.config.precision, name="scale_down")(interaction)

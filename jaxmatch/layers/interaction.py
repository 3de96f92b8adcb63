"""The sentences of a row as arrays of a fixed length, and their interactions word by word (DIIN, section 3.1)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import DIINConfig
from jaxmatch.layers.dense_net import scaled
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear


def gather_sentence(
    tokens: dict[str, jax.Array], sentences: jax.Array, which: int, length: int
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Gathers the tokens of one sentence of each row, from the left without gaps. Tokens beyond `length` are cut.

    Arguments:
      tokens: named arrays, <integer or float32>[batch, row, ...] each.
      sentences: <int8>[batch, row], the sentence of each token, 1 or 2; 0 is padding.
      which: the sentence, 1 or 2.
      length: the number of tokens that are kept.

    Returns:
      the selected arrays under the same names, <...>[batch, length, ...], zeros after the sentence's end; and a mask,
      <bool>[batch, length], True where there is a token.
    """
    in_sentence = sentences == which
    positions = jnp.argsort(~in_sentence, axis=1, stable=True)[:, :length]
    positions = jnp.pad(positions, ((0, 0), (0, length - positions.shape[1])))
    is_token = jnp.arange(length)[None] < jnp.sum(in_sentence, axis=1, keepdims=True)

    def gather(values: jax.Array) -> jax.Array:
        selected = jax.vmap(lambda row, indices: row[indices])(jnp.asarray(values), positions)
        return jnp.where(is_token.reshape(*is_token.shape, *(1,) * (selected.ndim - 2)), selected, 0)

    return {name: gather(values) for name, values in tokens.items()}, is_token


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

"""Self-attention with a fuse gate, the encoder of DIIN (section 3.2)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul, over_features


class SelfAttention(nn.Module):
    """Attention of each token to its own sentence, combined with the token by a fuse gate.

    Each product with trained weights has dropout before it.

    Arguments:
      precision: the precision of the matrix products.
    """

    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, is_token: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Encodes a sequence: <float32>[batch, length, size] -> the same shape.

        `is_token` is <bool>[batch, length], False at padding.
        """
        size, precision = sequence.shape[-1], self.precision
        # Eq. 1: A_ij = w^T [p_i; p_j; p_i * p_j]. The term of p_i alone is the same for all A_ij of a row. It does not
        # change the softmax, and has no weights here.
        kernel = self.param("attention", nn.initializers.glorot_uniform(), (2 * size, 1), jnp.float32)
        seen = Dropout()(sequence, dropout_rate)
        of_other, of_product = (over_features(half, seen) for half in jnp.split(kernel[:, 0], 2))
        scores = matmul(of_other + of_product * seen, jnp.swapaxes(seen, -1, -2), precision)
        weights = attention_weights(scores, is_token[:, :, None] & is_token[:, None, :])
        attended = matmul(weights, sequence, precision)  # Eq. 2
        # Eq. 3 to 6: the fuse gate.
        parts = Dropout().in_parts((sequence, attended), dropout_rate)
        candidate = Linear(size, "tanh", precision=precision, name="candidate")(*parts)
        keep, let_in = (Linear(size, "sigmoid", precision=precision, name=name)(*parts) for name in ("keep", "let_in"))
        return keep * sequence + let_in * candidate

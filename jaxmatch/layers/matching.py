"""Multi-perspective matching (BiMPM, section 3.2): each token of a sentence is compared with the other sentence by
cosines, each under weights of its own.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import BiMPMConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.attention import of_other_sentence
from jaxmatch.layers.masking import lowest
from jaxmatch.layers.matmul import matmul, of_scores

LEAST = 1e-6  # of a squared norm, and of a sum of cosines: a sentence may be empty

# strategy -> the setting that asks for it, in the order of section 3.2
STRATEGIES = {
    "full": "full_matching",
    "maxpooling": "maxpooling_matching",
    "attentive": "attentive_matching",
    "max_attentive": "max_attentive_matching",
}


def _normalized(vectors: jax.Array) -> jax.Array:
    """<float32>[..., size] -> the same, each of norm 1; one that is next to zero stays so."""
    squares = jnp.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squares, LEAST))


class PerspectiveMatching(nn.Module):
    """The matchings of one direction of the context LSTM, from either sentence to the other, by the same weights.

    Cosines are in float32.

    Arguments:
      config: its `perspectives`, its four strategies and `precision` count.
    """

    config: BiMPMConfig

    @nn.compact
    def __call__(self, states: jax.Array, opposite: jax.Array, sentences: jax.Array) -> jax.Array:
        """Matches each token.

        Arguments:
          states: <float32>[batch, length, hidden].
          opposite: <float32>[batch, length, hidden], for each token the state with which the LSTM leaves the other
            sentence.
          sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.

        Returns:
          <float32>[batch, length, strategies * perspectives].

        Raises:
          InputError: if the config has no strategy.
        """
        config, precision = self.config, of_scores(self.config.precision)
        strategies = [name for name, setting in STRATEGIES.items() if getattr(config, setting)]
        if not strategies:
            raise InputError("the model has no matching strategy", remedy=f"set model.{STRATEGIES['full']} to True")
        own, opposite = states.astype(jnp.float32), opposite.astype(jnp.float32)
        allowed = of_other_sentence(sentences)
        directed = _normalized(own)
        similarity = jnp.where(allowed, matmul(directed, jnp.swapaxes(directed, -1, -2), precision), 0.0)  # Eq. 5
        # Kept as in layers/alignment.py, whichever strategies there are.
        attention = _over_sum(similarity)
        self.sow("intermediates", "weights", attention)
        matched = []
        for name in strategies:
            shape = (config.perspectives, own.shape[-1])
            weights = self.param(name, nn.initializers.glorot_uniform(), shape, jnp.float32)
            if name == "maxpooling":
                matched.append(_best_match(own, allowed, weights, precision))
                continue
            if name == "full":
                other = opposite
            elif name == "attentive":
                other = matmul(attention, own, precision)  # Eq. 6
            else:
                # A product rather than a gather, whose gradient would be a scatter.
                nearest = jnp.argmax(jnp.where(allowed, similarity, lowest(jnp.float32)), axis=-1)
                picked = (jax.lax.iota(jnp.int32, own.shape[1])[None, None] == nearest[..., None]) & allowed
                other = matmul(picked.astype(jnp.float32), own, precision)
            matched.append(_match(own, other, weights, precision))
        return jnp.concatenate(matched, axis=-1).astype(states.dtype)


def _over_sum(similarity: jax.Array) -> jax.Array:
    """The weights of Eq. 6: each row over its sum.

    What is made with them is seen by cosines alone, on which the size of the sum has no effect: it needs no gradient.
    """
    total = jax.lax.stop_gradient(jnp.sum(similarity, axis=-1, keepdims=True))
    return similarity / jnp.where(jnp.abs(total) < LEAST, LEAST, total)


def _match(own: jax.Array, other: jax.Array, weights: jax.Array, precision: str) -> jax.Array:
    """Eq. 1 and 2: m_k = cosine(W_k * own, W_k * other).

    Each sum of three factors, one of them W_k^2, is a product with the matrix of all W^2: no vector is made for each
    perspective.

    Arguments:
      own, other: <float32>[batch, length, hidden].
      weights: W, <float32>[perspectives, hidden].
      precision: of the matrix products.

    Returns:
      <float32>[batch, length, perspectives].
    """
    squares = jnp.swapaxes(weights * weights, 0, 1)
    product, of_own, of_other = (matmul(one, squares, precision) for one in (own * other, own * own, other * other))
    return product * jax.lax.rsqrt(jnp.maximum(of_own, LEAST)) * jax.lax.rsqrt(jnp.maximum(of_other, LEAST))


def _best_match(own: jax.Array, allowed: jax.Array, weights: jax.Array, precision: str) -> jax.Array:
    """Maxpooling-matching: of each perspective the best match with any token of the other sentence; as `_match`.

    The weighted vectors, [batch, perspectives, length, hidden], and their cosines, [batch, perspectives, length,
    length], are computed again in the backward pass.
    """

    @jax.checkpoint
    def best(own, weights):
        weighted = _normalized(own[:, None] * weights[None, :, None])
        cosines = matmul(weighted, jnp.swapaxes(weighted, -1, -2), precision)
        return jnp.max(jnp.where(allowed[:, None], cosines, lowest(jnp.float32)), axis=-1)

    largest = jnp.swapaxes(best(own, weights), 1, 2)
    return jnp.where(jnp.any(allowed, axis=-1, keepdims=True), largest, 0.0)

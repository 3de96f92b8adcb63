"""BiMPM: bilateral multi-perspective matching (Wang et al., IJCAI 2017), figure 1 of its paper.

Both sentences share all parameters, also those of the matching and the aggregation layer. A pair is one row of tokens
(models/pair_model.py). Dropout follows every layer of the figure, as in section 4.1.

The model differs from the paper in the characters: an LSTM reads them in both directions, each of half the size
(model.characters=bilstm), where the paper has one direction. The hidden prediction layer has tanh, as in the authors'
code; the paper does not state its activation. That code also has parts that the paper does not have, and that are left
out here: highway layers, matching of the words themselves, and separate parameters for each direction of matching.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import BiMPMConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.attention import final_states, of_other_sentence
from jaxmatch.layers.core import lowest, matmul, of_scores
from jaxmatch.models.pair_model import PairModel

EPSILON = 1e-6  # lower bound of a squared norm, and of the size of a sum of cosines: a sentence may be empty

# strategy -> the setting that enables it, in the order of section 3.2
STRATEGIES = {
    "full": "full_matching",
    "maxpooling": "maxpooling_matching",
    "attentive": "attentive_matching",
    "max_attentive": "max_attentive_matching",
}


def _normalized(vectors: jax.Array) -> jax.Array:
    """Scales vectors <float32>[..., size] to norm 1. A vector near zero stays near zero."""
    squares = jnp.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squares, EPSILON))


class PerspectiveMatching(nn.Module):
    """Multi-perspective matching (section 3.2) for one direction of the context LSTM.

    Each token is compared with the other sentence by several cosines, in float32, each with weights of its own. Both
    sentences are matched with the same weights.
    """

    config: BiMPMConfig

    @nn.compact
    def __call__(self, states: jax.Array, opposite: jax.Array, sentences: jax.Array) -> jax.Array:
        """Matches each token with the other sentence.

        Arguments:
          states: <float32>[batch, length, hidden], the states of the LSTM.
          opposite: <float32>[batch, length, hidden], for each token the last state of the LSTM in the other sentence.

        Returns:
          <float32>[batch, length, strategies * perspectives].

        Raises:
          InputError: the config enables no strategy.
        """
        config, precision = self.config, of_scores(self.config.precision)
        strategies = [name for name, setting in STRATEGIES.items() if getattr(config, setting)]
        if not strategies:
            raise InputError("the model has no matching strategy", remedy=f"set model.{STRATEGIES['full']} to True")
        own, opposite = states.astype(jnp.float32), opposite.astype(jnp.float32)
        allowed = of_other_sentence(sentences)
        directed = _normalized(own)
        similarity = jnp.where(allowed, matmul(directed, jnp.swapaxes(directed, -1, -2), precision), 0.0)  # α
        # Each row of α is divided by its sum. Only cosines use the weighted means, and the size of the sum has no
        # effect on cosines. So the sum needs no gradient. The weights are stored as in `attention.align`.
        total = jax.lax.stop_gradient(jnp.sum(similarity, axis=-1, keepdims=True))
        attention = similarity / jnp.where(jnp.abs(total) < EPSILON, EPSILON, total)
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
                other = matmul(attention, own, precision)  # the mean vector
            else:
                # A product is used instead of a gather, whose gradient would be a scatter.
                nearest = jnp.argmax(jnp.where(allowed, similarity, lowest(jnp.float32)), axis=-1)
                picked = (jax.lax.iota(jnp.int32, own.shape[1])[None, None] == nearest[..., None]) & allowed
                other = matmul(picked.astype(jnp.float32), own, precision)
            matched.append(_match(own, other, weights, precision))
        return jnp.concatenate(matched, axis=-1).astype(states.dtype)


def _match(own: jax.Array, other: jax.Array, weights: jax.Array, precision: str) -> jax.Array:
    """Computes f_m(own, other; W) of section 3.2: m_k = cosine(W_k * own, W_k * other).

    A cosine consists of sums over products of three factors, one of which is W_k^2. These sums are computed as a matrix
    product with all W_k^2, so that no vectors are made for each perspective.

    Arguments:
      own, other: <float32>[batch, length, hidden].
      weights: W, <float32>[perspectives, hidden].

    Returns:
      <float32>[batch, length, perspectives].
    """
    squares = jnp.swapaxes(weights * weights, 0, 1)
    product, of_own, of_other = (matmul(one, squares, precision) for one in (own * other, own * own, other * other))
    return product * jax.lax.rsqrt(jnp.maximum(of_own, EPSILON)) * jax.lax.rsqrt(jnp.maximum(of_other, EPSILON))


def _best_match(own: jax.Array, allowed: jax.Array, weights: jax.Array, precision: str) -> jax.Array:
    """Computes maxpooling-matching: for each perspective, the best match with any token of the other sentence.

    `allowed` is <bool>[batch, length, length], True for tokens of different sentences. The other arguments and the
    result are those of `_match`. The weighted vectors, [batch, perspectives, length, hidden], and their cosines,
    [batch, perspectives, length, length], are computed again in the backward pass.
    """

    @jax.checkpoint
    def best(own, weights):
        weighted = _normalized(own[:, None] * weights[None, :, None])
        cosines = matmul(weighted, jnp.swapaxes(weighted, -1, -2), precision)
        return jnp.max(jnp.where(allowed[:, None], cosines, lowest(jnp.float32)), axis=-1)

    largest = jnp.swapaxes(best(own, weights), 1, 2)
    return jnp.where(jnp.any(allowed, axis=-1, keepdims=True), largest, 0.0)


class BiMPM(PairModel):
    """The BiMPM model, from words to logits.

    In the paper's setting it has 678,163 trained parameters. RE2's Table 1 prints 1.6M. The authors' first code has
    that many, with its highway layers, 10 perspectives and 100 character features.
    """

    config: BiMPMConfig

    def setup(self):
        super().setup()
        config = self.config
        self.context = self.lstm("context")
        self.match_forward = PerspectiveMatching(config, name="matching_forward")
        self.match_backward = PerspectiveMatching(config, name="matching_backward")
        self.aggregate = self.lstm("aggregation")
        self.predict = self.perceptron("tanh", 2, config.head_size, "simple")

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns the last states of the aggregation layer for each sentence, <float32>[batch, 2 * hidden] each."""
        words = self.dropout(self.words(tokens, vectors), dropout_rate)
        states = self.dropout(self.context(words, sentences), dropout_rate)
        last_of_first, last_of_second = (final_states(states, sentences == which) for which in (1, 2))
        opposite = jnp.where((sentences == 1)[..., None], last_of_second[:, None], last_of_first[:, None])
        (forward, backward), (end, start) = (jnp.split(one, 2, axis=-1) for one in (states, opposite))
        matched = self.match_forward(forward, end, sentences), self.match_backward(backward, start, sentences)
        aggregated = self.aggregate(self.dropout(matched, dropout_rate), sentences)
        return tuple(final_states(aggregated, sentences == which) for which in (1, 2))

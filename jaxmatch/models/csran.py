"""CSRAN: co-stack residual affinity networks (Tay et al., EMNLP 2018), figure 1 of its paper.

Both sentences share all parameters up to the pooling layer. A pair is one row of tokens (models/pair_model.py). As in
the released code, a CAFE block comes before each LSTM layer of the stack, and dropout before every highway, LSTM and
dense layer. With model.refinement_place=after, the CAFE blocks are between the LSTM layers, and none comes after the
last. The paper can also be read differently: it speaks of the outputs of each layer.

The model differs from the released code in these points. LSTMs begin at zeros, not at trained states. Dropout draws a
mask for each token. The first prediction layer also has dropout before it. The LSTM over characters has no dropout, and
returns the state of each direction at its own end, where theirs returns both directions at the last character. Biases
of highway layers begin at 0, not at 0.1. Their mask adds -1e-30, which masks nothing: padding takes part in their
attention, their LSTMs and their pooling, but not here.
"""

import functools
import itertools

import jax
import jax.numpy as jnp

from jaxmatch.config.models import CSRANConfig
from jaxmatch.layers.attention import align, compared, sum_over_time
from jaxmatch.layers.core import Features, Highway, dot_products
from jaxmatch.models.cafe import AttentionRefinement
from jaxmatch.models.pair_model import PairModel


def co_stack_affinity(stack: Features, precision: str) -> jax.Array:
    """Computes Eq. 4 (section 2.4): the affinity of two tokens at the pair of layers at which they match best.

    The printed equation has sums over p and q under the maximum. The paper's text and the released code take the
    maximum over all pairs of layers: s_ij = max_{p, q} a_pi^T b_qj.

    Arguments:
      stack: the output of each layer, <float32>[batch, length, size].

    Returns:
      s_ij for all pairs of tokens of a row, <float32>[batch, length, length].
    """
    # The product of layers (q, p) is the transpose of that of layers (p, q), so half of the products suffice.
    pairs = itertools.combinations_with_replacement(stack, 2)
    best = functools.reduce(jnp.maximum, (dot_products((one,), (other,), precision) for one, other in pairs))
    return jnp.maximum(best, jnp.swapaxes(best, -1, -2)) if len(stack) > 1 else best


class CSRAN(PairModel):
    """The CSRAN model (the whole of figure 1), from words to logits.

    In the setting of the released run it has 14.5M trained parameters, most of them in the first aggregation LSTM,
    whose inputs are the comparisons of all layers. The paper prints no number of parameters; RE2's Table 1 prints
    13.9M, and ESAN's figure 2 more than 10M. Without `refinement` and `co_stack`, the model is the stacked baseline of
    figure 2.
    """

    config: CSRANConfig

    def setup(self):
        super().setup()
        config = self.config
        self.highway = Highway(config.hidden_size, config.highway_layers, config.precision)
        before = config.refinement_place == "before"
        blocks = config.stacked_layers - (not before) if config.refinement else 0
        self.refine = [AttentionRefinement(config, name=f"refinement_{number}") for number in range(blocks)]
        self.stack = [self.lstm(f"stack_{number}") for number in range(config.stacked_layers)]
        self.aggregate = [self.lstm(f"aggregation_{number}") for number in range(config.aggregation_layers)]
        self.predict = self.perceptron(config.head, config.head_layers, config.head_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns the halves of z (Eq. 8), <float32>[batch, 2 * hidden] each."""
        co_stack, precision = self.config.co_stack, self.config.precision
        sequence = self.highway(self.words(tokens, vectors), dropout_rate)
        own = self._stacked(sequence, sentences, dropout_rate)
        scores = co_stack_affinity(own if co_stack else own[-1:], precision)
        own = own if co_stack or self.config.aligned_layers == "all" else own[-1:]
        aligned = align(self, scores, own, sentences, precision)  # Eq. 5
        sequence = compared(own, aligned)
        for layer in self.aggregate:  # Eq. 6 and 7
            sequence = (layer(self.dropout(sequence, dropout_rate), sentences),)
        return tuple(sum_over_time(sequence[0], sentences == which) for which in (1, 2))

    def _stacked(self, sequence: Features, sentences: jax.Array, dropout_rate) -> Features:
        """Computes Eq. 1: the outputs of every layer of the stack, <float32>[batch, length, 2 * hidden] each."""
        outputs = []
        for number, layer in enumerate(self.stack):
            block = number if self.config.refinement_place == "before" else number - 1
            if self.config.refinement and block >= 0:
                sequence = self.refine[block](jnp.concatenate(sequence, axis=-1), sentences)
            sequence = (layer(self.dropout(sequence, dropout_rate), sentences),)
            outputs += sequence
        return tuple(outputs)

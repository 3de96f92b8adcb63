"""CAFE: compare, compress and propagate (Tay et al., EMNLP 2018), the single-layer model that CSRAN stacks.

The structure is that of the released code, as CSRAN's paper compares with it: a highway network, one CAFE block over
the words, an LSTM, mean and max pooling, and highway layers over both vectors, their product and their difference
(dense layers in the authors' own command for CAFE: model.head = "dense"). By default, the released code adds two parts
to the block, which are optional here: a factorization machine over the six features of the block
(model.meta_factors=4), and the aligned representation of each token in its own sentence (model.flow_intra).

The released code differs in these points. Its mask adds -1e-30, which masks nothing: padding takes part in its
attention, but not here. Its dropout is also on aligned vectors, and on pooled vectors before their product and
difference, not after; one mask serves all tokens. Its dense head has two layers for each of head_layers. Its LSTM
begins at a trained state with cuDNN; the authors name another for CAFE, whose forget gates have a bias of 1
(model.forget_bias). The characters of a word are read as in models/csran.py.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import CAFEConfig, RefinementConfig
from jaxmatch.layers.attention import attention_weights, mean_and_max, of_other_sentence, of_same_sentence
from jaxmatch.layers.core import Dense, Features, Highway, dot_products, matmul, matmul_features, sizes
from jaxmatch.models.pair_model import PairModel


class FactorizationMachine(nn.Module):
    """A factorization machine (Rendle, 2010), M(x) of CSRAN's Eq. 3: a bias, and weighted sums of the entries of x and
    of their products. The weight of a product of two entries is the inner product of their factors, of size k.
    """

    factors: int

    @nn.compact
    def __call__(self, x: Features) -> jax.Array:
        """Computes M(x): <float32>[..., inputs] each -> <float32>[..., 1]."""
        inputs = sum(sizes(x))
        x = tuple(each.astype(jnp.float32) for each in x)
        bias = self.param("bias", nn.initializers.zeros, (1,), jnp.float32)
        linear = self.param("linear", nn.initializers.zeros, (inputs, 1), jnp.float32)
        factors = self.param("factors", nn.initializers.glorot_uniform(), (inputs, self.factors), jnp.float32)
        # Always in float32, also on an accelerator: the sum over pairs is the small difference of two large sums.
        weighted = matmul_features(x, jnp.concatenate([linear, factors], axis=-1), "highest")
        squared_norms = jnp.sum(factors * factors, axis=1, keepdims=True)
        squares = matmul_features(tuple(each * each for each in x), squared_norms, "highest")
        # Eq. 3 in time O(n k): sum_{i<j} <v_i, v_j> x_i x_j = (sum_f (sum_i v_if x_i)^2 - sum_i |v_i|^2 x_i^2) / 2
        pairs = 0.5 * (jnp.sum(jnp.square(weighted[..., 1:]), axis=-1, keepdims=True) - squares)
        return bias + weighted[..., :1] + pairs


class AttentionRefinement(nn.Module):
    """The CAFE block (CSRAN, section 2.3).

    It aligns each token with the other sentence and with its own, and compresses each comparison to one number. The
    factorization machines run in float32.
    """

    config: RefinementConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array) -> Features:
        """Augments the tokens, <float32>[batch, length, size], with features of their alignments.

        Returns:
          `sequence`; three features from the other sentence and three from its own, <float32>[batch, length, 6], or
          seven features with `meta_factors`; and with `flow_intra` also the aligned representation of each token in its
          own sentence, with the shape of `sequence`.
        """
        _, between = self._compared("between", sequence, of_other_sentence(sentences), projected=True)
        self_aligned, within = self._compared(
            "within", sequence, of_same_sentence(sentences), projected=self.config.intra_projection
        )
        features = jnp.concatenate([*between, *within], axis=-1)
        if self.config.meta_factors:
            meta = FactorizationMachine(self.config.meta_factors, name="meta")((features,))
            features = jnp.concatenate([features, meta], axis=-1)
        return sequence, features.astype(sequence.dtype), *((self_aligned,) if self.config.flow_intra else ())

    def _compared(
        self, name: str, sequence: jax.Array, allowed: jax.Array, *, projected: bool
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Aligns each token with the `allowed` tokens, and compares it with its aligned representation.

        Returns:
          the aligned representations, and three comparisons, <float32>[batch, length, 1] each.
        """
        precision, seen = self.config.precision, sequence
        if projected:
            # E_ij = F(a_i)^T F(b_j); F is a ReLU layer without bias in the released code.
            size = sequence.shape[-1]
            seen = Dense(size, "relu", use_bias=False, precision=precision, name=f"{name}_projection")(sequence)
        weights = attention_weights(dot_products((seen,), (seen,), precision), allowed, sequence.dtype)
        if name == "between":  # attention within one sentence is no alignment of two
            self.sow("intermediates", "weights", weights)  # stored as in `align`
        aligned = matmul(weights, sequence, precision)  # Eq. 2
        comparisons = {
            "concatenation": (aligned, sequence),
            "product": (aligned * sequence,),
            "difference": (aligned - sequence,),
        }
        machine, factors = FactorizationMachine, self.config.factors
        return aligned, [machine(factors, name=f"{name}_{which}")(x) for which, x in comparisons.items()]  # Eq. 3


class CAFE(PairModel):
    """The CAFE model, from words to logits."""

    config: CAFEConfig

    def setup(self):
        super().setup()
        config = self.config
        self.highway = Highway(config.hidden_size, config.highway_layers, config.precision)
        self.refine = AttentionRefinement(config, name="refinement")
        self.encode = self.lstm("encoder", config.bidirectional)
        self.predict = self.perceptron(config.head, config.head_layers, config.head_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns the pooled vector of each sentence, <float32>[batch, 2 * directions * hidden]."""
        words = self.highway(self.words(tokens, vectors), dropout_rate)
        augmented = self.refine(jnp.concatenate(words, axis=-1), sentences)
        states = self.encode(self.dropout(augmented, dropout_rate), sentences)
        return mean_and_max(states, sentences == 1), mean_and_max(states, sentences == 2)

"""RE2: simple and effective text matching with richer alignment features (Yang et al., ACL 2019), figure 1 of
its paper.

Up to the pooling layer, both sentences share all parameters. A pair is therefore one row of tokens, the second sentence
after the first: every token-wise layer is one product over both, and rows need padding at one end only. Convolution,
alignment and pooling get the sentence of each token as an argument, `sentences` <int8>[batch, length], 1 or 2; 0 is
padding. A sequence is a tuple of <float32>[batch, length, size], which stands for their concatenation
(layers/core.py). `dropout_rate` is <float32>[], or None in evaluation.
"""

import dataclasses
import math
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import RE2Config
from jaxmatch.layers.attention import PREDICTIONS, align, max_over_time
from jaxmatch.layers.core import (
    ACTIVATIONS,
    Dropout,
    Features,
    WeightNormDense,
    dot_products,
    gelu,
    matmul_features,
    normalized_kernel,
    of_scores,
    sizes,
    sum_of_products,
)
from jaxmatch.models.pair_model import PairModel


def _shifted(values: jax.Array, distance: int) -> jax.Array:
    """Shifts <...>[batch, length, ...]: place t gets the value of place t + distance, or zero beyond the ends."""
    length = values.shape[1]
    before, after = min(max(-distance, 0), length), min(max(distance, 0), length)
    padding = [(0, 0), (before, after)] + [(0, 0)] * (values.ndim - 2)
    return jnp.pad(values[:, after : length - before], padding)


def convolve(sequence: Features, kernel: jax.Array, sentences: jax.Array, precision: str) -> jax.Array:
    """Computes a correlation along each sentence of a row, with zeros beyond its ends ("same" padding).

    Under vmap, `lax.conv` becomes a grouped convolution, several times slower than the same work as matrix products,
    and adds all-gathers when sharded. Here, one wide product computes the contributions of every token to itself and
    its neighbors. They are then shifted to the neighbors and summed, except across the boundary of a sentence. Shifting
    the narrow outputs costs less than shifting the inputs.

    Arguments:
      kernel: <float32>[width, inputs, features], width odd.

    Returns:
      <float32>[batch, length, features].
    """
    width, size, features = kernel.shape
    wide = jnp.swapaxes(kernel, 0, 1).reshape(size, width * features)
    contributions = jnp.split(matmul_features(sequence, wide, precision, jnp.float32), width, axis=-1)
    total = contributions[width // 2]
    for offset in range(width):
        distance = offset - width // 2
        if distance:
            same_sentence = _shifted(sentences, distance) == sentences
            total = total + jnp.where(same_sentence[..., None], _shifted(contributions[offset], distance), 0.0)
    return total.astype(sequence[0].dtype)


class Convolution(nn.Module):
    """A weight-normalized convolution of an odd width, and its activation. The paper and the PyTorch code use GeLU; the
    TensorFlow code uses it for dense layers only.
    """

    config: RE2Config
    features: int
    width: int = 3

    @nn.compact
    def __call__(self, sequence: Features, sentences: jax.Array) -> jax.Array:
        """Applies the layer to a sequence -> <float32>[batch, length, features]."""
        shape = (self.width, sum(sizes(sequence)), self.features)
        kernel = normalized_kernel(self, shape, activated=True)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        outputs = convolve(sequence, kernel, sentences, self.config.precision)
        return ACTIVATIONS[self.config.encoder_activation](outputs + bias.astype(outputs.dtype))


class ConvolutionalEncoder(nn.Module):
    """The encoder of a block (section 2): a convolutional network with same padding over each sentence."""

    config: RE2Config

    def _layer(self, layer: int, sequence: Features, sentences: jax.Array) -> jax.Array:
        widths = self.config.kernel_sizes
        features, outputs = self.config.hidden_size // len(widths), []
        for which, width in enumerate(widths):
            name = f"convolution_{layer}" + (f"_{which}" if len(widths) > 1 else "")
            outputs.append(Convolution(self.config, features, width, name=name)(sequence, sentences))
        return outputs[0] if len(outputs) == 1 else jnp.concatenate(outputs, axis=-1)

    @nn.compact
    def __call__(self, sequence: Features, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Encodes each sentence of a row separately: a sequence -> <float32>[batch, length, hidden]."""
        before_every_layer = self.config.dropout_placement == "every_layer"
        for layer in range(self.config.encoder_layers):
            # The released code has no dropout before the first convolution. The input of the first convolution is the
            # embeddings after dropout, or the output of a block.
            if layer > 0 or before_every_layer:
                sequence = Dropout()(sequence, dropout_rate)
            sequence = (self._layer(layer, sequence, sentences),)
        return sequence[0] if before_every_layer else Dropout()(*sequence, dropout_rate)


_HALF_VARIANCE = 1 / math.sqrt(2)  # keeps the variance of a sum of two arrays (section 3.2)


class Connection(nn.Module):
    """The connection between blocks (section 2.1): x(n), the input of the n-th block, for n >= 2.

    With `connection` of the config,
      'augmented': Eq. 1, the sum of the outputs of the last two blocks, and the embeddings.
      'augmented_running_sum': the released code's reading of Eq. 1, a running sum of all earlier outputs, and the
        embeddings. It is Eq. 1 up to three blocks.
      'vanilla': the ablation "residual conn." (section 3.7), Eq. 1 without the embeddings.
      'vanilla_running_sum': the same ablation in the PyTorch code, a block's output plus its input. The input of the
        first block, the embeddings, is mapped to the size of the output.
      'vanilla_projected': the same ablation in the TensorFlow code. The output is mapped to the size of the input if
        the sizes differ.
      'none': the output of a block is the input of the next.
    """

    config: RE2Config

    @nn.compact
    def __call__(self, embedded: jax.Array, previous_input: Features, outputs: Sequence[jax.Array]) -> Features:
        """Returns the sequence x(n) from x(1), the embeddings, <float32>[batch, length, size]; the sequence x(n-1);
        and o(1) ... o(n-1), <float32>[batch, length, hidden] each.
        """
        kind, output, is_second = self.config.connection, outputs[-1], len(outputs) == 1

        def mapped(size: int, name: str, *inputs: jax.Array) -> jax.Array:
            return WeightNormDense(self.config, size, activated=False, name=name)(*inputs)

        def summed(one: jax.Array, other: jax.Array) -> jax.Array:
            return ((one.astype(jnp.float32) + other.astype(jnp.float32)) * _HALF_VARIANCE).astype(one.dtype)

        if kind == "none":
            return (output,)
        if kind in ("augmented", "vanilla"):
            # Eq. 1: o(n-1) + o(n-2), where o(0) is 0
            residual = output if is_second else summed(output, outputs[-2])
        elif kind == "augmented_running_sum":
            residual = output if is_second else summed(previous_input[0], output)
        elif kind == "vanilla_running_sum":
            carried = mapped(self.config.hidden_size, "projection", *previous_input) if is_second else previous_input[0]
            residual = summed(output, carried)
        else:
            (previous,) = previous_input
            if output.shape[-1] != previous.shape[-1]:
                output = mapped(previous.shape[-1], f"projection_{len(outputs)}", output)
            residual = summed(output, previous)
        return (residual, embedded) if kind.startswith("augmented") else (residual,)


class Alignment(nn.Module):
    """The alignment layer (section 2.2): for each token, a weighted sum of the tokens of the other sentence."""

    config: RE2Config

    def setup(self):
        # The paper does not mention this scale; the released code has one learned scalar per block.
        if self.config.score_scale == "learned":
            start = nn.initializers.constant(1 / math.sqrt(self.config.hidden_size))
            self.score_scale = self.param("score_scale", start, (), jnp.float32)
        if self.config.alignment == "linear":
            self.projection = WeightNormDense(self.config, self.config.hidden_size)
            self.dropout = Dropout()

    def __call__(self, sequence: Features, sentences: jax.Array, dropout_rate: jax.Array | None) -> Features:
        """Aligns the two sentences of a row, in both directions at once: the tokens a_i of sentence 1 and b_j of
        sentence 2 -> the aligned representations a'_i and b'_j, with the same shapes.
        """
        # F of Eq. 2: the identity, or a single-layer feed-forward network
        projected = sequence
        if self.config.alignment == "linear":
            projected = (self.projection(*self.dropout(sequence, dropout_rate)),)
        # Eq. 2: e_ij = F(a_i)^T F(b_j)
        scores = dot_products(projected, projected, self.config.precision)
        if self.config.score_scale == "learned":
            scores = scores * self.score_scale
        # Eq. 3: a'_i = sum_j softmax_j(e_ij) b_j, and b'_j likewise
        return align(self, scores, sequence, sentences, self.config.precision)


class FullFusion(nn.Module):
    """The full fusion (section 2.3, Eq. 4), which compares each token with its aligned representation and fuses both.

    a_1 = G_1([a; a'])
    a_2 = G_2([a; a - a'])
    a_3 = G_3([a; a * a'])
    output = G([a_1; a_2; a_3])
    """

    config: RE2Config

    @nn.compact
    def __call__(self, own: Features, aligned: Features, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses two sequences, `own` and `aligned` -> <float32>[batch, length, hidden]."""
        networks = [
            WeightNormDense(self.config, self.config.hidden_size, name=name)
            for name in ("concatenation", "difference", "product", "output")
        ]
        if self.config.dropout_placement == "every_layer" and dropout_rate is not None:
            difference = tuple(a - other for a, other in zip(own, aligned, strict=True))
            product = tuple(a * other for a, other in zip(own, aligned, strict=True))
            # Eq. 4, where each network has its own dropout of `a`
            inputs = ((*own, *other) for other in (aligned, difference, product))
            compared = [G(*Dropout()(each, dropout_rate)) for G, each in zip(networks, inputs, strict=False)]
            compared = jnp.concatenate(compared, axis=-1)
        else:
            compared = _compared(networks[:3], own, aligned, self.config.precision)  # Eq. 4: a_1 to a_3
        return networks[3](Dropout()(compared, dropout_rate))  # Eq. 4: G


def _compared(networks: Sequence[WeightNormDense], own: Features, aligned: Features, precision: str) -> jax.Array:
    """Computes [a_1; a_2; a_3] of Eq. 4 with fewer products, <float32>[batch, length, 3 * hidden].

    All three networks see `a`, and two see `a'`. One product with the kernels side by side is faster than three. With
    the rows W and W' of G_2's kernel, W a + W' (a - a') = (W + W') a - W' a', so the difference is never computed.
    """
    rows, biases = zip(*(G.weights(*sizes(own), *sizes(own)) for G in networks), strict=True)
    # The rows for a, and the rows for the other input of each network: a', a - a' and a * a'.
    (own_1, aligned_1), (own_2, difference_2), (own_3, product_3) = (
        (kernel[: len(own)], kernel[len(own) :]) for kernel in rows
    )
    own_rows = [
        jnp.concatenate([w1, w2 + d2, w3], axis=-1)
        for w1, w2, d2, w3 in zip(own_1, own_2, difference_2, own_3, strict=True)
    ]
    aligned_rows = [jnp.concatenate([w1, -d2], axis=-1) for w1, d2 in zip(aligned_1, difference_2, strict=True)]
    product = tuple(a * other for a, other in zip(own, aligned, strict=True))
    own_sums = sum_of_products(own, own_rows, precision, jnp.float32)
    aligned_sums = sum_of_products(aligned, aligned_rows, precision, jnp.float32)
    product_sums = sum_of_products(product, product_3, precision, jnp.float32)
    summed = (own_sums + jnp.concatenate([aligned_sums, product_sums], axis=-1)).astype(own[0].dtype)
    return gelu(summed + jnp.concatenate(biases).astype(summed.dtype))


class SimpleFusion(nn.Module):
    """The "simple fusion" of the paper's Table 6: G_1 of Eq. 4 alone, one network over a and a'."""

    config: RE2Config

    @nn.compact
    def __call__(self, own: Features, aligned: Features, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses two sequences, `own` and `aligned` -> <float32>[batch, length, hidden]."""
        inputs = (*own, *aligned)
        if self.config.dropout_placement == "every_layer":
            inputs = Dropout()(inputs, dropout_rate)
        return WeightNormDense(self.config, self.config.hidden_size, name="output")(*inputs)


class PredictionLayer(nn.Module):
    """The prediction layer (section 2.4): H, a two-layer feed-forward network over both pooled sentences.

    Its outputs are the logits of the classes, or one number in regression.
    """

    config: RE2Config
    outputs: int

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: a, b <float32>[batch, hidden] -> <float32>[batch, outputs]."""
        inputs = jnp.concatenate(PREDICTIONS[self.config.prediction](a, b), axis=-1)  # Eq. 5 to 7
        hidden = WeightNormDense(self.config, self.config.hidden_size, name="hidden")(Dropout()(inputs, dropout_rate))
        # The logits are never in bfloat16, whose rounding would cause ties in a ranking.
        precise = dataclasses.replace(self.config, precision=of_scores(self.config.precision))
        return WeightNormDense(precise, self.outputs, activated=False, name="output")(Dropout()(hidden, dropout_rate))


class Block(nn.Module):
    """A dashed box of figure 1: encodes and aligns both sentences, and fuses each with its aligned representation."""

    config: RE2Config

    def setup(self):
        self.encoder = ConvolutionalEncoder(self.config)
        self.align = Alignment(self.config, name="alignment")
        self.fuse = (FullFusion if self.config.fusion == "full" else SimpleFusion)(self.config, name="fusion")

    def __call__(self, sequence: Features, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes o(n), <float32>[batch, length, hidden], from x(n), a sequence."""
        encoded = self.encoder(sequence, sentences, dropout_rate)
        # The ablation "w/o enc-in" passes on the contextual features alone.
        sequence = (*sequence, encoded) if self.config.encoder_input else (encoded,)
        aligned = self.align(sequence, sentences, dropout_rate)
        return self.fuse(sequence, aligned, dropout_rate)


class RE2(PairModel):
    """The RE2 model (the whole of figure 1), from word ids to logits.

    Both sentences share all parameters but the prediction layer's. The paper uses only the vector of a word; the other
    features that a config requests become part of the embedding.
    """

    config: RE2Config

    def setup(self):
        super().setup()
        self.block = [Block(self.config, name=f"blocks_{number}") for number in range(self.config.blocks)]
        self.connect = Connection(self.config, name="connection")
        self.predict = PredictionLayer(self.config, self.outputs, name="prediction")

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns v_1 and v_2 of Eq. 5, <float32>[batch, hidden] each."""
        words = self.words(tokens, vectors)
        embedded = words[0] if len(words) == 1 else jnp.concatenate(words, axis=-1)
        if self.config.dropout_placement == "released":
            embedded = self.dropout(embedded, dropout_rate)
        block_input, outputs = (embedded,), []
        for block in self.block:
            if outputs and not self.config.parallel_blocks:
                block_input = self.connect(embedded, block_input, outputs)
            outputs.append(block(block_input, sentences, dropout_rate))
        output = sum(outputs) if self.config.parallel_blocks else outputs[-1]
        return max_over_time(output, sentences == 1), max_over_time(output, sentences == 2)

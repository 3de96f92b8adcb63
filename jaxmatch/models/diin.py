"""DIIN: densely interactive inference network (Gong et al., ICLR 2018), figure 1 of its paper.

A pair is one row of tokens (models/pair_model.py). The first `grid_length` tokens of each sentence are taken from it,
and the words beyond are cut, as in the authors' code, which keeps 48. The grid of interactions therefore has one size,
whatever the lengths of the sentences and of the row. Places without a token are zeros in it, where the authors' code
has the outputs of its layers for padding.

Each sentence has its own self-attention and fuse gate, with separate parameters. The penalty on the difference of these
parameters is left out. Dropout is before each layer with weights, except the convolutions over characters and in the
dense blocks. The paper also has dropout after the word vectors; this model does not. Before a highway layer, dropout
also applies to the carried input. The embedding of a character has 20 numbers; 8 in the authors' code. Words match
exactly if they are equal apart from case; in the paper, if they have the same stem or lemma.
"""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import DIINConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.attention import attention_weights
from jaxmatch.layers.core import Dense, Dropout, Features, Highway, dot_products, matmul, of_scores, split
from jaxmatch.models.pair_model import PairModel


class SelfAttention(nn.Module):
    """Self-attention (section 3.2), whose result is combined with each token by a fuse gate. Each product with trained
    weights has dropout before it.
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
        of_other, of_product = jnp.split(kernel[:, 0].astype(seen.dtype), 2)
        scores = dot_products((of_other + of_product * seen,), (seen,), precision)
        weights = attention_weights(scores, is_token[:, :, None] & is_token[:, None, :], sequence.dtype)
        attended = matmul(weights, sequence, precision)  # Eq. 2
        # Eq. 3 to 6: the fuse gate.
        both = Dropout()((sequence, attended), dropout_rate)
        candidate = Dense(size, "tanh", precision=precision, name="candidate")(*both)
        keep, let_in = (Dense(size, "sigmoid", precision=precision, name=name)(*both) for name in ("keep", "let_in"))
        return keep * sequence + let_in * candidate


def convolve_grid(grid: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    """Computes a correlation over a grid, with zeros beyond its edges, as one matrix product (as `re2.convolve`).

    Arguments:
      grid: <float32>[batch, height, width, inputs].
      kernel: <float32>[extent, extent, inputs, features], extent odd.

    Returns:
      <float32>[batch, height, width, features].
    """
    extent, _, inputs, features = kernel.shape
    wide = kernel.transpose(2, 0, 1, 3).reshape(inputs, -1)
    # The contributions of each place to itself and its neighbors, which are then shifted and summed.
    contributions = split(matmul(grid, wide, precision, jnp.float32), [features] * extent**2)
    distances = range(-(extent // 2), extent // 2 + 1)
    places = itertools.product(distances, distances)
    zero, whole = jnp.zeros((), contributions[0].dtype), (0, 0, 0)
    # Place (y, x) gets the contribution of place (y + down, x + right), or zero beyond the edges.
    shifted = (
        jax.lax.pad(one, zero, [whole, (-down, down, 0), (-right, right, 0), whole])
        for one, (down, right) in zip(contributions, places, strict=True)
    )
    return sum(shifted).astype(grid.dtype)


def max_pool(grid: jax.Array) -> jax.Array:
    """Applies max pooling over 2 x 2 windows with stride 2 to a grid. A last odd row or column is left out."""
    batch, height, width, channels = grid.shape
    grid = grid[:, : height // 2 * 2, : width // 2 * 2]
    return grid.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


class GridConvolution(nn.Module):
    """A 3 x 3 convolution followed by ReLU."""

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, grid: jax.Array) -> jax.Array:
        """Applies the layer: <float32>[batch, height, width, channels] -> <float32>[batch, height, width, features]."""
        shape = (3, 3, grid.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
        outputs = convolve_grid(grid, kernel, self.precision)
        return nn.relu(outputs + bias.astype(outputs.dtype))


class DenseBlock(nn.Module):
    """A dense block of DenseNet (Huang et al., 2017) without batch normalization, and its transition layer.

    Each convolution sees the block's input and the outputs of all convolutions before it. The transition layer scales
    down the number of channels, without an activation, and halves the grid.
    """

    config: DIINConfig

    @nn.compact
    def __call__(self, grid: jax.Array) -> jax.Array:
        """Applies the block: <float32>[batch, height, width, channels] -> <float32>[batch, height // 2, width // 2, new
        channels].

        Raises:
          InputError: the grid has fewer than two rows or columns.
        """
        if min(grid.shape[1:3]) < 2:
            raise InputError("the grid is too small for its dense blocks", remedy="give a larger model.grid_length")
        # The channels are concatenated: with a product for each array (layers/core.py), a step takes twice the memory.
        config = self.config
        for number in range(config.block_layers):
            new = GridConvolution(config.growth_rate, config.precision, name=f"layer_{number}")(grid)
            grid = jnp.concatenate([grid, new], axis=-1)
        channels = max(1, int(grid.shape[-1] * config.transition_scale))
        return max_pool(Dense(channels, precision=config.precision, name="transition")(grid))


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
    """The interaction tensor (section 3.1), I_ij = a_i * b_j, whose channels are scaled down by a linear layer.

    Where either sentence has no token, the product is zero, and the layer returns its bias.
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
        channels = max(1, int(a.shape[-1] * self.config.first_scale))
        return Dense(channels, precision=self.config.precision, name="scale_down")(interaction)


class Encoder(nn.Module):
    """The encoding layer: highway layers, which keep the size of the word features, and self-attention."""

    config: DIINConfig

    @nn.compact
    def __call__(
        self, words: Features, is_token: tuple[jax.Array, jax.Array], dropout_rate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """Encodes <float32>[batch, 2 * length, inputs] each -> <float32>[batch, length, size] for each sentence.

        `is_token` is <bool>[batch, length] for each sentence, True where there is a token.
        """
        config = self.config
        whole = jnp.concatenate(words, axis=-1)
        highway = Highway(whole.shape[-1], config.highway_layers, config.precision, name="highway")
        sides = jnp.split(*highway((whole,), dropout_rate), 2, axis=1)
        first = SelfAttention(config.precision, name="attention_1")
        second = first if config.shared_encoder else SelfAttention(config.precision, name="attention_2")
        sentences = zip((first, second), sides, is_token, strict=True)
        return tuple(attend(side, known, dropout_rate) for attend, side, known in sentences)


class DIIN(PairModel):
    """The DIIN model, from words to logits.

    In the setting for SNLI it has 4.38M trained parameters; RE2's Table 1 prints 4.4M. `sentence_vectors` returns one
    vector for the pair, the flattened feature map, which has 6 x 6 places for 48 tokens.
    """

    config: DIINConfig

    def setup(self):
        super().setup()
        config = self.config
        self.encode = Encoder(config, name="encoder")
        self.interact = Interaction(config, name="interaction")
        self.extract = [DenseBlock(config, name=f"block_{number}") for number in range(config.dense_blocks)]
        self.output = Dense(self.outputs, precision=of_scores(config.precision), name="output")

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array]:
        """Computes everything below the last layer from `match`'s arguments: <float32>[batch, places * channels]."""
        sides = [gather_sentence(tokens, sentences, which, self.config.grid_length) for which in (1, 2)]
        both = {name: jnp.concatenate([side[name] for side, _ in sides], axis=1) for name in tokens}
        is_token = tuple(known for _, known in sides)
        a, b = self.encode(self.words(both, vectors), is_token, dropout_rate)
        grid = self.interact(a, b, is_token, dropout_rate)
        for block in self.extract:
            grid = block(grid)
        return (grid.reshape(len(grid), -1),)

    def predict(self, features: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: <float32>[batch, places * channels] -> <float32>[batch, outputs]."""
        return self.output(self.dropout(features, dropout_rate))

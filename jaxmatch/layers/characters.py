"""Word features from characters: by a convolution (ESAN, section 2.1) or a bidirectional LSTM (CSRAN, section 2.1)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import ModelConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.matmul import PRECISIONS, matmul, over_features
from jaxmatch.layers.pooling import final_states


class CharacterConvolution(nn.Module):
    """A convolution over the characters of a word, ReLU, and the maximum of each filter over the characters.

    Arguments:
      features: the number of filters.
      width: the number of characters that a filter sees; odd.
      precision: the precision of the matrix products.
    """

    features: int
    width: int = 5
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """Encodes words.

        Arguments:
          embedded: <float32 or bfloat16>[words, characters, size], the embeddings of the characters.
          mask: <bool>[words, characters], False at padding.

        Returns:
          [words, features] in the type of `embedded`.
        """
        shape = (self.width, embedded.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        # The characters are the first axis. If they were one of the last two axes, a TPU would pad 16 to 128.
        embedded, mask = jnp.swapaxes(embedded, 0, 1), mask.T[..., None]
        around = self.width // 2
        padded = jnp.pad(jnp.where(mask, embedded, 0), ((around, around), (0, 0), (0, 0)))
        windows = [padded[first : first + len(embedded)] for first in range(self.width)]
        # One product of the windows. A product that is shifted and summed instead would be `width` times as wide.
        filtered = matmul(jnp.concatenate(windows, axis=-1), kernel.reshape(-1, self.features), self.precision)
        return jnp.max(jnp.where(mask, nn.relu(filtered + over_features(bias, filtered)), 0), axis=0)


class CharacterLstm(nn.Module):
    """The final states of both directions of an LSTM over the characters of a word.

    Arguments:
      features: the number of features of both directions together; even.
      precision: the precision of the matrix products.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """Encodes words as `CharacterConvolution` does, but returns <float32>[words, features].

        Raises:
          InputError: the number of features is odd.
        """
        if self.features % 2:
            raise InputError(
                f"{self.features} character features cannot be shared by two directions", remedy="give an even number"
            )
        states = Lstm(self.features // 2, precision=self.precision)((embedded,), mask.astype(jnp.int8))
        return final_states(states, mask)


CHARACTER_ENCODERS = {"cnn": CharacterConvolution, "bilstm": CharacterLstm}


class CharacterFeatures(nn.Module):
    """A vector for each word, encoded from trained embeddings of its characters.

    Arguments:
      config: the settings, of which `characters`, `character_features`, `known_characters` and `precision` apply.
      size: the size of a character's embedding.
    """

    config: ModelConfig
    size: int = 20

    @nn.compact
    def __call__(self, characters: jax.Array) -> jax.Array:
        """Encodes the word of each token.

        Arguments:
          characters: <int32>[batch, length, characters of a word], 0 is padding.

        Returns:
          <float32 or bfloat16>[batch, length, features].
        """
        config = self.config
        table = self.param(
            "embedding", nn.initializers.glorot_uniform(), (config.known_characters, self.size), jnp.float32
        )
        batch, length, longest = characters.shape
        words = characters.reshape(-1, longest)
        encode = CHARACTER_ENCODERS[config.characters](
            config.character_features, precision=config.precision, name="encoder"
        )
        embedded = table[words].astype(PRECISIONS[config.precision])
        return encode(embedded, words > 0).reshape(batch, length, config.character_features)

"""A word from its characters: by a convolution (ESAN, section 2.1) or a bidirectional LSTM (CSRAN, section 2.1)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import ModelConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.matmul import PRECISIONS, matmul, over_features
from jaxmatch.layers.pooling import final_states


class CharacterConvolution(nn.Module):
    """A convolution over a word's characters, ReLU, and the largest value of each filter.

    Arguments:
      features: number of filters.
      width: characters a filter sees; odd.
      precision: of the matrix products.
    """

    features: int
    width: int = 5
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """embedded <float32 or bfloat16>[words, characters, size], mask <bool>[words, characters] -> <alike>[words,
        features].
        """
        shape = (self.width, embedded.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        # Characters lie before words: of an array's last two axes, a TPU would fill 16 characters up to 128.
        embedded, mask = jnp.swapaxes(embedded, 0, 1), mask.T[..., None]
        around = self.width // 2
        padded = jnp.pad(jnp.where(mask, embedded, 0), ((around, around), (0, 0), (0, 0)))
        windows = [padded[first : first + len(embedded)] for first in range(self.width)]
        # One product of the windows: products that are shifted and summed would be `width` times as wide.
        filtered = matmul(jnp.concatenate(windows, axis=-1), kernel.reshape(-1, self.features), self.precision)
        return jnp.max(jnp.where(mask, nn.relu(filtered + over_features(bias, filtered)), 0), axis=0)


class CharacterLstm(nn.Module):
    """The states of a bidirectional LSTM at both ends of a word.

    Arguments:
      features: of both directions together; even.
      precision: of the matrix products.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """As `CharacterConvolution`, but -> <float32>[words, features].

        Raises:
          InputError: if the number of features is odd.
        """
        if self.features % 2:
            raise InputError(
                f"{self.features} character features cannot be shared by two directions", remedy="give an even number"
            )
        states = Lstm(self.features // 2, precision=self.precision)((embedded,), mask.astype(jnp.int8))
        return final_states(states, mask)


CHARACTER_ENCODERS = {"cnn": CharacterConvolution, "bilstm": CharacterLstm}


class CharacterFeatures(nn.Module):
    """Trained embeddings of characters, encoded to a vector for each word.

    Arguments:
      config: its `characters`, `character_features`, `known_characters` and `precision` count.
      size: of a character's embedding.
    """

    config: ModelConfig
    size: int = 20

    @nn.compact
    def __call__(self, characters: jax.Array) -> jax.Array:
        """characters: <int32>[batch, length, characters of a word], 0 is padding -> <float32 or bfloat16>[batch,
        length, features].
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

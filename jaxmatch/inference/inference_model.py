"""A model with its parameters and word vectors: turns word ids into logits."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.vocabulary import WordTable
from jaxmatch.devices import compiler_options
from jaxmatch.inference.padding import MANY_LENGTHS, pad_batch, padded_size, token_rows
from jaxmatch.layers import weights
from jaxmatch.layers.matmul import products_for

# Threads that share a model share one predictor, too.
_making_a_predictor = threading.Lock()


@dataclasses.dataclass(frozen=True)
class InferenceModel:
    """A trained model.

    Attributes:
      module: the model (jaxmatch/models).
      params: its parameters, of one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids point into.
      characters: <uint16 or uint32>[words, 16], the characters of the same words (data/characters.py), for a model
        that takes them.
      optimize_for_cpu: whether a model on a CPU takes the shortcuts of jaxmatch/inference/cpu. They use more memory:
        for RE2 with the paper's setting for SNLI 16.2 kB a word, at most 1 GiB for all models of a process.
    """

    module: nn.Module
    params: Any
    vectors: jax.Array | np.ndarray
    characters: jax.Array | np.ndarray | None = None
    optimize_for_cpu: bool = True

    def __post_init__(self):
        # Moved to the device once, not with every batch.
        object.__setattr__(self, "params", jax.device_put(self.params))
        object.__setattr__(self, "vectors", jnp.asarray(self.vectors, jnp.float32))
        if self.characters is not None:
            object.__setattr__(self, "characters", jnp.asarray(self.characters))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: the fields, not the compiled programs."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def batch_size(self) -> int:
        """Pairs of a batch: few on a CPU, so that arrays stay in its caches; elsewhere enough to fill the device."""
        return 32 if is_on_cpu(self.vectors) else 256

    @property
    def words(self) -> jax.Array | WordTable:
        """The words as the module takes them."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    def words_with(self, vectors: np.ndarray, characters: np.ndarray | None) -> jax.Array | WordTable:
        """The model's words and new ones.

        The number of new words is padded to a power of two, so that few programs are compiled.

        Arguments:
          vectors: <float32>[new words, dimensions]; 0 for a word without a vector.
          characters: <integer>[new words, 16] for a model that takes characters, otherwise None.
        """
        padding = padded_size(len(vectors)) - len(vectors)

        def extended(table: jax.Array, rows: np.ndarray) -> jax.Array:
            return jnp.concatenate([table, jnp.asarray(np.pad(rows, ((0, padding), (0, 0))), table.dtype)])

        table = extended(self.vectors, vectors)
        return table if characters is None else WordTable(table, extended(self.characters, characters))

    @functools.cached_property
    def folded(self) -> tuple[nn.Module, Any]:
        """The module and parameters with weight normalization folded into the kernels."""
        if self.module.config.weight_normalization == "none":
            return self.module, self.params
        config = dataclasses.replace(self.module.config, weight_normalization="none")
        return self.module.clone(config=config), jax.jit(weights.folded)(self.params)

    def logits(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
        lengths: int = MANY_LENGTHS,
    ) -> np.ndarray:
        """Matches pairs of padded sentences.

        Batches are padded to powers of two and rows to a few lengths (padding.py), so that few programs are compiled.

        Arguments:
          ids_a: <int32>[batch, length_a], 0 = padding.
          ids_b: <int32>[batch, length_b].
          features: name -> <integer>[batch, length_a] and [batch, length_b], the other features of the tokens that the
            module takes (`module.token_features`).
          words: a table that begins with the model's own words and has more (`words_with`); None: the model's own.
          lengths: how many there are between two powers of two; of few pairs `FEW_LENGTHS`.

        Returns:
          <float32>[batch, outputs].

        Raises:
          InputError: if the shapes do not fit, an id is outside the table, or a feature is missing.
        """
        words = self.words if words is None else words
        tokens, sentences = self.inputs(ids_a, ids_b, features, words, lengths)
        batch = len(sentences)
        if tokens["ids"].max(initial=0) < self.vectors.shape[0]:
            words = self.words  # no new word is in this batch
        return np.asarray(self.predictor(words, *pad_batch(tokens, sentences)))[:batch]

    def inputs(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
        lengths: int = MANY_LENGTHS,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Tokens and sentences for the module's `match`, as `padding.token_rows` returns them."""
        table = self.words if words is None else words
        vectors = table.vectors if isinstance(table, WordTable) else table
        return token_rows(ids_a, ids_b, features, vectors.shape[0], lengths)

    @property
    def predictor(self) -> Callable[[Any, dict[str, jax.Array], jax.Array], jax.Array]:
        """(words, tokens, sentences) -> logits <float32>[batch, outputs]; on a CPU what `cpu.prepare` returns."""
        with _making_a_predictor:  # from Python 3.12 on, `cached_property` has no lock of its own
            return self._predictor

    @functools.cached_property
    def _predictor(self) -> Callable[[Any, dict[str, jax.Array], jax.Array], jax.Array]:
        if self.optimize_for_cpu and is_on_cpu(self.vectors):
            from jaxmatch.inference.cpu import prepare  # not imported for other devices

            return prepare(*self.folded, self.vectors)
        (device, *_) = self.vectors.devices()
        module, params = self.folded
        return functools.partial(_match(module, device.platform), params)


def is_on_cpu(array: jax.Array) -> bool:
    """Whether an array is in the memory of CPUs alone."""
    return all(device.platform == "cpu" for device in array.devices())


@functools.cache
def _match(module: nn.Module, platform: str) -> Callable[..., jax.Array]:
    """`match` of a model, jitted for devices of a platform: (params, words, tokens, sentences) -> logits."""

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with products_for(platform):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    return jax.jit(match, compiler_options=compiler_options(platform) or None)

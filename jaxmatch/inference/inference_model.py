"""A model with its parameters and word vectors, which converts word ids to logits."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.text import WordTable
from jaxmatch.devices import compiler_options
from jaxmatch.inference.padding import MANY_LENGTHS, pad_batch, padded_size, token_rows
from jaxmatch.layers import core

# Threads that share a model also share its predictor.
_predictor_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class InferenceModel:
    """A trained model.

    Attributes:
      module: the model (jaxmatch/models).
      params: the parameters of the model, from one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids index.
      characters: <uint16 or uint32>[words, 16], the characters of the same words (`character_table`), for a model
        that takes characters; otherwise None.
      optimize_for_cpu: whether a model on a CPU uses the optimizations of jaxmatch/inference/cpu. They use more memory:
        16.2 kB per word for RE2 with the paper's setting for SNLI, at most 1 GiB for all models of a process.
    """

    module: nn.Module
    params: Any
    vectors: jax.Array | np.ndarray
    characters: jax.Array | np.ndarray | None = None
    optimize_for_cpu: bool = True

    def __post_init__(self):
        # Arrays are moved to the device once, not with every batch.
        object.__setattr__(self, "params", jax.device_put(self.params))
        object.__setattr__(self, "vectors", jnp.asarray(self.vectors, jnp.float32))
        if self.characters is not None:
            object.__setattr__(self, "characters", jnp.asarray(self.characters))

    def __getstate__(self) -> dict[str, Any]:
        """Returns the fields, so that compiled programs are neither pickled nor copied."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def batch_size(self) -> int:
        """The number of pairs in a batch: few on a CPU, where arrays stay in caches; else enough to fill the device."""
        return 32 if is_on_cpu(self.vectors) else 256

    @property
    def words(self) -> jax.Array | WordTable:
        """The words of the model, as the module takes them."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    def words_with(self, vectors: np.ndarray, characters: np.ndarray | None) -> jax.Array | WordTable:
        """Returns the model's words, followed by new words.

        The number of new words is padded to 8 or a larger power of two, so that few programs are compiled.

        Arguments:
          vectors: <float32>[new words, dimensions], the vectors of the new words; 0 for a word without a vector.
          characters: <integer>[new words, 16], their characters, for a model that takes characters; otherwise None.
        """
        padding = padded_size(len(vectors)) - len(vectors)

        def extended(table: jax.Array, rows: np.ndarray) -> jax.Array:
            return jnp.concatenate([table, jnp.asarray(np.pad(rows, ((0, padding), (0, 0))), table.dtype)])

        table = extended(self.vectors, vectors)
        return table if characters is None else WordTable(table, extended(self.characters, characters))

    @functools.cached_property
    def folded(self) -> tuple[nn.Module, Any]:
        """The module and its parameters with weight normalization folded into the kernels."""
        if self.module.config.weight_normalization == "none":
            return self.module, self.params
        config = dataclasses.replace(self.module.config, weight_normalization="none")
        return self.module.clone(config=config), jax.jit(core.fold_weight_norm)(self.params)

    def logits(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
        lengths: int = MANY_LENGTHS,
    ) -> np.ndarray:
        """Computes the logits of pairs of padded sentences.

        Batches are padded to powers of two and rows to a few lengths (padding.py), so that few programs are compiled.

        Arguments:
          ids_a: <int32>[batch, length_a], word ids of the first sentences; 0 is padding.
          ids_b: <int32>[batch, length_b], word ids of the second sentences.
          features: name -> <integer>[batch, length_a] and [batch, length_b], the other features of the tokens that the
            module takes (`module.token_features`).
          words: a table of the model's own words followed by new words (`words_with`); None: the model's own words.
          lengths: the number of steps of the padded length from one power of two to the next (padding.py). For few
            pairs, use `FEW_LENGTHS`.

        Returns:
          The logits, <float32>[batch, outputs].

        Raises:
          InputError: the shapes do not fit, an id is outside the table, or a feature is missing.
        """
        words = self.words if words is None else words
        tokens, sentences = self.inputs(ids_a, ids_b, features, words, lengths)
        batch = len(sentences)
        if tokens["ids"].max(initial=0) < self.vectors.shape[0]:
            words = self.words  # this batch has no new words
        return np.asarray(self.predictor(words, *pad_batch(tokens, sentences)))[:batch]

    def inputs(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
        lengths: int = MANY_LENGTHS,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns tokens and sentences for the module's `match`, as `padding.token_rows` makes them."""
        table = self.words if words is None else words
        vectors = table.vectors if isinstance(table, WordTable) else table
        return token_rows(ids_a, ids_b, features, vectors.shape[0], lengths)

    @property
    def predictor(self) -> Callable[[Any, dict[str, jax.Array], jax.Array], jax.Array]:
        """The function (words, tokens, sentences) -> logits <float32>[batch, outputs]; on a CPU by `cpu.prepare`."""
        with _predictor_lock:  # from Python 3.12 on, `cached_property` has no lock of its own
            return self._predictor

    @functools.cached_property
    def _predictor(self) -> Callable[[Any, dict[str, jax.Array], jax.Array], jax.Array]:
        if self.optimize_for_cpu and is_on_cpu(self.vectors):
            from jaxmatch.inference.cpu import prepare  # other devices do not need it

            return prepare(*self.folded, self.vectors)
        (device, *_) = self.vectors.devices()
        module, params = self.folded
        return functools.partial(_match(module, device.platform), params)


def is_on_cpu(array: jax.Array) -> bool:
    """Returns whether an array is in the memory of CPUs alone."""
    return all(device.platform == "cpu" for device in array.devices())


@functools.cache
def _match(module: nn.Module, platform: str) -> Callable[..., jax.Array]:
    """Returns `match` of a model, jitted for a platform: (params, words, tokens, sentences) -> logits."""

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with core.traced_for(platform):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    return jax.jit(match, compiler_options=compiler_options(platform) or None)

"""A model with its parameters and word vectors, which converts word ids to logits."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.encoding import pair_rows
from jaxmatch.data.text import WordTable
from jaxmatch.devices import check_not_forked, compiler_options
from jaxmatch.errors import InputError
from jaxmatch.layers import core

_SMALLEST = 8
# The number of steps of the padded length from one power of two to the next. Many steps need less padding. Few steps
# need fewer programs: a program takes seconds to compile, and a third of a second to load in the next process.
MANY_LENGTHS, FEW_LENGTHS = 4, 2
# Batches of rows this long are not padded: eight rows instead of one would take eight times the memory.
_LONG = 1024


def padded_size(size: int, steps: int = 1) -> int:
    """Returns the smallest allowed size >= `size`.

    The smallest allowed size is 8. From there, at most `steps` equal steps lead from each power of two to the next.
    """
    power = 1 << max(0, size - 1).bit_length()
    step = max(4, power // (2 * steps))
    return max(_SMALLEST, -(-size // step) * step)


def padded_batch_size(batch: int, length: int) -> int:
    """Returns the number of rows that a batch of rows of this length is padded to."""
    return batch if length >= _LONG else padded_size(batch)


def pad_batch(tokens: dict[str, np.ndarray], sentences: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Adds rows of padding to the results of `token_rows`, up to `padded_batch_size`."""
    more = padded_batch_size(*sentences.shape) - len(sentences)
    if more == 0:
        return tokens, sentences
    return jax.tree.map(lambda values: np.pad(values, ((0, more), (0, 0))), (tokens, sentences))


def token_rows(
    ids_a: np.ndarray,
    ids_b: np.ndarray,
    features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None,
    words: int,
    lengths: int = MANY_LENGTHS,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Puts the tokens of both sentences of a pair in one row, and pads all rows to one of a few lengths.

    Arguments:
      ids_a: <integer>[batch, length_a], word ids of the first sentences; 0 is padding.
      ids_b: <integer>[batch, length_b], word ids of the second sentences.
      features: name -> <integer>[batch, length_a] and [batch, length_b], other features of the tokens.
      words: the size of the vocabulary; all ids are below it.
      lengths: the number of steps of the padded length from one power of two to the next.

    Returns:
      tokens: 'ids' and the features, each <int32>[batch, length].
      sentences: <int8>[batch, length], the sentence of a token, 1 or 2; 0 is padding.

    Raises:
      InputError: the shapes do not fit, the type of an array is not an integer, or an id is not in the vocabulary.
    """
    ids_a, ids_b = _checked(ids_a, words, "ids_a"), _checked(ids_b, words, "ids_b")
    if ids_b.shape[0] != ids_a.shape[0]:
        raise InputError(
            f"ids_a has {ids_a.shape[0]} rows and ids_b has {ids_b.shape[0]}", remedy="give one row a pair in each"
        )
    (kept_a, lengths_a), (kept_b, lengths_b) = _without_end_padding(ids_a), _without_end_padding(ids_b)
    length = padded_size(int((lengths_a + lengths_b).max(initial=1)), steps=lengths)
    ids, sentences = pair_rows(ids_a[kept_a], lengths_a, ids_b[kept_b], lengths_b, length)
    sentences[ids == 0] = 0  # there may be padding inside a sentence, too
    tokens = {"ids": ids}
    for name, (first, second) in (features or {}).items():
        first, second = _checked_feature(first, ids_a, name), _checked_feature(second, ids_b, name)
        tokens[name], _ = pair_rows(first[kept_a], lengths_a, second[kept_b], lengths_b, length)
    return tokens, sentences


def _checked(ids: np.ndarray, words: int, name: str) -> np.ndarray:
    ids = np.asarray(ids)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{name} is {ids.dtype} of shape {ids.shape}", remedy="give integers of shape (batch, length)")
    if ids.size and not (0 <= ids.min() and ids.max() < words):
        raise InputError(f"{name} holds ids from {ids.min()} to {ids.max()}", remedy=f"give ids from 0 to {words - 1}")
    return ids.astype(np.int32)


def _without_end_padding(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a mask of the positions before the end padding <bool>[batch, length], and their number <int>[batch]."""
    positions = np.arange(1, ids.shape[1] + 1)
    lengths = np.max(np.where(ids > 0, positions, 0), axis=1, initial=0)
    return positions <= lengths[:, None], lengths


def _checked_feature(values: np.ndarray, ids: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.shape != ids.shape or not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"{name} of the tokens is {values.dtype} of shape {values.shape}",
            remedy=f"give integers of shape {ids.shape}, as the ids",
        )
    return values.astype(np.int32)


# The maximum number of attention weights of a batch. Such an array takes 256 MiB, and a model holds several of them.
_MOST_ATTENTION_WEIGHTS = 2**26


def batches(sides_a: Sequence[Sequence[int]], sides_b: Sequence[Sequence[int]], most: int) -> Iterator[np.ndarray]:
    """Yields batches of pairs of similar length, the shortest pairs first. Batches of very long pairs are smaller.

    Arguments:
      sides_a: the tokens of the first texts.
      sides_b: the tokens of the second texts.
      most: the maximum number of pairs in a batch.

    Returns:
      An iterator over the batches: <int64>[pairs], the indices of the pairs in a batch.
    """
    tokens = np.array([len(a) + len(b) for a, b in zip(sides_a, sides_b, strict=True)], np.int64)
    order, start = np.argsort(tokens, kind="stable"), 0
    while start < len(order):
        size = min(most, len(order) - start)
        # Attention has a weight for every two tokens of a row.
        while size > 1 and size * tokens[order[start + size - 1]] ** 2 > _MOST_ATTENTION_WEIGHTS:
            size -= 1
        yield order[start : start + size]
        start += size


# Threads that share a model also share its predictor.
_predictor_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class InferenceModel:
    """A trained model.

    Attributes:
      module: the model (jaxmatch/models).
      params: the parameters of the model, from one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids index.
      characters: <uint16 or uint32>[words, 16], the characters of the same words (data/characters.py), for a model
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
          RuntimeError: this process was forked after JAX was used.
        """
        check_not_forked()
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

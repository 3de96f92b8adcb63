"""Pads pairs of sentences to a few shapes, since a program is compiled for each shape."""

from collections.abc import Mapping

import jax
import numpy as np

from jaxmatch.data.rows import pair_rows
from jaxmatch.errors import InputError

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

"""Pairs of padded sentences as rows of tokens, of few shapes: for each shape a program is compiled."""

from collections.abc import Mapping

import jax
import numpy as np

from jaxmatch.data.rows import side_by_side
from jaxmatch.errors import InputError

_SMALLEST = 8
# Rows as long as this are computed as they come: filled up to eight they would need the memory of eight.
_LONG = 1024


def room(extent: int, steps: int = 1) -> int:
    """The smallest extent, from 8 on, that holds `extent`: a power of two, or one of `steps` sizes between two powers."""
    power = 1 << max(0, extent - 1).bit_length()
    step = max(4, power // (2 * steps))
    return max(_SMALLEST, -(-extent // step) * step)


def rows_for(batch: int, length: int) -> int:
    """How many rows a batch of a length is filled up to, so that few programs are compiled."""
    return batch if length >= _LONG else room(batch)


def token_rows(
    ids_a: np.ndarray, ids_b: np.ndarray, features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None, words: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Lays the tokens of each pair side by side in a row that is padded to one of few lengths.

    Arguments:
      ids_a: <integer>[batch, length_a], 0 = padding.
      ids_b: <integer>[batch, length_b].
      features: name -> <integer>[batch, length_a] and [batch, length_b], what else is known of each token.
      words: ids are below it.

    Returns:
      tokens, 'ids' <int32>[batch, length] and each of the features alike, and sentences <int8>[batch, length]: 1 or 2, which
      sentence a token is of; 0 is padding.

    Raises:
      InputError: if the shapes do not fit, or an id is outside the table.
    """
    ids_a, ids_b = _checked(ids_a, words, "ids_a"), _checked(ids_b, words, "ids_b")
    if ids_b.shape[0] != ids_a.shape[0]:
        raise InputError(f"ids_a has {ids_a.shape[0]} rows and ids_b has {ids_b.shape[0]}", remedy="give one row a pair in each")
    (there_a, lengths_a), (there_b, lengths_b) = _before_padding(ids_a), _before_padding(ids_b)
    length = room(int((lengths_a + lengths_b).max(initial=1)), steps=4)
    ids, sentences = side_by_side(ids_a[there_a], lengths_a, ids_b[there_b], lengths_b, length)
    sentences[ids == 0] = 0  # padding may stand inside a sentence, too
    tokens = {"ids": ids}
    for name, (first, second) in (features or {}).items():
        first, second = _checked_feature(first, ids_a, name), _checked_feature(second, ids_b, name)
        tokens[name], _ = side_by_side(first[there_a], lengths_a, second[there_b], lengths_b, length)
    return tokens, sentences


def filled(tokens: dict[str, np.ndarray], sentences: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What `token_rows` gives, with rows of padding below up to `rows_for` the batch."""
    more = rows_for(*sentences.shape) - len(sentences)
    if more == 0:
        return tokens, sentences
    return jax.tree.map(lambda values: np.pad(values, ((0, more), (0, 0))), (tokens, sentences))


def _checked(ids: np.ndarray, words: int, name: str) -> np.ndarray:
    ids = np.asarray(ids)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{name} is {ids.dtype} of shape {ids.shape}", remedy="give integers of shape (batch, length)")
    if ids.size and not (0 <= ids.min() and ids.max() < words):
        raise InputError(f"{name} holds ids from {ids.min()} to {ids.max()}", remedy=f"give ids from 0 to {words - 1}")
    return ids.astype(np.int32)


def _before_padding(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What stands before the padding at the end of each row: where <bool>[batch, length], how much <int>[batch]."""
    places = np.arange(1, ids.shape[1] + 1)
    lengths = np.max(np.where(ids > 0, places, 0), axis=1, initial=0)
    return places <= lengths[:, None], lengths


def _checked_feature(values: np.ndarray, ids: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.shape != ids.shape or not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"{name} of the tokens is {values.dtype} of shape {values.shape}", remedy=f"give integers of shape {ids.shape}, as the ids"
        )
    return values.astype(np.int32)

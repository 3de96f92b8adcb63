"""Pairs of texts as the inputs of a model: word ids and other features of the tokens."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from jaxmatch.data.text import (
    PADDING,
    PADDING_WORD,
    UNKNOWN,
    UNKNOWN_WORD,
    Preprocessing,
    Vocabulary,
    WordTable,
    exact_matches_of,
    tags,
)

# Name -> the feature of each token of the first texts, and of each token of the second texts.
Features = dict[str, tuple[list[list[int]], list[list[int]]]]


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Pairs of texts as word ids.

    Attributes:
      sides: the word ids of the first texts and of the second texts.
      features: name -> the feature of each token, for the first texts and for the second texts.
      words: the table that the ids index.
    """

    sides: tuple[list[list[int]], list[list[int]]]
    features: Mapping[str, tuple[list[list[int]], list[list[int]]]]
    words: jax.Array | WordTable

    def batch(
        self, rows: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Returns the padded ids and features of the pairs `rows`, as `InferenceModel.logits` takes them."""
        ids_a, ids_b = (padded([side[row] for row in rows]) for side in self.sides)
        features = {
            name: (padded([a[row] for row in rows]), padded([b[row] for row in rows]))
            for name, (a, b) in self.features.items()
        }
        return ids_a, ids_b, features


def padded(rows: list[list[int]]) -> np.ndarray:
    """Returns the rows as <int32>[batch, length of the longest row], padded at the end."""
    result = np.full((len(rows), max(map(len, rows))), PADDING, np.int32)
    for number, row in enumerate(rows):
        result[number, : len(row)] = row
    return result


def word_ids(
    pairs: Sequence[tuple[str, str]], vocabulary: Vocabulary, preprocessing: Preprocessing, new: dict[str, int] | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Converts pairs of texts to the word ids of the first texts and of the second texts.

    Arguments:
      pairs: pairs of texts.
      vocabulary: the known words.
      preprocessing: how texts become tokens.
      new: a dict that receives the words outside the vocabulary. Their ids follow those of the vocabulary. None: such
        words have the id of the unknown word.

    Raises:
      TypeError: an element is not a pair of two strings.
    """
    known: dict[str, list[int]] = {}  # a text may be in many pairs, but is tokenized once

    def ids_of(text: str) -> list[int]:
        if text not in known:
            tokens = preprocessing.tokens(text)
            known[text] = vocabulary.ids(tokens)
            if new is not None:
                known[text] = [number_of(token, number) for token, number in zip(tokens, known[text], strict=True)]
        return known[text]

    def number_of(token: str, number: int) -> int:
        if number != UNKNOWN or token in (PADDING_WORD, UNKNOWN_WORD):
            return number
        return new.setdefault(token, len(vocabulary) + len(new))

    sides_a, sides_b = [], []
    for number, pair in enumerate(pairs):
        listed = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str)
        if not listed or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError(f"element {number} is {pair!r}, not a pair of two strings")
        sides_a.append(ids_of(pair[0]))
        sides_b.append(ids_of(pair[1]))
    return sides_a, sides_b


def token_features(names: Sequence[str], pairs: Sequence[tuple[str, str]], preprocessing: Preprocessing) -> Features:
    """Computes the features besides word ids that a model takes. Most models take none.

    Arguments:
      names: the names of the features, "tags" and "exact_match" (`PairModel.token_features`).
      pairs: pairs of texts.
      preprocessing: how texts become tokens.

    Raises:
      InputError: the model takes parts of speech, and the model of NLTK's tagger is not installed.
    """
    found = {}
    if "tags" in names:
        tags_of = functools.cache(lambda text: tags(text, preprocessing))
        found["tags"] = tuple([tags_of(pair[side]) for pair in pairs] for side in (0, 1))
    if "exact_match" in names:
        tokens_of = functools.cache(preprocessing.tokens)
        marks = [exact_matches_of(tokens_of(text_a), tokens_of(text_b)) for text_a, text_b in pairs]
        found["exact_match"] = tuple([mark[side] for mark in marks] for side in (0, 1))
    return found

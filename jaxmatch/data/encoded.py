"""A data set as arrays."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmatch.data import catalog, rows
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import Vocabulary, WordTable


@dataclasses.dataclass(frozen=True)
class EncodedSplit:
    """The pairs of one split as numbers; the token columns are laid end to end.

    Attributes:
      tokens_a: <int32>[total_a], word ids of all first sentences.
      offsets_a: <int64>[pairs + 1], where each begins; the last entry is `total_a`.
      tokens_b, offsets_b: the same for the second sentences.
      labels: <int32>[pairs], positions in the data set's label names, or <float32>[pairs] for a regression.
      groups: <int32>[pairs], what a candidate competes in, numbered in order of appearance; or None.
      documents: <unicode>[pairs], the candidate's name, or None.
      tags_a, tags_b: <uint8>, the part of speech of each token (data/tagging.py), or None.
      exact_match_a, exact_match_b: <int8>, 1 for a token of both sentences (data/exact_match.py); or None.
    """

    tokens_a: np.ndarray
    offsets_a: np.ndarray
    tokens_b: np.ndarray
    offsets_b: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    documents: np.ndarray | None = None
    tags_a: np.ndarray | None = None
    tags_b: np.ndarray | None = None
    exact_match_a: np.ndarray | None = None
    exact_match_b: np.ndarray | None = None

    @property
    def pairs(self) -> int:
        return len(self.offsets_a) - 1

    @property
    def lengths_a(self) -> np.ndarray:
        """<int32>[pairs], tokens of each first sentence; 1 or more."""
        return np.diff(self.offsets_a).astype(np.int32)

    @property
    def lengths_b(self) -> np.ndarray:
        """<int32>[pairs], tokens of each second sentence; 1 or more."""
        return np.diff(self.offsets_b).astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """<int32>[pairs], tokens of both sentences of a pair together; 2 or more."""
        return self.lengths_a + self.lengths_b

    def side_by_side(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs as rows: the tokens of the first sentence, then those of the second, then padding.

        Returns:
          ids <int32>[pairs, longest] and sentences <int8>[pairs, longest]: 1 or 2, which sentence a token is of; 0 is
          padding.
        """
        return self._laid(self.tokens_a, self.tokens_b)

    def features(self) -> dict[str, np.ndarray]:
        """The features of each token, in the same rows: 'tags' <uint8>[pairs, longest] and 'exact_match'
        <int8>[pairs, longest], those that the data was encoded with.
        """
        known = {"tags": (self.tags_a, self.tags_b), "exact_match": (self.exact_match_a, self.exact_match_b)}
        return {name: self._laid(*sides)[0] for name, sides in known.items() if sides[0] is not None}

    def _laid(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows.side_by_side(first, self.lengths_a, second, self.lengths_b, int(self.lengths.max(initial=0)))


@dataclasses.dataclass(frozen=True)
class EncodedData:
    """A data set ready for training.

    Attributes:
      name, task: as in the catalog.
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: 'train', 'dev', 'test' (those there are) -> EncodedSplit.
      vocabulary: the words behind the ids.
      vectors: <float32>[words, dimensions]; rows of padding, of the unknown word and of words without a vector are 0.
      preprocessing: how the text was read.
      report: plain values for records: `counts`, `dropped`, `coverage`, `vectors`, `broken_vector_lines`, ...
      fingerprint: a hash of everything the arrays were made from.
      characters: <uint16 or uint32>[words, 16], the characters of each word (data/characters.py), or None.
      files: 'train', 'dev', 'test' (and companions) -> SHA-256 of the file it was read from; nothing of embedded data.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: Mapping[str, EncodedSplit]
    vocabulary: Vocabulary
    vectors: np.ndarray
    preprocessing: Preprocessing
    report: Mapping[str, Any]
    fingerprint: str
    characters: np.ndarray | None = None
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for a pair: one a class, or 1 in a regression."""
        return 1 if self.task == "regression" else len(self.labels)

    @property
    def word_table(self) -> np.ndarray | WordTable:
        """What a model is given as word vectors: with the characters of each word, if the data has them."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    @property
    def filtered(self) -> bool:
        """Whether only questions with right and wrong candidates count in the scores of a ranking."""
        return catalog.filtered(self.name)

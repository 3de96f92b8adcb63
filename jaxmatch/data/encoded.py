"""Data sets encoded as arrays."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmatch.data import catalog, rows
from jaxmatch.data.text import Preprocessing, Vocabulary, WordTable


@dataclasses.dataclass(frozen=True)
class EncodedSplit:
    """The pairs of one split as numbers. The tokens of all sentences of one side are concatenated.

    Attributes:
      tokens_a: <int32>[total_a], the word ids of all first sentences.
      offsets_a: <int64>[pairs + 1], the start of each first sentence in `tokens_a`; the last entry is `total_a`.
      tokens_b, offsets_b: the same for the second sentences.
      labels: <int32>[pairs], indices in the label names of the data set, or <float32>[pairs] for a regression.
      groups: <int32>[pairs], the group in which each candidate is ranked, numbered in order of appearance; or None.
      documents: <unicode>[pairs], the name of each candidate, or None.
      tags_a, tags_b: <uint8>, the part of speech of each token (`tags`), or None.
      exact_match_a, exact_match_b: <int8>, 1 for a token that is in both sentences (`exact_matches`); or None.
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
        """The number of tokens in each first sentence, <int32>[pairs]; 1 or more."""
        return np.diff(self.offsets_a).astype(np.int32)

    @property
    def lengths_b(self) -> np.ndarray:
        """The number of tokens in each second sentence, <int32>[pairs]; 1 or more."""
        return np.diff(self.offsets_b).astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens in both sentences of each pair together, <int32>[pairs]; 2 or more."""
        return self.lengths_a + self.lengths_b

    def pair_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Lays out each pair as a row: the tokens of the first sentence, then those of the second, then padding.

        Returns:
          ids <int32>[pairs, longest] and sentences <int8>[pairs, longest]: the sentence of each token, 1 or 2; 0 is
          padding.
        """
        return self._lay_out(self.tokens_a, self.tokens_b)

    def features(self) -> dict[str, np.ndarray]:
        """Returns the features of each token in the rows of `pair_rows`: 'tags' <uint8>[pairs, longest] and
        'exact_match' <int8>[pairs, longest], if the data was encoded with them.
        """
        known = {"tags": (self.tags_a, self.tags_b), "exact_match": (self.exact_match_a, self.exact_match_b)}
        return {name: self._lay_out(*sides)[0] for name, sides in known.items() if sides[0] is not None}

    def _lay_out(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows.pair_rows(first, self.lengths_a, second, self.lengths_b, int(self.lengths.max(initial=0)))


@dataclasses.dataclass(frozen=True)
class EncodedData:
    """An encoded data set, ready for training.

    Attributes:
      name, task: the name and the task of the data set (`DataSet`).
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: 'train', 'dev', 'test' (those that exist) -> EncodedSplit.
      vocabulary: the words behind the ids.
      vectors: <float32>[words, dimensions]; the rows of padding, the unknown word and words without a vector are 0.
      preprocessing: how the texts became tokens.
      report: plain values for records: `counts`, `dropped`, `in_train`, `coverage`, `vectors`, ...
      fingerprint: a hash of everything that the arrays were made from, except the characters.
      characters: <uint16 or uint32>[words, 16], the characters of each word (`character_table`), or None. They depend
        on the model, too, which may not take them, or know only some.
      files: 'train', 'dev', 'test' (and companions) -> the SHA-256 of its file; empty for embedded data.
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

    @functools.cached_property
    def content(self) -> str:
        """The fingerprint and, if there are characters, a hash of them. It is equal only for equal data."""
        if self.characters is None:
            return self.fingerprint
        return f"{self.fingerprint}-{hashlib.sha256(self.characters.tobytes()).hexdigest()[:16]}"

    @property
    def outputs(self) -> int:
        """The number of outputs of a model for a pair: one per class, or 1 for a regression."""
        return 1 if self.task == "regression" else len(self.labels)

    @property
    def word_table(self) -> np.ndarray | WordTable:
        """The word vectors for a model, together with the characters of each word if the data has them."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    @property
    def filtered(self) -> bool:
        """Whether only questions with right and wrong candidates count in the scores of a ranking."""
        return catalog.filtered(self.name)

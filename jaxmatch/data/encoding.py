"""Text to arrays: the settings that decide it and the arrays that come out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import PADDING, Vocabulary


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """Which data, and how its text becomes numbers.

    Attributes:
      name: a name of the catalog, or 'own'.
      directory: the folder with the data files; not needed for embedded data.
      task: for own data, 'classification', 'regression' or 'ranking'; otherwise the catalog knows.
      vectors: a file of word vectors in GloVe's text layout (.txt, .txt.gz, .zip); '' takes the vectors that an
        embedded data set brings.
      tokenizer: a key of `jaxmatch.data.tokens.TOKENIZERS`.
      lowercase: whether tokens, and words of the vector file, are lower-cased.
      remove_punctuation: whether tokens that are nothing but punctuation are dropped.
      minimum_count: a word without a vector is kept when it occurs this often.
      maximum_length: tokens kept of a text, 0 for all.
    """

    name: str
    directory: str = ""
    task: str = ""
    vectors: str = ""
    tokenizer: str = "word"
    lowercase: bool = True
    remove_punctuation: bool = True
    minimum_count: int = 5
    maximum_length: int = 0

    @property
    def preprocessing(self) -> Preprocessing:
        """The part that a trained model must carry to read new text."""
        return Preprocessing(
            tokenizer=self.tokenizer,
            lowercase=self.lowercase,
            remove_punctuation=self.remove_punctuation,
            maximum_length=self.maximum_length,
        )


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
    """

    tokens_a: np.ndarray
    offsets_a: np.ndarray
    tokens_b: np.ndarray
    offsets_b: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    documents: np.ndarray | None = None

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

    def padded(self, side: str, length: int | None = None, rows: np.ndarray | None = None) -> np.ndarray:
        """Sentences as the rows of a table, filled with the padding id.

        Arguments:
          side: 'a' or 'b'.
          length: columns of the table; None for the longest sentence taken.
          rows: <int32>[count], the pairs to take, in this order; None for all.

        Returns:
          <int32>[pairs or count, length].

        Raises:
          ValueError: a sentence is longer than `length`.
        """
        if side not in ("a", "b"):
            raise ValueError(f"a pair has the sides 'a' and 'b', not {side!r}")
        tokens, offsets = (self.tokens_a, self.offsets_a) if side == "a" else (self.tokens_b, self.offsets_b)
        starts, ends = (offsets[:-1], offsets[1:]) if rows is None else (offsets[rows], offsets[np.asarray(rows) + 1])
        lengths = np.asarray(ends - starts)
        longest = int(lengths.max(initial=0))
        if length is None:
            length = longest
        elif longest > length:
            raise ValueError(f"a sentence of {longest} tokens does not fit {length} columns")
        columns = np.arange(length, dtype=np.int64)
        present = columns < lengths[:, None]
        table = np.full((len(lengths), length), PADDING, np.int32)
        table[present] = tokens[(np.asarray(starts)[:, None] + columns)[present]]
        return table


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

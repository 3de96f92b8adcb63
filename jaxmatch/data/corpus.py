"""The distinct texts and words of a data set."""

import itertools
from array import array
from collections.abc import Container, Iterable, Mapping

import numpy as np

from jaxmatch.data.dataset import DataSet
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import UNKNOWN_WORD, Vocabulary


class Corpus:
    """The distinct texts of a data set, each tokenized once.

    The corpus numbers its words itself. A word number is not the id of the word in a vocabulary.

    Arguments:
      data: the data set.
      preprocessing: how texts become tokens.

    Attributes:
      texts: the distinct texts.
      words: word -> number, in order of first appearance.
      tokens: <int32>[tokens], the word numbers of all distinct texts, concatenated.
      counts: <int64>[words], the occurrences in all splits; a text counts once for each time that a pair contains it.
      sentences: split -> side ('a', 'b') -> <int64>[pairs], indices in `texts`.
    """

    def __init__(self, data: DataSet, preprocessing: Preprocessing):
        texts: dict[str, int] = {}
        self.sentences: dict[str, dict[str, np.ndarray]] = {
            name: {"a": number_keys(split.text_a, texts), "b": number_keys(split.text_b, texts)}
            for name, split in data.splits.items()
        }
        self.texts = tuple(texts)
        self.words: dict[str, int] = {}
        numbers, flat, lengths = _Numbers(self.words, preprocessing), array("i"), array("q")
        longest = preprocessing.maximum_length or None
        truncate_left = bool(longest) and preprocessing.truncation_side == "left"
        for text in texts:
            # Pieces are numbered one by one, so that a word that occurs only in text that is cut off gets no number.
            pieces = preprocessing.pieces(text)
            kept = (
                number
                for piece in (reversed(pieces) if truncate_left else pieces)
                if (number := numbers[piece]) is not None
            )
            found = list(itertools.islice(kept, longest)) or [self.words.setdefault(UNKNOWN_WORD, len(self.words))]
            if truncate_left:
                found.reverse()
            lengths.append(len(found))
            flat.extend(found)
        self.tokens = np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32)
        self._offsets = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64) if lengths else [])])
        self._offsets = self._offsets.astype(np.int64)
        repeats = sum(
            np.bincount(side, minlength=len(texts)) for sides in self.sentences.values() for side in sides.values()
        )
        weights = np.repeat(repeats, np.diff(self._offsets))
        self.counts = np.bincount(self.tokens, weights, minlength=len(self.words)).astype(np.int64)

    def lengths(self, split: str, side: str) -> np.ndarray:
        """Returns the number of tokens in each text of one column, <int64>[pairs]."""
        return np.diff(self._offsets)[self.sentences[split][side]]

    def keep(self, split: str, rows: np.ndarray) -> None:
        """Removes all pairs of a split except those of the given rows. Texts, words and counts do not change.

        Arguments:
          rows: <int64>[kept], the indices of the pairs that stay.
        """
        self.sentences[split] = {side: column[rows] for side, column in self.sentences[split].items()}

    def column(self, split: str, side: str, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the texts of one column, concatenated.

        Arguments:
          ids: <int32>[words], the vocabulary id of each word number; None keeps the word numbers.

        Returns:
          tokens <int32>[total], offsets <int64>[pairs + 1].
        """
        positions, offsets = self.positions(split, side)
        tokens = self.tokens[positions]
        return (tokens if ids is None else ids[tokens]), offsets

    def positions(self, split: str, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions in `tokens` of the tokens of one column.

        Returns:
          positions <int64>[total], offsets <int64>[pairs + 1].
        """
        sentences = self.sentences[split][side]
        starts = self._offsets[sentences]
        lengths = self._offsets[sentences + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


class _Numbers(dict[str, int | None]):
    """A cache: piece of a text -> the number of the word it becomes, or None if the piece is dropped.

    The cache saves time because texts have many pieces, but few distinct ones.

    Arguments:
      words: word -> number; new words are added.
      preprocessing: how pieces become words.
    """

    def __init__(self, words: dict[str, int], preprocessing: Preprocessing):
        super().__init__()
        self._words, self._token = words, preprocessing.token

    def __missing__(self, piece: str) -> int | None:
        token = self._token(piece)
        self[piece] = None if token is None else self._words.setdefault(token, len(self._words))
        return self[piece]


def number_keys(keys: Iterable[str], numbers: dict[str, int]) -> np.ndarray:
    """Returns <int64>[keys], numbers in order of first appearance. New keys are added to `numbers`."""
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def coverage(counts: Mapping[str, int], words: Vocabulary, found: Container[str]) -> dict[str, float]:
    """Computes shares from 0 to 1: vocabulary words with a vector, tokens with a vector, tokens in the vocabulary."""
    kept = set(words.words[2:])
    occurrences = max(1, sum(counts.values()))
    return {
        "words_with_vector": sum(word in found for word in kept) / max(1, len(kept)),
        "tokens_with_vector": sum(count for word, count in counts.items() if word in found) / occurrences,
        "tokens_in_vocabulary": sum(count for word, count in counts.items() if word in kept) / occurrences,
    }

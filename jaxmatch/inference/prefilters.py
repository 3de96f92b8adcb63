"""Fast measures of similarity between texts, which choose the candidates that a model then ranks.

A prefilter is made by `of` or `load`. It has `scores(query)` -> <float32>[texts], and `save(folder)`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jaxmatch.data.text import UNKNOWN
from jaxmatch.data.vectors import hashed_vectors
from jaxmatch.errors import NotInstalled
from jaxmatch.inference import stored_arrays
from jaxmatch.inference.encoded_pairs import word_ids

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

_BLOCK = 4096


class MeanVectors:
    """A prefilter by the cosine of mean word vectors.

    Unknown words are left out. With hashed vectors, no word is unknown.

    Arguments:
      matcher: the model with the word vectors.
      means: <float32>[texts, dimensions], the mean vectors of the texts, scaled to length 1; 0 for a text without a
        known word.
    """

    def __init__(self, matcher: Matcher, means: np.ndarray):
        self._matcher, self._means = matcher, means

    @classmethod
    def of(cls, matcher: Matcher, texts: Sequence[str]) -> Self:
        """Builds the prefilter of texts."""
        blocks = [mean_vectors(matcher, texts[start : start + _BLOCK]) for start in range(0, len(texts), _BLOCK)]
        return cls(matcher, np.concatenate(blocks))

    @classmethod
    def load(cls, matcher: Matcher, folder: Path) -> Self:
        """Reads a prefilter that `save` wrote.

        Raises:
          OSError, ValueError: the file is missing or damaged.
        """
        means = stored_arrays.read_npy((folder / "means.npy").read_bytes(), "means.npy")
        dimensions = matcher.model.vectors.shape[1]
        if means.ndim != 2 or means.shape[1] != dimensions:
            raise ValueError(f"means.npy has shape {means.shape}; [texts, {dimensions}] is expected")
        return cls(matcher, means)

    def save(self, folder: Path) -> None:
        np.save(folder / "means.npy", self._means, allow_pickle=False)

    def scores(self, query: str) -> np.ndarray:
        return self._means @ mean_vectors(self._matcher, [query])[0]

    def __len__(self) -> int:
        return len(self._means)


def mean_vectors(matcher: Matcher, texts: Sequence[str]) -> np.ndarray:
    """Computes the mean vector of the known words of each text, scaled to length 1: <float32>[texts, dimensions]."""
    table = np.asarray(matcher.model.vectors)
    new: dict[str, int] = {}
    pairs = [(text, "") for text in texts]
    sides, _ = word_ids(pairs, matcher.vocabulary, matcher.preprocessing, new if matcher.hashed else None)
    ids = [np.array([number for number in numbers if number > UNKNOWN], np.int64) for numbers in sides]
    result = np.zeros((len(ids), table.shape[1]), np.float32)
    filled = [row for row, numbers in enumerate(ids) if numbers.size]
    if filled:
        starts = np.cumsum([0, *(ids[row].size for row in filled[:-1])])
        words = np.concatenate([ids[row] for row in filled])
        vectors = table[np.where(words < len(table), words, UNKNOWN)]
        if new:
            vectors[words >= len(table)] = hashed_vectors(list(new))[words[words >= len(table)] - len(table)]
        result[filled] = np.add.reduceat(vectors, starts)
    lengths = np.linalg.norm(result, axis=1, keepdims=True)
    return np.divide(result, lengths, out=result, where=lengths > 0)


class Bm25:
    """A prefilter by BM25, computed by the library bm25s. Words outside the vocabulary count as well.

    Arguments:
      matcher: the model, which tokenizes texts.
      index: the index of the texts, a `bm25s.BM25`.
    """

    def __init__(self, matcher: Matcher, index: Any):
        self._matcher, self._index = matcher, index

    @classmethod
    def of(cls, matcher: Matcher, texts: Sequence[str]) -> Self:
        """Builds the prefilter of texts."""
        index = _bm25s().BM25()
        index.index([list(matcher.tokens(text)) for text in texts], show_progress=False)
        return cls(matcher, index)

    @classmethod
    def load(cls, matcher: Matcher, folder: Path) -> Self:
        """Reads a prefilter that `save` wrote.

        Raises:
          OSError, ValueError, KeyError, TypeError: a file is missing or damaged, or another release of bm25s wrote it.
          InputError: the library bm25s is not installed.
        """
        return cls(matcher, _bm25s().BM25.load(str(folder), allow_pickle=False))

    def save(self, folder: Path) -> None:
        self._index.save(str(folder), allow_pickle=False)

    def scores(self, query: str) -> np.ndarray:
        known = [token for token in self._matcher.tokens(query) if token in self._index.vocab_dict]
        return self._index.get_scores(known) if known else np.zeros(len(self), np.float32)

    def __len__(self) -> int:
        return int(self._index.scores["num_docs"])


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise NotInstalled("BM25", "bm25s", "search", "or take the prefilter 'vectors'") from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it logs each step
    return bm25s


PREFILTERS = {"vectors": MeanVectors, "bm25": Bm25}

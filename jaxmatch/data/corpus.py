"""The distinct texts and words of a data set."""

from array import array
from collections.abc import Container, Iterable, Mapping

import numpy as np

from jaxmatch.data.dataset import DataSet
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import Vocabulary


class Corpus:
    """The distinct texts of a data set as word numbers of its own, each tokenised once.

    Arguments:
      data: the texts.
      preprocessing: how they are read.

    Attributes:
      words: word -> number, in order of first appearance.
      counts: <int64>[words], occurrences over all splits; a text that stands in many pairs counts as often.
      sentences: split -> side ('a', 'b') -> <int64>[pairs], which distinct text.
    """

    def __init__(self, data: DataSet, preprocessing: Preprocessing):
        texts: dict[str, int] = {}
        self.sentences: dict[str, dict[str, np.ndarray]] = {
            name: {"a": number_keys(split.text_a, texts), "b": number_keys(split.text_b, texts)}
            for name, split in data.splits.items()
        }
        self.words: dict[str, int] = {}
        number, flat, lengths = self.words.setdefault, array("i"), array("q")
        for text in texts:
            tokens = preprocessing.tokens(text)
            lengths.append(len(tokens))
            flat.extend(number(token, len(self.words)) for token in tokens)
        self._flat = np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32)
        self._offsets = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64) if lengths else [])])
        self._offsets = self._offsets.astype(np.int64)
        repeats = sum(
            np.bincount(side, minlength=len(texts)) for sides in self.sentences.values() for side in sides.values()
        )
        weights = np.repeat(repeats, np.diff(self._offsets))
        self.counts = np.bincount(self._flat, weights, minlength=len(self.words)).astype(np.int64)

    def column(self, split: str, side: str, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The texts of one column end to end.

        Arguments:
          ids: <int32>[words], the final id of every word number; None keeps the numbers.

        Returns:
          tokens <int32>[total], offsets <int64>[pairs + 1].
        """
        sentences = self.sentences[split][side]
        starts = self._offsets[sentences]
        lengths = self._offsets[sentences + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        tokens = self._flat[places]
        return (tokens if ids is None else ids[tokens]), offsets


def number_keys(keys: Iterable[str], numbers: dict[str, int]) -> np.ndarray:
    """<int64>[keys], numbers in order of first appearance, which `numbers` remembers."""
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def coverage(counts: Mapping[str, int], words: Vocabulary, found: Container[str]) -> dict[str, float]:
    """Shares between 0 and 1: vocabulary words with a vector; occurrences of words with a vector, in the vocabulary."""
    kept = set(words.words[2:])
    occurrences = max(1, sum(counts.values()))
    return {
        "words_with_vector": sum(word in found for word in kept) / max(1, len(kept)),
        "tokens_with_vector": sum(count for word, count in counts.items() if word in found) / occurrences,
        "tokens_in_vocabulary": sum(count for word, count in counts.items() if word in kept) / occurrences,
    }

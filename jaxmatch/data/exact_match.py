"""Exact matches: whether a word also occurs in the other sentence (ESAN, section 2.1; the released code of CSRAN)."""

from collections.abc import Iterable

import numpy as np


def folded(word: str) -> str:
    """Returns the form that matching words share: without case. Words are not lemmatized."""
    return word.casefold()


def exact_matches(
    words_a: np.ndarray, offsets_a: np.ndarray, words_b: np.ndarray, offsets_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Marks the words that also occur in the other sentence of their pair.

    Arguments:
      words_a: <int>[total_a], the numbers, 0 or more, of the folded words of all first sentences, concatenated.
      offsets_a: <int64>[pairs + 1], the start of each first sentence in `words_a`.
      words_b, offsets_b: the same for the second sentences; the same word has the same number.

    Returns:
      <int8>[total_a] and <int8>[total_b], 1 for a match.
    """
    count = 1 + max(int(words_a.max(initial=0)), int(words_b.max(initial=0)))
    keys_a, keys_b = (
        np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets)) * count + words
        for words, offsets in ((words_a, offsets_a), (words_b, offsets_b))
    )
    return np.isin(keys_a, keys_b).astype(np.int8), np.isin(keys_b, keys_a).astype(np.int8)


def exact_matches_of(tokens_a: Iterable[str], tokens_b: Iterable[str]) -> tuple[list[int], list[int]]:
    """Marks the tokens of one pair that also occur in the other sentence, as `exact_matches` does for arrays."""
    words_a, words_b = ([folded(token) for token in tokens] for tokens in (tokens_a, tokens_b))
    known_a, known_b = set(words_a), set(words_b)
    return [int(word in known_b) for word in words_a], [int(word in known_a) for word in words_b]

"""Words and their ids."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

PADDING, UNKNOWN = 0, 1
PADDING_WORD, UNKNOWN_WORD = "<padding>", "<unknown>"


class Vocabulary:
    """A fixed list of words. The id of a word is its index.

    Arguments:
      words: distinct words; the first two are '<padding>' and '<unknown>'.

    Attributes:
      words: the list, as a tuple.
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        if self.words[:2] != (PADDING_WORD, UNKNOWN_WORD):
            raise ValueError(f"a vocabulary begins with {PADDING_WORD} and {UNKNOWN_WORD}, not {self.words[:2]}")
        # A text that spells out '<padding>' must not be masked: the token is an unknown word.
        self._ids = {word: index for index, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ValueError("a vocabulary holds a word twice")
        self._ids[PADDING_WORD] = UNKNOWN

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the id of each token: `UNKNOWN` for a token outside the vocabulary, never `PADDING`."""
        find = self._ids.get
        return [find(token, UNKNOWN) for token in tokens]


def build(counts: Mapping[str, int], has_vector: Container[str], minimum_count: int = 5) -> Vocabulary:
    """Builds a vocabulary of the words that have a vector or occur often enough, the most frequent first.

    This is the rule of RE2's released code: words of all splits are counted, and a rare word is kept only if it has a
    vector.

    Arguments:
      counts: word -> occurrences in all splits.
      has_vector: the words of the vector file.
      minimum_count: the number of occurrences from which a word without a vector is kept.
    """
    kept = [
        word
        for word, count in counts.items()
        if (count >= minimum_count or word in has_vector) and word not in (PADDING_WORD, UNKNOWN_WORD)
    ]
    # Words of equal counts are ordered by the word itself, so that the order in which texts were read does not matter.
    kept.sort(key=lambda word: (-counts[word], word))
    return Vocabulary([PADDING_WORD, UNKNOWN_WORD, *kept])


class WordTable(NamedTuple):
    """The vectors and the characters of the words of a vocabulary. Models accept a table in place of the vectors.

    Attributes:
      vectors: <float32>[words, dimensions].
      characters: <uint16 or uint32>[words, 16], 0 is padding (data/characters.py).
    """

    vectors: Any
    characters: Any

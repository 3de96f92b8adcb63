"""Words and their numbers."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

PADDING, UNKNOWN = 0, 1
PADDING_WORD, UNKNOWN_WORD = "<padding>", "<unknown>"


class Vocabulary:
    """A fixed list of words; a word's id is its position.

    Arguments:
      words: distinct words; the first two are '<padding>' and '<unknown>'.

    Attributes:
      words: the list, as a tuple.
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        if self.words[:2] != (PADDING_WORD, UNKNOWN_WORD):
            raise ValueError(f"a vocabulary begins with {PADDING_WORD} and {UNKNOWN_WORD}, not {self.words[:2]}")
        # A text that spells '<padding>' out must not vanish behind the mask: it is an unknown word.
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
        """The id of every token; `UNKNOWN` for those the vocabulary lacks, never `PADDING`."""
        find = self._ids.get
        return [find(token, UNKNOWN) for token in tokens]


def build(counts: Mapping[str, int], has_vector: Container[str], minimum_count: int = 5) -> Vocabulary:
    """Keeps the words that have a vector or occur often enough, the most frequent first.

    The rule of RE2's released code: words of all splits are counted, and a rare word is kept only if it has a vector.

    Arguments:
      counts: word -> occurrences in all splits.
      has_vector: the words of the vector file.
      minimum_count: a word without a vector stays from this many occurrences on.
    """
    kept = [
        word
        for word, count in counts.items()
        if (count >= minimum_count or word in has_vector) and word not in (PADDING_WORD, UNKNOWN_WORD)
    ]
    # Equal counts are ordered by the word itself, so that the order in which texts were read does not matter.
    kept.sort(key=lambda word: (-counts[word], word))
    return Vocabulary([PADDING_WORD, UNKNOWN_WORD, *kept])


class WordTable(NamedTuple):
    """What is known of each word of a vocabulary, where that is more than its vector; models take it in place of the
    vectors.

    Attributes:
      vectors: <float32>[words, dimensions].
      characters: <uint16 or uint32>[words, 16], 0 is padding (data/characters.py).
    """

    vectors: Any
    characters: Any

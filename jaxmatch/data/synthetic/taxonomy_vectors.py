"""Word vectors for the embedded sets, made from the taxonomy.

A vector is a sum of directions that its word shares with other words, as in vectors learned from text:

- a direction for its part of speech and one for its dimension, so that all colors are close together, and so are all
  kinds of animal;
- a direction for each wider word of its dimension, so that "poodle" is near "dog", and "dog" near "animal";
- a direction for its own meaning, which synonyms share. The two sides of a polar dimension ("big", "small") share
  everything except the directions of polarity, on which they are opposite;
- a multiple of one direction common to all words that grows with how specific the word is ("poodle" is further out than
  "dog");
- a direction for its form (singular, plural, participle), and a short one of its own, by which synonyms differ.

Numbers lie on a line. Determiners have axes for "universal", "negative" and "more".
"""

import zlib
from collections.abc import Iterator

import numpy as np

from jaxmatch.data.synthetic.grammar import FUNCTION_WORDS
from jaxmatch.data.synthetic.lexicon import ADJECTIVES, NEIGHBOURS, NUMBERS, WORDS, Word

DIMENSIONS = 48
_VARIANCE = 0.15  # the variance of one dimension of a vector; that of trained vectors after scaling is about the same

# Function words: (share of "universal", share of "negative", share of "more"), added to a common direction.
_FUNCTION_GROUPS = {
    "determiner": {
        "all": (1, 0, 0),
        "every": (1, 0, 0),
        "each": (1, 0, 0),
        "some": (-1, 0, 0),
        "a": (-1, 0, 0),
        "an": (-1, 0, 0),
        "the": (0, 0, 0),
        "no": (0, 1, 0),
        "not": (0, 1, 0),
        "least": (0, 0, 1),
        "more": (0, 0, 1),
        "most": (0, 0, -1),
        "fewer": (0, 0, -1),
        "exactly": (0, 0, 0),
    },
}


def _direction(name: str) -> np.ndarray:
    """Returns the direction that belongs to a name, of length about 1: <float64>[dimensions]."""
    generator = np.random.Generator(np.random.Philox(key=zlib.crc32(name.encode())))
    # Uniform numbers come from exact arithmetic, so they are the same on every platform.
    return (generator.random(DIMENSIONS) - 0.5) * np.sqrt(12 / DIMENSIONS)


def _meaning(word: Word) -> np.ndarray:
    total = 0.6 * _direction(f"part {word.part}") + 1.0 * _direction(f"dimension {word.dimension}")
    wider = {other.mask for other in NEIGHBOURS[word].wider}
    for mask in sorted(wider, key=lambda mask: (-mask.bit_count(), mask)):
        total += 0.7 * _direction(f"value {word.dimension} {mask}")
    polar = word.part == "adjective" and len(ADJECTIVES[word.dimension][1]) == 2
    if polar:
        side = 1.0 if word.mask == 1 else -1.0
        total += side * (0.5 * _direction("polarity") + 0.8 * _direction(f"polarity {word.dimension}"))
    else:
        total += 1.0 * _direction(f"value {word.dimension} {word.mask}")
    return total + 0.5 * len(wider) * _direction("special")


def _function_word(name: str) -> np.ndarray:
    for group, members in _FUNCTION_GROUPS.items():
        if name in members:
            universal, negative, more = members[name]
            return (
                0.5 * _direction(f"group {group}")
                + 0.9 * universal * _direction("universal")
                + 0.9 * negative * _direction("negative")
                + 0.9 * more * _direction("more")
                + 0.5 * _direction(f"form {name}")
            )
    return 0.4 * _direction("group function") + 0.9 * _direction(f"form {name}")


def _vectors() -> Iterator[tuple[str, np.ndarray]]:
    for name in FUNCTION_WORDS:
        yield name, _function_word(name)
    middle = (min(NUMBERS) + max(NUMBERS)) / 2
    for value, name in NUMBERS.items():
        yield (
            name,
            _direction("group number")
            + 0.6 * (value - middle) * _direction("magnitude")
            + 0.3 * _direction(f"form {name}"),
        )
    for word in WORDS:
        for number, form in enumerate(word.forms):
            meaning = (
                _meaning(word)
                + 0.3 * _direction(f"form {word.part} {number}")
                + 0.2 * _direction(f"own {word.forms[0]}")
            )
            # A position of several words ("left of") gives its meaning to its first word. `word_vectors` keeps the
            # vector that a function word already has.
            yield form.split()[0], meaning


def word_vectors() -> dict[str, np.ndarray]:
    """Returns the vector of every word that can occur in the embedded sets: word -> <float32>[48]."""
    vectors: dict[str, np.ndarray] = {}
    for name, vector in _vectors():
        if name not in vectors:
            vectors[name] = vector
    for name, vector in vectors.items():
        length = float(np.sqrt(np.sum(vector * vector)))
        # Rounding, as in a text file of vectors, removes the differences between platforms in the last bits.
        vectors[name] = np.round(vector * (np.sqrt(_VARIANCE * DIMENSIONS) / length), 4).astype(np.float32)
    return vectors

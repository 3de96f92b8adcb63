"""Word vectors made from the spelling of words, for users without a vector file.

As in fastText (Bojanowski et al., 2017, section 3.2), the vector of a word is the sum of the vectors of its character
n-grams and of the whole word. The vector of an n-gram is not trained here: it consists of signs that come from the hash
of the n-gram (a random projection, Achlioptas, 2003). Words that share a stem have similar vectors. The vectors hold no
information about the meaning of words.
"""

import hashlib
from collections.abc import Collection
from typing import Any

import numpy as np

# The value of `data.vectors` that selects these vectors.
HASHED = "hashed"
DIMENSIONS = 300
# Increased when a change gives a word another vector.
HASHED_VERSION = 1
_LENGTHS = range(3, 7)
# The norm of a vector, about that of GloVe's vectors.
_NORM = 6.0
_DIGEST_BYTES = -(-DIMENSIONS // 8)
# Limits of the memory used besides the result: sums of this many words (30 MB), signs of this many n-grams (80 MB).
WORDS_AT_ONCE, MOST_GRAMS = 4096, 1 << 17


def rule() -> dict[str, Any]:
    """Returns how the vectors are made, as plain values for programs without this package (docs/how_to/export.md)."""
    return {
        "version": HASHED_VERSION,
        "ngrams": list(_LENGTHS),
        "hash": "blake2b",
        "digest_bytes": _DIGEST_BYTES,
        "dimensions": DIMENSIONS,
        "norm": _NORM,
    }


def hashed_vectors(words: Collection[str]) -> np.ndarray:
    """Computes the vectors of words, <float32>[words, 300]. They are the same on every machine."""
    signs: dict[str, np.ndarray] = {}
    result, words = np.zeros((len(words), DIMENSIONS), np.float32), list(words)
    for start in range(0, len(words), WORDS_AT_ONCE):
        block = words[start : start + WORDS_AT_ONCE]
        sums = np.zeros((len(block), DIMENSIONS), np.int32)
        for row, word in enumerate(block):
            if len(signs) > MOST_GRAMS:
                signs.clear()
            for gram in _grams(word):
                if gram not in signs:
                    signs[gram] = _signs(gram)
                sums[row] += signs[gram]
        # In float64 these sums of whole numbers are exact, so that the result is the same on every machine.
        norms = np.sqrt((sums.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        result[start : start + len(block)] = _NORM * sums / np.maximum(norms, 1.0)
    return result


def _grams(word: str) -> set[str]:
    """Returns the n-grams of a word between < and >, and the whole word between < and >."""
    marked = f"<{word}>"
    return {marked} | {
        marked[start : start + length] for length in _LENGTHS for start in range(len(marked) - length + 1)
    }


def _signs(gram: str) -> np.ndarray:
    """Returns 300 numbers, 1 or -1, from the bits of the hash of an n-gram."""
    digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return 2 * np.unpackbits(np.frombuffer(digest, np.uint8), count=DIMENSIONS).astype(np.int8) - 1

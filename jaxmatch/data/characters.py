"""The characters of each word of a vocabulary, as ESAN (section 3) and CSRAN's released code take them: sixteen of
each.

CSRAN's code takes them before it lower-cases a word; here they are of the vocabulary's words, which `data.lowercase`
has lower-cased.

They depend on the word alone, so one table a vocabulary does, looked up on the device by the ids of the words; and a
character's number depends on the character alone, so a saved model needs no list of them. In training all words the
vocabulary lacks share one row: a word that is to keep its characters must be in the vocabulary (`data.minimum_count` 1
keeps all words of the data). A model trained so is given the characters of new words too when it answers (matcher.py).
"""

from collections.abc import Sequence

import numpy as np

from jaxmatch.data.vocabulary import PADDING, UNKNOWN

LONGEST_WORD = 16  # ESAN, section 3: "cropping or padding to limit each token to have 16 characters"
# Padding is 0, a character without a number of its own 1; ASCII keeps its code points, which are below this.
LEAST_KNOWN = 128
_OTHER = 1


def character_table(words: Sequence[str], known: int = LEAST_KNOWN) -> np.ndarray:
    """The first sixteen characters of every word, the end filled up with padding.

    Arguments:
      words: in the order of their ids: padding, unknown, and the words.
      known: how many numbers there are, 128 or more. Characters beyond ASCII share those from 128 on, by their code
        points.

    Returns:
      <uint16>[words, 16] (<uint32> for more than 65,536 numbers); 0 is padding. The row of padding is all padding, that
      of unknown words one character without a number of its own.
    """
    if known < LEAST_KNOWN:
        raise ValueError(f"{known} characters are fewer than the {LEAST_KNOWN} of ASCII")
    codes = np.zeros((len(words), LONGEST_WORD), np.uint32)
    if len(words):
        text = np.array([word[:LONGEST_WORD] for word in words], np.dtype(("U", LONGEST_WORD)))
        codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(words), LONGEST_WORD)
    lengths = np.fromiter((min(len(word), LONGEST_WORD) for word in words), np.int64, len(words))
    there = np.arange(LONGEST_WORD) < lengths[:, None]
    shared = known - LEAST_KNOWN
    beyond = LEAST_KNOWN + codes % shared if shared else _OTHER
    numbers = np.where(codes < LEAST_KNOWN, np.maximum(codes, _OTHER), beyond)
    numbers = np.where(there, numbers, PADDING).astype(np.uint16 if known <= 1 << 16 else np.uint32)
    numbers[PADDING : UNKNOWN + 1] = PADDING
    numbers[UNKNOWN : UNKNOWN + 1, 0] = _OTHER
    return numbers

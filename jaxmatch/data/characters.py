"""The first sixteen characters of each word of a vocabulary, as in ESAN (section 3) and CSRAN's released code.

CSRAN's code takes the characters before it converts a word to lower case. Here they are the characters of the
vocabulary's words, which `data.lowercase` has converted to lower case.

The characters depend on the word alone, so that one table per vocabulary is enough. It is indexed on the device by the
ids of the words. The number of a character depends on the character alone, so that a saved model needs no list of
characters. In training, all words outside the vocabulary share one row. To keep its characters, a word must be in the
vocabulary (`data.minimum_count` 1 keeps all words of the data). A model trained with that setting also gets the
characters of new words when it predicts (inference/matcher.py).
"""

from collections.abc import Sequence

import numpy as np

from jaxmatch.data.vocabulary import PADDING, UNKNOWN

LONGEST_WORD = 16  # ESAN, section 3: "cropping or padding to limit each token to have 16 characters"
# Padding is 0, and a character without a number of its own is 1. ASCII characters keep their code points, which are
# below this number.
LEAST_KNOWN = 128
_OTHER = 1


def character_table(words: Sequence[str], known: int = LEAST_KNOWN) -> np.ndarray:
    """Builds a table of the first sixteen characters of each word, padded at the end.

    Arguments:
      words: the words of a vocabulary in the order of their ids; the first two are padding and unknown.
      known: the size of the character vocabulary, 128 or more. Characters beyond ASCII share the numbers from 128 on,
        by their code points.

    Returns:
      <uint16>[words, 16], or <uint32>[words, 16] if `known` is more than 65,536; 0 is padding. The row of padding is
      all padding. The row of unknown words holds one character without a number of its own.
    """
    if known < LEAST_KNOWN:
        raise ValueError(f"{known} characters are fewer than the {LEAST_KNOWN} of ASCII")
    codes = np.zeros((len(words), LONGEST_WORD), np.uint32)
    if len(words):
        text = np.array([word[:LONGEST_WORD] for word in words], np.dtype(("U", LONGEST_WORD)))
        codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(words), LONGEST_WORD)
    lengths = np.fromiter((min(len(word), LONGEST_WORD) for word in words), np.int64, len(words))
    in_word = np.arange(LONGEST_WORD) < lengths[:, None]
    shared = known - LEAST_KNOWN
    beyond = LEAST_KNOWN + codes % shared if shared else _OTHER
    numbers = np.where(codes < LEAST_KNOWN, np.maximum(codes, _OTHER), beyond)
    numbers = np.where(in_word, numbers, PADDING).astype(np.uint16 if known <= 1 << 16 else np.uint32)
    numbers[PADDING : UNKNOWN + 1] = PADDING
    numbers[UNKNOWN : UNKNOWN + 1, 0] = _OTHER
    return numbers

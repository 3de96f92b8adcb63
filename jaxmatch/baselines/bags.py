"""Texts as bags of words: sparse matrices with a row for each text and a column for each word of the vocabulary."""

import numpy as np
from scipy import sparse

from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.vocabulary import UNKNOWN


def bags(data: EncodedData, split: EncodedSplit) -> tuple[sparse.csr_array, sparse.csr_array]:
    """How often each word occurs in each first and in each second sentence. Unknown words are left out: two of them
    need not be the same word.

    Returns:
      Two matrices <float64>[pairs, words].
    """
    return tuple(
        _bag(tokens, offsets, len(data.vocabulary))
        for tokens, offsets in ((split.tokens_a, split.offsets_a), (split.tokens_b, split.offsets_b))
    )


def _bag(tokens: np.ndarray, offsets: np.ndarray, words: int) -> sparse.csr_array:
    known = (np.asarray(tokens) > UNKNOWN).astype(np.float64)
    # Copies, since the counts are summed in place and the tokens are those of the cache.
    found = sparse.csr_array((known, np.array(tokens), np.array(offsets)), shape=(len(offsets) - 1, words))
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def present(bag: sparse.csr_array) -> sparse.csr_array:
    """1 for each word that occurs in a text."""
    found = bag.copy()
    found.data[:] = 1
    return found


def dot(first: sparse.csr_array, second: sparse.csr_array) -> np.ndarray:
    """<float64>[pairs], the inner product of each row with the other matrix's row of the same number."""
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()

"""Texts as bags of words: sparse matrices with a row for each text and a column for each word of the vocabulary."""

import numpy as np
from scipy import sparse

from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.text import UNKNOWN


def bags(data: EncodedData, split: EncodedSplit) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Counts how often each word occurs in each sentence of a split.

    Unknown words are left out, because two unknown words are not necessarily the same word.

    Returns:
      Two matrices <float64>[pairs, words], of the first and of the second sentences.
    """
    return tuple(
        _bag(tokens, offsets, len(data.vocabulary))
        for tokens, offsets in ((split.tokens_a, split.offsets_a), (split.tokens_b, split.offsets_b))
    )


def _bag(tokens: np.ndarray, offsets: np.ndarray, words: int) -> sparse.csr_array:
    known = (np.asarray(tokens) > UNKNOWN).astype(np.float64)
    # The arrays are copied, because the counts are summed in place and the tokens belong to the cache.
    found = sparse.csr_array((known, np.array(tokens), np.array(offsets)), shape=(len(offsets) - 1, words))
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def present(bag: sparse.csr_array) -> sparse.csr_array:
    """Returns a matrix with 1 for each word that occurs in a text, in place of its count."""
    found = bag.copy()
    found.data[:] = 1
    return found


def dot(first: sparse.csr_array, second: sparse.csr_array) -> np.ndarray:
    """Returns the inner products of the corresponding rows of two matrices: <float64>[pairs]."""
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()

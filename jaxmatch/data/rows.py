"""Pairs as rows of tokens, which is how the models take them."""

import numpy as np

from jaxmatch.data.vocabulary import PADDING


def side_by_side(
    tokens_a: np.ndarray, lengths_a: np.ndarray, tokens_b: np.ndarray, lengths_b: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of a pair's first sentence, then those of the second, then padding.

    Arguments:
      tokens_a: <int32>[total], word ids of all first sentences, laid end to end; or another feature of each token, of
        which 0 is padding, too.
      lengths_a: <int32>[pairs].
      tokens_b, lengths_b: of the second sentences.
      length: of a row; every pair's tokens fit in.

    Returns:
      ids <int32>[pairs, length], of the type of the tokens, and sentences <int8>[pairs, length]: 1 or 2, which sentence
      a token is of; 0 is padding.
    """
    columns = np.arange(length)
    first = columns < lengths_a[:, None]
    second = ~first & (columns < (lengths_a + lengths_b)[:, None])
    ids = np.full(first.shape, PADDING, np.asarray(tokens_a).dtype)
    ids[first], ids[second] = tokens_a, tokens_b
    return ids, first.astype(np.int8) + 2 * second.astype(np.int8)

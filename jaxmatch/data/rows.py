"""Pairs as rows of tokens, the input format of the models."""

import numpy as np

from jaxmatch.data.text import PADDING


def pair_rows(
    tokens_a: np.ndarray, lengths_a: np.ndarray, tokens_b: np.ndarray, lengths_b: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lays out each pair as a row: the tokens of the first sentence, then those of the second, then padding.

    Arguments:
      tokens_a: <int32>[total], the word ids of all first sentences, concatenated; or another feature of each token, in
        which 0 is padding, too.
      lengths_a: <int32>[pairs], the number of tokens in each first sentence.
      tokens_b, lengths_b: the same for the second sentences.
      length: the length of a row; the tokens of every pair fit into it.

    Returns:
      ids <int32>[pairs, length], or the dtype of another feature, and sentences <int8>[pairs, length]: the sentence of
      each token, 1 or 2; 0 is padding.
    """
    columns = np.arange(length)
    first = columns < lengths_a[:, None]
    second = ~first & (columns < (lengths_a + lengths_b)[:, None])
    ids = np.full(first.shape, PADDING, np.asarray(tokens_a).dtype)
    ids[first], ids[second] = tokens_a, tokens_b
    return ids, first.astype(np.int8) + 2 * second.astype(np.int8)

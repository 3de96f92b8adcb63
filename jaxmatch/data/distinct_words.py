"""Counts of the distinct words in batches.

Features that depend on a word alone, such as the encoding of its characters, are computed once for each distinct word
of a batch (layers/words.py). A compiled program computes them for a fixed number of words. Padding
always counts as a word, because a model may pad a batch further.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.vocabulary import PADDING

# Training batches are drawn again in every epoch, so their maximum number of distinct words is estimated from a
# few draws. Batches of one shape differ by a few percent: on SNLI and Quora, 25% are six standard deviations or more.
_DRAWS, _BATCHES_OF_A_DRAW, _MARGIN = 4, 16, 1.25
# Programs are compiled for multiples of this number, so that a few words more or less need no other program.
_MULTIPLE = 64


def counts(ids: np.ndarray, batches: np.ndarray, words: int) -> np.ndarray:
    """Counts the distinct words in each batch, padding included.

    Arguments:
      ids: <int32>[pairs, length], the word ids of each pair.
      batches: <int32>[batches, batch], the indices of the pairs in each batch.
      words: the number of words in the vocabulary.

    Returns:
      <int64>[batches].
    """
    occurs = np.zeros(words, bool)
    return np.array([_count(ids[rows], occurs) for rows in batches], np.int64)


def _count(ids: np.ndarray, occurs: np.ndarray) -> int:
    """Counts the distinct words in one batch, padding included. `occurs` <bool>[words] is overwritten."""
    occurs[:] = False
    occurs[PADDING] = True
    occurs[ids] = True
    return int(np.count_nonzero(occurs))


def program_words(words: int, tokens: int) -> int | None:
    """Returns how many distinct words a program is compiled for. None means that each token is encoded by itself,
    because that costs no more.

    Arguments:
      words: the maximum number of distinct words in a batch.
      tokens: the number of tokens in a batch.
    """
    rounded = -(-words // _MULTIPLE) * _MULTIPLE
    return rounded if rounded < tokens else None


def most_in_training(plan: BatchPlan, ids: np.ndarray, words: int) -> dict[int, int | None]:
    """Returns bucket -> how many distinct words the program of its batches is compiled for (`program_words`).

    The result depends on the data and the plan, not on a seed. A batch with more words is very unlikely, but not
    impossible: check batches with `counts`.

    Arguments:
      plan: the plan of the batches.
      ids: <int32>[pairs, longest], the word ids of the training split.
      words: the number of words in the vocabulary.
    """
    most: dict[int, int] = {}
    for seed, epoch in itertools.product(range(_DRAWS), range(plan.varied_epochs)):
        for bucket, batches in plan.batches_of(plan.rows(seed, epoch), epoch).items():
            of_bucket = ids[:, : plan.buckets[bucket]]
            most[bucket] = max(most.get(bucket, 0), *counts(of_bucket, batches[:_BATCHES_OF_A_DRAW], words))
    largest: dict[tuple[int, int], int] = {}
    for bucket, found in most.items():
        shape = plan.compiled[bucket]
        largest[shape] = max(largest.get(shape, 0), int(_MARGIN * found))
    return {bucket: program_words(largest[shape := plan.compiled[bucket]], math.prod(shape)) for bucket in most}


def most_in_evaluation(batches: Mapping[int, Sequence[np.ndarray]], words: int) -> dict[int, int | None]:
    """Returns the same as `most_in_training`, for batches that are the same in every evaluation.

    Arguments:
      batches: bucket -> its batches, each <int32>[batch, length] of word ids.
      words: the number of words in the vocabulary.
    """
    occurs = np.zeros(words, bool)
    return {
        bucket: program_words(max(_count(ids, occurs) for ids in of_bucket), max(ids.size for ids in of_bucket))
        for bucket, of_bucket in batches.items()
    }

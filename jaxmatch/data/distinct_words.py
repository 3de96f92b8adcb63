"""How many distinct words a batch has.

What depends on a word alone, such as what a model makes of its characters, is computed once for each distinct word of a
batch (layers/once_a_word.py). A compiled program computes it for a fixed number of words. Padding always counts as a
word, as a model may pad further.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.vocabulary import PADDING

# Training batches are drawn anew in every epoch, so that their most words are estimated from some draws. Batches of one
# shape differ by a few percent: on SNLI and Quora, 25% are six standard deviations or more.
_DRAWS, _BATCHES_OF_A_DRAW, _MARGIN = 4, 16, 1.25
# Programs are compiled for multiples of this, so that a few words more or less make no other program.
_MULTIPLE = 64


def counts(ids: np.ndarray, batches: np.ndarray, words: int) -> np.ndarray:
    """The number of distinct words in each batch, padding included.

    Arguments:
      ids: <int32>[pairs, length].
      batches: <int32>[batches, batch], the rows of each.
      words: in the vocabulary.

    Returns:
      <int64>[batches].
    """
    there = np.zeros(words, bool)
    return np.array([_count(ids[rows], there) for rows in batches], np.int64)


def _count(ids: np.ndarray, there: np.ndarray) -> int:
    """Of one batch. `there` <bool>[words] is overwritten."""
    there[:] = False
    there[PADDING] = True
    there[ids] = True
    return int(np.count_nonzero(there))


def compiled_for(words: int, tokens: int) -> int | None:
    """For how many distinct words a program is compiled, where batches of so many tokens have at most so many; None:
    each token is computed by itself, as that is no more.
    """
    rounded = -(-words // _MULTIPLE) * _MULTIPLE
    return rounded if rounded < tokens else None


def most_in_training(plan: BatchPlan, ids: np.ndarray, words: int) -> dict[int, int | None]:
    """Bucket -> for how many distinct words the program of its batches is compiled (`compiled_for`).

    That depends on the data and the plan, and not on a seed. A batch with more words is very unlikely, not impossible:
    check with `counts`.

    Arguments:
      plan: of the batches.
      ids: <int32>[pairs, longest], the rows of the training split.
      words: in the vocabulary.
    """
    most: dict[int, int] = {}
    for seed in range(_DRAWS):
        for bucket, (batches, _) in plan.rows(seed, 0).items():
            of_bucket = ids[:, : plan.buckets[bucket]]
            most[bucket] = max(most.get(bucket, 0), *counts(of_bucket, batches[:_BATCHES_OF_A_DRAW], words))
    return {
        bucket: compiled_for(int(_MARGIN * found), plan.batch_rows[bucket] * plan.buckets[bucket])
        for bucket, found in most.items()
    }


def most_in_evaluation(batches: Mapping[int, Sequence[np.ndarray]], words: int) -> dict[int, int | None]:
    """The same for batches that are always the same: bucket -> <int32>[batch, length] each."""
    there = np.zeros(words, bool)
    return {
        bucket: compiled_for(max(_count(ids, there) for ids in of_bucket), max(ids.size for ids in of_bucket))
        for bucket, of_bucket in batches.items()
    }

"""How many distinct words a batch has.

What depends on a word alone, such as what a model makes of its characters, is computed once for each distinct word of a
batch (layers/once_a_word.py). A compiled program has room for a fixed number of them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxmatch.data.batches import BatchPlan

# Training batches are drawn anew in every epoch, so their room is a guess from some draws. Batches of one shape differ
# by a few percent: on SNLI and Quora, 25% are six standard deviations or more.
_DRAWS, _BATCHES_OF_A_DRAW, _MARGIN = 4, 16, 1.25
# Room is a multiple of this, so that a few words more or less make no other program.
_MULTIPLE = 64


def counts(ids: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """The number of distinct words in each batch, where padding counts as one.

    Arguments:
      ids: <int32>[pairs, length].
      batches: <int32>[batches, batch], the rows of each.

    Returns:
      <int64>[batches].
    """
    found, there = np.zeros(len(batches), np.int64), np.zeros(int(ids.max(initial=0)) + 1, bool)
    for number, rows in enumerate(batches):
        there[:] = False
        there[ids[rows]] = True
        found[number] = np.count_nonzero(there)
    return found


def room(most: int, tokens: int) -> int | None:
    """The room for batches of so many tokens with at most so many distinct words; None: as many as there are tokens."""
    rounded = -(-most // _MULTIPLE) * _MULTIPLE
    return rounded if rounded < tokens else None


def room_in_training(plan: BatchPlan, ids: np.ndarray) -> dict[int, int | None]:
    """Bucket -> the room for the words of its batches. It follows from the data alone, so it is the same for every
    seed. Check it with `counts` before a batch is trained on.

    Arguments:
      plan: of the batches.
      ids: <int32>[pairs, longest], the rows of the training split.
    """
    most: dict[int, int] = {}
    for seed in range(_DRAWS):
        for bucket, (batches, _) in plan.rows(seed, 0).items():
            of_bucket = ids[:, : plan.buckets[bucket]]
            most[bucket] = max(most.get(bucket, 0), *counts(of_bucket, batches[:_BATCHES_OF_A_DRAW]))
    return {
        bucket: room(int(_MARGIN * words), plan.batch_rows[bucket] * plan.buckets[bucket])
        for bucket, words in most.items()
    }


def room_in_evaluation(batches: Mapping[int, Sequence[np.ndarray]]) -> dict[int, int | None]:
    """Bucket -> the room for the words of its batches, which are always the same: <int32>[batch, length] each."""
    return {
        bucket: room(max(len(np.unique(ids)) for ids in of_bucket), max(ids.size for ids in of_bucket))
        for bucket, of_bucket in batches.items()
    }

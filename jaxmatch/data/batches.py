"""The batches of an epoch: their pairs, their shapes and their order.

The two sentences of a pair are one row of tokens. Length buckets are the few lengths that rows are padded to, chosen so
that they add the least possible padding. A batch holds pairs of one bucket, that is, of similar length. With mixed
lengths, it holds pairs of all buckets, and is padded to the bucket of its longest pair.

The pairs of a bucket, or all pairs, are split evenly: n pairs, at most B in a batch, into ceil(n / B) batches of
ceil(n / ceil(n / B)) rows. At most one row of a batch is a filler.

Features that depend on a word alone, such as the encoding of its characters, are computed once for each distinct word
of a batch (layers/words.py), in a program for a fixed number of words. Padding always counts as a word.

The order is drawn from the raw bits of NumPy's Philox generator, which are the same in every release of NumPy. Its key
holds the values that the order may depend on, and nothing else.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxmatch.data.text import PADDING


def plan_buckets(lengths: np.ndarray, *, maximum_buckets: int) -> tuple[int, ...]:
    """Chooses at most `maximum_buckets` lengths, ascending, that pad pairs of `lengths` <int32>[pairs] with the fewest
    tokens. The solution is exact, by dynamic programming.
    """
    sizes, counts = np.unique(np.asarray(lengths, np.int64), return_counts=True)
    pairs_up_to = np.concatenate([[0], np.cumsum(counts)])
    # cost[i]: the number of tokens, padding included, in the pairs of the first i sizes with the buckets so far. The
    # last of these buckets is sizes[i - 1].
    cost = np.concatenate([[0.0], pairs_up_to[1:] * sizes.astype(np.float64)])
    choices = []
    for _ in range(min(maximum_buckets, len(sizes)) - 1):
        # One more bucket: it ends at sizes[i - 1], and the buckets before it hold the first j sizes.
        with_bucket = cost[None, :] + (pairs_up_to[1:, None] - pairs_up_to[None, :]) * sizes[:, None]
        with_bucket[np.arange(len(sizes) + 1)[None, :] > np.arange(len(sizes))[:, None]] = np.inf
        before = np.argmin(with_bucket, axis=1)
        choices.append(before)
        cost = np.concatenate([[0.0], with_bucket[np.arange(len(sizes)), before]])
    ends = [len(sizes)]
    for before in reversed(choices):
        ends.append(int(before[ends[-1] - 1]) if ends[-1] else 0)
    return tuple(sizes[end - 1].item() for end in reversed(ends) if end)


def assign(lengths: np.ndarray, buckets: Sequence[int]) -> np.ndarray:
    """Returns the index of the shortest of the ascending `buckets` that holds each pair of so many tokens, <int32>."""
    return np.searchsorted(np.asarray(buckets), np.asarray(lengths)).astype(np.int32)


# Keeps the draw of a bucket's rows apart from the draw that is common to all seeds.
_ROWS, _SEQUENCE = 1, 2
# The number of first epochs whose batches of mixed lengths determine the lengths to compile for.
_EPOCHS = 8


class BatchPlan:
    """The batches of a training split. Their counts and shapes are the same for every seed.

    With mixed lengths, a shuffle that is the same for all seeds gives each row of each batch a bucket. Then each seed
    shuffles the pairs of each bucket over its rows. For one seed, this is a uniform shuffle of all pairs, and in every
    step the batches of all seeds are padded to the same length.

    Arguments:
      assignment: <int32>[pairs], the index in `buckets` of each pair's bucket.
      buckets: the lengths of the buckets, ascending.
      batch_size: the maximum number of pairs in a batch.
      mixed: whether a batch holds pairs of all buckets.

    Attributes:
      tables: bucket -> the table with its batches: a table of its own or, with mixed lengths, that of all batches.
        Buckets without pairs are left out.
      shapes: bucket -> (rows, tokens) of each of its batches.
      compiled: bucket -> (rows, tokens) that its batches are padded to. Buckets with the same numbers share a program.
      steps_per_epoch: the number of batches.
    """

    def __init__(self, assignment: np.ndarray, buckets: Sequence[int], batch_size: int, *, mixed: bool = False):
        self.buckets = tuple(buckets)
        self.batch_size, self.mixed = batch_size, mixed
        self._assignment = np.asarray(assignment, np.int32)
        self._members = _members(self._assignment, len(self.buckets))
        self.tables = {bucket: 0 if mixed else bucket for bucket in self._members}
        pairs = {0: len(assignment)} if mixed else {bucket: len(rows) for bucket, rows in self._members.items()}
        self._splits = {table: _even_split(count, batch_size) for table, count in pairs.items()}
        self.shapes = {bucket: (self._splits[table][1], self.buckets[bucket]) for bucket, table in self.tables.items()}
        self.compiled = dict(self.shapes)
        self.steps_per_epoch = sum(count for count, _ in self._splits.values())

    def share_programs(self, epochs: int, tokens_a_compilation: float) -> None:
        """Lets neighboring buckets share a program where their padding in all epochs costs less than a compilation, in
        whose time a run trains on `tokens_a_compilation` tokens. The solution is exact, by dynamic programming.
        """
        buckets = sorted(self.shapes)
        steps = np.bincount(self.bucket_sequence(0)[:, 0], minlength=len(self.buckets)) * epochs

        def together(first: int, last: int) -> tuple[int, int]:
            rows, tokens = zip(*(self.shapes[bucket] for bucket in buckets[first:last]))
            return max(rows), max(tokens)

        # best[n]: the cost of the first n buckets, in tokens, and where the last of their programs begins.
        best = [(0.0, 0)]

        def cost(first: int, last: int) -> float:
            padded = math.prod(together(first, last)) * float(steps[buckets[first:last]].sum())
            return best[first][0] + padded + tokens_a_compilation

        for last in range(1, len(buckets) + 1):
            best.append(min((cost(first, last), first) for first in range(last)))
        last = len(buckets)
        while last:
            first = best[last][1]
            self.compiled |= dict.fromkeys(buckets[first:last], together(first, last))
            last = first

    def padded(self, table: int, rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pads the batches of a table, as `rows` draws them, to the rows of its program."""
        wanted = max(self.compiled[bucket][0] for bucket, of_bucket in self.tables.items() if of_bucket == table)
        fillers = wanted - rows.shape[1]
        # The first pair of a batch fills it up, so that no batch has more distinct words.
        filled = np.concatenate([rows, rows[:, :1].repeat(fillers, axis=1)], axis=1)
        return filled, np.pad(weights, ((0, 0), (0, fillers)))

    def bucket_sequence(self, epoch: int) -> np.ndarray:
        """Draws an epoch's batches, the same for every seed, by bucket and index in its table: <int32>[steps, 2]."""
        if self.mixed:
            longest = _longest(self._assignment, self.batch_size, epoch)
            return np.stack([longest, np.arange(len(longest), dtype=np.int32)], axis=1)
        batches = [(table, index) for table, (count, _) in self._splits.items() for index in range(count)]
        order = _random_order(len(batches), 0, _SEQUENCE, epoch, 0)
        return np.array(batches, np.int32)[order]

    def rows(self, seed: int, epoch: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Draws the pairs of each batch of an epoch. The draw depends only on the seed, the epoch and the bucket, and
        with mixed lengths on the shuffle of all seeds. Returns table -> (rows <int32>[batches, batch], weights
        <float32>[batches, batch]); the weight of a filler is 0.
        """
        drawn = {
            bucket: members[_random_order(len(members), seed, _ROWS, epoch, bucket)]
            for bucket, members in self._members.items()
        }
        if self.mixed:
            bucket_of_row = _shuffled(self._assignment, epoch)
            mixed = np.empty(len(bucket_of_row), np.int32)
            for bucket, rows in drawn.items():
                mixed[bucket_of_row == bucket] = rows
            drawn = {0: mixed}
        return {table: _lay_out(rows, *self._splits[table]) for table, rows in drawn.items()}

    def batches_of(self, drawn: Mapping[int, tuple[np.ndarray, np.ndarray]], epoch: int) -> dict[int, np.ndarray]:
        """Returns bucket -> the rows <int32>[batches, batch] of its batches, of what `rows` returned for an epoch."""
        bucket, index = self.bucket_sequence(epoch).T
        return {one: drawn[self.tables[one]][0][np.sort(index[bucket == one])] for one in np.unique(bucket).tolist()}

    def tokens(self) -> int:
        """Returns the number of tokens in the first epoch, with padding. With mixed lengths, it varies by epoch."""
        return sum(math.prod(self.shapes[bucket]) for bucket in self.bucket_sequence(0)[:, 0].tolist())


def plan_batches(lengths: np.ndarray, *, batch_size: int, maximum_buckets: int, mix_lengths: bool = False) -> BatchPlan:
    """Plans the batches of a training split of pairs of `lengths` <int32>[pairs] tokens, with the least padding."""
    padded = lengths
    if mix_lengths:
        padded = np.concatenate([_longest(lengths, batch_size, epoch) for epoch in range(_EPOCHS)])
    buckets = plan_buckets(padded, maximum_buckets=maximum_buckets)
    return BatchPlan(assign(lengths, buckets), buckets, batch_size, mixed=mix_lengths)


class Batch(NamedTuple):
    """A batch of pairs from one bucket.

    Attributes:
      bucket: the index of the bucket.
      rows: <int32>[batch], the indices of the pairs in the split; a filler repeats the first index.
      weights: <float32>[batch], 1 for a pair and 0 for a filler.
    """

    bucket: int
    rows: np.ndarray
    weights: np.ndarray


def evaluation_rows(splits: Sequence[np.ndarray], buckets: Sequence[int], batch_size: int) -> tuple[int, ...]:
    """Returns the number of rows in a batch of each bucket, common to splits of some lengths <int32>[pairs]."""
    counts = [np.bincount(assign(lengths, buckets), minlength=len(buckets)) for lengths in splits]
    return tuple(_even_split(max(1, int(count)), batch_size)[1] for count in np.max(counts, axis=0))


def evaluation_batches(lengths: np.ndarray, buckets: Sequence[int], rows: Sequence[int]) -> list[Batch]:
    """Returns batches that visit every pair of a split once, in a fixed order. Each has the `rows` of its bucket."""
    batches = []
    for bucket, members in _members(assign(lengths, buckets), len(buckets)).items():
        for start in range(0, len(members), rows[bucket]):
            chosen = members[start : start + rows[bucket]]
            fillers = np.full(rows[bucket] - len(chosen), chosen[0])
            weights = np.arange(rows[bucket]) < len(chosen)
            batches.append(Batch(bucket, np.concatenate([chosen, fillers]), weights.astype(np.float32)))
    return batches


def _members(assignment: np.ndarray, bucket_count: int) -> dict[int, np.ndarray]:
    """Returns bucket -> the indices of its pairs, <int32>[count], ascending. Buckets without pairs are left out."""
    members = {bucket: np.flatnonzero(assignment == bucket).astype(np.int32) for bucket in range(bucket_count)}
    return {bucket: rows for bucket, rows in members.items() if len(rows)}


def _shuffled(values: np.ndarray, epoch: int) -> np.ndarray:
    """Returns the values of the pairs in the order of mixed batches in an epoch, which is the same for all seeds."""
    return values[_random_order(len(values), 0, _SEQUENCE, epoch, 0)]


def _longest(values: np.ndarray, batch_size: int, epoch: int) -> np.ndarray:
    """Returns the largest value of each mixed batch of an epoch; `values` are the lengths or buckets of the pairs."""
    return _lay_out(_shuffled(values, epoch), *_even_split(len(values), batch_size))[0].max(axis=1)


def _even_split(count: int, batch_size: int) -> tuple[int, int]:
    """Returns the number of batches for `count` pairs, and the number of rows in each batch."""
    batches = math.ceil(count / batch_size)
    return batches, math.ceil(count / batches)


def _lay_out(rows: np.ndarray, batches: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Distributes rows over batches. Fillers go to the last batches, one to each, and repeat their first row.

    Returns:
      rows <int32>[batches, width] and weights <float32>[batches, width].
    """
    fillers = batches * width - len(rows)
    weights = np.ones((batches, width), np.float32)
    weights[batches - fillers :, -1] = 0.0
    table = np.empty((batches, width), np.int32)
    table[weights > 0] = rows
    table[batches - fillers :, -1] = table[batches - fillers :, 0]
    return table, weights


def _random_order(count: int, seed: int, purpose: int, epoch: int, bucket: int) -> np.ndarray:
    """Draws a permutation, <int64>[count]. The draw depends on the arguments alone."""
    mask = (1 << 64) - 1
    key = np.array([seed & mask, (purpose << 56 | bucket << 40 | epoch) & mask], np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable")


# The maximum number of distinct words of training batches is estimated from a few draws. Batches of one shape differ by
# a few percent: on SNLI and Quora, 25% are six standard deviations or more.
_DRAWS, _BATCHES_OF_A_DRAW, _MARGIN = 4, 16, 1.25
# Programs are compiled for multiples of this number, so that a few words more or less need no other program.
_MULTIPLE = 64


def most_distinct_words(batches: Iterable[np.ndarray], words: int) -> int:
    """Returns the most distinct words, with padding, in one of some batches <int32>[batch, length] of ids < `words`."""
    occurs, most = np.zeros(words, bool), 0
    for ids in batches:
        occurs[:] = False
        occurs[PADDING] = True
        occurs[ids] = True
        most = max(most, int(np.count_nonzero(occurs)))
    return most


def _program_words(words: int, tokens: int) -> int | None:
    """Returns how many distinct words a program is compiled for; None: each of its `tokens` is encoded by itself."""
    rounded = -(-words // _MULTIPLE) * _MULTIPLE
    return rounded if rounded < tokens else None


def most_in_training(plan: BatchPlan, ids: np.ndarray, words: int) -> dict[int, int | None]:
    """Returns bucket -> how many distinct words the program of its batches is compiled for (`_program_words`).

    The result depends on the ids of the pairs <int32>[pairs, longest] and on the plan, not on a seed. A batch with more
    words is very unlikely, but not impossible: check batches with `most_distinct_words`.
    """
    most: dict[tuple[int, int], int] = {}  # of the shape that batches are padded to
    found = set()
    for seed, epoch in itertools.product(range(_DRAWS), range(_EPOCHS if plan.mixed else 1)):
        for bucket, batches in plan.batches_of(plan.rows(seed, epoch), epoch).items():
            found.add(bucket)
            drawn = (ids[rows, : plan.buckets[bucket]] for rows in batches[:_BATCHES_OF_A_DRAW])
            shape = plan.compiled[bucket]
            most[shape] = max(most.get(shape, 0), int(_MARGIN * most_distinct_words(drawn, words)))
    shapes = {bucket: plan.compiled[bucket] for bucket in sorted(found)}
    return {bucket: _program_words(most[shape], math.prod(shape)) for bucket, shape in shapes.items()}


def most_in_evaluation(batches: Mapping[int, Sequence[np.ndarray]], words: int) -> dict[int, int | None]:
    """Returns the same as `most_in_training` for bucket -> its batches of word ids, <int32>[batch, length], which are
    the same in every evaluation.
    """
    return {
        bucket: _program_words(most_distinct_words(of_bucket, words), max(ids.size for ids in of_bucket))
        for bucket, of_bucket in batches.items()
    }

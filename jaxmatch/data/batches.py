"""The batches of an epoch: their pairs, their shapes and their order.

The two sentences of a pair are one row of tokens. Rows are padded to few lengths, the buckets. A batch holds pairs of
one bucket or, with mixed lengths, of all buckets, and is then padded to the bucket of its longest pair. If it holds at
most B of n pairs, there are ceil(n / B) batches of ceil(n / ceil(n / B)) rows, of which one may be a filler.

The order is drawn from the raw bits of NumPy's Philox generator, which are the same in every release of NumPy. Its key
holds the values that the order may depend on, and nothing else.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from jaxmatch.data.text import PADDING


def _parts(costs: np.ndarray, most: int, cost_of_a_part: float = 0.0) -> tuple[int, ...]:
    """Splits a sequence into at most `most` parts so that the sum of their costs is least, by dynamic programming.

    `costs` is <float64>[n + 1, n + 1]: at [first, last] that of the part from `first` up to `last`, without it. Each
    part costs `cost_of_a_part` more. Returns the ends of the parts, ascending.
    """
    count = len(costs) - 1
    costs = np.where(np.tri(count + 1, dtype=bool), np.inf, costs)
    total, choices = np.array([0.0, *[np.inf] * count]), []
    for _ in range(min(most, count)):
        sums = total[:, None] + costs + cost_of_a_part
        choices.append(sums.argmin(axis=0))
        total = np.concatenate([[0.0], sums.min(axis=0)[1:]])
    ends = [count]
    for firsts in reversed(choices):
        ends.append(int(firsts[ends[-1]]))
    return tuple(end for end in reversed(ends) if end)


def plan_buckets(lengths: np.ndarray, *, maximum_buckets: int) -> tuple[int, ...]:
    """Chooses at most `maximum_buckets` lengths, ascending, that pad pairs of `lengths` <int32>[pairs] with the fewest
    tokens.
    """
    sizes, counts = np.unique(np.asarray(lengths, np.int64), return_counts=True)
    pairs = np.concatenate([[0], np.cumsum(counts)])
    costs = (pairs[None, :] - pairs[:, None]) * np.concatenate([[0], sizes]).astype(np.float64)
    return tuple(sizes[end - 1].item() for end in _parts(costs, maximum_buckets))


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
        whose time a run trains on `tokens_a_compilation` tokens.
        """
        buckets = sorted(self.shapes)
        steps = np.bincount(self.bucket_sequence(0)[:, 0], minlength=len(self.buckets)) * epochs
        programs, costs = {}, np.zeros((len(buckets) + 1, len(buckets) + 1))
        for first, last in itertools.combinations(range(len(buckets) + 1), 2):
            rows, tokens = zip(*(self.shapes[bucket] for bucket in buckets[first:last]))
            programs[first, last] = max(rows), max(tokens)
            costs[first, last] = math.prod(programs[first, last]) * float(steps[buckets[first:last]].sum())
        for part in itertools.pairwise((0, *_parts(costs, len(buckets), tokens_a_compilation))):
            self.compiled |= dict.fromkeys(buckets[slice(*part)], programs[part])

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
        <float32>[batches, batch]), padded to the rows of its program; the weight of a filler is 0.
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
        padded = {table: self.compiled[bucket][0] for bucket, table in self.tables.items()}
        return {table: _lay_out(rows, *self._splits[table], padded[table]) for table, rows in drawn.items()}

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


def evaluation_rows(splits: Sequence[np.ndarray], buckets: Sequence[int], batch_size: int) -> tuple[int, ...]:
    """Returns the number of rows in a batch of each bucket, common to splits of some lengths <int32>[pairs]."""
    counts = [np.bincount(assign(lengths, buckets), minlength=len(buckets)) for lengths in splits]
    return tuple(_even_split(max(1, int(count)), batch_size)[1] for count in np.max(counts, axis=0))


def evaluation_batches(
    lengths: np.ndarray, buckets: Sequence[int], rows: Sequence[int]
) -> Iterator[tuple[int, np.ndarray, int]]:
    """Yields batches that visit every pair of a split once, in a fixed order. Each has the `rows` of its bucket.

    A batch is its bucket, the indices of its pairs <int32>[rows], and how many of them are pairs and no fillers, which
    repeat them.
    """
    for bucket, members in _members(assign(lengths, buckets), len(buckets)).items():
        for start in range(0, len(members), rows[bucket]):
            chosen = members[start : start + rows[bucket]]
            yield bucket, np.resize(chosen, rows[bucket]), len(chosen)


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


def _lay_out(rows: np.ndarray, batches: int, width: int, padded: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distributes rows over batches. Fillers go to the last batches, one to each, and with `padded` to all batches, up
    to this width. They repeat the first row of the batch, so that it has no more distinct words.

    Returns:
      rows <int32>[batches, width] and weights <float32>[batches, width].
    """
    fillers = batches * width - len(rows)
    weights = np.ones((batches, width), np.float32)
    weights[batches - fillers :, -1] = 0.0
    table = np.empty((batches, width), np.int32)
    table[weights > 0] = rows
    table[batches - fillers :, -1] = table[batches - fillers :, 0]
    more = max(0, padded - width)
    return np.hstack([table, table[:, :1].repeat(more, axis=1)]), np.pad(weights, ((0, 0), (0, more)))


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
    for seed, epoch in itertools.product(range(_DRAWS), range(_EPOCHS if plan.mixed else 1)):
        for bucket, batches in plan.batches_of(plan.rows(seed, epoch), epoch).items():
            drawn = (ids[rows, : plan.buckets[bucket]] for rows in batches[:_BATCHES_OF_A_DRAW])
            shape = plan.compiled[bucket]
            most[shape] = max(most.get(shape, 0), int(_MARGIN * most_distinct_words(drawn, words)))
    return {bucket: _program_words(most[shape], math.prod(shape)) for bucket, shape in plan.compiled.items()}


def most_in_evaluation(batches: Mapping[int, Sequence[np.ndarray]], words: int) -> dict[int, int | None]:
    """Returns the same as `most_in_training` for bucket -> its batches of word ids, <int32>[batch, length], which are
    the same in every evaluation.
    """
    return {
        bucket: _program_words(most_distinct_words(of_bucket, words), max(ids.size for ids in of_bucket))
        for bucket, of_bucket in batches.items()
    }

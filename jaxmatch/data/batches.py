"""The batches of an epoch: their pairs, their shapes and their order.

A compiled program has fixed shapes. The two sentences of a pair are stored side by side in one row of tokens, so that a
shape is a single number, the length of the row. Length buckets are the few lengths that pairs are padded to, chosen so
that they add the least possible padding. A batch holds pairs of one bucket, that is, of similar length. With mixed
lengths, it holds pairs of all buckets, and is padded to the bucket of its longest pair.

The pairs of a bucket, or all pairs, are split evenly. With n pairs and at most B pairs in a batch, there are
ceil(n / B) batches of ceil(n / ceil(n / B)) rows. No batch is nearly empty, and at most one row of a batch is a filler.
The batches of a bucket with few pairs are smaller; their shape is static like every other shape.

Features that depend on a word alone, such as the encoding of its characters, are computed once for each distinct word
of a batch (layers/words.py). A compiled program computes them for a fixed number of words. Padding always counts as a
word, because a model may pad a batch further.

The order is drawn from the raw bits of NumPy's Philox generator. These bits are the same in every release of NumPy;
NumPy's shuffles are not. The key of the generator holds the values that the order may depend on, and nothing else.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxmatch.data.text import PADDING
from jaxmatch.errors import InputError


def plan_buckets(lengths: np.ndarray, *, maximum_buckets: int) -> tuple[int, ...]:
    """Chooses the lengths that pad a split with the fewest tokens. The solution is exact, by dynamic programming.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair, 1 or more.
      maximum_buckets: the maximum number of lengths.

    Returns:
      Distinct lengths, ascending; the last one is the length of the longest pair.

    Raises:
      InputError: the split has no pairs, or `maximum_buckets` is less than 1.
    """
    if maximum_buckets < 1:
        raise InputError(f"{maximum_buckets} length buckets cannot hold a split", remedy="ask for 1 or more")
    if len(lengths) == 0:
        raise InputError("a split without pairs has no length buckets")
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
    chosen, end = [int(sizes[-1])], len(sizes)
    for before in reversed(choices):
        end = int(before[end - 1])
        if end == 0:
            break
        chosen.append(int(sizes[end - 1]))
    return tuple(sorted(chosen))


def assign(lengths: np.ndarray, buckets: tuple[int, ...]) -> np.ndarray:
    """Assigns each pair to the shortest bucket that holds it.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair.
      buckets: the lengths of the buckets, ascending.

    Returns:
      <int32>[pairs], indices in `buckets`.

    Raises:
      ValueError: a pair is longer than every bucket.
    """
    lengths = np.asarray(lengths)
    if len(lengths) and lengths.max() > buckets[-1]:
        raise ValueError(f"a pair of {lengths.max()} tokens does not fit a bucket of {buckets[-1]}")
    return np.searchsorted(np.asarray(buckets), lengths).astype(np.int32)


# Keeps the draw of a bucket's rows apart from the draw that is common to all seeds.
_ROWS, _SEQUENCE = 1, 2
# The number of first epochs whose batches of mixed lengths determine the lengths to compile for.
_EPOCHS = 8


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of pairs from one bucket.

    Attributes:
      bucket: the index of the bucket.
      rows: <int32>[batch], the indices of the pairs in the split; a filler repeats the first index.
      weights: <float32>[batch], 1 for a pair and 0 for a filler.
    """

    bucket: int
    rows: np.ndarray
    weights: np.ndarray


class BatchPlan:
    """The batches of a training split. Their counts and shapes are the same for every seed.

    With mixed lengths, an epoch begins with a shuffle of the buckets of all pairs, which is the same for all seeds. It
    gives each row of each batch a bucket. Then each seed shuffles the pairs of each bucket over the rows of that
    bucket. For one seed, this is a uniform shuffle of all pairs. In every step, the batches of all seeds are padded to
    the same length.

    Arguments:
      assignment: <int32>[pairs], the index in `buckets` of each pair's bucket.
      buckets: the lengths of the buckets, ascending.
      batch_size: the maximum number of pairs in a batch.
      mixed: whether a batch holds pairs of all buckets.

    Attributes:
      buckets, batch_size: the arguments of the same names.
      tables: bucket -> the table with its batches: a table of its own or, with mixed lengths, that of all batches.
        Buckets without pairs are left out.
      batch_rows: bucket -> the number of rows in each of its batches, at most `batch_size`.
      shapes: bucket -> (rows, tokens) of each of its batches.
      compiled: bucket -> (rows, tokens) that its batches are padded to. Buckets with the same numbers share a program.
      steps_per_epoch: the number of batches.
      varied_epochs: the number of first epochs to look at for batches of every bucket; 1 if all epochs have the same
        numbers of batches.
    """

    def __init__(self, assignment: np.ndarray, buckets: Sequence[int], batch_size: int, *, mixed: bool = False):
        self.buckets = tuple(buckets)
        self.batch_size = _checked_batch_size(batch_size)
        self._members = _members(assignment, len(self.buckets))
        self._assignment = np.asarray(assignment, np.int32) if mixed else None
        self.tables = {bucket: 0 if mixed else bucket for bucket in self._members}
        pairs = {0: len(assignment)} if mixed else {bucket: len(rows) for bucket, rows in self._members.items()}
        self._shapes = {table: _even_split(count, batch_size) for table, count in pairs.items() if count}
        self.batch_rows = {bucket: self._shapes[table][1] for bucket, table in self.tables.items()}
        self.shapes = {bucket: (rows, self.buckets[bucket]) for bucket, rows in self.batch_rows.items()}
        self.compiled = dict(self.shapes)
        self.steps_per_epoch = sum(count for count, _ in self._shapes.values())
        self.varied_epochs = _EPOCHS if mixed else 1

    def share_programs(self, epochs: int, tokens_a_compilation: float) -> None:
        """Lets neighboring buckets share a program where their padding costs less than a compilation.

        Which pairs make a batch stays the same. The solution is exact, by dynamic programming.

        Arguments:
          epochs: the number of epochs.
          tokens_a_compilation: how many tokens a run trains on in the time that a compilation takes.
        """
        buckets = sorted(self.shapes)
        steps = np.bincount(self.bucket_sequence(0)[:, 0], minlength=len(self.buckets)) * epochs

        def together(first: int, last: int) -> tuple[int, int]:
            rows, tokens = zip(*(self.shapes[bucket] for bucket in buckets[first:last]))
            return max(rows), max(tokens)

        # best[n]: the cost of the first n buckets, in tokens, and where the last of their programs begins.
        best = [(0.0, 0)]
        for last in range(1, len(buckets) + 1):
            costs = []
            for first in range(last):
                rows, tokens = together(first, last)
                padded = rows * tokens * float(sum(steps[bucket] for bucket in buckets[first:last]))
                costs.append((best[first][0] + padded + tokens_a_compilation, first))
            best.append(min(costs))
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
        """Draws the order of an epoch's batches.

        The order is the same for every seed, so that all runs of a cohort have the same shape in every step.

        Returns:
          <int32>[steps_per_epoch, 2], the bucket of each batch and the index of the batch in its table.
        """
        if self._assignment is not None:
            longest = _longest(self._assignment, self.batch_size, epoch)
            return np.stack([longest, np.arange(len(longest), dtype=np.int32)], axis=1)
        batches = [(table, index) for table, (count, _) in self._shapes.items() for index in range(count)]
        order = _random_order(len(batches), 0, _SEQUENCE, epoch, 0)
        return np.array(batches, np.int32).reshape(-1, 2)[order]

    def rows(self, seed: int, epoch: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Draws the pairs of each batch of an epoch. The draw depends only on the seed, the epoch and the bucket, and
        with mixed lengths on the shuffle of all seeds.

        Returns:
          table -> (rows <int32>[batches, batch], weights <float32>[batches, batch]).
        """
        drawn = {}
        for bucket, members in self._members.items():
            drawn[bucket] = members[_random_order(len(members), seed, _ROWS, epoch, bucket)]
        if self._assignment is not None:
            bucket_of_row = _shuffled(self._assignment, epoch)
            mixed = np.empty(len(bucket_of_row), np.int32)
            for bucket, rows in drawn.items():
                mixed[bucket_of_row == bucket] = rows
            drawn = {0: mixed} if len(mixed) else {}
        return {table: _lay_out(rows, *self._shapes[table]) for table, rows in drawn.items()}

    def batches_of(self, drawn: Mapping[int, tuple[np.ndarray, np.ndarray]], epoch: int) -> dict[int, np.ndarray]:
        """Returns bucket -> the rows <int32>[batches, batch] of its batches in an epoch.

        Arguments:
          drawn: what `rows` returned for this epoch.
          epoch: the number of the epoch.
        """
        bucket, index = self.bucket_sequence(epoch).T
        return {one: drawn[self.tables[one]][0][np.sort(index[bucket == one])] for one in np.unique(bucket).tolist()}

    def tokens(self) -> int:
        """Returns the number of tokens in the first epoch, padding and fillers included. With mixed lengths, the number
        varies from epoch to epoch: by 1 or 2% with some hundred batches, and by more with few.
        """
        return sum(self.batch_rows[bucket] * self.buckets[bucket] for bucket in self.bucket_sequence(0)[:, 0].tolist())

    def padding_share(self, lengths: np.ndarray) -> float:
        """Returns the share of padding and fillers among all tokens of the first epoch, between 0 and 1.

        Arguments:
          lengths: <int32>[pairs], the number of tokens in both sentences of each pair.
        """
        real = int(np.sum(lengths, dtype=np.int64))
        return 1.0 - real / self.tokens() if self.steps_per_epoch else 0.0


def plan_batches(lengths: np.ndarray, *, batch_size: int, maximum_buckets: int, mix_lengths: bool = False) -> BatchPlan:
    """Plans the batches of a training split with the lengths that need the least padding.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair.
      batch_size: the maximum number of pairs in a batch.
      maximum_buckets: the maximum number of lengths to pad to.
      mix_lengths: whether a batch holds pairs of all lengths.

    Raises:
      InputError: the split has no pairs, or a number is less than 1.
    """
    padded = lengths
    if mix_lengths:
        size = _checked_batch_size(batch_size)
        padded = np.concatenate([_longest(lengths, size, epoch) for epoch in range(_EPOCHS)])
    buckets = plan_buckets(padded, maximum_buckets=maximum_buckets)
    return BatchPlan(assign(lengths, buckets), buckets, batch_size, mixed=mix_lengths)


def evaluation_rows(splits: Sequence[np.ndarray], buckets: Sequence[int], batch_size: int) -> tuple[int, ...]:
    """Returns the number of rows in a batch of each bucket.

    The numbers are common to all splits, so that all of them are evaluated with the same compiled shapes.

    Arguments:
      splits: for each split <int32>[pairs], the number of tokens in both sentences of each pair.
      buckets: the lengths of the buckets, ascending; every pair fits into the last one.
      batch_size: the maximum number of rows in a batch.

    Returns:
      One number for each bucket; 1 if no split has pairs in the bucket.
    """
    _checked_batch_size(batch_size)
    counts = [np.bincount(assign(lengths, tuple(buckets)), minlength=len(buckets)) for lengths in splits]
    return tuple(_even_split(max(1, int(count)), batch_size)[1] for count in np.max(counts, axis=0))


def evaluation_batches(lengths: np.ndarray, buckets: Sequence[int], rows: Sequence[int]) -> list[Batch]:
    """Returns batches that visit every pair of a split once, in a fixed order.

    Arguments:
      lengths: <int32>[pairs], the number of tokens in both sentences of each pair.
      buckets: the lengths of the buckets, ascending; every pair fits into the last one.
      rows: the number of rows in a batch of each bucket; the last batch of a bucket is filled up.
    """
    assignment = assign(lengths, tuple(buckets))
    batches = []
    for bucket, members in _members(assignment, len(buckets)).items():
        for start in range(0, len(members), rows[bucket]):
            chosen = members[start : start + rows[bucket]]
            weights = (np.arange(rows[bucket]) < len(chosen)).astype(np.float32)
            filled = np.where(weights > 0, np.resize(chosen, rows[bucket]), chosen[0]).astype(np.int32)
            batches.append(Batch(bucket, filled, weights))
    return batches


def _checked_batch_size(batch_size: int) -> int:
    if batch_size < 1:
        raise InputError(f"the batch size is {batch_size}", remedy="give 1 or more")
    return batch_size


def _members(assignment: np.ndarray, bucket_count: int) -> dict[int, np.ndarray]:
    """Returns bucket -> the indices of its pairs, <int32>[count], ascending. Buckets without pairs are left out."""
    assignment = np.asarray(assignment)
    if len(assignment) and not 0 <= assignment.min() <= assignment.max() < bucket_count:
        raise ValueError(f"an assignment to {bucket_count} buckets holds other numbers than 0..{bucket_count - 1}")
    members = {bucket: np.flatnonzero(assignment == bucket).astype(np.int32) for bucket in range(bucket_count)}
    return {bucket: rows for bucket, rows in members.items() if len(rows)}


def _shuffled(values: np.ndarray, epoch: int) -> np.ndarray:
    """Returns the values of the pairs in the order of mixed batches in an epoch, which is the same for all seeds."""
    return values[_random_order(len(values), 0, _SEQUENCE, epoch, 0)]


def _longest(values: np.ndarray, batch_size: int, epoch: int) -> np.ndarray:
    """Returns the largest value of each mixed batch of an epoch; `values` are the lengths or buckets of the pairs."""
    if not len(values):
        return np.zeros(0, np.int32)
    return _lay_out(_shuffled(values, epoch), *_even_split(len(values), batch_size))[0].max(axis=1)


def _even_split(count: int, batch_size: int) -> tuple[int, int]:
    """Returns the number of batches for `count` pairs, and the number of rows in each batch."""
    batches = math.ceil(count / batch_size)
    return batches, math.ceil(count / batches)


def _lay_out(rows: np.ndarray, batches: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Distributes rows over batches. Fillers go to the last batches, one to each.

    Returns:
      rows <int32>[batches, width] and weights <float32>[batches, width].
    """
    fillers = batches * width - len(rows)
    whole = (batches - fillers) * width
    table = np.empty((batches, width), np.int32)
    weights = np.ones((batches, width), np.float32)
    table[: batches - fillers] = rows[:whole].reshape(-1, width)
    if fillers:
        short = rows[whole:].reshape(fillers, width - 1)
        table[batches - fillers :, :-1] = short
        table[batches - fillers :, -1] = short[:, 0]
        weights[batches - fillers :, -1] = 0.0
    return table, weights


def _random_order(count: int, seed: int, purpose: int, epoch: int, bucket: int) -> np.ndarray:
    """Draws a permutation, <int64>[count]. The draw depends on the arguments alone."""
    mask = (1 << 64) - 1
    key = np.array([seed & mask, (purpose << 56 | bucket << 40 | epoch) & mask], np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable")


# Training batches are drawn again in every epoch, so their maximum number of distinct words is estimated from a
# few draws. Batches of one shape differ by a few percent: on SNLI and Quora, 25% are six standard deviations or more.
_DRAWS, _BATCHES_OF_A_DRAW, _MARGIN = 4, 16, 1.25
# Programs are compiled for multiples of this number, so that a few words more or less need no other program.
_MULTIPLE = 64


def distinct_word_counts(ids: np.ndarray, batches: np.ndarray, words: int) -> np.ndarray:
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
            most[bucket] = max(
                most.get(bucket, 0), *distinct_word_counts(of_bucket, batches[:_BATCHES_OF_A_DRAW], words)
            )
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

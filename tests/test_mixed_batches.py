"""Batches of pairs of different lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.batches import BatchPlan, distinct_word_counts, most_in_training, plan_batches
from jaxmatch.errors import InputError

lengths_of_pairs = st.lists(st.integers(1, 30), min_size=1, max_size=80).map(
    lambda numbers: np.array(numbers, np.int32)
)
seeds, epochs, sizes = st.integers(0, 2**40), st.integers(0, 500), st.integers(1, 17)


def mixed_plan(lengths, batch_size, maximum_buckets=3):
    return plan_batches(lengths, batch_size=batch_size, maximum_buckets=maximum_buckets, mix_lengths=True)


@given(lengths_of_pairs, sizes, st.integers(1, 5), st.lists(seeds, min_size=2, max_size=2, unique=True), epochs)
@settings(max_examples=60, deadline=None)
def test_each_seed_sees_every_pair_once_in_batches_padded_to_their_longest_pair(lengths, size, maximum, several, epoch):
    plan = mixed_plan(lengths, size, maximum)
    assert len(plan.buckets) <= maximum and plan.buckets[-1] == lengths.max()
    sequence = plan.bucket_sequence(epoch)
    assert sequence.shape == (plan.steps_per_epoch, 2) and sequence.dtype == np.int32
    assert plan.steps_per_epoch == -(-len(lengths) // size)
    padded = np.array(plan.buckets)[sequence[:, 0]]
    below = np.array((0, *plan.buckets))[sequence[:, 0]]
    weights_of = []
    for seed in several:
        ((rows, weights),) = plan.rows(seed, epoch).values()
        assert rows.dtype == np.int32 and weights.dtype == np.float32
        assert rows.shape == weights.shape == (plan.steps_per_epoch, next(iter(plan.batch_rows.values())))
        assert sorted(rows[weights > 0].tolist()) == list(range(len(lengths)))
        longest = lengths[rows[sequence[:, 1]]].max(axis=1)
        # The shortest of the lengths that holds the batch: the same one for every seed.
        assert np.all(longest <= padded) and np.all(longest > below)
        weights_of.append(weights)
    np.testing.assert_array_equal(*weights_of)


@given(lengths_of_pairs, sizes, seeds, epochs)
@settings(max_examples=30, deadline=None)
def test_draw_of_a_seed_does_not_depend_on_earlier_draws(lengths, size, seed, epoch):
    plan, again = mixed_plan(lengths, size), mixed_plan(lengths, size)
    again.rows(seed + 1, epoch), again.rows(seed, epoch + 1), again.bucket_sequence(epoch + 1)
    np.testing.assert_array_equal(plan.bucket_sequence(epoch), again.bucket_sequence(epoch))
    np.testing.assert_array_equal(plan.rows(seed, epoch)[0], again.rows(seed, epoch)[0])


def test_draw_equals_recorded_values():
    # The order of a resumed run must not depend on the release of NumPy.
    plan = mixed_plan(np.array([3, 3, 3, 3, 3, 3, 3, 9]), 3)
    assert plan.buckets == (3, 9)
    assert plan.bucket_sequence(2).tolist() == [[0, 0], [1, 1], [0, 2]]
    assert plan.rows(7, 2)[0][0].tolist() == [[1, 4, 0], [7, 5, 3], [6, 2, 6]]


def test_every_pair_is_equally_often_at_every_place():
    lengths = np.array([2, 2, 2, 2, 5, 5, 9, 9], np.int32)
    plan = mixed_plan(lengths, 4)
    assert len(plan.buckets) > 1
    drawn = np.stack([plan.rows(seed, epoch)[0][0].ravel() for seed in range(4) for epoch in range(1000)])
    counts = np.stack([np.bincount(drawn[:, place], minlength=8) for place in range(8)])
    assert np.all(abs(counts - 500) < 5 * np.sqrt(500))
    # Two pairs of one length are as often in one batch as two of different lengths: 3 of 7.
    batch = np.argsort(drawn, axis=1) // 4
    for one, other in ((0, 1), (0, 4), (4, 5), (5, 6), (6, 7)):
        assert np.mean(batch[:, one] == batch[:, other]) == pytest.approx(3 / 7, abs=0.04)


def test_seeds_shuffle_the_pairs_of_a_length_differently():
    plan = mixed_plan(np.repeat([3, 9], 64).astype(np.int32), 64)
    (first, _), (second, _) = plan.rows(0, 5)[0], plan.rows(1, 5)[0]
    assert not np.array_equal(first, second)


def test_lengths_fit_the_longest_pairs_of_batches_not_single_pairs():
    lengths = np.random.default_rng(0).geometric(0.1, 6_400).astype(np.int32)
    mixed = mixed_plan(lengths, 64, maximum_buckets=4)
    by_length = plan_batches(lengths, batch_size=64, maximum_buckets=4, mix_lengths=False)
    of_single_pairs = BatchPlan(np.searchsorted(by_length.buckets, lengths), by_length.buckets, 64, mixed=True)
    assert by_length.tokens() < mixed.tokens() < of_single_pairs.tokens() < lengths.max() * len(lengths)
    exact = np.mean([64 * lengths[mixed.rows(0, epoch)[0][0]].max(axis=1).sum() for epoch in range(5)])
    assert exact < mixed.tokens() < 1.2 * exact
    assert mixed.padding_share(lengths) == pytest.approx(1 - lengths.sum() / mixed.tokens())


def test_distinct_words_are_counted_in_the_batches_of_each_length():
    lengths = np.array([2] * 30 + [6], np.int32)
    ids = np.zeros((31, 6), np.int32)
    ids[:, :2] = np.arange(31)[:, None] + 2
    ids[30] = np.arange(40, 46)
    plan = mixed_plan(lengths, 8, maximum_buckets=2)
    drawn = plan.rows(3, 0)
    most = {
        bucket: distinct_word_counts(ids[:, : plan.buckets[bucket]], rows, 50).max()
        for bucket, rows in plan.batches_of(drawn, 0).items()
    }
    # Padding and eight words; the batch with the long pair has six words of that pair and those of the other pairs.
    (long,) = np.flatnonzero(plan.bucket_sequence(0)[:, 0] == 1)
    others = len(set(drawn[0][0][long].tolist()) - {30})
    assert most == {0: 9, 1: 1 + 6 + others}
    assert most_in_training(plan, ids, 50).keys() == {0, 1}


def test_a_batch_without_pairs_is_refused():
    with pytest.raises(InputError, match="batch size is 0"):
        mixed_plan(np.array([3]), 0)
    with pytest.raises(InputError, match="without pairs"):
        mixed_plan(np.array([], np.int32), 3)

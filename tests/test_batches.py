"""Length buckets, the pairs of each batch, and the order of batches, of pairs of one length and of mixed lengths."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.batches import (
    BatchPlan,
    assign,
    evaluation_batches,
    evaluation_rows,
    plan_batches,
    plan_buckets,
)

BUCKETS = (5, 7, 14)
assignments = st.lists(st.integers(0, 2), min_size=1, max_size=80).map(lambda numbers: np.array(numbers, np.int32))
seeds, epochs, sizes = st.integers(0, 2**40), st.integers(0, 500), st.integers(1, 17)


@given(assignments, sizes, seeds, epochs)
@settings(max_examples=50, deadline=None)
def test_each_epoch_contains_every_pair_once_in_shapes_that_seeds_share(assignment, batch_size, seed, epoch):
    plan = BatchPlan(assignment, BUCKETS, batch_size)
    drawn, other = plan.rows(seed, epoch), plan.rows(seed + 1, epoch)
    sequence = plan.bucket_sequence(epoch)
    assert sequence.shape == (plan.steps_per_epoch, 2) and sequence.dtype == np.int32
    assert len({tuple(step) for step in sequence.tolist()}) == len(sequence)
    seen = []
    for bucket, index in sequence.tolist():
        rows, weights = (values[index] for values in drawn[bucket])
        assert rows.dtype == np.int32 and weights.dtype == np.float32
        assert rows.shape == weights.shape == plan.shapes[bucket][:1] and 0 < len(rows) <= batch_size
        assert np.all(assignment[rows] == bucket)
        # At most one row is a filler, which repeats the first pair.
        assert weights[0] == 1.0 and sorted(weights)[1:] == [1.0] * (len(rows) - 1)
        assert np.all(rows[weights == 0] == rows[0])
        seen.extend(rows[weights > 0].tolist())
        np.testing.assert_array_equal(weights, other[bucket][1][index])
    assert sorted(seen) == list(range(len(assignment)))
    # There are no more batches than the pairs of each bucket need.
    counts = np.bincount(assignment, minlength=3)
    assert plan.steps_per_epoch == sum(-(-count // batch_size) for count in counts)


def test_orders_differ_between_seeds_epochs_and_buckets():
    plan = BatchPlan(np.repeat([0, 1], 64), BUCKETS, 64)
    orders = [
        plan.rows(seed, epoch)[bucket][0].ravel() % 64 for seed in (0, 1) for epoch in (0, 1) for bucket in (0, 1)
    ]
    for index, order in enumerate(orders):
        assert not any(np.array_equal(order, other) for other in orders[:index])
        assert not np.array_equal(order, np.arange(64))
    plan = BatchPlan(np.zeros(64, np.int32), BUCKETS, 1)
    assert not np.array_equal(plan.bucket_sequence(0), plan.bucket_sequence(1))


def test_draw_equals_recorded_values():
    # Philox4x64-10 of a fixed key: the order of a resumed run must not depend on the release of NumPy.
    plan = BatchPlan(np.array([0, 0, 0, 0, 0, 0, 0, 2]), BUCKETS, 3)
    drawn = plan.rows(7, 2)
    assert drawn[0][0].tolist() == [[1, 4, 0], [5, 3, 5], [6, 2, 6]]
    assert drawn[0][1].tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0]]
    assert drawn[2][0].tolist() == [[7]]
    assert plan.bucket_sequence(2).tolist() == [[0, 0], [0, 2], [0, 1], [2, 0]]


several_lengths = st.lists(st.lists(st.integers(1, 21), min_size=1, max_size=60), min_size=1, max_size=3)


@given(several_lengths, sizes, st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_evaluation_visits_every_pair_once_in_shapes_that_splits_share(pairs, batch_size, maximum):
    splits = [np.array(lengths, np.int32) for lengths in pairs]
    buckets = plan_buckets(np.concatenate(splits), maximum_buckets=maximum)
    rows = evaluation_rows(splits, buckets, batch_size)
    assert len(rows) == len(buckets) and max(rows) <= batch_size
    for lengths in splits:
        assignment = assign(lengths, buckets)
        seen = []
        for bucket, places, pairs in evaluation_batches(lengths, buckets, rows):
            assert places.shape == (rows[bucket],) and np.all(assignment[places] == bucket)
            seen += places[:pairs].tolist()
        assert sorted(seen) == list(range(len(lengths)))


def test_evaluation_rows_equal_hand_computed_values():
    # Seven pairs of the first bucket make two batches of four rows. The five pairs of the other split fit that shape.
    splits = [np.array([3] * 7 + [9]), np.array([2] * 5)]
    assert evaluation_rows(splits, (3, 9), 4) == (4, 1)
    batches = [(rows.tolist(), pairs) for _, rows, pairs in evaluation_batches(splits[1], (3, 9), (4, 1))]
    assert batches == [([0, 1, 2, 3], 4), ([4, 4, 4, 4], 1)]


some_lengths = st.lists(st.integers(1, 14), min_size=1, max_size=60).map(lambda numbers: np.array(numbers, np.int32))


def cost(lengths, buckets):
    return sum(min(bucket for bucket in buckets if length <= bucket) for length in lengths.tolist())


@given(some_lengths, st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_planned_buckets_minimize_padding(lengths, maximum):
    buckets = plan_buckets(lengths, maximum_buckets=maximum)
    assert len(buckets) <= maximum
    assert list(buckets) == sorted(set(buckets))
    longest = int(lengths.max())
    assert buckets[-1] == longest
    shorter = sorted(set(lengths.tolist()) - {longest})
    choices = (choice for count in range(maximum) for choice in itertools.combinations(shorter, count))
    assert cost(lengths, buckets) == min(cost(lengths, (*choice, longest)) for choice in choices)
    assert buckets == plan_buckets(lengths[::-1], maximum_buckets=maximum)
    padded = np.array(buckets)[assign(lengths, buckets)]
    assert np.all(padded >= lengths) and padded.sum() == cost(lengths, buckets)


@given(some_lengths, sizes, st.integers(0, 300))
@settings(max_examples=50, deadline=None)
def test_shared_programs_cost_least_in_two_epochs(lengths, batch_size, compilation):
    plan = plan_batches(lengths, batch_size=batch_size, maximum_buckets=4)
    plan.share_programs(2, compilation)
    shapes, buckets = np.array(list(plan.shapes.values())), plan.bucket_sequence(0)[:, 0].tolist()

    def cost(programs):
        return compilation * len({tuple(one) for one in programs}) + 2 * sum(np.prod(programs[one]) for one in buckets)

    count = len(shapes)
    choices = [(0, *cuts, count) for size in range(count) for cuts in itertools.combinations(range(1, count), size)]
    parts = [[range(*part) for part in itertools.pairwise(ends)] for ends in choices]
    programs = [[shapes[part].max(axis=0).tolist() for part in each for _ in part] for each in parts]
    assert cost(list(plan.compiled.values())) == min(map(cost, programs))


lengths_of_pairs = st.lists(st.integers(1, 30), min_size=1, max_size=80).map(
    lambda numbers: np.array(numbers, np.int32)
)


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
        assert rows.shape == weights.shape == (plan.steps_per_epoch, next(iter(plan.shapes.values()))[0])
        assert sorted(rows[weights > 0].tolist()) == list(range(len(lengths)))
        longest = lengths[rows[sequence[:, 1]]].max(axis=1)
        # The shortest of the lengths that holds the batch: the same one for every seed.
        assert np.all(longest <= padded) and np.all(longest > below)
        weights_of.append(weights)
    np.testing.assert_array_equal(*weights_of)


def test_mixed_draw_equals_recorded_values():
    # The order of a resumed run must not depend on the release of NumPy.
    plan = mixed_plan(np.array([3, 3, 3, 3, 3, 3, 3, 9]), 3)
    assert plan.buckets == (3, 9)
    assert plan.bucket_sequence(2).tolist() == [[0, 0], [1, 1], [0, 2]]
    assert plan.rows(7, 2)[0][0].tolist() == [[1, 4, 0], [7, 5, 3], [6, 2, 6]]


def test_lengths_fit_the_longest_pairs_of_batches_not_single_pairs():
    lengths = np.random.default_rng(0).geometric(0.1, 6_400).astype(np.int32)
    mixed = mixed_plan(lengths, 64, maximum_buckets=4)
    by_length = plan_batches(lengths, batch_size=64, maximum_buckets=4, mix_lengths=False)
    of_single_pairs = BatchPlan(np.searchsorted(by_length.buckets, lengths), by_length.buckets, 64, mixed=True)
    assert by_length.tokens() < mixed.tokens() < of_single_pairs.tokens() < lengths.max() * len(lengths)
    exact = np.mean([64 * lengths[mixed.rows(0, epoch)[0][0]].max(axis=1).sum() for epoch in range(5)])
    assert exact < mixed.tokens() < 1.2 * exact

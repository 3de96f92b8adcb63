"""The pairs of each batch, and the order of batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.batches import BatchPlan, assign, evaluation_batches, evaluation_rows, plan_buckets
from jaxmatch.errors import InputError

BUCKETS = (5, 7, 14)
assignments = st.lists(st.integers(0, 2), min_size=1, max_size=80).map(lambda numbers: np.array(numbers, np.int32))
seeds, epochs, sizes = st.integers(0, 2**40), st.integers(0, 500), st.integers(1, 17)


def check_batches(assignment, batches, batch_size):
    """Checks that each pair is in one batch of its bucket, and that each filler repeats the first pair of its batch.

    `batches` holds (bucket, rows, weights).
    """
    seen = []
    for bucket, rows, weights in batches:
        assert rows.dtype == np.int32 and weights.dtype == np.float32
        assert rows.shape == weights.shape and 0 < len(rows) <= batch_size
        assert np.all(assignment[rows] == bucket)
        assert set(weights.tolist()) <= {0.0, 1.0}
        assert weights[0] == 1.0 and (weights == 0).sum() <= 1
        assert np.all(rows[weights == 0] == rows[0])
        seen.extend(rows[weights > 0].tolist())
    assert sorted(seen) == list(range(len(assignment)))


@given(assignments, sizes, seeds, epochs)
@settings(max_examples=50, deadline=None)
def test_each_epoch_contains_every_pair_once(assignment, batch_size, seed, epoch):
    plan = BatchPlan(assignment, BUCKETS, batch_size)
    drawn = plan.rows(seed, epoch)
    sequence = plan.bucket_sequence(epoch)
    assert sequence.shape == (plan.steps_per_epoch, 2) and sequence.dtype == np.int32
    assert len({tuple(step) for step in sequence.tolist()}) == len(sequence)
    batches = [(bucket, drawn[bucket][0][index], drawn[bucket][1][index]) for bucket, index in sequence.tolist()]
    check_batches(assignment, batches, batch_size)
    for bucket, (rows, _) in drawn.items():
        assert rows.shape[1] == plan.batch_rows[bucket]
    # There are no more batches than the pairs of each bucket need.
    counts = np.bincount(assignment, minlength=3)
    assert plan.steps_per_epoch == sum(-(-count // batch_size) for count in counts)


@given(assignments, sizes, st.lists(seeds, min_size=2, max_size=3, unique=True), epochs)
@settings(max_examples=30, deadline=None)
def test_shapes_and_weights_are_equal_for_all_seeds(assignment, batch_size, several, epoch):
    plan = BatchPlan(assignment, BUCKETS, batch_size)
    first, *others = (plan.rows(seed, epoch) for seed in several)
    for other in others:
        assert first.keys() == other.keys()
        for bucket in first:
            np.testing.assert_array_equal(first[bucket][1], other[bucket][1])


@given(assignments, sizes, seeds, epochs)
@settings(max_examples=30, deadline=None)
def test_draw_does_not_depend_on_earlier_draws(assignment, batch_size, seed, epoch):
    plan, again = BatchPlan(assignment, BUCKETS, batch_size), BatchPlan(assignment, BUCKETS, batch_size)
    again.rows(seed + 1, epoch), again.rows(seed, epoch + 1), again.bucket_sequence(epoch + 1)
    np.testing.assert_array_equal(plan.bucket_sequence(epoch), again.bucket_sequence(epoch))
    for (rows, _), (same, _) in zip(plan.rows(seed, epoch).values(), again.rows(seed, epoch).values(), strict=True):
        np.testing.assert_array_equal(rows, same)


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


def test_shuffled_positions_are_uniform():
    plan = BatchPlan(np.zeros(8, np.int32), BUCKETS, 8)
    where = np.array([plan.rows(seed, 0)[0][0][0] for seed in range(2000)])
    counts = np.stack([np.bincount(where[:, place], minlength=8) for place in range(8)])
    assert np.all(abs(counts - 250) < 5 * np.sqrt(250))


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
        for batch in evaluation_batches(lengths, buckets, rows):
            assert batch.rows.shape == batch.weights.shape == (rows[batch.bucket],)
            assert np.all(assignment[batch.rows] == batch.bucket)
            assert np.all(batch.rows[batch.weights == 0] == batch.rows[0])
            seen += batch.rows[batch.weights > 0].tolist()
        assert sorted(seen) == list(range(len(lengths)))


def test_evaluation_rows_equal_hand_computed_values():
    # Seven pairs of the first bucket make two batches of four rows. The five pairs of the other split fit that shape.
    splits = [np.array([3] * 7 + [9]), np.array([2] * 5)]
    assert evaluation_rows(splits, (3, 9), 4) == (4, 1)
    batches = evaluation_batches(splits[1], (3, 9), (4, 1))
    assert [batch.rows.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert [batch.weights.tolist() for batch in batches] == [[1, 1, 1, 1], [1, 0, 0, 0]]


def test_token_count_and_padding_share_equal_hand_computed_values():
    # Seven pairs of 5 tokens make three batches of three rows, with two fillers. One pair has 14 tokens.
    plan = BatchPlan(np.array([0, 0, 0, 0, 0, 0, 0, 2]), BUCKETS, 3)
    assert (plan.steps_per_epoch, plan.batch_rows) == (4, {0: 3, 2: 1})
    assert plan.tokens() == 9 * 5 + 14
    assert plan.padding_share([5] * 7 + [6]) == pytest.approx(1 - (35 + 6) / 59)


def test_invalid_batch_sizes_and_buckets_raise():
    with pytest.raises(InputError, match="batch size is 0"):
        BatchPlan(np.zeros(3, np.int32), BUCKETS, 0)
    with pytest.raises(InputError, match="batch size is -2"):
        evaluation_rows([np.array([1])], BUCKETS, -2)
    with pytest.raises(ValueError, match="other numbers than 0..2"):
        BatchPlan(np.array([0, 3]), BUCKETS, 2)

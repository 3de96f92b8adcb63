"""Length buckets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.buckets import Bucket, assign, padding_share, plan_buckets
from jaxmatch.errors import InputError

lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=60).map(
    lambda pairs: (np.array([a for a, _ in pairs], np.int32), np.array([b for _, b in pairs], np.int32))
)


def cost(a, b, buckets):
    return sum(min(x.tokens for x in buckets if i <= x.length_a and j <= x.length_b) for i, j in zip(a, b, strict=True))


@given(lengths, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_plan_is_small_sorted_and_holds_every_pair(pairs, maximum):
    a, b = pairs
    buckets = plan_buckets(a, b, maximum_buckets=maximum)
    assert len(buckets) <= maximum
    assert list(buckets) == sorted(set(buckets))
    assert buckets[-1] == Bucket(a.max(), b.max())
    assert buckets == plan_buckets(a[::-1], b[::-1], maximum_buckets=maximum)
    assert cost(a, b, buckets) <= cost(a, b, plan_buckets(a, b, maximum_buckets=max(1, maximum - 1)))


@given(lengths, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_every_pair_gets_the_cheapest_bucket_that_holds_it(pairs, maximum):
    a, b = pairs
    buckets = plan_buckets(a, b, maximum_buckets=maximum)
    assignment = assign(a, b, buckets)
    assert assignment.dtype == np.int32
    chosen = [buckets[number] for number in assignment]
    assert all(i <= bucket.length_a and j <= bucket.length_b for i, j, bucket in zip(a, b, chosen, strict=True))
    total = sum(bucket.tokens for bucket in chosen)
    assert total == cost(a, b, buckets)
    assert padding_share(a, b, buckets) == pytest.approx(1 - (a.sum() + b.sum()) / total)


@given(lengths)
@settings(max_examples=20, deadline=None)
def test_two_buckets_are_the_best_two(pairs):
    a, b = pairs
    universal = Bucket(a.max(), b.max())
    every = [Bucket(i, j) for i, j in itertools.product(set(a.tolist()), set(b.tolist()))]
    best = min(cost(a, b, (bucket, universal)) for bucket in every)
    assert cost(a, b, plan_buckets(a, b, maximum_buckets=2)) == best


def test_by_hand():
    a, b = np.array([2, 2, 2, 9, 5]), np.array([3, 3, 1, 4, 8])
    buckets = plan_buckets(a, b, maximum_buckets=3)
    # Three pairs fit (2, 3); one long pair can be spared the other's length: (9, 4) saves 4 tokens, (5, 8) saves 4.
    assert buckets[0] == Bucket(2, 3) and buckets[-1] == Bucket(9, 8)
    assert assign(a, b, (Bucket(2, 3), Bucket(9, 4), Bucket(9, 8))).tolist() == [0, 0, 0, 1, 2]
    assert padding_share(a, b, (Bucket(9, 8),)) == pytest.approx(1 - 39 / 85)
    # Of two equally cheap buckets the first is taken.
    assert assign([1], [1], (Bucket(2, 3), Bucket(3, 2), Bucket(3, 3))).tolist() == [0]


def test_enough_buckets_leave_no_padding():
    a, b = np.array([1, 2, 3, 3]), np.array([4, 4, 2, 2])
    assert padding_share(a, b, plan_buckets(a, b, maximum_buckets=10)) == 0.0
    assert len(plan_buckets(a, b, maximum_buckets=10)) == 4  # the three shapes there are, and the universal one


def test_very_many_lengths():
    draw = np.random.default_rng(0)
    a, b = draw.integers(1, 3000, 1000), draw.integers(1, 3000, 1000)
    buckets = plan_buckets(a, b, maximum_buckets=6)
    assert buckets[-1] == Bucket(a.max(), b.max())
    assert padding_share(a, b, buckets) < 0.4 < padding_share(a, b, buckets[-1:])


def test_what_cannot_be_bucketed():
    with pytest.raises(InputError, match="pair 1 with 3 and 1 tokens fits no length bucket"):
        assign(np.array([1, 3]), np.array([1, 1]), (Bucket(2, 2),))
    with pytest.raises(InputError, match="0 length buckets"):
        plan_buckets(np.array([1]), np.array([1]), maximum_buckets=0)
    with pytest.raises(InputError, match="without pairs"):
        plan_buckets(np.array([], np.int32), np.array([], np.int32), maximum_buckets=2)
    with pytest.raises(ValueError, match="same pairs"):
        assign(np.array([1, 3]), np.array([1]), (Bucket(3, 3),))

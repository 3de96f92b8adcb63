"""Length buckets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.batches import assign, plan_buckets
from jaxmatch.errors import InputError

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


@given(some_lengths, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_every_pair_gets_the_shortest_bucket_that_holds_it(lengths, maximum):
    buckets = plan_buckets(lengths, maximum_buckets=maximum)
    assignment = assign(lengths, buckets)
    assert assignment.dtype == np.int32
    padded = np.array(buckets)[assignment]
    assert np.all(padded >= lengths)
    assert padded.sum() == cost(lengths, buckets)


def test_one_bucket_per_distinct_length_needs_no_padding():
    lengths = np.array([3, 9, 9, 4])
    assert plan_buckets(lengths, maximum_buckets=5) == (3, 4, 9)
    assert np.array_equal(np.array([3, 4, 9])[assign(lengths, (3, 4, 9))], lengths)


def test_invalid_arguments_raise():
    with pytest.raises(InputError, match="0 length buckets"):
        plan_buckets(np.array([1]), maximum_buckets=0)
    with pytest.raises(InputError, match="without pairs"):
        plan_buckets(np.array([], np.int32), maximum_buckets=3)
    with pytest.raises(ValueError, match="a pair of 9 tokens does not fit a bucket of 8"):
        assign(np.array([2, 9]), (4, 8))

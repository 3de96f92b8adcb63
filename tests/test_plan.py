"""Which shapes of a step a plan has to look at."""

from hypothesis import given
from hypothesis import strategies as st

from jaxmatch.experiments.plan import largest

SIZES = st.integers(1, 12)


def covers(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1]


def test_of_full_batches_the_longest_is_enough():
    assert largest([(512, 12), (512, 16), (512, 82), (37, 60)]) == [(512, 82)]


def test_a_small_but_longer_batch_counts_too():
    assert largest([(512, 16), (512, 12), (3, 82)]) == [(512, 16), (3, 82)]


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1))
def test_every_shape_is_covered_and_none_that_is_kept_by_another(shapes):
    kept = largest(shapes)
    assert set(kept) <= set(shapes)
    assert all(any(covers(one, shape) for one in kept) for shape in shapes)
    assert not any(covers(one, other) for one in kept for other in kept if one is not other)

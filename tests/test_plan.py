"""The batch shapes that a plan inspects, and the work of a cohort."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxmatch.data.buckets import largest
from jaxmatch.sweep.memory import Needs
from jaxmatch.sweep.plan import PlannedCohort

SIZES = st.integers(1, 12)


def covers(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1]


def test_only_the_longest_of_the_full_batches_is_kept():
    assert largest([(512, 12), (512, 16), (512, 82), (37, 60)]) == [(512, 82)]


def test_smaller_but_longer_batch_is_kept():
    assert largest([(512, 16), (512, 12), (3, 82)]) == [(512, 16), (3, 82)]


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1))
def test_kept_shapes_cover_all_shapes_but_not_each_other(shapes):
    kept = largest(shapes)
    assert set(kept) <= set(shapes)
    assert all(any(covers(one, shape) for one in kept) for shape in shapes)
    assert not any(covers(one, other) for one in kept for other in kept if one is not other)


@pytest.mark.parametrize(
    ("runs", "available", "limit", "most", "devices", "computed"),
    [
        (10, 1, None, None, 1, 10),
        (10, 1, 4, None, 1, 12),  # three turns of four
        (7, 1, 6, None, 1, 8),
        (10, 1, None, 4, 1, 10),  # as on a CPU: five turns of two
        (3, 8, None, None, 3, 1),
        (10, 8, None, None, 5, 2),
        (11, 8, None, None, 6, 2),  # 6 devices of 2: one replica is padding
    ],
)
def test_cohort_work_includes_sequential_turns_and_padding(runs, available, limit, most, devices, computed):
    needs = Needs(step=100, parameters=1, most=most)
    cohort = PlannedCohort("signature", (None,) * runs, None, 1, 1, 1, needs, 10.0, available, limit)
    assert (cohort.devices, cohort.device_work) == (devices, 10.0 * computed)
    assert cohort.replica_bytes == needs.of(-(-runs // devices)) // -(-runs // devices)

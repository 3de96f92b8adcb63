import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cohort import OPTIMIZER

from jaxmatch.training import step
from jaxmatch.training.step import learning_rate


def rate(samples, **changes):
    stacked = step.stack([{**OPTIMIZER, **changes}])
    one = jax.tree.map(lambda leaf: leaf[0], stacked)
    return float(learning_rate(np.int32(samples), one))


SNLI = dict(
    learning_rate=2e-3, learning_rate_floor=1e-4, warmup_samples=2_048_000, decay_rate=0.94, decay_samples=256_000
)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (0, 1e-4),
        (1_024_000, (1e-4 + 2e-3) / 2),
        (2_048_000, 2e-3),
        (2_048_000 + 255_999, 2e-3),
        (2_048_000 + 256_000, 2e-3 * 0.94),
        (2_048_000 + 5 * 256_000, 2e-3 * 0.94**5),
        (100_000_000, 1e-4),
    ],
)
def test_released_snli_schedule_equals_hand_computed_rates(samples, expected):
    assert rate(samples, **SNLI) == pytest.approx(expected, rel=1e-4)


def test_learning_rate_without_decay_is_constant():
    for samples in (0, 1, 10_000_000):
        assert rate(samples, learning_rate=1e-3, learning_rate_floor=6e-5, decay_rate=1.0) == pytest.approx(1e-3)
        assert rate(samples, learning_rate=1e-3, learning_rate_floor=6e-5, decay_samples=0) == pytest.approx(1e-3)
        # A floor above the rate must not raise it.
        for warmup in (0, 1_000_000):
            low = {"learning_rate": 1e-5, "learning_rate_floor": 6e-5, "warmup_samples": warmup}
            assert rate(samples, **low, decay_rate=1.0) == pytest.approx(1e-5)


@given(
    st.integers(0, 10_000),
    st.integers(0, 3_000),
    st.integers(1, 3_000),
    st.floats(0.5, 1.0),
    st.floats(1e-4, 1e-2),
    st.floats(0, 1e-4),
)
@settings(max_examples=50, deadline=None)
def test_learning_rate_equals_the_formula(samples, warmup, period, decay, peak, floor):
    if samples < warmup:
        expected = floor + (peak - floor) * samples / warmup
    else:
        expected = max(floor, peak * decay ** ((samples - warmup) // period))
    got = rate(
        samples,
        learning_rate=peak,
        learning_rate_floor=floor,
        warmup_samples=warmup,
        decay_rate=decay,
        decay_samples=period,
    )
    assert got == pytest.approx(expected, rel=1e-3)

"""Random scores with many ties, for property-based tests."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

QUICK = settings(max_examples=50, deadline=None)
# Few distinct values, so that ties are common; the last two differ in float64 but not in float32.
COARSE = st.sampled_from([-1.5, -1.0, 0.0, 0.25, 1.0, 1.0 + 1e-12])


def columns(*entries, least=1, most=30):
    """Draws lists of the same length, one for each strategy, as arrays."""
    return st.lists(st.tuples(*entries), min_size=least, max_size=most).map(
        lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
    )

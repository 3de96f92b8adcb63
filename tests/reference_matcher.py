"""A matcher around a random RE2, which tests/reference_re2.py computes independently."""

import numpy as np
import reference_re2
import saved_model

from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.inference.interop import re2_from_pytorch
from jaxmatch.inference.matcher import Matcher

SETTINGS = {
    "alignment": "linear",
    "fusion": "full",
    "connection": "aug",
    "prediction": "full",
    "blocks": 3,
    "enc_layers": 1,
    "hidden_size": 4,
    "embedding_dim": 5,
    "num_classes": 3,
    "num_vocab": len(saved_model.WORDS),
    "kernel_sizes": [3],
}


def network() -> tuple[dict[str, np.ndarray], Matcher]:
    """Returns random parameters in the released layout, and a matcher with these parameters."""
    state = reference_re2.random_state(SETTINGS, np.random.default_rng(3))
    matcher = Matcher(
        re2_from_pytorch(state, SETTINGS),
        vocabulary=Vocabulary(saved_model.WORDS),
        preprocessing=Preprocessing(**saved_model.PREPROCESSING),
        labels=saved_model.LABELS,
        task="classification",
        config={"model": {"name": "re2"}},
    )
    return state, matcher


def ids_of(matcher: Matcher, pairs: list[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns padded word ids <int32>[pairs, longest] of both sides."""

    def padded(rows):
        longest = max(map(len, rows))
        return np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)

    sides_a, sides_b = matcher.encoded(pairs).sides
    return padded(sides_a), padded(sides_b)

"""NumPy references and comparisons that the tests of several models share."""

import numpy as np
from random_parameters import compiled

from jaxmatch.models.pair_model import pair_rows


def linear(params, inputs):
    """Computes a dense layer in float64."""
    return inputs @ np.asarray(params["kernel"], np.float64) + np.asarray(params.get("bias", 0.0), np.float64)


def check_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def check_logits(module, params, ids_a, ids_b, vectors, expected):
    """Checks that a model computes the expected logits, with padding at the ends of rows and between their tokens."""
    match = compiled(lambda ids, which: module.apply({"params": params}, {"ids": ids}, which, vectors, method="match"))
    tokens, sentences = pair_rows({"ids": ids_a}, {"ids": ids_b})
    ids, sentences = np.asarray(tokens["ids"]), np.asarray(sentences)
    check_close(match(ids, sentences), expected)
    spread_ids, spread = np.zeros_like(ids), np.zeros_like(sentences)
    generator = np.random.default_rng(0)
    for row in range(len(ids)):
        real = np.flatnonzero(sentences[row])
        places = np.sort(generator.choice(ids.shape[1], len(real), replace=False))
        spread_ids[row, places], spread[row, places] = ids[row, real], sentences[row, real]
    assert np.any(spread != sentences, axis=1).all()
    check_close(match(spread_ids, spread), expected)

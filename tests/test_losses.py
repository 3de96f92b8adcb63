"""Losses against hand-computed values."""

import math

import jax.numpy as jnp
import numpy as np

from jaxmatch.training.step import LOSSES


def test_each_loss_equals_its_formula():
    logits, labels = jnp.asarray([[0.0, 0.0], [0.0, math.log(3.0)], [math.log(9.0), 0.0]]), jnp.asarray([0, 1, 1])
    for task in ("classification", "ranking"):
        np.testing.assert_allclose(LOSSES[task](logits, labels), -np.log([0.5, 0.75, 0.1]), rtol=1e-5)
    found = LOSSES["regression"](jnp.asarray([[1.0], [-2.0], [0.25]]), jnp.asarray([0.5, 1.0, 0.25]))
    np.testing.assert_allclose(found, [0.25, 9.0, 0.0], rtol=1e-6)

"""Parameters as one flat array."""

import jax
import numpy as np
from small_cohort import MODEL

from jaxmatch import models
from jaxmatch.layers.core import traced_for
from jaxmatch.training import step


def test_round_trip_preserves_parameters():
    flat = step.flattening(models.build(MODEL, outputs=2), 6)
    values = np.arange(1, flat.count + 1, dtype=np.float32)
    tree = flat.to_tree(values)
    assert sum(leaf.size for leaf in jax.tree.leaves(tree)) == flat.count
    np.testing.assert_array_equal(flat.to_array(tree), values)


def test_gpu_flattening_gives_the_outputs_of_cpu_flattening():
    """On a GPU, weights are normalized together and products are aligned."""
    module = models.build(MODEL, outputs=2)
    flat, on_a_gpu = (step.flattening(module, 6, platform=platform) for platform in ("cpu", "gpu"))
    generator = np.random.default_rng(0)
    parameters, vectors = (generator.standard_normal(shape).astype(np.float32) for shape in (flat.count, (9, 6)))
    tokens, sentences = {"ids": generator.integers(1, 9, (3, 8))}, np.repeat(np.int8([[1, 1, 1, 2, 2, 2, 0, 0]]), 3, 0)
    with traced_for("cpu"):
        expected = flat.match(parameters, tokens, sentences, vectors)
    with traced_for("gpu"):
        found = on_a_gpu.match(parameters, tokens, sentences, vectors)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

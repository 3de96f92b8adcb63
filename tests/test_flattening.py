"""Parameters as one flat array."""

import jax
import numpy as np
import pytest
from small_cohort import MODEL, InterruptAfter, Interruption, alike, make_cohort

from jaxmatch import models
from jaxmatch.training import cohort as cohort_module
from jaxmatch.training import step
from jaxmatch.training.checkpoints import Checkpoints


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
    expected = flat.match(parameters, tokens, sentences, vectors)
    found = on_a_gpu.match(parameters, tokens, sentences, vectors)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class ZeroPadded(Checkpoints):
    """Checkpoints of older versions, which saved parameters and moments padded with zeros."""

    def save(self, number, arrays, notes):
        def padded(leaf):
            leaf = np.asarray(leaf)
            return np.pad(leaf, [(0, 0), (0, 37)]) if leaf.ndim > 1 else leaf

        super().save(number, jax.tree.map(padded, arrays), notes)


def test_training_resumes_from_a_checkpoint_with_zero_padded_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 0.0)  # check after every step
    expected = make_cohort().train()
    with pytest.raises(Interruption):
        make_cohort(execution={"checkpoint_seconds": 1e-9}).train(ZeroPadded(tmp_path), InterruptAfter(7))
    results = make_cohort().train(Checkpoints(tmp_path))
    alike(results, expected, rtol=0)
    assert [one.progress.best for one in results] == [one.progress.best for one in expected]

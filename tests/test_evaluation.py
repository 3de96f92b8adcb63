"""Evaluation uses the same compiled shapes for all splits, and its outputs have the order of the split."""

import dataclasses

import jax
import numpy as np
import small_cohort

from jaxmatch.training.evaluation import Evaluator, evaluation_batch_size, evaluation_shapes
from jaxmatch.training.programs import replica_mesh


def first_words(static, parameters, tokens, sentences, vectors):
    """Stands in for a compiled program. Returns the first id of each pair and the number of its tokens."""
    assert (tokens["ids"].shape == sentences.shape) and ((tokens["ids"] > 0) == (sentences > 0)).all()
    evaluated_shapes.append(tokens["ids"].shape)
    return np.stack([tokens["ids"][:, 0], (sentences > 0).sum(axis=1)], axis=1)[None].astype(np.float32)


first_words.compile_seconds = 0.0
first_words.compile_in_parallel = lambda calls: None
first_words.mesh = replica_mesh(jax.devices()[:1])
evaluated_shapes: list[tuple[int, int]] = []


def test_splits_of_different_sizes_and_lengths_share_compiled_shapes():
    long, short = small_cohort.make_split(30, 2), small_cohort.make_split(9, 3)
    assert long.lengths.max() != short.lengths.max()
    data = dataclasses.replace(small_cohort.make_data(), splits={"dev": long, "test": short})
    shapes, parameters = [], jax.numpy.zeros((1, 0))
    evaluator = Evaluator(data, first_words, lambda tree: tree, None, batch_size=8, maximum_buckets=2)
    for name, split in data.splits.items():
        evaluated_shapes.clear()
        outputs = evaluator.outputs(name, parameters, 1)
        np.testing.assert_array_equal(outputs[0, :, 0], split.tokens_a[split.offsets_a[:-1]])
        np.testing.assert_array_equal(outputs[0, :, 1], split.lengths)
        shapes.append(set(evaluated_shapes))
    buckets, rows = evaluation_shapes(data.splits, batch_size=8, maximum_buckets=2)
    assert shapes[1] <= shapes[0] == set(zip(rows, buckets, strict=True))


def test_default_evaluation_batch_is_smaller_on_cpu_than_on_gpu():
    assert evaluation_batch_size(0, "cpu") < evaluation_batch_size(0, "gpu")
    assert evaluation_batch_size(7, "cpu") == evaluation_batch_size(7, "gpu") == 7


def test_fillers_are_not_counted_in_evaluated_pairs():
    cohort = small_cohort.make_cohort(seeds=(1, 2, 3))
    parameters = small_cohort.started(cohort).parameters
    cohort.evaluator.outputs("dev", parameters, 2)  # the third slot counts as a filler
    assert cohort.evaluator.totals["pairs"] == 2 * 30 and cohort.evaluator.totals["seconds"] > 0

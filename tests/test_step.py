"""The learning rate, the losses and the updates of a training step."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cohort import MODEL, OPTIMIZER, make_cohort, make_data, started, steps_of

from jaxmatch import models
from jaxmatch.layers.core import traced_for
from jaxmatch.training import step
from jaxmatch.training.step import LOSSES, learning_rate


def rate(samples, **changes):
    stacked = step.stack([{**OPTIMIZER, **changes}])
    one = jax.tree.map(lambda leaf: leaf[0], stacked)
    return float(learning_rate(np.int32(samples), one))


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
    changes = dict(learning_rate=peak, learning_rate_floor=floor, warmup_samples=warmup)
    got = rate(samples, **changes, decay_rate=decay, decay_samples=period)
    assert got == pytest.approx(expected, rel=1e-3)


def test_each_loss_equals_its_formula():
    logits, labels = jnp.asarray([[0.0, 0.0], [0.0, math.log(3.0)], [math.log(9.0), 0.0]]), jnp.asarray([0, 1, 1])
    for task in ("classification", "ranking"):
        np.testing.assert_allclose(LOSSES[task](logits, labels), -np.log([0.5, 0.75, 0.1]), rtol=1e-5)
    found = LOSSES["regression"](jnp.asarray([[1.0], [-2.0], [0.25]]), jnp.asarray([0.5, 1.0, 0.25]))
    np.testing.assert_allclose(found, [0.25, 9.0, 0.0], rtol=1e-6)


def test_updates_are_those_of_optax():
    """Compares two epochs with optax on the tree of parameters: Adam, clipping, L2 penalty, and a rate that differs in
    every batch.
    """
    changes = dict(dropout_rate=0.0, l2_penalty=0.02, gradient_clip=0.3, learning_rate=1e-2, learning_rate_floor=1e-3)
    changes |= dict(warmup_samples=40, decay_rate=0.7, decay_samples=12)
    # A batch has the rate at its first pair.
    rising, falling = (
        optax.linear_schedule(1e-3, 1e-2, 40),
        optax.exponential_decay(1e-2, 12, 0.7, staircase=True, end_value=1e-3),
    )
    cohort = make_cohort(seeds=(1, 2, 3), optimizer=[changes] * 3)
    flat = cohort.chunks.programs.flat
    to_tree = jax.jit(flat.to_tree)
    parameters = jax.tree.map(np.asarray, to_tree(started(cohort).parameters[0]))
    reference = optax.chain(optax.clip_by_global_norm(0.3), optax.add_decayed_weights(0.02), optax.scale_by_adam())
    optimizer_state = reference.init(parameters)
    data = make_data()
    train = data.splits["train"]
    ids, sentences = train.pair_rows()

    @jax.jit
    @jax.value_and_grad
    def loss(parameters, ids, sentences, labels, weights):
        outputs = flat.module.apply({"params": parameters}, {"ids": ids}, sentences, data.vectors, method="match")
        return (optax.softmax_cross_entropy_with_integer_labels(outputs, labels) * weights).sum() / weights.sum()

    @jax.jit
    def updated(parameters, optimizer_state, gradients, rate):
        updates, optimizer_state = reference.update(gradients, optimizer_state, parameters)
        return jax.tree.map(lambda old, update: old - rate * update, parameters, updates), optimizer_state

    seen, losses, rates, fillers = 0, [], [], 0
    chunk, batches, epochs = cohort.chunks.chunks[0], [], []
    for number in range(2):
        epochs.append(cohort.chunks.epoch(number))
        batches.append(dict(chunk.batches))
    for epoch, of_epoch in zip(epochs, batches, strict=True):
        for bucket, batch in epoch.sequence.tolist():
            compiled = cohort.chunks.batches.compiled[bucket]
            order, weights = (np.asarray(part)[0, batch] for part in of_epoch[compiled])
            pairs = order[weights > 0]
            rows = np.resize(pairs, 16)  # one program for batches of all sizes
            of_pairs = (np.arange(16) < len(pairs)).astype(np.float32)
            value, gradients = loss(parameters, ids[rows], sentences[rows], train.labels[rows], of_pairs)
            rates.append(float(rising(seen) if seen < 40 else falling(seen - 40)))
            parameters, optimizer_state = updated(parameters, optimizer_state, gradients, rates[-1])
            losses.append(float(value))
            seen, fillers = seen + int(weights.sum()), fillers + int((weights == 0).sum())
    assert fillers and np.all(np.diff(rates[:8]) != 0) and rates[-1] == pytest.approx(1e-3)
    found, state = steps_of(cohort, len(losses))
    np.testing.assert_allclose(found[:, 0], losses, atol=1e-4)
    ours = to_tree(state.parameters[0])
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(parameters), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-4)


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

"""The updates of training are those of optax."""

import jax
import numpy as np
import optax
import pytest
from small_cohort import make_cohort, make_data, started, steps_of


def test_updates_are_those_of_optax():
    """Compares two epochs with optax on the tree of parameters: Adam, clipping, L2 penalty, and a rate that differs in
    every batch.
    """
    changes = dict(dropout_rate=0.0, weight_decay=0.02, gradient_clip=0.3, learning_rate=1e-2, learning_rate_floor=1e-3)
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
    for epoch in epochs:
        for bucket, batch in epoch.sequence.tolist():
            order, weights = (np.asarray(part)[0, batch] for part in batches[epoch.number][bucket])
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

"""One training step of one run, and of a whole cohort."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxmatch.training import keys, schedule
from jaxmatch.training.hyperparameters import Hyperparameters
from jaxmatch.training.losses import LOSSES


class ReplicaState(NamedTuple):
    """Everything that training changes in one run; in a cohort each leaf has a leading replica axis.

    Attributes:
      parameters: the module's parameters.
      optimizer_state: Adam's moments.
      step: updates so far, `<int32>[]`.
      samples: pairs seen so far, `<int32>[]`.
      loss_sum: summed loss of the pairs since the last evaluation, `<float32>[]`.
      loss_weight: how many pairs that sum holds, `<float32>[]`.
      diverged_at: `samples` when the loss or its gradient was not finite, or -1, `<int32>[]`.
    """

    parameters: Any
    optimizer_state: Any
    step: jax.Array
    samples: jax.Array
    loss_sum: jax.Array
    loss_weight: jax.Array
    diverged_at: jax.Array


def optimizer(hyperparameters: Hyperparameters) -> optax.GradientTransformation:
    """Global-norm clipping, L2 penalty, Adam; every number traced. The rate is applied by `train_step`."""
    h = hyperparameters
    clip = jnp.where(h.gradient_clip > 0, h.gradient_clip, jnp.inf)
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.add_decayed_weights(h.weight_decay),
        optax.scale_by_adam(),
    )


def initial_state(
    module: nn.Module, seed: jax.Array, hyperparameters: Hyperparameters, a: Mapping, b: Mapping, vectors: jax.Array
) -> ReplicaState:
    """The state of one run before its first step.

    Arguments:
      module: a model of `jaxmatch.models`.
      seed: `<uint32>[]`.
      hyperparameters: of this run.
      a, b: any inputs of the right ranks; only their last dimensions matter.
      vectors: `<float32>[words, dimensions]`.
    """
    parameters = module.init(keys.run_key(seed, "parameters"), a, b, vectors)["params"]
    zero, count = jnp.float32(0), jnp.int32(0)
    return ReplicaState(
        parameters, optimizer(hyperparameters).init(parameters), count, count, zero, zero, jnp.int32(-1)
    )


def take_batch(side: Mapping[str, jax.Array], rows: jax.Array, length: int) -> dict[str, jax.Array]:
    """The given rows of one side of a split, cut to a bucket's length: `[pairs, longest, ...]` to `[batch, length, ...]`."""
    return {name: values[rows, :length] for name, values in side.items()}


def train_step(
    module: nn.Module,
    task: str,
    length_a: int,
    length_b: int,
    state: ReplicaState,
    hyperparameters: Hyperparameters,
    seed: jax.Array,
    active: jax.Array,
    rows: jax.Array,
    weights: jax.Array,
    split: Mapping[str, Any],
    vectors: jax.Array,
) -> ReplicaState:
    """One update of one run.

    A run that is not active, or has diverged, keeps its state bit for bit: it neither learns nor disturbs its neighbours.

    Arguments:
      module, task, length_a, length_b: static.
      state, hyperparameters: of this run.
      seed: `<uint32>[]`.
      active: `<bool>[]`.
      rows: which pairs of the split, `<int32>[batch]`.
      weights: 1 for a pair, 0 for a row that only fills the batch, `<float32>[batch]`.
      split: {"a": {...}, "b": {...}, "labels"}, the whole training set on the device.
      vectors: `<float32>[words, dimensions]`.
    """
    a = take_batch(split["a"], rows, length_a)
    b = take_batch(split["b"], rows, length_b)
    labels = split["labels"][rows]
    key = keys.step_key(seed, "dropout", state.step)
    count = weights.sum()

    def mean_loss(parameters):
        outputs = module.apply(
            {"params": parameters},
            a,
            b,
            vectors,
            dropout_rate=hyperparameters.dropout_rate,
            rngs={"dropout": key},
        )
        return (LOSSES[task](outputs, labels) * weights).sum() / count

    loss, gradients = jax.value_and_grad(mean_loss)(state.parameters)
    updates, optimizer_state = optimizer(hyperparameters).update(gradients, state.optimizer_state, state.parameters)
    rate = schedule.learning_rate(state.samples, hyperparameters)
    parameters = jax.tree.map(lambda p, u: p - rate * u, state.parameters, updates)

    updated = ReplicaState(
        parameters,
        optimizer_state,
        state.step + 1,
        state.samples + count.astype(jnp.int32),
        state.loss_sum + loss * count,
        state.loss_weight + count,
        state.diverged_at,
    )
    finite = jnp.isfinite(loss) & jnp.isfinite(optax.global_norm(gradients))
    alive = active & (state.diverged_at < 0)
    kept = jax.tree.map(lambda new, old: jnp.where(alive & finite, new, old), updated, state)
    return kept._replace(diverged_at=jnp.where(alive & ~finite, state.samples, state.diverged_at))


def cohort_step(module: nn.Module, task: str) -> Callable:
    """`train_step` for every replica at once.

    Returns:
      A function of (length_a, length_b, state, hyperparameters, seeds, active, order, weights, batch, split, vectors):
      `order` is `<int32>[replica, batches, batch]` and `weights` `<float32>[replica, batches, batch]`, a bucket's batches of
      one epoch; `batch` says which of them to take, `<int32>[]`.
    """

    def step(length_a, length_b, state, hyperparameters, seeds, active, order, weights, batch, split, vectors):
        def one(state, hyperparameters, seed, active, order, weights):
            return train_step(
                module, task, length_a, length_b, state, hyperparameters, seed, active,
                order[batch], weights[batch], split, vectors,
            )  # fmt: skip

        return jax.vmap(one)(state, hyperparameters, seeds, active, order, weights)

    return step

"""The training step of one run, and of a whole cohort."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

from jaxmatch.layers import core
from jaxmatch.training import keys, schedule
from jaxmatch.training.hyperparameters import Hyperparameters
from jaxmatch.training.layouts import in_rows
from jaxmatch.training.losses import losses
from jaxmatch.training.replicas import over_replicas


class BatchShape(NamedTuple):
    """The batch shape that a program is compiled for, besides the number of rows.

    Attributes:
      length: the number of tokens in a row.
      most_words: the most distinct words in a batch (layers/words.py); None: any number.
    """

    length: int
    most_words: int | None = None


class ReplicaState(NamedTuple):
    """Everything that training changes in one run. In a cohort, each leaf has a leading replica axis.

    Attributes:
      parameters: the module's parameters in one array, `<float32>[parameters]`. With one array instead of a tree of
        small ones, the update is a handful of kernels, which compile and start in a fraction of the time.
      optimizer_state: Adam's moments.
      step: the number of updates so far, `<int32>[]`.
      samples: the number of pairs seen so far, `<int32>[]`.
      loss_sum: the summed loss of the pairs since the last evaluation, `<float32>[]`.
      loss_weight: the number of pairs in that sum, `<float32>[]`.
      diverged_at: `samples` when the loss or its gradient was not finite, or -1, `<int32>[]`.
    """

    parameters: jax.Array
    optimizer_state: Any
    step: jax.Array
    samples: jax.Array
    loss_sum: jax.Array
    loss_weight: jax.Array
    diverged_at: jax.Array


def optimizer(hyperparameters: Hyperparameters) -> optax.GradientTransformation:
    """Returns the optimizer: global-norm clipping, L2 penalty, Adam (Kingma and Ba, 2015). Every number is traced.

    Its updates, `<float32>[parameters]`, are Adam's steps for a learning rate of 1, with the sign of the gradient:
    `train_step` subtracts them times the learning rate.
    """
    h = hyperparameters
    clip = jnp.where(h.gradient_clip > 0, h.gradient_clip, jnp.inf)
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.add_decayed_weights(h.weight_decay),
        optax.scale_by_adam(),
    )


class Flattening(NamedTuple):
    """The conversion of a module's parameters to one array and back.

    Attributes:
      module: the model.
      to_tree: `<float32>[count]` -> the tree that `module.apply` takes.
      count: the number of trained parameters.
      platform: the platform of the devices. On GPUs, the weights of all layers are normalized at once
        (layers/core.py), and products are aligned (layers/core.py).
    """

    module: nn.Module
    to_tree: Callable[[jax.Array], Any]
    count: int
    platform: str

    def to_array(self, tree: Any) -> jax.Array:
        """Returns a tree of parameters as one array, the inverse of `to_tree`."""
        return jax.flatten_util.ravel_pytree(tree)[0]

    def match(self, parameters: jax.Array, *inputs: Any, most_words: int | None = None, **options: Any) -> jax.Array:
        """Calls `match` of the model with `parameters`, `<float32>[count]`; `most_words` is as in `BatchShape`."""
        module, params = self.module, self.to_tree(parameters)
        # A TPU gains nothing from this (benchmarks/NOTES.md), and a CPU prefers one layer at a time, for its cache.
        if self.platform in core.GPUS and module.config.weight_normalization != "none":
            module, params = core.fold_weight_norm_jointly(module, params)
        with core.traced_for(self.platform, most_words):
            return module.apply({"params": params}, *inputs, **options, method="match")


def words_trained(module: nn.Module, words: int) -> int:
    """Returns how many rows of a table of `words` word vectors shape the parameters of a model.

    These are all rows if the model trains them. Otherwise it is 2, so that one flattening and one estimate serve all
    tables.
    """
    return words if module.config.words == "trained" else 2


@functools.lru_cache(maxsize=256)
def flattening(module: nn.Module, dimensions: int, words: int = 2, platform: str = "cpu") -> Flattening:
    """Returns the layout of a model's parameters in one array.

    Arguments:
      module: the model.
      dimensions: the number of dimensions of the word vectors.
      words: `words_trained` of the model.
      platform: the platform of the devices that compute with it.
    """
    side = {"ids": jax.ShapeDtypeStruct((1, 1), np.int32)}
    vectors = jax.ShapeDtypeStruct((words, dimensions), np.float32)
    shapes = jax.eval_shape(module.init, jax.random.key(0), side, side, vectors)["params"]
    flat, to_tree = jax.flatten_util.ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
    return Flattening(module, to_tree, flat.size, platform)


def initial_state(
    flat: Flattening, seed: jax.Array, hyperparameters: Hyperparameters, vectors: jax.Array
) -> ReplicaState:
    """Returns the state of one run before its first step.

    Arguments:
      flat: the model.
      seed: `<uint32>[]`.
      hyperparameters: the hyperparameters of this run.
      vectors: the word vectors that trained words start from, `<float32>[words, dimensions]`.

    Returns:
      Parameters drawn with the seed; moments and counts are 0.
    """
    a = b = {"ids": jnp.zeros((1, 1), jnp.int32)}  # parameters do not depend on how many pairs or tokens there are
    tree = flat.module.init(keys.run_key(seed, "parameters"), a, b, vectors)["params"]
    parameters = flat.to_array(tree)
    zero, count = jnp.float32(0), jnp.int32(0)
    return ReplicaState(
        parameters, optimizer(hyperparameters).init(parameters), count, count, zero, zero, jnp.int32(-1)
    )


def take_batch(split: Mapping[str, Any], rows: jax.Array, length: int) -> tuple[dict[str, jax.Array], jax.Array]:
    """Returns the given rows of a split, cut to a bucket's length.

    Arguments:
      split: {"tokens": {"ids": <int32>[pairs, longest], ...}, "sentences": <int8>[pairs, longest], ...}.
      rows: <int32>[batch].
      length: the length of the bucket; static.

    Returns:
      (tokens, sentences) as `match` of a model takes them.
    """
    return jax.tree.map(lambda values: values[rows, :length], (split["tokens"], split["sentences"]))


@core.jax_defaults()
def train_step(
    flat: Flattening,
    task: str,
    shape: BatchShape,
    state: ReplicaState,
    hyperparameters: Hyperparameters,
    seed: jax.Array,
    active: jax.Array,
    rows: jax.Array,
    weights: jax.Array,
    split: Mapping[str, Any],
    vectors: jax.Array,
) -> ReplicaState:
    """Makes one update of one run.

    A run that is not active or has diverged keeps its state bit for bit. It neither learns nor disturbs its neighbors.

    Arguments:
      flat, task, shape: static.
      state, hyperparameters: those of this run.
      seed: `<uint32>[]`.
      active: `<bool>[]`.
      rows: the rows of the batch in the split, `<int32>[batch]`.
      weights: 1 for a pair, 0 for a row that only fills the batch, `<float32>[batch]`.
      split: {"tokens", "sentences", "labels"}, the whole training set on the device.
      vectors: `<float32>[words, dimensions]`.

    Returns:
      The state after the update; if the loss or its gradient is not finite, the old state with `diverged_at` set.
    """
    tokens, sentences = take_batch(split, rows, shape.length)
    labels = split["labels"][rows]
    key = keys.step_key(seed, "dropout", state.step)
    count = weights.sum()

    def mean_loss(parameters):
        options = {"dropout_rate": hyperparameters.dropout_rate, "rngs": {"dropout": key}}
        outputs = flat.match(parameters, tokens, sentences, vectors, most_words=shape.most_words, **options)
        return (losses(task, outputs, labels, hyperparameters.added) * weights).sum() / count

    loss, gradients = jax.value_and_grad(mean_loss)(state.parameters)
    updates, optimizer_state = optimizer(hyperparameters).update(gradients, state.optimizer_state, state.parameters)
    rate = schedule.learning_rate(state.samples, hyperparameters)
    parameters = state.parameters - rate * updates

    updated = ReplicaState(
        parameters,
        optimizer_state,
        state.step + 1,
        state.samples + count.astype(jnp.int32),
        state.loss_sum + loss * count,
        state.loss_weight + count,
        state.diverged_at,
    )
    finite = jnp.isfinite(loss) & jnp.isfinite(jnp.linalg.norm(gradients))
    alive = active & (state.diverged_at < 0)
    kept = jax.tree.map(lambda new, old: jnp.where(alive & finite, new, old), updated, state)
    return kept._replace(diverged_at=jnp.where(alive & ~finite, state.samples, state.diverged_at))


def cohort_step(flat: Flattening, task: str) -> Callable:
    """Returns `train_step` for every replica.

    Returns:
      A function of (shape, side_by_side, state, hyperparameters, seeds, active, order, weights, batch, split,
      vectors). `order`, `<int32>[replica, batches, batch]`, and `weights`, `<float32>[replica, batches, batch]`, are a
      bucket's batches of one epoch; `batch`, `<int32>[]`, is the index of the batch to use. `side_by_side` replicas
      are computed in a turn (replicas.py).
    """

    def step(shape, side_by_side, state, hyperparameters, seeds, active, order, weights, batch, split, vectors):
        def one(state, hyperparameters, seed, active, order, weights):
            return train_step(
                flat,
                task,
                shape,
                state,
                hyperparameters,
                seed,
                active,
                order[batch],
                weights[batch],
                split,
                vectors,
            )

        return over_replicas(one, (state, hyperparameters, seeds, active, order, weights), side_by_side)

    return step


def cohort_steps(flat: Flattening, task: str) -> Callable:
    """Returns a function that repeats `cohort_step`, in one program that contains a step of each shape.

    Consecutive steps seldom have the same shape, so each step selects its own. The number of steps is an argument, so
    one program makes any number of steps.

    Returns:
      A function of (shapes, side_by_side, state, hyperparameters, seeds, active, batches, sequence, first, count,
      split, vectors). `batches` has (order, weights) as `cohort_step` takes them for each of the shapes. `sequence`,
      `<int32>[steps, 2]`, has (index of the shape, index of its batch) for each step of an epoch. `first` and `count`,
      `<int32>[]`, are the index of the first step to make and the number of steps.
    """
    step = cohort_step(flat, task)

    def steps(
        shapes, side_by_side, state, hyperparameters, seeds, active, batches, sequence, first, count, split, vectors
    ):
        def of_shape(shape, order, weights):
            def one(state, batch):
                rows = in_rows(flat.platform, state)
                given = rows, hyperparameters, seeds, active, order, weights, batch, split, vectors
                made = step(shape, side_by_side, *jax.lax.optimization_barrier(given))
                return in_rows(flat.platform, jax.lax.optimization_barrier(made))

            return one

        branches = [of_shape(shape, *given) for shape, given in zip(shapes, batches, strict=True)]

        def one(index, state):
            return jax.lax.switch(sequence[index, 0], branches, state, sequence[index, 1])

        return jax.lax.fori_loop(first, first + count, one, state)

    return steps

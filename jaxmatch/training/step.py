"""The training step of one run, and of a chunk of runs: hyperparameters, learning rate, loss, optimizer and update."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

from jaxmatch.config.settings import ADDED_DEFAULTS
from jaxmatch.layers import core


class Hyperparameters(NamedTuple):
    """The settings of the optimizer, which enter a program as arrays: `<float32>[]`, or `<float32>[run]` of several
    runs. config/settings.py describes them. `added` are those of jaxmatch/extend.py, by name.
    """

    learning_rate: np.ndarray
    learning_rate_floor: np.ndarray
    warmup_samples: np.ndarray
    decay_rate: np.ndarray
    decay_samples: np.ndarray
    dropout_rate: np.ndarray
    l2_penalty: np.ndarray
    gradient_clip: np.ndarray
    added: Mapping[str, np.ndarray]


def stack(settings: Sequence[Mapping[str, float]]) -> Hyperparameters:
    """Stacks the `optimizer` sections of several configs. A floor of the learning rate never exceeds the rate."""
    added = {name.partition(".")[2]: default for name, default in ADDED_DEFAULTS.items()}

    def column(name: str) -> np.ndarray:
        return np.asarray([{**added, **one}[name] for one in settings], np.float32)

    own = (column(name) for name in Hyperparameters._fields if name != "added")
    stacked = Hyperparameters(*own, added={name: column(name) for name in added})
    return stacked._replace(learning_rate_floor=np.minimum(stacked.learning_rate_floor, stacked.learning_rate))


def learning_rate(samples: jax.Array, hyperparameters: Hyperparameters) -> jax.Array:
    """Computes the learning rate, `<float32>[]`: linear warmup, then exponential decay in steps (RE2, section 3.2).

        samples < warmup:  floor + (rate - floor) * samples / warmup
        afterwards:        max(floor, rate * decay_rate ** floor((samples - warmup) / decay_samples))

    Without `decay_samples`, there is no decay. optax has these schedules, but with lengths and rates that are compiled
    in. Here they are traced, so that runs that differ in them share a program.

    Arguments:
      samples: the number of training pairs seen before this step, `<int32>[]`.
      hyperparameters: the hyperparameters of one run.
    """
    h, seen = hyperparameters, samples.astype(jnp.float32)
    rise = (h.learning_rate - h.learning_rate_floor) * seen / jnp.maximum(h.warmup_samples, 1)
    periods = jnp.floor((seen - h.warmup_samples) / jnp.maximum(h.decay_samples, 1))
    periods = jnp.where(h.decay_samples > 0, jnp.maximum(periods, 0), 0)
    decayed_rate = jnp.maximum(h.learning_rate_floor, h.learning_rate * h.decay_rate**periods)
    return jnp.where(seen < h.warmup_samples, h.learning_rate_floor + rise, decayed_rate)


# Task -> its loss: outputs `<float32>[batch, classes or 1]`, labels `<int32 or float32>[batch]` -> `<float32>[batch]`.
# A ranking is trained by point-wise binary classification (RE2, section 3.5).
LOSSES = {
    "classification": optax.softmax_cross_entropy_with_integer_labels,
    "ranking": optax.softmax_cross_entropy_with_integer_labels,
    "regression": lambda outputs, labels: jnp.square(outputs[:, 0] - labels),
}
# Hyperparameter -> the function that changes the losses by it; filled by jaxmatch/extend.py.
ADDED: dict[str, Callable[..., jax.Array]] = {}


# The random numbers of a run depend on its seed and the step, and on nothing else. Keys are derived by `fold_in`, never
# by splitting and carrying, so a resumed run only needs (seed, step). They are always threefry keys: under `vmap`,
# `rbg` keys take the bits of every slot from the first key, so another run's seed would change a run's masks.
# Each purpose has a stream of its own; the numbers are part of what makes a run reproducible.
PURPOSES = {"parameters": 0, "dropout": 1}


def run_key(seed: jax.Array | int, purpose: str) -> jax.Array:
    """Returns the key of one run for one purpose. `seed` may be traced: `<uint32>[]`."""
    # The key of `jax.random.key(seed)` by default, without the offset that `JAX_RANDOM_SEED_OFFSET` adds to the seed.
    key = jax.random.wrap_key_data(jnp.array([0, seed], jnp.uint32), impl="threefry2x32")
    return jax.random.fold_in(key, PURPOSES[purpose])


class BatchShape(NamedTuple):
    """The batch shape that a program is compiled for, besides the number of rows.

    Attributes:
      length: the number of tokens in a row.
      most_words: the most distinct words in a batch (layers/words.py); None: any number.
      is_shared: whether the program also serves batches of shorter buckets, whose random numbers it has to draw.
    """

    length: int
    most_words: int | None = None
    is_shared: bool = False


class State(NamedTuple):
    """Everything that training changes in one run. In a chunk, each leaf has a leading slot axis.

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


def optimizer(hyperparameters: Hyperparameters, rate: jax.Array) -> optax.GradientTransformation:
    """Returns the optimizer: global-norm clipping, L2 penalty, Adam (Kingma and Ba, 2015). Every number is traced."""
    h = hyperparameters
    return optax.chain(
        optax.clip_by_global_norm(jnp.where(h.gradient_clip > 0, h.gradient_clip, jnp.inf)),
        optax.add_decayed_weights(h.l2_penalty),
        optax.scale_by_adam(),
        optax.scale(-rate),
    )


class Flattening(NamedTuple):
    """The conversion of a module's parameters to one array and back.

    Attributes:
      module: the model.
      to_tree: `<float32>[count]` -> the tree that `module.apply` takes.
      count: the number of trained parameters.
      platform: the platform of the devices.
    """

    module: nn.Module
    to_tree: Callable[[jax.Array], Any]
    count: int
    platform: str

    def to_array(self, tree: Any) -> jax.Array:
        """Returns a tree of parameters as one array, the inverse of `to_tree`."""
        return jax.flatten_util.ravel_pytree(tree)[0]

    def match(self, parameters: jax.Array, *inputs: Any, **options: Any) -> jax.Array:
        """Calls `match` of the model with `parameters`, `<float32>[count]`."""
        module, params = self.module, self.to_tree(parameters)
        # The weights of all layers are normalized at once. A TPU gains nothing from this (benchmarks/NOTES.md), and a
        # CPU prefers one layer at a time, for its cache.
        if self.platform in core.GPUS and module.config.weight_normalization != "none":
            params = core.fold_weight_norm(params, together=True)
            module = module.clone(config=dataclasses.replace(module.config, weight_normalization="none"))
        return module.apply({"params": params}, *inputs, **options, method="match")


def words_trained(module: nn.Module, words: int) -> int:
    """Returns how many rows of a table of `words` word vectors shape the parameters of a model: all if the model trains
    them, otherwise 2, so that one flattening serves all tables.
    """
    return words if module.config.words == "trained" else 2


@functools.lru_cache(maxsize=256)
def flattening(module: nn.Module, dimensions: int, words: int = 2, platform: str = "cpu") -> Flattening:
    """Returns the layout of a model's parameters in one array, for word vectors of some dimensions and `words_trained`
    of the model.
    """
    side = {"ids": jax.ShapeDtypeStruct((1, 1), np.int32)}
    vectors = jax.ShapeDtypeStruct((words, dimensions), np.float32)
    shapes = jax.eval_shape(module.init, jax.random.key(0), side, side, vectors)["params"]
    flat, to_tree = jax.flatten_util.ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
    return Flattening(module, to_tree, flat.size, platform)


def initial_state(flat: Flattening, seed: jax.Array, hyperparameters: Hyperparameters, vectors: jax.Array) -> State:
    """Returns the state of one run before its first step, with parameters drawn with the seed, `<uint32>[]`.

    `vectors` are those that trained words start from, `<float32>[words, dimensions]`.
    """
    a = b = {"ids": jnp.zeros((1, 1), jnp.int32)}  # parameters do not depend on how many pairs or tokens there are
    parameters = flat.to_array(flat.module.init(run_key(seed, "parameters"), a, b, vectors)["params"])
    zero, count = jnp.float32(0), jnp.int32(0)
    moments = optimizer(hyperparameters, hyperparameters.learning_rate).init(parameters)
    return State(parameters, moments, count, count, zero, zero, jnp.int32(-1))


@core.jax_defaults()
def train_step(
    flat: Flattening,
    task: str,
    shape: BatchShape,
    state: State,
    others: tuple[jax.Array, Hyperparameters, jax.Array],
    batch: tuple[jax.Array, jax.Array],
    length: jax.Array,
    split: Mapping[str, Any],
    vectors: jax.Array,
) -> State:
    """Makes one update of one run.

    A run that is not active or has diverged keeps its state bit for bit.

    Arguments:
      flat, task, shape: static values.
      state: the state of the run.
      others: its seed, `<uint32>[]`, its hyperparameters, and whether it still learns, `<bool>[]`.
      batch: the rows of its pairs in the training set, `<int32>[batch]`, and their weights, `<float32>[batch]`: 1, or 0
        for a row that only fills the batch.
      length: the length of the bucket of the batch, `<int32>[]`; at most that of the compiled rows.
      split: the training set, as `evaluation.device_split` returns it.
      vectors: the word vectors, `<float32>[words, dimensions]`.

    Returns:
      The state after the update; if the loss or its gradient is not finite, the old state with `diverged_at` set.
    """
    (seed, hyperparameters, active), (rows, weights) = others, batch
    tokens, sentences = jax.tree.map(lambda values: values[rows, : shape.length], (split["tokens"], split["sentences"]))
    labels = split["labels"][rows]
    key = jax.random.fold_in(run_key(seed, "dropout"), state.step)
    count = weights.sum()
    target = core.Target(flat.platform, shape.most_words, shape.length, length if shape.is_shared else None)

    def mean_loss(parameters):
        options = {"dropout_rate": hyperparameters.dropout_rate, "rngs": {"dropout": key}}
        with core.traced_for(*target):
            outputs = flat.match(parameters, tokens, sentences, vectors, **options)
        losses = LOSSES[task](outputs, labels)
        for name, changed in ADDED.items():
            losses = changed(losses, outputs, labels, hyperparameters.added[name])
        return (losses * weights).sum() / count

    loss, gradients = jax.value_and_grad(mean_loss)(state.parameters)
    rate = learning_rate(state.samples, hyperparameters)
    updates, moments = optimizer(hyperparameters, rate).update(gradients, state.optimizer_state, state.parameters)
    updated = State(
        optax.apply_updates(state.parameters, updates),
        moments,
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


def chunk_step(flat: Flattening, task: str) -> Callable:
    """Returns `train_step` for every slot of a chunk, (shape, state, others, batches, place, split, vectors) -> state.

    `batches` holds the batches of an epoch, `<int32>[slot, batches, batch]` and `<float32>[slot, batches, batch]`.
    `place`, `<int32>[2]`, is the index of the batch to use and the length of its bucket.
    """

    def step(shape, state, others, batches, place, split, vectors):
        index, length = place
        batch = tuple(values[:, index] for values in batches)
        one = functools.partial(train_step, flat, task, shape)
        return jax.vmap(one, in_axes=(0, 0, 0, None, None, None))(state, others, batch, length, split, vectors)

    return step

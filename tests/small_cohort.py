"""A cohort that compiles in seconds. Tests share its programs."""

import jax
import numpy as np

from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.training.cohort import Cohort
from jaxmatch.training.progress import Listener

WORDS, DIMENSIONS = 30, 6
MODEL = dict(
    name="re2", blocks=1, encoder_layers=1, hidden_size=8, alignment="identity", fusion="simple", prediction="simple"
)
TRAINING = dict(batch_size=16, epochs=4, evaluate_every_samples=0, evaluate_each_epoch=False, selection="accuracy")
TRAINING |= dict(late_from_samples=0, evaluate_every_samples_late=0, patience_samples=0, minimum_samples=0)
TRAINING |= dict(maximum_buckets=2, mix_lengths=False, best_on_test=False)
EXECUTION = dict(evaluation_batch_size=64, checkpoint_seconds=0.0)
OPTIMIZER = dict(learning_rate=3e-3, learning_rate_floor=1e-4, warmup_samples=0, decay_rate=0.9, decay_samples=100)
OPTIMIZER |= dict(dropout_rate=0.2, l2_penalty=0.0, gradient_clip=5.0)


def make_split(pairs: int, seed: int, task: str = "classification") -> EncodedSplit:
    """Returns pairs of 1 to 4 words. The label of a pair compares the ids of the two first words."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 5, (2, pairs))
    offsets = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(lengths, axis=1)], axis=1)
    tokens = [random.integers(2, WORDS, total).astype(np.int32) for total in lengths.sum(axis=1)]
    first, second = (tokens[side][offsets[side][:-1]] for side in range(2))
    labels = (first < second).astype(np.int32) if task != "regression" else ((first - second) / 10).astype(np.float32)
    groups = (np.arange(pairs) // 4).astype(np.int32) if task == "ranking" else None
    return EncodedSplit(tokens[0], offsets[0], tokens[1], offsets[1], labels, groups)


def make_data(task: str = "classification") -> EncodedData:
    """Returns a data set of 70 / 30 / 30 pairs. The vector of a word holds its id, scaled to [-2, 2]."""
    vectors = np.random.default_rng(0).normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
    vectors[:, 0] = np.linspace(-2, 2, WORDS)
    vectors[:2] = 0
    return EncodedData(
        name="small",
        task=task,
        labels=() if task == "regression" else ("0", "1"),
        splits={"train": make_split(70, 1, task), "dev": make_split(30, 2, task), "test": make_split(30, 3, task)},
        vocabulary=Vocabulary(["<padding>", "<unknown>"] + [f"w{number}" for number in range(2, WORDS)]),
        vectors=vectors,
        preprocessing=Preprocessing(),
        report={},
        fingerprint="small",
    )


def make_cohort(seeds=(1, 2, 3), optimizer=None, *, model=None, training=None, execution=None, data=None, **arguments):
    """Returns a cohort with changed settings, or of another model. `optimizer` holds one mapping of changes per run."""
    return Cohort(
        model=model if "name" in (model or {}) else {**MODEL, **(model or {})},
        training={**TRAINING, **(training or {})},
        execution={**EXECUTION, **(execution or {})},
        data=data or make_data(),
        seeds=seeds,
        optimizer=[{**OPTIMIZER, **changes} for changes in (optimizer or [{}] * len(seeds))],
        **arguments,
    )


def leaves(result):
    """Returns the parameters of a result as a list of arrays."""
    return jax.tree.leaves(result.parameters)


def same(results, others):
    """Checks that runs ended with bitwise equal results."""
    for one, other in zip(results, others, strict=True):
        assert (one.progress, one.test) == (other.progress, other.test)
    alike(results, others, rtol=0)


def alike(results, others, **tolerance):
    """Checks that runs were evaluated at the same points and have the same parameters, up to a tolerance."""
    for one, other in zip(results, others, strict=True):
        assert [entry["samples"] for entry in one.progress.curve] == [e["samples"] for e in other.progress.curve]
        for left, right in zip(leaves(one), leaves(other), strict=True):
            np.testing.assert_allclose(left, right, **tolerance)


def states(cohort):
    """Returns the state of all runs, in their order, on the host."""
    runs, found = cohort.chunks.states()
    return jax.tree.map(lambda leaf: leaf[np.argsort(runs)], found)


def started(cohort):
    """Returns the state of all runs before the first step."""
    cohort.chunks.initialize()
    cohort.chunks.activate(np.ones(len(cohort.chunks.seeds), bool))
    return states(cohort)


def steps_of(cohort, steps):
    """Makes the steps of `train` without evaluation. Returns losses <float32>[steps, run] and the last state."""
    chunks = cohort.chunks
    started(cohort)
    losses, before = [], (0.0, 0.0)
    for number in range(steps):
        epoch = chunks.epoch(number)
        for index in range(len(epoch.sequence)):
            chunks.step(epoch, index)
            now = states(cohort)
            losses.append((now.loss_sum - before[0]) / np.maximum(now.loss_weight - before[1], 1))
            before = now.loss_sum, now.loss_weight
            if len(losses) == steps:
                return np.array(losses), now


class Interruption(Exception):
    """Simulates a kill."""


class InterruptAfter(Listener):
    """Raises `Interruption` once the cohort has made a number of steps."""

    def __init__(self, steps: int):
        self.steps = steps

    def stepped(self, done: int, total: int) -> None:
        if done >= self.steps:
            raise Interruption

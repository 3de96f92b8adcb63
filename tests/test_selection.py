"""Which checkpoint is kept, which split chooses it, and when a run stops."""

import dataclasses

import jax
import numpy as np
import pytest
from small_cohort import make_cohort, make_data, states, steps_of

from jaxmatch.data.encoding import EncodedSplit

# Fast enough that a run learns within an epoch which way the labels point.
FAST = {"learning_rate": 0.02, "dropout_rate": 0.0, "decay_rate": 1.0}


def reversed_split(split):
    """Returns the pairs of a split in reverse order."""
    sides = []
    for tokens, offsets in ((split.tokens_a, split.offsets_a), (split.tokens_b, split.offsets_b)):
        pieces = np.split(tokens, offsets[1:-1])[::-1]
        sides += [np.concatenate(pieces), np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])]
    return EncodedSplit(*sides, split.labels[::-1])


def opposite_data(learnable: str):
    """Dev and test hold the training pairs; one of them has the opposite labels and gets worse as training goes on.

    That one also has the pairs in another order, so that outputs of one split do not fit the labels of the other.
    """
    data = make_data()
    train = data.splits["train"]
    opposite = reversed_split(dataclasses.replace(train, labels=1 - train.labels))
    other = {"dev": "test", "test": "dev"}[learnable]
    return dataclasses.replace(data, splits={"train": train, learnable: train, other: opposite})


def scores_of(cohort, result, split):
    """Returns the accuracy and the mean cross entropy of the kept parameters, without the cohort's programs."""
    ids, sentences = split.pair_rows()
    module, vectors = cohort.chunks.programs.flat.module, make_data().vectors
    outputs = module.apply({"params": result.parameters}, {"ids": ids}, sentences, vectors, method="match")
    outputs = np.asarray(outputs, np.float64)
    right = np.take_along_axis(outputs, split.labels[:, None], axis=1)[:, 0]
    return np.mean(outputs.argmax(axis=1) == split.labels), np.mean(np.log(np.exp(outputs).sum(axis=1)) - right)


@pytest.fixture(scope="module", params=["dev", "test"])
def learnable(request):
    """The split that can be learned, the data, a cohort trained on the data, and the results of its runs."""
    data = opposite_data(request.param)
    cohort = make_cohort(
        seeds=(1, 2), optimizer=[FAST] * 2, data=data, training={"selection": "loss", "maximum_buckets": 1}
    )
    return request.param, data, cohort, cohort.train()


def test_the_kept_checkpoint_is_the_best_on_dev(learnable):
    """Its recomputed scores equal the best dev scores of the curve and the reported test scores."""
    name, data, cohort, results = learnable
    for result in results:
        losses = [entry["dev"]["loss"] for entry in result.progress.curve]
        chosen = int(np.argmin(losses))
        # If dev cannot be learned, its loss is best after the first epoch. Otherwise it is best later.
        assert len(losses) == 4 and (chosen > 0 if name == "dev" else chosen == 0)
        assert max(losses) - min(losses) > 0.1
        assert result.progress.best == result.progress.curve[chosen]["dev"]
        assert (result.progress.best_score, result.progress.best_at) == (losses[chosen], 70 * (chosen + 1))
        for split, recorded in (("dev", result.progress.best), ("test", result.test)):
            accuracy, loss = scores_of(cohort, result, data.splits[split])
            assert accuracy == recorded["accuracy"]
            np.testing.assert_allclose(loss, recorded["loss"], atol=1e-5)


def test_runs_of_a_chunk_keep_their_own_checkpoints():
    data = opposite_data("dev")
    cohort = make_cohort(
        seeds=(1, 2),
        optimizer=[FAST, {**FAST, "learning_rate": 0.3}],
        data=data,
        training={"selection": "loss", "maximum_buckets": 1},
    )
    results = cohort.train()
    assert len({result.progress.best_at for result in results}) == 2  # they improve at different times
    for result in results:
        _, loss = scores_of(cohort, result, data.splits["dev"])
        np.testing.assert_allclose(loss, result.progress.best["loss"], atol=1e-5)


def test_dev_and_test_are_not_swapped(learnable):
    """The labels are opposite, so the accuracies add up to 1; only the one that can be learned is high."""
    name, _, _, results = learnable
    for result in results:
        dev, test = result.progress.best["accuracy"], result.test["accuracy"]
        assert dev + test == pytest.approx(1)
        last = result.progress.curve[-1]["dev"]["accuracy"]
        assert last > 0.7 if name == "dev" else last < 0.3


@pytest.mark.parametrize(("name", "evaluations"), [("dev", 4), ("test", 3)])
def test_patience_depends_on_dev_and_not_on_test(name, evaluations):
    """Two epochs without a better dev loss end a run, whatever test does meanwhile."""
    training = {"selection": "loss", "maximum_buckets": 1, "patience_samples": 140}
    cohort = make_cohort(seeds=(1, 2), optimizer=[FAST] * 2, data=opposite_data(name), training=training)
    for result in cohort.train():
        assert len(result.progress.curve) == evaluations
        assert result.progress.stopped == (name == "test")


def test_no_run_stops_before_minimum_samples():
    training = {"selection": "loss", "maximum_buckets": 1, "patience_samples": 70, "minimum_samples": 210}
    cohort = make_cohort(seeds=(1, 2), optimizer=[FAST] * 2, data=opposite_data("test"), training=training)
    assert [len(result.progress.curve) for result in cohort.train()] == [4, 4]


def test_selection_by_accuracy_keeps_the_first_maximum(learnable):
    _, data, _, _ = learnable
    training = {"maximum_buckets": 1, "best_on_test": True}
    for result in make_cohort(seeds=(1, 2), optimizer=[FAST] * 2, data=data, training=training).train():
        scores = [entry["dev"]["accuracy"] for entry in result.progress.curve]
        assert result.progress.best_score == max(scores)
        assert result.progress.best_at == 70 * (1 + scores.index(max(scores)))  # of equal ones, the first
        # Test has the opposite labels. So it was best where dev was worst, whether dev had improved then or not.
        on_test = result.progress.best_on_test
        assert on_test["scores"]["accuracy"] == pytest.approx(1 - min(scores))
        assert on_test["at_samples"] == 70 * (1 + scores.index(min(scores)))


def test_a_stopped_run_sees_no_more_samples():
    """Its sample count does not change after patience ran out, although its chunk still trains."""
    # Patience runs out within an epoch.
    training = {"selection": "loss", "maximum_buckets": 1, "patience_samples": 100, "evaluate_every_samples": 40}
    changes = [FAST, {"learning_rate": 0.0, "learning_rate_floor": 0.0}]
    cohort = make_cohort(seeds=(1, 2), optimizer=changes, data=opposite_data("dev"), training=training)
    learns, stopped = cohort.train()
    assert stopped.progress.stopped and not learns.progress.stopped
    end = stopped.progress.curve[-1]["samples"]
    assert end % 70 and end < 280
    assert states(cohort).samples.tolist() == [280, end]


def test_an_inactive_run_keeps_its_state_bit_for_bit():
    cohort = make_cohort(seeds=(1, 2), training={"maximum_buckets": 1})
    _, before = steps_of(cohort, 3)
    cohort.chunks.activate(np.array([True, False]))
    cohort.chunks.step(cohort.chunks.epoch(0), 3)
    after = states(cohort)
    for left, right in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(left[1], right[1])
    assert np.any(before.parameters[0] != after.parameters[0])


def test_train_loss_is_the_mean_since_the_last_evaluation():
    arguments = dict(seeds=(1, 2), training={"maximum_buckets": 1})
    cohort = make_cohort(**arguments)
    steps = cohort.chunks.batches.steps_per_epoch
    losses, _ = steps_of(cohort, 4 * steps)
    pairs = []
    for number in range(4):
        epoch = cohort.chunks.epoch(number)
        ((_, weights),) = cohort.chunks.chunks[0].batches.values()
        pairs += [np.asarray(weights)[0, batch].sum() for _, batch in epoch.sequence.tolist()]
    for run, result in enumerate(make_cohort(**arguments).train()):
        curve = [entry["train_loss"] for entry in result.progress.curve]
        means = [
            np.average(losses[i : i + steps, run], weights=pairs[i : i + steps]) for i in range(0, 4 * steps, steps)
        ]
        np.testing.assert_allclose(curve, means, rtol=1e-4)

"""The work of a run, which the estimate of its time is made from."""

from types import SimpleNamespace

import numpy as np
import pytest
from small_cohort import MODEL, TRAINING, make_data

from jaxmatch import models
from jaxmatch.data.batches import plan_batches
from jaxmatch.sweep import memory, work
from jaxmatch.sweep.matrix_products import count_program

DIIN = dict(name="diin", highway_layers=1, dense_blocks=1, block_layers=2, growth_rate=4, grid_length=8)


def counted(model, maximum_buckets):
    """Returns the estimated work of training without scoring, the work that is counted step by step, and a model and
    its batches.
    """
    data, module = make_data(), models.build(model, outputs=2)
    batches = plan_batches(
        data.splits["train"].lengths, batch_size=16, maximum_buckets=maximum_buckets, mix_lengths=False
    )
    data.splits["dev"] = data.splits["test"] = SimpleNamespace(lengths=np.zeros(0), pairs=0)
    estimated = work.multiply_adds(module, TRAINING, data, batches, {})
    shapes = [batches.shapes[bucket] for bucket in batches.bucket_sequence(0)[:, 0].tolist()]
    steps = [count_program(memory.step_program(module, data.task, data.vectors.shape[1], *shape)) for shape in shapes]
    return estimated, TRAINING["epochs"] * sum(step.multiply_adds for step in steps), module, batches


@pytest.mark.parametrize(("maximum_buckets", "tolerance"), [(2, 1e-9), (4, 0.05)])
def test_work_is_that_of_the_products_of_all_steps(maximum_buckets, tolerance):
    """Between the shortest and the longest batch it is interpolated."""
    estimated, steps, _, batches = counted(MODEL, maximum_buckets)
    assert len(batches.shapes) == maximum_buckets
    assert estimated == pytest.approx(steps, rel=tolerance)


def test_scoring_a_token_takes_a_third_of_training_on_it():
    data, module = make_data(), models.build(MODEL, outputs=2)
    batches = plan_batches(data.splits["train"].lengths, batch_size=16, maximum_buckets=2, mix_lengths=False)
    both = work.multiply_adds(module, TRAINING, data, batches, {})
    scored = work.tokens_scored(TRAINING, data, TRAINING["epochs"] * batches.steps_per_epoch)
    data.splits["dev"] = data.splits["test"] = SimpleNamespace(lengths=np.zeros(0), pairs=0)
    trained = work.multiply_adds(module, TRAINING, data, batches, {})
    assert both / trained == pytest.approx(1 + scored / (3 * TRAINING["epochs"] * batches.tokens()))


def test_work_of_a_grid_of_pairs_of_words_counts_its_convolutions():
    estimated, steps, module, batches = counted(DIIN, 2)
    assert estimated == pytest.approx(steps)
    # With three products for each token and parameter, the work would be less than a third: a convolution uses its
    # parameters at every place of the grid.
    assert estimated > 3 * 3 * memory.parameter_count(module, 6) * batches.tokens() * TRAINING["epochs"]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, 4 * 30 + 7),  # after each epoch, and test at the end
        ({"best_on_test": True}, 4 * 30 + 4 * 7),
        ({"evaluate_every_samples": 5}, 9 * 30 + 7),  # 8 times in 40 pairs, and after the last step
        ({"evaluate_every_samples": 1}, 20 * 30 + 7),  # no more than there are steps
        ({"evaluate_every_samples": 100}, 1 * 30 + 7),  # after the last step alone
        ({"evaluate_every_samples": 100, "evaluate_each_epoch": True}, 4 * 30 + 7),
        (
            {"evaluate_every_samples": 20, "late_from_samples": 20, "evaluate_every_samples_late": 4},
            (1 + 1 + 5) * 30 + 7,
        ),
    ],
)
def test_scored_tokens_follow_the_evaluation_schedule(settings, expected):
    lengths = {"train": [3] * 10, "dev": [10, 20], "test": [7]}
    splits = {split: SimpleNamespace(lengths=np.array(each), pairs=len(each)) for split, each in lengths.items()}
    training = {
        "epochs": 4,
        "evaluate_every_samples": 0,
        "evaluate_each_epoch": False,
        "late_from_samples": 0,
        "evaluate_every_samples_late": 0,
        "best_on_test": False,
    } | settings
    assert work.tokens_scored(training, SimpleNamespace(splits=splits), steps=20) == expected

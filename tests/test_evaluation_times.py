import numpy as np
import pytest

from jaxmatch.training.evaluation import count, due, first_epoch

PAIRS, STEPS = 40, [10, 20, 30, 40]


def times(**settings):
    """Returns the pairs seen at each evaluation, in three epochs of 40 pairs in steps of ten."""
    training = {
        "epochs": 3,
        "evaluate_every_samples": 0,
        "evaluate_each_epoch": False,
        "late_from_samples": 0,
        "evaluate_every_samples_late": 0,
    } | settings
    found = []
    for epoch in range(training["epochs"]):
        samples = epoch * PAIRS + np.array(STEPS)
        found += samples[due(training, epoch, PAIRS, samples)].tolist()
    assert count(training, PAIRS, steps=12) >= len(found) > count(training, PAIRS, steps=12) - 4  # some coincide
    assert min(first_epoch(training, PAIRS), 3) == -(-found[0] // PAIRS)
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [40, 80, 120]),
        ({"evaluate_every_samples": 50}, [50, 100, 120]),
        ({"evaluate_every_samples": 35}, [40, 70, 110, 120]),  # the step that reaches each multiple
        ({"evaluate_every_samples": 50, "evaluate_each_epoch": True}, [40, 50, 80, 100, 120]),
        ({"evaluate_every_samples": 100}, [100, 120]),
        ({"evaluate_every_samples": 1000}, [120]),  # the end of training is always evaluated
        # Like the released SNLI run: evaluations are rare at first and frequent later.
        (
            {
                "evaluate_every_samples": 50,
                "evaluate_each_epoch": True,
                "late_from_samples": 70,
                "evaluate_every_samples_late": 10,
            },
            [40, 50, 80, 90, 100, 110, 120],
        ),
        ({"late_from_samples": 60, "evaluate_every_samples_late": 20}, [40, 80, 100, 120]),
        ({"evaluate_every_samples_late": 30}, [30, 40, 60, 80, 90, 120]),
        ({"evaluate_every_samples": 10, "evaluate_every_samples_late": 100}, [100, 120]),
        # One step passes an early evaluation and the start of the late phase, or that start and a late evaluation.
        ({"evaluate_every_samples": 25, "late_from_samples": 25, "evaluate_every_samples_late": 70}, [30, 70, 120]),
        (
            {"evaluate_every_samples": 100, "late_from_samples": 33, "evaluate_every_samples_late": 36},
            [40, 80, 110, 120],
        ),
        (
            {"evaluate_every_samples": 25, "late_from_samples": 33, "evaluate_every_samples_late": 32},
            [30, 70, 100, 120],
        ),
    ],
)
def test_evaluations_are_due_at_the_expected_samples(settings, expected):
    assert times(**settings) == expected

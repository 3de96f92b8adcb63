"""The work of a cohort."""

import pytest
from small_cohort import TRAINING, make_data

from jaxmatch.sweep.plan import PlannedCohort, tokens_scored


@pytest.mark.parametrize(
    ("runs", "available", "platform", "batch", "devices", "computed"),
    [
        (10, 1, "gpu", 64, 1, 10),
        (7, 1, "cpu", 64, 1, 8),  # four chunks of two
        (10, 1, "cpu", 64, 1, 10),
        (3, 8, "gpu", 64, 3, 1),
        (10, 8, "gpu", 64, 5, 2),
        (11, 8, "gpu", 64, 6, 2),  # 6 devices of 2: one slot has no run
    ],
)
def test_work_of_a_cohort_includes_slots_without_a_run(runs, available, platform, batch, devices, computed):
    cohort = PlannedCohort("signature", (None,) * runs, None, batch, 1, 1, 1, 1, 10.0, 1, platform, available)
    assert (cohort.devices, cohort.device_work) == (devices, 10.0 * computed)


@pytest.mark.parametrize(("best_on_test", "tests"), [(False, 1), (True, 4)])
def test_test_is_scored_once_or_as_often_as_dev(best_on_test, tests):
    data = make_data()
    tokens = {name: split.lengths.sum() for name, split in data.splits.items()}
    training = TRAINING | {"best_on_test": best_on_test}  # four epochs, scored after each
    assert tokens_scored(training, data, 20) == 4 * tokens["dev"] + tests * tokens["test"]

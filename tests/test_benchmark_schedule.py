"""The simulation of many cohorts on many workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.item import Settings
from benchmarks.items import ITEMS, schedule
from jaxmatch.sweep.device_jobs import DeviceJob, makespan

DURATIONS = st.lists(st.floats(1, 1000), min_size=1, max_size=30)


def generator():
    return np.random.default_rng(0)


@given(DURATIONS, st.integers(1, 5))
def test_simulated_time_without_deaths_equals_the_estimate_of_a_plan(durations, workers):
    longest_first = sorted(durations, reverse=True)
    found, deaths = schedule.simulated(longest_first, workers, None, 0.0, generator())
    assert found == pytest.approx(makespan([DeviceJob(1, each) for each in durations], workers)) and deaths == 0
    # Every order takes at most twice the bound (Graham, 1966).
    bound = max(max(durations), sum(durations) / workers)
    assert bound <= found * (1 + 1e-9) and found <= 2 * bound


@given(DURATIONS, st.integers(1, 5))
def test_the_cost_of_worker_deaths_is_bounded(durations, workers):
    found, deaths = schedule.simulated(durations, workers, 500.0, 10.0, generator())
    work = sum(durations) + 10.0 * len(durations)
    most = deaths * (10.0 + schedule.CHECKPOINT + schedule.REPLACED)
    # Even a single worker would take no longer than all of the work plus the cost of all deaths.
    assert work / workers - 1e-6 <= found + deaths * schedule.CHECKPOINT
    assert found <= work + most + 1e-6


def test_one_cohort_resumes_from_its_last_checkpoint():
    class Lifetimes:
        def __init__(self):
            self.left = [10.0 + 130.0, 10.0 + 59.0, 1e9]

        def exponential(self, _):
            return self.left.pop(0)

    found, deaths = schedule.simulated([300.0], 1, 1.0, 10.0, Lifetimes())
    # The first worker saves 120 of its 130 seconds, the second none of 59. A new worker follows each death.
    assert deaths == 2
    assert found == pytest.approx(140 + schedule.REPLACED + 69 + schedule.REPLACED + 10 + 180)


def test_the_table_has_every_worker_lifetime_in_both_orders(tmp_path):
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    rows, notes = ITEMS["schedule"].run(settings)
    assert len(rows) == 2 * len(schedule.MEAN_LIFETIMES) and "20 cohorts" in notes[0]
    for row in rows:
        assert row.keys() == {column.key for column in ITEMS["schedule"].columns}
        assert row["ratio"] >= 1

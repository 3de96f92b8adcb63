"""The order of batches, computed ahead of time or on request."""

import threading

import numpy as np
import pytest

from jaxmatch.data import distinct_words
from jaxmatch.data.batches import BatchPlan
from jaxmatch.training.epoch_orders import EpochOrders

IDS = np.random.default_rng(0).integers(0, 50, (40, 8)).astype(np.int32)
SEEDS = (3, 7, 11)


@pytest.fixture
def plan():
    return BatchPlan(np.arange(40) % 2, (4, 8), 8)


@pytest.mark.parametrize("ahead", [True, False])
def test_orders_equal_the_plan_for_any_sequence_of_requests(plan, ahead):
    orders = EpochOrders(plan, SEEDS, IDS, words=50)
    for epoch, runs in ((0, (0, 1, 2)), (0, (2,)), (1, (2, 0)), (1, (1,)), (2, (1,)), (5, (0, 2)), (0, (0,))):
        found = orders.of(epoch, runs, ahead=ahead)
        assert list(found) == list(runs)
        for run, order in found.items():
            for bucket, (rows, weights) in plan.rows(SEEDS[run], epoch).items():
                np.testing.assert_array_equal(order.batches[bucket][0], rows)
                np.testing.assert_array_equal(order.batches[bucket][1], weights)
                counted = distinct_words.counts(IDS[:, : plan.buckets[bucket]], rows, 50)
                assert order.most_words[bucket] == counted.max()
    assert EpochOrders(plan, SEEDS, None, words=50).of(0, (0,))[0].most_words == {}


def test_next_epoch_is_prepared_once_in_another_thread(plan, monkeypatch):
    made, rows = [], plan.rows
    monkeypatch.setattr(plan, "rows", lambda *key: made.append((*key, threading.current_thread())) or rows(*key))
    orders = EpochOrders(plan, SEEDS, None, words=50)
    orders.of(0, (0, 1), ahead=True)
    orders.of(1, (0, 1), ahead=False)
    threads = {epoch: {thread for _, of, thread in made if of == epoch} for epoch in (0, 1)}
    assert threads[0] == {threading.main_thread()} and threading.main_thread() not in threads[1]
    orders.of(1, (0, 1), ahead=False)
    # Each order is computed once, and none for an epoch after the last.
    assert sorted(key[:2] for key in made) == [(seed, epoch) for seed in SEEDS[:2] for epoch in (0, 1)]

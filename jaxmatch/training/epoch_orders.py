"""The pairs of each batch of an epoch. The host selects those of the next epoch while the devices compute."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from jaxmatch.data import distinct_words
from jaxmatch.data.batches import BatchPlan


class EpochOrder(NamedTuple):
    """The batches of one run in one epoch.

    Attributes:
      batches: table of the plan -> (rows `<int32>[batches, batch]`, weights `<float32>[batches, batch]`).
      most_words: bucket -> the most distinct words in a batch; empty if words are not counted.
    """

    batches: Mapping[int, tuple[np.ndarray, np.ndarray]]
    most_words: Mapping[int, int]


class EpochOrders:
    """The orders of all runs of a cohort, epoch by epoch.

    Arguments:
      plan: the plan of the batches.
      seeds: one seed per run.
      ids: the token ids `<int32>[pairs, longest]`, whose distinct words are counted; None: words are not counted.
      words: the number of words in the vocabulary.
    """

    def __init__(self, plan: BatchPlan, seeds: Sequence[int], ids: np.ndarray | None, words: int):
        self._plan, self._seeds, self._ids, self._words = plan, [int(seed) for seed in seeds], ids, words
        self._current: dict[tuple[int, int], EpochOrder] = {}
        self._futures: dict[tuple[int, int], Future[EpochOrder]] = {}
        self._thread = ThreadPoolExecutor(1)

    def of(self, epoch: int, runs: Iterable[int], *, ahead: bool = False) -> dict[int, EpochOrder]:
        """Returns the orders of an epoch by run. With `ahead`, another thread starts on those of the next epoch."""
        keys = {run: (epoch, run) for run in runs}
        self._current = {key: order for key, order in self._current.items() if key[0] == epoch}
        for key in keys.values():
            if key not in self._current:
                future = self._futures.get(key)
                self._current[key] = future.result() if future else self._order(key)
        self._futures = {key: future for key, future in self._futures.items() if key[0] > epoch}
        for run in keys if ahead else ():
            following = (epoch + 1, run)
            if following not in self._futures:
                self._futures[following] = self._thread.submit(self._order, following)
        return {run: self._current[key] for run, key in keys.items()}

    def _order(self, key: tuple[int, int]) -> EpochOrder:
        epoch, run = key
        batches, most_words = self._plan.rows(self._seeds[run], epoch), {}
        if self._ids is not None:
            for bucket, rows in self._plan.batches_of(batches, epoch).items():
                ids = self._ids[:, : self._plan.buckets[bucket]]
                most_words[bucket] = int(distinct_words.counts(ids, rows, self._words).max())
        return EpochOrder(batches, most_words)

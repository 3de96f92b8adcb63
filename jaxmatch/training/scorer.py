"""The scores of every replica of a cohort on a split."""

import time
from typing import Any

import jax
import numpy as np

from jaxmatch.data import catalog
from jaxmatch.data.encoding import EncodedData
from jaxmatch.training import room
from jaxmatch.training.evaluation import Evaluator, evaluation_shapes, mean_loss
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.scores import replica_scores


class Scorer:
    """Scores the splits of a data set again and again.

    Arguments:
      data: encoded data.
      lockstep: the replicas.
      batch_size: the most rows of a batch.
      maximum_buckets: the most lengths that training is padded to.

    Attributes:
      answered: pairs that runs answered so far, each counted once a run, and the seconds it took, without compilation.
      at_once: how many replicas a device computed side by side when it last answered, at most.
      limit: more do not fit a device (`replicas.at_once`); None: none is known.
    """

    def __init__(self, data: EncodedData, lockstep: Lockstep, *, batch_size: int, maximum_buckets: int):
        self._data, self._lockstep = data, lockstep
        self._shapes = {"batch_size": batch_size, "maximum_buckets": maximum_buckets}
        self._evaluators: dict[str, Evaluator] = {}
        self.limit: int | None = None
        self.begin()

    def begin(self) -> None:
        """Forgets what was answered."""
        self.at_once = 0
        self.answered: dict[str, Any] = {"pairs": 0, "seconds": 0.0}

    def evaluator(self, split: str) -> Evaluator:
        """What answers the pairs of a split."""
        if split not in self._evaluators:
            buckets, rows = evaluation_shapes(self._data.splits, **self._shapes)
            lockstep = self._lockstep
            self._evaluators[split] = Evaluator(
                self._data.splits[split],
                lockstep.programs.evaluate,
                lockstep.everywhere,
                lockstep.vectors,
                buckets=buckets,
                rows=rows,
            )
        return self._evaluators[split]

    def outputs(self, split: str, parameters: jax.Array, runs: int) -> np.ndarray:
        """What every replica answers.

        Arguments:
          split: its name.
          parameters: `<float32>[replica, parameters]`.
          runs: how many of the replicas are runs; the others only fill the devices.

        Returns:
          `<float32>[replica, pairs, outputs]`.
        """
        new, evaluator = split not in self._evaluators, self.evaluator(split)
        free = room.free_bytes(parameters.devices()) if new else None
        if free is not None:
            self.limit = evaluator.fit(parameters, self.limit, free)
        start, compiled = time.perf_counter(), self._lockstep.compile_seconds
        self.at_once = evaluator.at_once(len(parameters), self.limit)
        outputs = evaluator.outputs(parameters, self.limit)
        compiled = self._lockstep.compile_seconds - compiled
        self.answered["seconds"] += time.perf_counter() - start - compiled
        self.answered["pairs"] += runs * outputs.shape[1]
        return outputs

    def scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """All scores of each replica's outputs, `<float32>[replica, pairs, outputs]`, and its mean loss under
        "loss".
        """
        data, encoded = self._data, self._data.splits[split]
        scores = replica_scores(
            data.task,
            encoded.labels,
            outputs,
            label_names=data.labels,
            groups=encoded.groups,
            documents=encoded.documents,
            filtered=catalog.filtered(data.name),
        )
        losses = mean_loss(data.task, outputs, encoded.labels).tolist()
        return [{**of_replica, "loss": loss} for of_replica, loss in zip(scores, losses, strict=True)]

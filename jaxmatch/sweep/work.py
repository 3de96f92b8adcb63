"""The estimated work of a run, in multiply-adds of matrix products."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.encoded import EncodedData
from jaxmatch.sweep import memory
from jaxmatch.sweep.matrix_products import count_program
from jaxmatch.training import evaluation_times
from jaxmatch.training.step import words_trained

# A forward pass takes about a third of a training step: the gradients of a product are two products of the same size.
SHARE_OF_FORWARD = 1 / 3


def multiply_adds(
    module: Any,
    training: Mapping[str, Any],
    data: EncodedData,
    batches: BatchPlan,
    most_words: Mapping[tuple[int, int], int | None],
) -> float:
    """Estimates the multiply-adds of one run, for training and scoring together.

    Arguments:
      module: the model.
      training: the settings of `config.training`.
      data: the encoded data.
      batches: the batches of an epoch.
      most_words: (pairs, tokens) of training batches -> `BatchShape.most_words`.
    """
    words = words_trained(module, len(data.vectors))

    def of_a_pair(shape: tuple[int, int]) -> float:
        program = memory.step_program(module, data.task, data.vectors.shape[1], *shape, words, most_words.get(shape))
        return count_program(program, exact=False).multiply_adds / shape[0]

    # To trace the step at every length would take too long, so the work is interpolated between the shortest and the
    # longest. It is nearly linear in the length: products between all tokens of a pair are a small part of it, and
    # DIIN's grid of such products has a fixed size.
    ends = [batches.shapes[bucket] for bucket in (min(batches.shapes), max(batches.shapes))]
    lengths, works = [length for _, length in ends], [of_a_pair(shape) for shape in ends]
    steps = (batches.shapes[bucket] for bucket in batches.bucket_sequence(0)[:, 0].tolist())
    epoch = sum(rows * float(np.interp(length, lengths, works)) for rows, length in steps)
    scored = tokens_scored(training, data, training["epochs"] * batches.steps_per_epoch)
    return epoch * (training["epochs"] + SHARE_OF_FORWARD * scored / batches.tokens())


def tokens_scored(training: Mapping[str, Any], data: EncodedData, steps: int) -> float:
    """Returns the number of tokens in all the pairs that a run of `steps` steps is scored on.

    Dev is scored at each evaluation. Test is scored once, or as often as dev with `best_on_test`.
    """
    tokens = {split: float(encoded.lengths.sum()) for split, encoded in data.splits.items()}
    scored = evaluation_times.count(training, data.splits["train"].pairs, steps)
    return scored * tokens["dev"] + (scored if training["best_on_test"] else 1) * tokens.get("test", 0.0)

"""A check, before anything trains, that runs can be trained and scored on a data set."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmatch.data.encoding import EncodedData
from jaxmatch.errors import InputError
from jaxmatch.training.scores import ADDED, score, score_names


def check_trainable(training: Mapping[str, Any], data: EncodedData) -> None:
    """Checks that runs can be trained on a data set and that their checkpoints can be chosen. Without this check a run
    would fail at its first evaluation.

    Arguments:
      training: the training section of the config of the runs.
      data: the data set.

    Raises:
      InputError: there are no pairs to train on or to choose a checkpoint on, or the selection score does not exist or
        is not defined.
    """
    if "train" not in data.splits or not data.splits["train"].pairs:
        raise InputError(f'the data set "{data.name}" has no pairs to train on', remedy="add a train file")
    for split in ("dev", *(["test"] if training["best_on_test"] else [])):
        if split not in data.splits or not data.splits[split].pairs:
            raise InputError(
                f'the data set "{data.name}" has no {split} pairs',
                remedy="a checkpoint is chosen on dev: add a dev file"
                if split == "dev"
                else "add a test file, or leave config.training.best_on_test at False",
            )
    known = (*score_names(data.task, len(data.labels)), "loss")
    if training["selection"] not in known:
        raise InputError(
            f'config.training.selection = "{training["selection"]}" is not a score of a {data.task} data set',
            remedy=f"use one of {', '.join(known)}",
        )
    if training["selection"] in ADDED:  # nobody knows for which predictions it is defined
        return
    dev = data.splits["dev"]
    constant = np.zeros((dev.pairs, data.outputs), np.float32)  # has a score, however bad, if any prediction has one
    about_labels = {
        "label_names": data.labels,
        "groups": dev.groups,
        "documents": dev.documents,
        "filtered": data.filtered,
    }
    scores = score(data.task, dev.labels, constant, **about_labels)
    if math.isnan(scores.get(training["selection"], 0.0)):
        ranked = data.task == "ranking" and training["selection"] != "auc"
        reason = "no question has both a right and a wrong candidate" if ranked else "all labels are the same"
        raise InputError(
            f'{training["selection"]} is undefined on the dev pairs of "{data.name}": {reason}',
            remedy="choose another score with --config.training.selection, or fix the dev file",
        )

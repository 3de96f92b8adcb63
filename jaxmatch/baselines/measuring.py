"""Scores of floors and of a pretrained cross-encoder on dev and test, computed like the scores of models."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.baselines import cross_encoder, tfidf
from jaxmatch.baselines.floors import FLOORS
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.pairs import DataSet
from jaxmatch.printable import without_nan
from jaxmatch.training.scores import score


def check_installed(names: Sequence[str]) -> None:
    """Checks, before a model is trained, that the packages that some floors need are installed.

    Raises:
      InputError: a floor needs scikit-learn, which is not installed.
    """
    if "tfidf" in names:
        tfidf.check_installed()


def measured(data: EncodedData, names: Sequence[str]) -> list[dict[str, Any]]:
    """Fits floors on train and scores them on dev and test.

    Arguments:
      data: the data set that the models are trained on.
      names: keys of `FLOORS`; floors that are not defined for the task are left out.

    Returns:
      For each floor {"name", "title", "parameters", "dev", "test", "times"}. "dev" and "test" hold the scores that a
      model has, with None for an undefined score; "test" is None without test pairs. "times" holds the time to fit the
      floor and the time to predict a pair of dev and test.

    Raises:
      InputError: as in `check_installed`.
    """
    check_installed(names)
    import scipy.optimize  # noqa: F401, before the times begin

    if "tfidf" in names:
        import sklearn.linear_model  # noqa: F401
    return [_measured(data, name) for name in names if data.task in FLOORS[name].tasks]


def _measured(data: EncodedData, name: str) -> dict[str, Any]:
    start = time.perf_counter()
    floor = FLOORS[name].fit(data)
    train_seconds = round(time.perf_counter() - start, 3)
    row = _scored(data, lambda part: floor.outputs(data.splits[part]), train_seconds)
    return {"name": name, "title": FLOORS[name].title_of(data.task), "parameters": floor.parameters, **row}


def cross_encoder_measured(folder: str, data: EncodedData, texts: DataSet) -> dict[str, Any]:
    """Scores a pretrained cross-encoder on dev and test.

    Arguments:
      folder: the folder with the files of the cross-encoder.
      data: the data set that the models are trained on.
      texts: the same data set as text.

    Returns:
      A dict like those that `measured` returns, with "pretrained" in addition.

    Raises:
      InputError: the cross-encoder cannot be loaded, or its outputs do not fit the labels.
    """
    cross_encoder.check_usable(folder)
    model = cross_encoder.CrossEncoder(folder, data.task, data.labels)
    row = _scored(data, lambda part: model.outputs(texts.splits[part]), None)
    title = f"cross-encoder {Path(folder).resolve().name}"
    return {"name": cross_encoder.NAME, "title": title, "pretrained": True, "parameters": model.parameters, **row}


def _scored(data: EncodedData, outputs: Callable[[str], np.ndarray], train_seconds: float | None) -> dict[str, Any]:
    """Scores and times a function that computes the outputs for the pairs of "dev" and "test"."""
    scores: dict[str, Any] = {"dev": None, "test": None}
    seconds, pairs = 0.0, 0
    for part in scores:
        split = data.splits.get(part)
        if split is None or not split.pairs:
            continue
        start = time.perf_counter()
        answers = outputs(part)
        seconds, pairs = seconds + time.perf_counter() - start, pairs + split.pairs
        found = score(
            data.task,
            split.labels,
            answers,
            label_names=data.labels,
            groups=split.groups,
            documents=split.documents,
            filtered=data.filtered,
        )
        scores[part] = without_nan(found)
    return {
        **scores,
        "times": {
            "train_seconds_a_run": train_seconds,
            "inference_microseconds_a_pair": round(1e6 * seconds / pairs, 3) if pairs else None,
        },
    }

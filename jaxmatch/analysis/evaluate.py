"""Scores of a trained model against labeled pairs: a split of its data set, or a file of the user."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data import catalog, own
from jaxmatch.data.catalog import data_directory
from jaxmatch.data.own import PLAIN, layout_of
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, check_plain_file
from jaxmatch.files import hash_file, read_json
from jaxmatch.inference.matcher import Matcher
from jaxmatch.training.scores import score


def pairs_of(split: Split) -> list[tuple[str, str]]:
    """Returns the pairs of a split in the form that a `Matcher` takes."""
    return list(zip(split.text_a, split.text_b, strict=True))


def label_numbers(matcher: Matcher, split: Split) -> np.ndarray:
    """Returns the labels of a split: <int32>[pairs], positions in `matcher.labels`; for a regression <float32>[pairs].

    Raises:
      InputError: the split is empty, or has a label that the model does not know.
    """
    if not len(split):
        raise InputError("holds no pairs", path=split.source)
    if matcher.task == "regression":
        return np.asarray(split.labels, np.float32)
    position = {label: index for index, label in enumerate(matcher.labels)}
    if unknown := sorted(set(split.labels) - position.keys()):
        problem = f"label {unknown[0]!r} is not one of the model's ({', '.join(matcher.labels)})"
        raise InputError(problem, path=split.source)
    return np.array([position[label] for label in split.labels], np.int32)


def score_outputs(matcher: Matcher, split: Split, outputs: np.ndarray) -> dict[str, float]:
    """Computes all scores of outputs <float>[pairs, outputs], logits or values of equal order; as `score_split`."""
    filtered = catalog.filtered(matcher.config.get("data", {}).get("name", ""))
    about = dict(label_names=matcher.labels, groups=split.groups, documents=split.documents, filtered=filtered)
    return score(matcher.task, label_numbers(matcher, split), outputs, **about)


def score_split(matcher: Matcher, split: Split) -> dict[str, float]:
    """Computes all scores of a model on a split; errors are those of `label_numbers`."""
    label_numbers(matcher, split)  # raises an error about a wrong label before the predictions are computed
    return score_outputs(matcher, split, matcher.logits(pairs_of(split)))


def own_file(matcher: Matcher, path: Path, changes: Mapping[str, Any] | None = None) -> Split:
    """Reads a file of the user, in the layout of the model's training data except for `changes` in its settings.

    Raises:
      InputError: the file cannot be used.
    """
    known = ", ".join(own.FORMATS)
    check_plain_file(path, f"give one of {known}")
    if not own.format_of(path):
        raise InputError(f"is none of {known}", path=path, remedy="give it the name ending of its layout")
    layout = layout_of({**matcher.config.get("data", {}), **(changes or {})})
    return own.read(path, matcher.task, matcher.labels if matcher.task == "classification" else None, layout=layout)


def official_split(run: Path, matcher: Matcher, name: str, given_directory: str | None) -> Split:
    """Reads a split of the data set that the model was trained on. Warns if its file has changed since then.

    Arguments:
      run, matcher: the folder of the run, or of the model in it, and the model.
      name: "train", "dev" or "test".
      given_directory: the folder with the data files, or None for the folder that the model was trained from.

    Raises:
      InputError: the model does not state its data set, the split does not exist, or its file cannot be used.
    """
    settings = matcher.config.get("data")
    if not isinstance(settings, dict) or not isinstance(settings.get("name"), str):
        raise InputError("the model does not say what data it was trained on", remedy="give a file of your own")
    directory = data_directory(settings["name"], given_directory, settings.get("directory"))
    task, layout = (matcher.task, layout_of(settings)) if settings["name"] == catalog.OWN else ("", PLAIN)
    found = catalog.find_files(settings["name"], directory, task=task, layout=layout)
    if name in found:
        _warn_of_change(run, name, found[name])
    if settings["name"] != catalog.OWN:
        return catalog.load_split(settings["name"], directory, name)
    if name not in found:
        raise catalog.missing_split(catalog.OWN, directory, name)
    if layout.shares:
        return catalog.load(catalog.OWN, directory, task=task, layout=layout).splits[name]
    return own_file(matcher, found[name])


def _warn_of_change(run: Path, split: str, file: Path) -> None:
    """Warns if the file of a split has changed since the run was trained: its record, if any, holds the checksum."""
    for record in (run / "record.json", run.parent / "record.json"):  # `run` may be the model's folder in the run's
        try:
            before = read_json(record)["data"]["files"][split]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if hash_file(file) != before:
            logging.getLogger(__name__).warning("%s has changed since the run was trained", file)
        return

"""Scores of a trained model against labeled pairs: a split of its data set, or a file of the user."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data import catalog, own
from jaxmatch.data.own import layout_of
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, check_plain_file, listed, nearest
from jaxmatch.files import hash_file, read_json
from jaxmatch.inference.calibration import Calibration, quality
from jaxmatch.inference.matcher import Matcher
from jaxmatch.reporting import statistics
from jaxmatch.training.scores import score, scores_of_groups


def pairs_of(split: Split) -> list[tuple[str, str]]:
    """Returns the pairs of a split in the form that a `Matcher` takes."""
    return list(zip(split.text_a, split.text_b, strict=True))


def label_numbers(matcher: Matcher, split: Split, labels: Sequence[str] = ()) -> np.ndarray:
    """Returns the labels of a split: <int32>[pairs], positions in `labels`, by default the model's; for a regression
    <float32>[pairs]. Grades of relevance above 1 count as 1.

    Raises:
      InputError: the split is empty, or has a label that the model does not know.
    """
    if not len(split):
        raise InputError("holds no pairs", path=split.source)
    if matcher.task == "regression":
        return np.asarray(split.labels, np.float32)
    labels = tuple(labels or matcher.labels)
    position = {label: index for index, label in enumerate(labels)}
    if matcher.task == "ranking":
        position |= dict.fromkeys(own.GRADES[2:], 1)
    if unknown := sorted(set(split.labels) - position.keys()):
        raise InputError(f"label {unknown[0]!r} is not one of the model's ({', '.join(labels)})", path=split.source)
    return np.array([position[label] for label in split.labels], np.int32)


def score_outputs(matcher: Matcher, split: Split, outputs: np.ndarray, labels: Sequence[str] = ()) -> dict[str, float]:
    """Computes all scores of outputs <float>[pairs, outputs], logits or values of equal order, for `label_numbers`."""
    about = dict(label_names=labels or matcher.labels, groups=split.groups, documents=split.documents)
    return score(matcher.task, _grades(matcher, split, labels), outputs, **about, filtered=_filtered(matcher))


def _grades(matcher: Matcher, split: Split, labels: Sequence[str] = ()) -> np.ndarray:
    """Returns `label_numbers`, but with the grades of a ranking as they are."""
    numbers = label_numbers(matcher, split, labels)
    if matcher.task == "ranking":
        numbers = [int(grade) if grade in own.GRADES[2:] else one for grade, one in zip(split.labels, numbers)]
    return np.asarray(numbers)


def _filtered(matcher: Matcher) -> bool:
    return catalog.filtered(matcher.config.get("data", {}).get("name", ""))


def merged_labels(matcher: Matcher, text: str) -> dict[str, list[int]]:
    """Returns label of a file -> positions of the model's labels that mean it, parsed from a text like
    "entailment=entailment,neutral+contradiction=non-entailment"; {} for names of the file's own labels.
    """
    parsed = layout_of({"labels": text}).labels
    sums = [one.split("+") for one in parsed]
    if matcher.task != "classification" or not any(len(one) > 1 and {*one} & {*matcher.labels} for one in sums):
        return {}
    if sorted(parts := [label for one in sums for label in one]) != sorted(matcher.labels):
        if unknown := [label for label in parts if label not in matcher.labels]:
            raise InputError(f"labels: there is no label {unknown[0]!r}", remedy=nearest(unknown[0], matcher.labels))
        remedy = f"name each once: {listed(matcher.labels)}"
        raise InputError("labels: a sum needs all labels of the model on the left", remedy=remedy)
    found: dict[str, list[int]] = {}
    for one, name in zip(sums, parsed.values(), strict=True):
        found.setdefault(name, []).extend(map(matcher.labels.index, one))
    return found


def evaluation(matcher: Matcher, split: Split, labels: str = "") -> dict[str, Any]:
    """Scores a model on a split in detail, as plain values.

    Arguments:
      matcher, split: the model and the pairs. Their `categories`, if there are any, get scores of their own.
      labels: sums of the model's labels (`merged_labels`). The probability of a label is the sum of theirs.

    Returns:
      "pairs": their number; "questions" of a ranking: how many "counted", of "all".
      "scores": score -> value, and if the model is calibrated also "calibrated", with its temperature and threshold.
      "intervals": score -> its interval with 95% confidence, for the scores that have one.
      "labels", "confusion" of a classification: <int>[label, prediction], counts of pairs.
      "classes": label -> precision, recall, f1 (0 without pairs) and "pairs".
      "categories": value -> the above for its pairs.
      Predictions of a calibrated model are calibrated in "confusion", "classes" and "categories".

    Raises:
      InputError: as in `label_numbers`; or the sums do not fit the model.
    """
    members = merged_labels(matcher, labels)
    names = tuple(members) or matcher.labels
    numbers = label_numbers(matcher, split, names)  # a wrong label is found before the work is done
    logits, calibration = matcher.logits(pairs_of(split)), matcher.calibration
    if members:
        scaled = (calibration or Calibration()).scaled(logits)
        outputs = answers = np.stack([np.logaddexp.reduce(scaled[:, one], axis=1) for one in members.values()], axis=1)
    else:
        outputs, answers = logits, calibration.decisive(logits, names) if calibration else logits
    found = _details(matcher, split, outputs, names)
    if calibration and not members:
        calibrated = _details(matcher, split, answers, names)
        found["calibrated"] = calibrated.pop("scores") | quality(calibration, logits, numbers, names)
        found["scores"] |= quality(Calibration(positive=calibration.positive), logits, numbers, names)
        found |= calibrated | {"intervals": found["intervals"]}
    if split.categories is not None:
        rows: dict[str, list[int]] = {}
        for row, value in enumerate(split.categories):
            rows.setdefault(value, []).append(row)
        parts = {value: _details(matcher, split.part(of, {}), answers[of], names) for value, of in rows.items()}
        found["categories"] = parts
    return found


def _details(matcher: Matcher, split: Split, outputs: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Returns what `evaluation` does about some pairs, from outputs <float>[pairs, outputs]."""
    scores, count = score_outputs(matcher, split, outputs, names), len(split)
    found, numbers = {"pairs": count, "scores": scores}, _grades(matcher, split, names)
    intervals: dict[str, tuple[float, float]] = {}
    if matcher.task == "ranking":
        difference = outputs[:, 1].astype(np.float64) - outputs[:, 0]
        each = scores_of_groups(numbers, difference, split.groups, split.documents, _filtered(matcher))
        found["questions"] = {"all": len(set(split.groups)), "counted": len(each["map"])}
        if len(each["map"]) > 1:
            bounds = {name: np.clip(statistics.mean_interval(values), 0, 1) for name, values in each.items()}
            intervals = {name: tuple(ends.tolist()) for name, ends in bounds.items()}
    elif matcher.task == "regression":
        if count > 3:
            intervals["pearson"] = statistics.fisher(scores["pearson"], count)
            intervals["mse"] = statistics.mean_interval((outputs[:, 0] - numbers.astype(np.float64)) ** 2)
    else:
        places = numbers * len(names) + outputs.argmax(axis=1)
        confusion = np.bincount(places, minlength=len(names) ** 2).reshape(len(names), len(names))
        of_class, macro = statistics.f1_intervals(confusion)
        intervals = {"accuracy": statistics.wilson(scores["accuracy"], count), "macro_f1": macro}
        intervals |= {"f1": of_class[1]} if len(names) == 2 else {}
        hits, labeled, taken = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
        shares = {"precision": hits / np.maximum(taken, 1), "recall": hits / np.maximum(labeled, 1)}
        shares |= {"f1": 2 * hits / np.maximum(labeled + taken, 1), "pairs": labeled}
        classes = {label: {name: each[i].item() for name, each in shares.items()} for i, label in enumerate(names)}
        found |= {"labels": list(names), "confusion": confusion.tolist(), "classes": classes}
    known = {name: bounds for name, bounds in intervals.items() if np.isfinite(scores[name])}
    return found | {"intervals": known}


def own_file(matcher: Matcher, path: Path, changes: Mapping[str, Any] | None = None) -> Split:
    """Reads a file of the user, in the layout of the model's training data except for `changes` in its settings.

    Raises:
      InputError: the file cannot be used.
    """
    check_plain_file(path, "give a file with pairs")
    changes = dict(changes or {})
    members = merged_labels(matcher, changes.get("labels", ""))
    layout = layout_of({**matcher.config.get("data", {}), **changes, **({"labels": ""} if members else {})})
    labels = own.GRADES if matcher.task == "ranking" else tuple(members) or matcher.labels or None
    return own.read(path, matcher.task, labels, layout=layout)


def official_split(matcher: Matcher, name: str, given_directory: str | None) -> Split:
    """Reads a split of the data set that the model was trained on. Warns if its file has changed since then.

    Arguments:
      matcher: the model.
      name: "train", "dev" or "test".
      given_directory: the folder with the data files, or None for the folder that the model was trained from.

    Raises:
      InputError: the model does not state its data set, the split does not exist, or its file cannot be used.
    """
    settings = matcher.config.get("data")
    if not isinstance(settings, dict) or not isinstance(settings.get("name"), str):
        raise InputError("the model does not say what data it was trained on", remedy="give a file of your own")
    directory = catalog.data_directory(settings["name"], given_directory, settings.get("directory"))
    task, layout = (matcher.task, layout_of(settings)) if settings["name"] == catalog.OWN else ("", own.PLAIN)
    found = catalog.find_files(settings["name"], directory, task=task, layout=layout)
    if name in found:
        _warn_of_change(matcher.run, name, found[name])
    if settings["name"] != catalog.OWN:
        return catalog.load_split(settings["name"], directory, name)
    if name not in found:
        raise catalog.missing_split(catalog.OWN, directory, name)
    if layout.shares:
        return catalog.load(catalog.OWN, directory, task=task, layout=layout).splits[name]
    return own_file(matcher, found[name])


def _warn_of_change(run: Path | None, split: str, file: Path) -> None:
    """Warns if the file of a split has changed since the run was trained: its record, if any, holds the checksum."""
    try:
        before = read_json(run / "record.json")["data"]["files"][split]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if hash_file(file) != before:
        logging.getLogger(__name__).warning("%s has changed since the run was trained", file)

"""Score a trained run on its data set, or on a file of your own.

    jaxmatch evaluate runs/quickstart/runs/RUN --split dev
    jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.tsv

A file has the layout of training data: TSV with the header `text_a text_b label` (a ranking also needs `group`), or JSON
lines with these keys.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.data.dataset import Split
    from jaxmatch.matcher import Matcher

HELP = "score a run on dev, test or a file"
SPLITS = ("train", "dev", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder: WORKDIR/runs/NAME")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--split", choices=SPLITS, default="test", help="of the data set it was trained on (default: test)")
    what.add_argument("--input", type=Path, metavar="FILE", help="score this file instead: .tsv or .jsonl, with labels")
    parser.add_argument("--data-directory", metavar="DIR", help="folder with the data files (default: as in training)")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.matcher import load

    matcher = load(arguments.run)
    if arguments.input is not None:
        split, name = _own_file(matcher, arguments.input), str(arguments.input)
    else:
        split = _official_split(matcher, arguments.split, arguments.data_directory)
        name = f"{matcher.config['data']['name']} {arguments.split}"
    scores = score_split(matcher, split)
    if arguments.format == "json":
        defined = {key: value if math.isfinite(value) else None for key, value in scores.items()}
        print(json.dumps({"run": str(arguments.run), "data": name, "pairs": len(split), "scores": defined}))
    else:
        print(f"{name}: {len(split):,} pairs")
        width = max(map(len, scores))
        for key, value in scores.items():
            print(f"{key:<{width}}  {value:.4f}")


def score_split(matcher: Matcher, split: Split) -> dict[str, float]:
    """All scores of a task for one split.

    Raises:
      InputError: the split is empty, or has a label that the model does not know.
    """
    import numpy as np

    from jaxmatch.training.scores import score

    if not len(split):
        raise InputError("holds no pairs", path=split.source)
    if matcher.task == "regression":
        labels = np.asarray(split.labels, np.float32)
    else:
        unknown = sorted(set(split.labels) - set(matcher.labels))
        if unknown:
            raise InputError(
                f"label {unknown[0]!r} is not one of the model's ({', '.join(matcher.labels)})", path=split.source
            )
        position = {label: index for index, label in enumerate(matcher.labels)}
        labels = np.array([position[label] for label in split.labels], np.int32)
    outputs = matcher.logits(list(zip(split.text_a, split.text_b, strict=True)))
    return score(
        matcher.task, labels, outputs, label_names=matcher.labels, groups=split.groups, documents=split.documents
    )


def _own_file(matcher: Matcher, path: Path) -> Split:
    from jaxmatch.data.readers import own

    if path.suffix not in own.SUFFIXES:
        raise InputError("is neither .tsv nor .jsonl", path=path, remedy="give it the name ending of its layout")
    return own.read(path, matcher.task, matcher.labels if matcher.task == "classification" else None)


def _official_split(matcher: Matcher, name: str, said_directory: str | None) -> Split:
    from jaxmatch.data import catalog
    from jaxmatch.experiments.preparation import data_directory

    settings = matcher.config["data"]
    directory = data_directory(settings["name"], said_directory, settings.get("directory"))
    if settings["name"] in catalog.EMBEDDED_TASKS:
        found = catalog.load(settings["name"]).splits
        if name in found:
            return found[name]
    else:
        # One split is read, not the half million pairs beside it.
        task = matcher.task if settings["name"] == catalog.OWN else ""
        found = catalog.find_files(settings["name"], directory, task=task)
        if name in found and settings["name"] == catalog.OWN:
            return _own_file(matcher, found[name])
        if name in found:
            return catalog.CATALOG[settings["name"]].read(found[name])
    raise catalog.missing_split(settings["name"], directory, name)

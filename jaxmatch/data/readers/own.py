"""The user's own data: TSV with the header `text_a text_b label` and optional `group`, or JSON lines with these keys.

TSV is taken as it stands, without quoting: a text cannot hold a tab or a line end. JSON lines can hold any text.
"""

import difflib
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_objects, read_table, text_of
from jaxmatch.data.readers.pairs import PairCollector, number_of
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

SUFFIXES = (".tsv", ".jsonl")
RANKING_LABELS = ("0", "1")
_REQUIRED = ("text_a", "text_b", "label")
_KNOWN = (*_REQUIRED, "group")
# What Hugging Face's data sets write where there is no label, and what pandas makes of it.
_UNLABELLED = ("-1", "-1.0")


def guess_task(path: Path) -> str:
    """'ranking' if the file's first pair has a `group`, else 'classification'; only the first lines are read.

    Raises:
      InputError: those lines are damaged.
    """
    if path.suffix == ".jsonl":
        names: Iterable[str] = next(((record.keys()) for _, record in read_objects(path)), ())
    else:
        names, _ = read_table(path, _REQUIRED)
    return "ranking" if "group" in names else "classification"


def read(path: Path, task: str, labels: Sequence[str] | None = None, guessed: bool = False) -> Split:
    """Reads one file of the user's own data.

    Spaces around labels and groups are removed. Other columns and keys are ignored, unless one looks like a misspelt
    `group`. A group is read for a ranking only, which must have one in every pair.

    Arguments:
      path: a `.tsv` or `.jsonl` file.
      task: 'classification', 'regression' or 'ranking'.
      labels: the label names that may occur in a classification; None allows all (the training file).
      guessed: nobody said what the task is (`guess_task`): a classification is then refused groups.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    remedy = None
    if task == "ranking":
        labels = RANKING_LABELS
        remedy = "a ranking's label is 1 (relevant) or 0; set the task to 'classification' to ignore the groups"
    elif labels is not None:
        remedy = "the labels are those of the training file"
    pairs = PairCollector(path, None if task == "regression" else labels, remedy)
    rows = _read_json_lines(path, task, guessed) if path.suffix == ".jsonl" else _read_table(path, task)
    for line, text_a, text_b, label, group in rows:
        if task == "regression":
            label = number_of(label, path, line, what="label")
        elif labels is None and str(label).strip() in _UNLABELLED:
            raise InputError(
                f"label {shown(label)} marks pairs without a label in many data sets",
                path=path,
                line=line,
                remedy="remove these pairs; give a class another name",
            )
        elif isinstance(label, int) and not isinstance(label, bool):
            label = str(label)
        elif isinstance(label, str):
            label = label.strip()
        else:
            raise InputError(
                f"label {shown(label)} is neither a text nor a whole number",
                path=path,
                line=line,
                remedy="write class names as texts, or set the task to 'regression' for scores",
            )
        pairs.add(line, text_a, text_b, label, group)
    return pairs.split()


def _read_table(path: Path, task: str) -> Iterator[tuple[int, str, str, Any, str | None]]:
    names, rows = read_table(path, _KNOWN if task == "ranking" else _REQUIRED)
    _refuse_misspelt(names, path, 1)
    a_at, b_at, label_at = (names.index(name) for name in _REQUIRED)
    group_at = names.index("group") if task == "ranking" else None
    for line, row in rows:
        group = None if group_at is None else row[group_at].strip()
        yield line, row[a_at], row[b_at], row[label_at], group


def _read_json_lines(path: Path, task: str, guessed: bool) -> Iterator[tuple[int, str, str, Any, str | None]]:
    for line, record in read_objects(path):
        _refuse_misspelt(record, path, line)
        if guessed and task == "classification" and "group" in record:
            # A ranking whose first line lost its group would silently become a classification.
            raise InputError(
                "the pair has a 'group', the first pair of the training file has none",
                path=path,
                line=line,
                remedy="give all pairs a group, or set the task to 'classification' to ignore them",
            )
        text_a, text_b = text_of(record, "text_a", path, line), text_of(record, "text_b", path, line)
        # A missing label gets the message of a missing text; any type may follow.
        label = record["label"] if "label" in record else text_of(record, "label", path, line)
        group = None
        if task == "ranking":
            group = record.get("group")
            if isinstance(group, int) and not isinstance(group, bool):
                group = str(group)
            else:
                group = text_of(record, "group", path, line).strip()
        yield line, text_a, text_b, label, group


def _refuse_misspelt(names: Iterable[str], path: Path, line: int) -> None:
    """A misspelt `group` would silently turn a ranking into a classification."""
    if "group" in names:
        return
    for name in names:
        if name not in _KNOWN and _looks_like_group(name):
            raise InputError(f"{shown(name)} is not a known name", path=path, line=line, remedy="did you mean 'group'?")


@functools.lru_cache
def _looks_like_group(name: str) -> bool:
    return bool(difflib.get_close_matches(name.lower(), ("group",), cutoff=0.75))

"""The user's own data: files of CSV, TSV, JSON lines or Parquet, each also with gzip.

The columns are `text_a`, `text_b`, `label` and, for a ranking, `group`. Unless data.quoted is set, quotation marks in
TSV are ordinary characters, and a text cannot hold a tab or a line end. The other formats can hold any text.
"""

import dataclasses
import difflib
import itertools
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from jaxmatch.data import pairs
from jaxmatch.data.pairs import NO_LABEL, Record, Split, collect, number_of, text_of
from jaxmatch.errors import InputError, listed, nearest, shown

SUFFIXES = tuple(f".{name}{packed}" for packed in ("", ".gz") for name in pairs.FORMATS)
KNOWN = ("text_a", "text_b", "label", "group")
EXAMPLE = "text_a=question1,text_b=question2,label=is_duplicate"
RANKING_LABELS = ("0", "1")
GRADES = tuple(map(str, range(11)))  # of relevance, which evaluations of a ranking take
SPLITS = ("train", "dev", "test")
# Hugging Face's data sets give this label to a pair without a label.
_UNLABELED = "-1"
# pandas writes whole numbers this way in a column with missing values.
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of the files of own data."""

    # 'text_a', 'text_b', 'label' or 'group' -> its name in the file, where that differs
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)  # label in the file -> its name
    quoted: bool = False  # whether TSV is written with quotation marks, as CSV is
    shares: tuple[Fraction, ...] = ()  # of train, dev and perhaps test in one file; (): each split has its own file
    seed: int = 0  # decides which pairs go into which part
    numbered: Mapping[int, str] = dataclasses.field(default_factory=dict)  # column -> name in files without a header
    by: str = ""  # a further column, which becomes the categories of the pairs

    def column(self, name: str) -> str:
        """Returns the column in the file for 'text_a', 'text_b', 'label' or 'group'."""
        return self.columns.get(name, name)


PLAIN = Layout()


def layout_of(settings: Mapping[str, Any]) -> Layout:
    """Returns the layout that the data section of a config describes; missing settings have their defaults."""
    columns, numbered = columns_of(settings.get("columns", ""))
    return Layout(
        columns=columns,
        numbered=numbered,
        by=settings.get("by", ""),
        labels=_parse_assignments(settings.get("labels", ""), "labels", "0=different,1=same"),
        quoted=bool(settings.get("quoted", False)),
        shares=shares_of(settings.get("split", "")),
        seed=settings.get("split_seed", 0),
    )


def _parse_assignments(text: str, setting: str, example: str) -> dict[str, str]:
    """Parses "a=b,c=d" into {"a": "b", "c": "d"}."""
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not (name and value) or name in found:
            problem = f"{shown(name)} occurs twice" if name in found else f"{shown(part)} is not NAME=VALUE"
            raise InputError(f"{setting}: {problem}", remedy=f"write it like {example}")
        found[name] = value
    return found


def columns_of(
    text: str, known: Sequence[str] = KNOWN, example: str = EXAMPLE
) -> tuple[dict[str, str], dict[int, str]]:
    """Parses the names of columns. Only the first text and the group may have the same column.

    Returns:
      Part of a pair -> its column, of a text like `example`; and number -> part of a pair, of a text like
      "1=text_a,2=text_b,3=label" for a file without a header. One of them is empty.
    """
    found = _parse_assignments(text, "columns", example)
    numbered = {int(name): part for name, part in found.items() if name.isdecimal()}
    if numbered:
        if 0 in numbered or not {*numbered.values()} <= {*known} or len({*numbered.values()}) < len(found):
            remedy = f"write 1={known[0]} and so on, each once, with columns counted from 1; names: {', '.join(known)}"
            raise InputError(f"columns: {text} does not name the columns of a file without a header", remedy=remedy)
        return {}, numbered
    for name in found:
        if name not in known:
            remedy = f"{nearest(name, known)}; write it like {example}"
            raise InputError(f"columns: {shown(name)} is not a part of a pair", remedy=remedy)
    named = [found.get(name, name) for name in known]
    if "group" in found and found["group"] == found.get("text_a", "text_a"):
        named.remove(found["group"])
    for column in found.values():
        if named.count(column) > 1:
            raise InputError(f"columns: column {shown(column)} is named twice", remedy=f"write it like {example}")
    return found, {}


def shares_of(text: str) -> tuple[Fraction, ...]:
    """Parses shares like "0.8/0.1/0.1", two or three positive numbers whose sum is 1; returns () for an empty text."""
    try:
        shares = tuple(Fraction(part.strip()) for part in text.split("/")) if text.strip() else ()
    except (ValueError, ZeroDivisionError):
        shares = (Fraction(0),)
    if shares and (len(shares) not in (2, 3) or sum(shares) != 1 or min(shares) <= 0):
        remedy = "give the shares of train, dev and test, whose sum is 1, like 0.8/0.1/0.1; or of train and dev"
        raise InputError(f"split is {shown(text)}", remedy=remedy)
    return shares


def guess_task(path: Path, layout: Layout = PLAIN) -> str:
    """Returns 'ranking' if the header or an object of a file names a `group`, else 'classification'.

    A name that looks like `group` is an error: a ranking must not silently be trained as a classification.
    """
    records = _records(path, (), layout)
    if pairs.format_of(path) != "jsonl":
        records = itertools.islice(records, 1)  # the other rows have the same columns
    names = dict.fromkeys(key for _, record in records for key in record)
    if layout.column("group") in names:
        return "ranking"
    for name in names:
        if name not in map(layout.column, KNOWN) and difflib.get_close_matches(name.lower(), ("group",), cutoff=0.75):
            remedy = "for a ranking, rename it or give --columns group=NAME; otherwise set the task to 'classification'"
            raise InputError(f"{shown(name)} is not a known name; did you mean 'group'?", path=path, remedy=remedy)
    return "classification"


def _records(path: Path, required: Sequence[str], layout: Layout) -> Iterator[Record]:
    """Yields the records of a file, which have the required columns."""
    kind = pairs.format_of(path)
    if kind is None:
        raise InputError(f"its name ends in none of {', '.join(SUFFIXES)}", path=path)
    if kind == "parquet":
        return pairs.read_parquet(path, required, required or None)
    if kind == "jsonl":
        return pairs.read_objects(path, required)
    quoted_by = "," if kind == "csv" else "\t" if layout.quoted else None
    return pairs.read_table(path, required, quoted_by=quoted_by, numbered=layout.numbered)


def read(
    path: Path, task: str, labels: Sequence[str] | None = None, *, layout: Layout = PLAIN, training: bool = False
) -> Split:
    """Reads one file of the user's own data.

    Spaces around labels and groups are removed. Groups are read only for a ranking, where every pair must have one. A
    pair is dropped and counted if its label is empty or NaN, or if it is -1 and -1 is neither a score nor a known
    label. A damaged file or line is an `InputError`.

    Arguments:
      path, task: the file, whose name ends in one of `SUFFIXES`, and what is learned from it.
      labels: the label names that may occur in a classification; None allows all (the training file). Of a ranking:
        None means "0" and "1".
      layout: the columns that are read, and the names of the labels.
      training: whether this is the training file, in which every label that `layout` names must occur.
    """
    classes = classes_of(path, layout) if task == "classification" else []
    remedy = "the labels are those of the training file; to learn numbers, set the task to 'regression'"
    if task == "ranking":
        labels = labels or RANKING_LABELS
        remedy = "a ranking's label is 1 (relevant) or 0; set the task to 'classification' to ignore the groups"
    known, seen = {*(labels or ()), *layout.labels}, set()
    a_in, b_in, label_in, group_in = map(layout.column, KNOWN)
    required = [a_in, b_in, label_in, *[group_in] * (task == "ranking"), *filter(None, [layout.by])]

    def pair_of(record: Mapping[str, Any]) -> tuple | str:
        texts = text_of(record, a_in), text_of(record, b_in)
        label = record[label_in]  # of any type
        if label is None or label != label or not str(label).strip():  # NaN is not equal to itself
            return NO_LABEL
        group = _name(record[group_in], "group") if task == "ranking" else None
        more = group, None, str(record[layout.by]) if layout.by else None
        if task == "regression":
            return *texts, number_of(label, "label"), *more
        if task == "ranking" and isinstance(label, bool):
            label = int(label)
        elif isinstance(label, int) and 0 <= label < len(classes):
            label = classes[label]
        name = _name(label, "label", known)
        if name == _UNLABELED and name not in known:
            return NO_LABEL
        seen.add(name)
        return *texts, layout.labels.get(name, name), *more

    split = collect(path, _records(path, list(dict.fromkeys(required)), layout), pair_of, labels, remedy)
    if training and task != "regression" and (unknown := [name for name in layout.labels if name not in seen]):
        remedy = f"its labels are {listed(sorted(seen))}"
        raise InputError(f"labels: no pair has the label {shown(unknown[0])}", path=path, remedy=remedy)
    return split


def _name(value: Any, what: str, known: Container[str] = ()) -> str:
    """Returns a label or a group, a text or a whole number, as text.

    A whole number that pandas wrote as a float, because the column has missing values, becomes a whole number again:
    "1.0" becomes "1", unless "1.0" is one of the `known` labels.
    """
    if isinstance(value, str):
        name = value.strip()
        whole = None if name in known else _WHOLE.fullmatch(name)
        return whole[1] if whole else name
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, int):
        remedy = "write names as texts, or set the task to 'regression' for scores"
        raise InputError(f"{what} {shown(value)} must be a string or a whole number", remedy=remedy)
    return str(value)


def in_order(labels: Iterable[str], classes: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """Returns the names of labels in the order of a model's outputs. The second of two labels is positive.

    The labels in the files decide the order, not their names: with 0=other,1=duplicate, "duplicate" is second. First
    come the names that the writer of the files gave to the `classes`; the others are in the order of their texts.
    """
    in_files = {name: label for label, name in sorted(layout.labels.items(), reverse=True)}

    def place(name: str) -> tuple[int, str]:
        label = in_files.get(name, name)
        return classes.index(label) if label in classes else len(classes), label

    return tuple(sorted(labels, key=place))


def classes_of(path: Path, layout: Layout) -> list[str]:
    """Returns the names of the classes that Hugging Face's datasets wrote to Parquet (`ClassLabel`), or nothing."""
    if pairs.format_of(path) != "parquet":
        return []
    metadata = json.loads((pairs.open_parquet(path).schema_arrow.metadata or {}).get(b"huggingface", "{}"))
    return metadata.get("info", {}).get("features", {}).get(layout.column("label"), {}).get("names") or []

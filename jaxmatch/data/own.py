"""The user's own data: files of CSV, TSV, JSON lines or Parquet, each also with gzip, and tables in memory.

The columns are `text_a`, `text_b`, `label` and, for a ranking, `group`. Unless data.quoted is set, quotation marks in
TSV are ordinary characters, and a text cannot hold a tab or a line end. The other formats can hold any text. Rows of
Parquet are counted from 0, as pandas counts them.
"""

import contextlib
import dataclasses
import difflib
import functools
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch import files
from jaxmatch.data.pairs import (
    NO_LABEL,
    TASKS,
    NoPairs,
    PairCollector,
    Split,
    is_number,
    number_of,
    split_by_shares,
)
from jaxmatch.data.tables import Record, class_names, read_objects, read_parquet, read_table, text_of
from jaxmatch.errors import InputError, listed, nearest, report_damage, shown

FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
SUFFIXES = (*FORMATS, *(f"{suffix}.gz" for suffix in FORMATS))
REQUIRED = ("text_a", "text_b", "label")
KNOWN = (*REQUIRED, "group")
EXAMPLE = "text_a=question1,text_b=question2,label=is_duplicate"
RANKING_LABELS = ("0", "1")
SPLIT_OF_NAME = {"train": "train", "dev": "dev", "validation": "dev", "test": "test"}
# A file of this name marks a folder that `save` wrote and may replace. It holds the order of the labels if they are not
# in the order of their names.
MARK = ".saved"
# Hugging Face's data sets give this label to a pair without a label.
_UNLABELED = "-1"
# pandas writes whole numbers this way in a column with missing values.
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


# --- the layout ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of the files of own data.

    Attributes:
      columns: 'text_a', 'text_b', 'label' or 'group' -> its name in the file, where that name differs. Only 'text_a'
        and 'group' may have the same column.
      labels: label in the file -> its name; empty: the labels are names already.
      quoted: whether TSV is written with quotation marks, as CSV is.
      shares: the shares of train and dev, or of train, dev and test, in one file; empty: each split has its own file.
      seed: the seed that decides which pairs go into which part.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    quoted: bool = False
    shares: tuple[Fraction, ...] = ()
    seed: int = 0

    def column(self, name: str) -> str:
        """Returns the column in the file for 'text_a', 'text_b', 'label' or 'group'."""
        return self.columns.get(name, name)

    def required(self, task: str) -> list[str]:
        """Returns the columns that a task needs."""
        return list(dict.fromkeys(map(self.column, KNOWN if task == "ranking" else REQUIRED)))

    @property
    def parts(self) -> dict[str, str]:
        """The parts of a pair by column: column in the file -> 'text_a', 'text_b', 'label' or 'group'."""
        return {self.column(name): name for name in reversed(KNOWN)}


PLAIN = Layout()


def layout_of(settings: Mapping[str, Any]) -> Layout:
    """Returns the layout that the data section of a config describes; missing settings have their defaults.

    Raises:
      InputError: a setting cannot be parsed.
    """
    return Layout(
        columns=columns_of(settings.get("columns", "")),
        labels=_parse_assignments(settings.get("labels", ""), "labels", "0=different,1=same"),
        quoted=bool(settings.get("quoted", False)),
        shares=shares_of(settings.get("split", "")),
        seed=settings.get("split_seed", 0),
    )


def _parse_assignments(text: str, setting: str, example: str) -> dict[str, str]:
    """Parses "a=b,c=d" into {"a": "b", "c": "d"}.

    Raises:
      InputError: a part is not NAME=VALUE, or a name occurs twice.
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise InputError(f"{setting}: {shown(part)} is not NAME=VALUE", remedy=f"write it like {example}")
        if name in found:
            raise InputError(f"{setting}: {shown(name)} occurs twice", remedy=f"write it like {example}")
        found[name] = value
    return found


def columns_of(text: str, known: Sequence[str] = KNOWN, example: str = EXAMPLE) -> dict[str, str]:
    """Parses "text_a=question1,text_b=question2" into a dict: part of a pair -> its column.

    Arguments:
      text: the text to parse.
      known: the parts that may be named.
      example: the correct text that error messages show.

    Raises:
      InputError: the text cannot be parsed; also as in `check_columns`.
    """
    found = _parse_assignments(text, "columns", example)
    check_columns(found, known, example)
    return found


def check_columns(found: Mapping[str, str], known: Sequence[str] = KNOWN, example: str = EXAMPLE) -> None:
    """Checks the columns of the parts of a pair. The group may be in the column of the first text, and in no other.

    Arguments:
      found: part of a pair -> its column.
      known, example: as in `columns_of`.

    Raises:
      InputError: a part is not known, or two parts have the same column.
    """
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


def shares_of(text: str) -> tuple[Fraction, ...]:
    """Parses shares like "0.8/0.1/0.1"; returns () for an empty text.

    Raises:
      InputError: the text is not two or three positive numbers whose sum is 1.
    """
    if not text.strip():
        return ()
    try:
        shares: Sequence[Fraction] = [Fraction(part.strip()) for part in text.split("/")]
    except (ValueError, ZeroDivisionError):
        shares = []
    if len(shares) not in (2, 3) or sum(shares) != 1 or min(shares) <= 0:
        raise InputError(
            f"split is {shown(text)}",
            remedy="give the shares of train, dev and test, whose sum is 1, like 0.8/0.1/0.1; or of train and dev",
        )
    return tuple(shares)


# --- files --------------------------------------------------------------------------------------------------------


def format_of(path: Path) -> str:
    """Returns the suffix of a file's format: ".csv" for "train.csv.gz"; "" for an unknown format."""
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in FORMATS if name.endswith(suffix)), "")


def guess_task(path: Path, layout: Layout = PLAIN) -> str:
    """Returns 'ranking' if the header or the first object of a file names a `group`, else 'classification'.

    Raises:
      InputError: the beginning of the file is damaged. No more than the beginning is read.
    """
    names, records = _records(path, "", layout)
    if names is None:
        names = next((list(record) for _, record in records), [])
    return "ranking" if layout.column("group") in names else "classification"


def read(
    path: Path,
    task: str,
    labels: Sequence[str] | None = None,
    *,
    layout: Layout = PLAIN,
    guessed: bool = False,
    training: bool = False,
) -> Split:
    """Reads one file of the user's own data.

    Spaces around labels and groups are removed. Other columns and keys are ignored, unless one looks like a misspelled
    `group` and the task is guessed. Groups are read only for a ranking, where every pair must have one. A pair is
    dropped and counted if its label is empty or NaN, or if it is -1 and -1 is neither a score nor a known label.

    Arguments:
      path: the file to read; its name ends in one of `SUFFIXES`.
      task: 'classification', 'regression' or 'ranking'.
      labels: the label names that may occur in a classification; None allows all (the training file).
      layout: the columns that are read, and the names of the labels.
      guessed: whether the task comes from `guess_task` and not from the user. A name that looks like `group` is then
        an error, and so is a group if the task is a classification.
      training: whether this is the training file, in which every label that `layout` names must occur.

    Raises:
      InputError: the file or a line of it is damaged, no pair has a label, or `layout` names a label that no pair of
        the training file has.
    """
    parquet = format_of(path) == ".parquet"
    classes = class_names(path, layout.column("label")) if parquet and task == "classification" else []
    with errors_name_rows(path) if parquet else contextlib.nullcontext():
        names, records = _records(path, task, layout)
        if guessed and names is not None:
            _check_group(names, path, None if parquet else 1, task, layout)
        elif guessed:
            records = _with_checked_group(records, path, task, layout)
        return _split_of(records, path, task, labels, layout, classes, training=training)


def _records(path: Path, task: str, layout: Layout) -> tuple[list[str] | None, Iterator[Record]]:
    """Returns the names of the columns, or None for JSON lines, and the records of a file."""
    kind = format_of(path)
    if kind == ".parquet":
        return read_parquet(path, layout.required(task), list(map(layout.column, KNOWN)), layout.parts)
    if kind == ".jsonl":
        return None, read_objects(path)
    quoted_by = "," if kind == ".csv" else "\t" if layout.quoted else None
    return read_table(path, layout.required(task), quoted_by=quoted_by, parts=layout.parts)


def _with_checked_group(records: Iterable[Record], path: Path, task: str, layout: Layout) -> Iterator[Record]:
    for line, record in records:
        _check_group(record, path, line, task, layout)
        yield line, record


def _check_group(names: Iterable[str], path: Path | str, line: int | None, task: str, layout: Layout) -> None:
    """Checks, where the task is guessed, that a ranking would not silently be trained as a classification.

    Arguments:
      names: the names of the columns or keys.
      path, line: the place of the names, for error messages.
      task: the task that was guessed from the beginning of the training file.
      layout: the columns that are read.

    Raises:
      InputError: there is a group, though the task is a classification; or a name that is not read looks like `group`.
    """
    group = layout.column("group")
    if group in names and task == "classification":
        raise InputError(
            f"there is a {shown(group)}, but none at the beginning of the training file",
            path=path,
            line=line,
            remedy="give all pairs a group, or set the task to 'classification' to ignore them",
        )
    for name in names if group not in names else ():
        if name not in layout.parts and _looks_like_group(str(name)):
            raise InputError(
                f"{shown(name)} is not a known name",
                path=path,
                line=line,
                remedy="did you mean 'group'? For a ranking, rename it or give --columns group=NAME; otherwise set the "
                "task to 'classification'",
            )


@functools.lru_cache
def _looks_like_group(name: str) -> bool:
    return bool(difflib.get_close_matches(name.lower(), ("group",), cutoff=0.75))


@contextlib.contextmanager
def errors_name_rows(path: Path | str) -> Iterator[None]:
    """Changes an `InputError` that the block raises about a line, so that it calls the line a row."""
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        raise InputError(error.problem, path=f"{path}, row {error.line}", remedy=error.remedy) from None


def _split_of(
    records: Iterable[Record],
    path: Path,
    task: str,
    labels: Sequence[str] | None,
    layout: Layout,
    classes: Sequence[str],
    *,
    training: bool,
) -> Split:
    """Collects the pairs of records (line, column -> value). The other arguments and the errors are those of `read`.

    Arguments:
      classes: the names of the labels 0, 1, ...; empty if the labels are names already.
    """
    remedy = None
    if task == "ranking":
        labels = RANKING_LABELS
        remedy = "a ranking's label is 1 (relevant) or 0; set the task to 'classification' to ignore the groups"
    elif labels is not None:
        remedy = "the labels are those of the training file"
        if all(map(is_number, labels)):
            remedy += "; to learn numbers, set the task to 'regression'"
    known, seen, parts = {*(labels or ()), *layout.labels}, set(), layout.parts
    a_in, b_in, label_in, group_in = map(layout.column, KNOWN)
    pairs = PairCollector(path, None if task == "regression" else labels, remedy)
    for line, record in records:
        text_a, text_b = (text_of(record, key, path, line, parts) for key in (a_in, b_in))
        # A missing label gets the error message of a missing text. A label may have any type.
        label = record[label_in] if label_in in record else text_of(record, label_in, path, line, parts)
        group = _group(record, group_in, path, line, parts) if task == "ranking" else None
        if isinstance(label, int) and 0 <= label < len(classes):
            label = classes[label]
        name = _label_name(label, known)
        if name == "" or (task != "regression" and name == _UNLABELED and name not in known):
            pairs.drop(NO_LABEL)
            continue
        if task == "regression":
            label = number_of(label, path, line, what="label")
        elif name is None:
            raise InputError(
                f"label {shown(label)} is neither a text nor a whole number",
                path=path,
                line=line,
                remedy="write class names as texts, or set the task to 'regression' for scores",
            )
        else:
            seen.add(name)
            label = str(int(label)) if task == "ranking" and isinstance(label, bool) else layout.labels.get(name, name)
        pairs.add(line, text_a, text_b, label, group)
    split = pairs.split()
    if training and task != "regression" and (unknown := [name for name in layout.labels if name not in seen]):
        raise InputError(
            f"labels: no pair has the label {shown(unknown[0])}",
            path=path,
            remedy=f"its labels are {listed(sorted(seen))}",
        )
    return split


def _label_name(label: Any, known: Container[str]) -> str | None:
    """Returns a label as text; "" for a missing label, None for a value that cannot name a class.

    A whole number that pandas wrote as a float, because the column has missing values, becomes a whole number again:
    "1.0" becomes "1", unless "1.0" is one of the `known` labels.
    """
    if label is None or label != label:  # NaN
        return ""
    if isinstance(label, str):
        name = label.strip()
        whole = None if name in known else _WHOLE.fullmatch(name)
        return whole[1] if whole else name
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label) if isinstance(label, int) else None


def _group(record: Mapping[str, Any], key: str, path: Path, line: int, parts: Mapping[str, str]) -> str:
    """Returns the group of a record, a text or a whole number, which pandas may have written as a float."""
    group = record.get(key)
    if isinstance(group, int | float) and not isinstance(group, bool) and group % 1 == 0:
        return str(int(group))
    return text_of(record, key, path, line, parts).strip()


# --- the order of the labels --------------------------------------------------------------------------------------


def in_order(labels: Iterable[str], classes: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """Returns the names of labels in the order of a model's outputs. The second of two labels is positive.

    The labels in the files decide the order, not their names: with 0=other,1=duplicate, "duplicate" is second.

    Arguments:
      labels: the names.
      classes: the names that the writer of the files gave to the classes, in their order (`classes_of`). They come
        first. The others are in the order of their texts.
      layout: the layout, which may name labels.
    """
    in_files = {name: label for label, name in sorted(layout.labels.items(), reverse=True)}

    def place(name: str) -> tuple[int, str]:
        label = in_files.get(name, name)
        return classes.index(label) if label in classes else len(classes), label

    return tuple(sorted(labels, key=place))


def classes_of(path: Path, layout: Layout) -> list[str]:
    """Returns the names that the writer of a training file gave to the classes, in their order, or an empty list.

    Parquet has them if Hugging Face's datasets wrote a `ClassLabel`, and a folder has them if `save` wrote it.

    Raises:
      InputError: the file cannot be read.
    """
    if format_of(path) == ".parquet":
        return class_names(path, layout.column("label"))
    mark = path.with_name(MARK)
    if path.name != "train.jsonl" or not mark.is_file() or not (text := mark.read_text(encoding="utf-8")):
        return []
    with report_damage(mark, "save the data again"):
        return [str(name) for name in json.loads(text)["labels"]]


# --- tables in memory ---------------------------------------------------------------------------------------------


def save(
    data: Any,
    folder: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    labels: Mapping[Any, str] | None = None,
    task: str = "",
    split: str = "",
    split_seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Writes pairs from memory to a folder of own data: train.jsonl and, if they are given, dev.jsonl and test.jsonl.

    A run is then named after the content of the files, can be resumed after an interruption, and is evaluated like any
    other run. A missing label marks a pair without a label, and so does -1 unless the task is a regression or `labels`
    names -1. Such pairs are left out and counted. A test part without any label is not written. The label names of a
    `ClassLabel` and their order are kept.

    Arguments:
      data: a `DataFrame` of pandas, a `Dataset` of Hugging Face's datasets or a `Table` of pyarrow, which is split by
        `split`; or a mapping of 'train', 'dev' (or 'validation') and 'test' to such tables, such as a `DatasetDict`.
      folder: a new folder, an empty folder, or a folder that this function wrote, which is replaced.
      columns: 'text_a', 'text_b', 'label', 'group' -> the name of the column, if it is different.
      labels: label in the data -> its name; each of these labels must occur in train.
      task: 'classification', 'regression' or 'ranking'. If it is empty, the task is a ranking if a column 'group'
        exists, and a classification otherwise.
      split: the shares of train, dev and test, such as "0.8/0.1/0.1"; groups stay together.
      split_seed: the seed of the split.

    Returns:
      Split -> {'pairs': the number of pairs written, 'dropped': reason -> the number of pairs left out}.

    Raises:
      InputError: a column is missing, a row cannot be used, train lacks a label of `labels`, the name of a part is
        unknown, or the folder holds other files.
    """
    if task not in ("", *TASKS):
        raise InputError(f"there is no task {shown(task)}", remedy=f"the tasks are {', '.join(TASKS)}")
    names = {str(label): name for label, name in (labels or {}).items()}
    layout = Layout(dict(columns or {}), names, False, shares_of(split), split_seed)
    check_columns(layout.columns)
    parts = _parts(data, layout)
    frames = {name: _as_frame(table) for name, table in parts.items()}
    guessed = not task
    if guessed:
        task = "ranking" if layout.column("group") in frames["train"].columns else "classification"
    classes = {name: _classes(table, layout) if task == "classification" else [] for name, table in parts.items()}
    read: dict[str, Split] = {}
    for name, frame in frames.items():
        try:
            read[name] = _read_frame(frame, classes[name], name, task, guessed, layout)
        except NoPairs as nothing:
            if name != "test":
                raise
            read[name] = Split([], [], [], dropped=nothing.dropped)
    if layout.shares:
        read = dict(zip(("train", "dev", "test"), split_by_shares(read["train"], layout.shares, split_seed)))
    if task == "classification":
        for name, part in read.items():
            if unknown := sorted(set(part.labels) - set(read["train"].labels)):
                raise InputError(f"label {shown(unknown[0])} is in no pair of train", path=name)
    order = in_order(set(read["train"].labels), classes["train"], layout) if task == "classification" else ()
    _write(read, order, Path(folder))
    return {name: {"pairs": len(part), "dropped": dict(part.dropped)} for name, part in read.items()}


def _parts(data: Any, layout: Layout) -> dict[str, Any]:
    """Returns split -> the table of its pairs, "train" first."""
    if not isinstance(data, Mapping):
        if not layout.shares:
            raise InputError("one table is given", remedy='give the shares to split it by: split="0.8/0.1/0.1"')
        return {"train": data}
    if layout.shares:
        raise InputError(f"{listed(data)} are given, and split takes one table", remedy="leave split out")
    parts: dict[str, Any] = {}
    for name, table in data.items():
        if name not in SPLIT_OF_NAME or SPLIT_OF_NAME[name] in parts:
            raise InputError(
                f"split {shown(name)} is none of {', '.join(SPLIT_OF_NAME)}, or occurs twice",
                remedy='choose the parts: {"train": data["train"], "dev": ..., "test": ...}',
            )
        parts[SPLIT_OF_NAME[name]] = table
    if "train" not in parts:
        raise InputError("there is no split 'train'", remedy=f"there are {listed(data)}")
    return {name: parts[name] for name in ("train", "dev", "test") if name in parts}


def _as_frame(table: Any) -> Any:
    """Returns a table as a `DataFrame` of pandas: a `Dataset`, or a table of pyarrow or polars."""
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    if not hasattr(frame, "columns"):
        raise InputError(f"{type(table).__name__} is not a table", remedy="give a DataFrame, a Dataset or a Table")
    return frame


def _read_frame(frame: Any, classes: Sequence[str], name: str, task: str, guessed: bool, layout: Layout) -> Split:
    columns, required = list(frame.columns), layout.required(task)
    if missing := [column for column in required if column not in columns]:
        raise InputError(f"there is no column {listed(missing)}; there are {listed(columns)}", path=name)
    if twice := [column for column in required if columns.count(column) > 1]:
        raise InputError(f"there are two columns {shown(twice[0])}", path=name)
    if guessed:
        _check_group(columns, name, None, task, layout)
    values = zip(*(_values(frame[column]) for column in required), strict=True)
    records = enumerate(dict(zip(required, row, strict=True)) for row in values)
    with errors_name_rows(name):
        return _split_of(records, Path(name), task, None, layout, classes, training=name == "train")


def _values(column: Any) -> list[Any]:
    """Returns the values of a column of pandas as plain Python values, with None for each kind of missing value."""
    return [
        None if missing else value.item() if isinstance(value, np.generic) else value
        for value, missing in zip(column.astype(object), column.isna(), strict=True)
    ]


def _classes(table: Any, layout: Layout) -> list[str]:
    """Returns the names of a `ClassLabel` in their order; an empty list for any other column of labels."""
    feature = getattr(table, "features", {}).get(layout.column("label"))
    return list(getattr(feature, "names", None) or ())


def _write(read: Mapping[str, Split], order: Sequence[str], folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    replaceable = {MARK, *(f"{name}.jsonl" for name in ("train", "dev", "test"))} if MARK in names else set()
    if other := sorted(names - replaceable):
        raise InputError(f"the folder holds {listed(other)}", path=folder, remedy="give a new folder")
    with files.directory_atomically(folder) as scratch:
        (scratch / MARK).write_text(
            json.dumps({"labels": order}) if list(order) != sorted(order) else "", encoding="utf-8"
        )
        for name, split in read.items():
            if not len(split):
                continue
            with open(scratch / f"{name}.jsonl", "w", encoding="utf-8") as file:
                columns = [split.text_a, split.text_b, split.labels, *([split.groups] if split.groups else [])]
                for values in zip(*columns, strict=True):
                    file.write(json.dumps(dict(zip(KNOWN, values)), ensure_ascii=False) + "\n")

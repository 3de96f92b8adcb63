"""Data in memory: a pandas `DataFrame`, a pyarrow `Table`, or a `Dataset` or `DatasetDict` of Hugging Face's `datasets`
library.

The data is written once, to a folder in the layout of own data. A run is then named after the content of the files, can
be resumed after an interruption and is evaluated like any other run. This module imports none of these libraries.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch import files
from jaxmatch.data.dataset import TASKS, Split
from jaxmatch.data.readers import own
from jaxmatch.data.readers.group_checks import check_spelling
from jaxmatch.data.readers.label_order import MARK, in_order
from jaxmatch.data.readers.lines import listed
from jaxmatch.data.readers.own_layout import KNOWN, REQUIRED, Layout, check_columns, shares_of
from jaxmatch.data.readers.pairs import NoPairs
from jaxmatch.data.readers.splitting import split_by_shares
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

SPLIT_OF_NAME = {"train": "train", "dev": "dev", "validation": "dev", "test": "test"}


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

    A missing label marks a pair without a label, and so does -1 unless the task is a regression or `labels` names -1.
    Such pairs are left out and counted. A test part without any label is not written. The label names of a `ClassLabel`
    and their order are kept.

    Arguments:
      data: a DataFrame, a Dataset or a Table, which is split by `split`; or a mapping of 'train', 'dev' (or
        'validation') and 'test' to such tables, such as a DatasetDict.
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
            read[name] = _read(frame, classes[name], name, task, guessed, layout)
        except NoPairs as nothing:
            if name != "test":
                raise
            read[name] = Split([], [], [], dropped=nothing.dropped)
    if layout.shares:
        read = dict(zip(("train", "dev", "test"), split_by_shares(read["train"], layout.shares, split_seed)))
    _check_labels(read, task)
    order = in_order(set(read["train"].labels), classes["train"], layout) if task == "classification" else ()
    _write(read, order, Path(folder))
    return {name: {"pairs": len(split), "dropped": dict(split.dropped)} for name, split in read.items()}


def _parts(data: Any, layout: Layout) -> dict[str, Any]:
    """Returns split -> the table of its pairs, "train" first."""
    if not isinstance(data, Mapping):
        if not layout.shares:
            raise InputError("one table is given", remedy='give the shares to split it by: split="0.8/0.1/0.1"')
        return {"train": data}
    if layout.shares:
        raise InputError(f"{listed(data)} are given, and split takes one table", remedy="leave split out")
    parts: dict[str, Any] = {}
    for name, frame in data.items():
        if name not in SPLIT_OF_NAME or SPLIT_OF_NAME[name] in parts:
            raise InputError(
                f"split {shown(name)} is none of {', '.join(SPLIT_OF_NAME)}, or occurs twice",
                remedy='choose the parts: {"train": data["train"], "dev": ..., "test": ...}',
            )
        parts[SPLIT_OF_NAME[name]] = frame
    if "train" not in parts:
        raise InputError("there is no split 'train'", remedy=f"there are {listed(data)}")
    return {name: parts[name] for name in ("train", "dev", "test") if name in parts}


def _as_frame(table: Any) -> Any:
    """Returns a table as a `DataFrame` of pandas: a `Dataset`, or a table of pyarrow or polars."""
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    if not hasattr(frame, "columns"):
        raise InputError(f"{type(table).__name__} is not a table", remedy="give a DataFrame, a Dataset or a Table")
    return frame


def _read(frame: Any, classes: Sequence[str], name: str, task: str, guessed: bool, layout: Layout) -> Split:
    columns = list(frame.columns)
    required = list(dict.fromkeys(layout.column(each) for each in (KNOWN if task == "ranking" else REQUIRED)))
    if missing := [column for column in required if column not in columns]:
        raise InputError(f"there is no column {listed(missing)}; there are {listed(columns)}", path=name)
    if twice := [column for column in required if columns.count(column) > 1]:
        raise InputError(f"there are two columns {shown(twice[0])}", path=name)
    if guessed:
        check_spelling([str(each) for each in columns], Path(name), None, [layout.column(each) for each in KNOWN])
    values = zip(*(_values(frame[column]) for column in required), strict=True)
    records = enumerate(dict(zip(required, row, strict=True)) for row in values)
    rows = own.rows_of_records(records, Path(name), task, layout, classes)
    with own.errors_name_rows(name):
        return own.collect_split(rows, Path(name), task, None, layout=layout, training=name == "train")


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


def _check_labels(read: Mapping[str, Split], task: str) -> None:
    if task != "classification":
        return
    known = set(read["train"].labels)
    for name, split in read.items():
        if unknown := sorted(set(split.labels) - known):
            raise InputError(f"label {shown(unknown[0])} is in no pair of train", path=name)


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

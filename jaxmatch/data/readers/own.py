"""The user's own data: CSV, TSV, JSON lines or Parquet, each also with gzip, with columns `text_a`, `text_b`, `label`
and optional `group`.

Unless data.quoted is set, quotation marks in TSV are ordinary characters, and a text cannot hold a tab or a line end.
The other formats can hold any text. Rows of Parquet are counted from 0, as pandas counts them.
"""

import contextlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.group_checks import check_spelling, unexpected_group
from jaxmatch.data.readers.json_lines import read_objects, text_of
from jaxmatch.data.readers.lines import listed, read_table
from jaxmatch.data.readers.own_layout import KNOWN, PLAIN, REQUIRED, Layout
from jaxmatch.data.readers.pairs import NO_LABEL, PairCollector, is_number, number_of
from jaxmatch.data.readers.parquet import class_names, open_parquet, read_parquet
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
SUFFIXES = (*FORMATS, *(f"{suffix}.gz" for suffix in FORMATS))
RANKING_LABELS = ("0", "1")
# Hugging Face's data sets give this label to a pair without a label.
_UNLABELED = "-1"
# pandas writes whole numbers this way in a column with missing values.
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")
Row = tuple[int, str, str, Any, str | None]
Record = tuple[int, Mapping[str, Any]]


def format_of(path: Path) -> str:
    """Returns the suffix of a file's format: ".csv" for "train.csv.gz"; "" for an unknown format."""
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in FORMATS if name.endswith(suffix)), "")


def guess_task(path: Path, layout: Layout = PLAIN) -> str:
    """Returns 'ranking' if the header or the first object of a file names a `group`, else 'classification'.

    Raises:
      InputError: the beginning of the file is damaged. No more than the beginning is read.
    """
    if format_of(path) == ".parquet":
        names: Iterable[str] = open_parquet(path).schema_arrow.names
    elif format_of(path) == ".jsonl":
        names = next(((record.keys()) for _, record in read_objects(path, _required("", layout))), ())
    else:
        names, _ = read_table(path, _required("", layout), quoted_by=_quoted_by(path, layout), parts=layout.parts)
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
    dropped and counted if its label is empty, or if its label is -1 and -1 is neither a score nor a known label.

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
    with errors_name_rows(path) if format_of(path) == ".parquet" else contextlib.nullcontext():
        return collect_split(
            _rows(path, task, layout, guessed=guessed), path, task, labels, layout=layout, training=training
        )


def _rows(path: Path, task: str, layout: Layout, *, guessed: bool = False) -> Iterator[Row]:
    kind = format_of(path)
    if kind == ".parquet":
        wanted = [layout.column(name) for name in KNOWN]
        if guessed:
            check_spelling(open_parquet(path).schema_arrow.names, path, None, wanted)
        names = class_names(path, layout.column("label")) if task == "classification" else []
        rows = read_parquet(path, _required(task, layout), wanted, layout.parts)
        return rows_of_records(rows, path, task, layout, names, guessed=guessed)
    if kind == ".jsonl":
        return rows_of_records(read_objects(path, _required(task, layout)), path, task, layout, guessed=guessed)
    return _read_table(path, task, layout, guessed=guessed)


def _required(task: str, layout: Layout) -> list[str]:
    return list(dict.fromkeys(layout.column(name) for name in (KNOWN if task == "ranking" else REQUIRED)))


@contextlib.contextmanager
def errors_name_rows(path: Path | str) -> Iterator[None]:
    """Changes an `InputError` that the block raises about a line, so that it calls the line a row."""
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        raise InputError(error.problem, path=f"{path}, row {error.line}", remedy=error.remedy) from None


def collect_split(
    rows: Iterable[Row],
    path: Path,
    task: str,
    labels: Sequence[str] | None,
    *,
    layout: Layout,
    training: bool = False,
) -> Split:
    """Gathers the pairs of rows (line, text_a, text_b, label, group). The other arguments are those of `read`.

    Raises:
      InputError: a row cannot be used, no row has a label, or `layout` names a label that no row of the training file
        has.
    """
    remedy = None
    seen: set[str] = set()
    if task == "ranking":
        labels = RANKING_LABELS
        remedy = "a ranking's label is 1 (relevant) or 0; set the task to 'classification' to ignore the groups"
    elif labels is not None:
        remedy = "the labels are those of the training file"
        if all(map(is_number, labels)):
            remedy += "; to learn numbers, set the task to 'regression'"
    known = {*(labels or ()), *layout.labels}
    pairs = PairCollector(path, None if task == "regression" else labels, remedy)
    for line, text_a, text_b, label, group in rows:
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


def _quoted_by(path: Path, layout: Layout) -> str | None:
    if format_of(path) == ".csv":
        return ","
    return "\t" if layout.quoted else None


def _read_table(path: Path, task: str, layout: Layout, *, guessed: bool) -> Iterator[Row]:
    names, rows = read_table(path, _required(task, layout), quoted_by=_quoted_by(path, layout), parts=layout.parts)
    if guessed:
        check_spelling(names, path, 1, [layout.column(name) for name in KNOWN])
        if task == "classification" and layout.column("group") in names:
            raise unexpected_group("the header", "that of the training file", path, 1, layout.column("group"))
    a_at, b_at, label_at = (names.index(layout.column(name)) for name in REQUIRED)
    group_at = names.index(layout.column("group")) if task == "ranking" else None
    for line, row in rows:
        group = None if group_at is None else row[group_at].strip()
        yield line, row[a_at], row[b_at], row[label_at], group


def rows_of_records(
    records: Iterable[Record],
    path: Path,
    task: str,
    layout: Layout,
    classes: Sequence[str] = (),
    *,
    guessed: bool = False,
) -> Iterator[Row]:
    """Yields a row (line, text_a, text_b, label, group) for each object or table row with typed values.

    Arguments:
      records: the line number and the values of each object or row.
      path: the file, for error messages.
      task: as in `read`.
      layout: the columns that are read.
      classes: the names of the labels 0, 1, ...; empty if the labels are names already.
      guessed: as in `read`.

    Raises:
      InputError: a value is missing or has the wrong type, or a group is found as described for `guessed` in `read`.
    """
    parts = layout.parts
    a_in, b_in, label_in, group_in = known = [layout.column(name) for name in KNOWN]
    for line, record in records:
        if guessed:
            check_spelling(record, path, line, known)
        if guessed and task == "classification" and group_in in record:
            # A ranking whose first line has no group would silently become a classification.
            raise unexpected_group("the pair", "the first pair of the training file", path, line, group_in)
        text_a, text_b = (text_of(record, key, path, line, parts) for key in (a_in, b_in))
        # A missing label gets the error message of a missing text. A label may have any type.
        label = record[label_in] if label_in in record else text_of(record, label_in, path, line, parts)
        if isinstance(label, int) and 0 <= label < len(classes):
            label = classes[label]
        group = None
        if task == "ranking":
            group = record.get(group_in)
            if isinstance(group, int | float) and not isinstance(group, bool) and group % 1 == 0:
                group = str(int(group))
            else:
                group = text_of(record, group_in, path, line, parts).strip()
        yield line, text_a, text_b, label, group

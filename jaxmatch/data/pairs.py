"""Pairs of texts before they are encoded: splits, the records of files, and the division of one file.

A record is (line, column -> value). In text files only a line feed ends a line. Texts from the web hold lone carriage
returns, NULs and U+2028, at which `str.splitlines` would cut a sentence in two. Blank lines are skipped.
"""

import csv
import dataclasses
import functools
import gzip
import hashlib
import itertools
import json
import re
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, NotInstalled, Row, count_text, first_line, listed, printable, shown, without_nan

TASKS = ("classification", "regression", "ranking")
FORMATS = ("tsv", "csv", "jsonl", "parquet")
NO_LABEL = "no label"  # a reason for which a pair is dropped
HELD_OUT_SHARE = Fraction(1, 10)
_COLUMNS = ("text_a", "text_b", "labels", "groups", "documents")
# Stricter than float(), which accepts "nan", "1_000" and digits of every script.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LARGEST = 3.4e38  # the largest float32, because the numbers become float32
_RENAME = "rename it, or name the column with --columns, in Python with columns="
Record = tuple[int, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Split:
    """The pairs of one split, stored as columns. Each column has one entry per pair.

    Attributes:
      text_a: first sentences (premise, question).
      text_b: second sentences (hypothesis, other question, candidate answer).
      labels: label names, or numbers for a regression.
      groups: the group in which each candidate is ranked (the question of a ranking), or None.
      documents: the name of each candidate within its group, which orders candidates with equal scores, or None.
      source: the file from which the pairs were read, or None.
      dropped: reason -> the number of pairs that were left out for this reason.
      categories: the value of a further column by which an evaluation reports its scores, or None.
    """

    text_a: Sequence[str]
    text_b: Sequence[str]
    labels: Sequence[str] | Sequence[float]
    groups: Sequence[str] | None = None
    documents: Sequence[str] | None = None
    source: Path | None = None
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    categories: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.text_a)

    def part(self, rows: Sequence[int], dropped: Mapping[str, int]) -> "Split":
        """Returns a split with the pairs of the given rows, in their order, and with other counts of dropped pairs."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        taken = {name: [column[row] for row in rows] for name, column in columns.items() if column is not None}
        return dataclasses.replace(self, **taken, dropped=dropped)

    def pair_keys(self) -> list[tuple[str, str]]:
        """Returns a key for each pair. It is equal for pairs of the same texts, up to order, case and punctuation."""
        key_of = functools.cache(lambda text: " ".join(text.casefold().translate(_spaces()).split()) or text)
        return [tuple(sorted((key_of(a), key_of(b)))) for a, b in zip(self.text_a, self.text_b, strict=True)]


@functools.cache
def _spaces() -> Mapping[int, str]:
    """Returns punctuation (Unicode's category P, none of it above 0x1FFFF, and the accent of ``quotes'') -> a space."""
    marks = (code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("P"))
    return dict.fromkeys([ord("`"), *marks], " ")


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A named set of splits.

    Attributes:
      name: the name of the data set in the catalog.
      task: "classification", "regression", or "ranking" (a binary classification scored within groups).
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: "train", "dev", "test" (those that exist) -> Split.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: Mapping[str, Split]

    def digest(self) -> str:
        """Returns a hash of the task, the label names and all pairs."""
        found = hashlib.sha256(repr((self.task, self.labels)).encode())
        for name, split in self.splits.items():
            for column in (getattr(split, each) for each in _COLUMNS):
                found.update(repr((name, None if column is None else [str(each) for each in column])).encode())
        return found.hexdigest()

    def in_train(self) -> dict[str, int]:
        """Returns 'dev' and 'test', if they exist, -> the number of their pairs that are in train, by their keys."""
        known = set(self.splits["train"].pair_keys())
        others = {name: split for name, split in self.splits.items() if name != "train"}
        return {name: sum(key in known for key in split.pair_keys()) for name, split in others.items()}


def dropped_text(dropped: Mapping[str, int]) -> str:
    """Returns a note like " (2 dropped: no label)" to append to a statement about the remaining pairs, or ""."""
    reasons = ", ".join(f"{count} dropped: {reason}" for reason, count in dropped.items())
    return f" ({reasons})" if reasons else ""


def collect(
    path: Path,
    records: Iterable[tuple[int, Any]],
    pair_of: Callable[[Any], tuple | str],
    labels: Sequence[str] | None = None,
    remedy: str | None = None,
) -> Split:
    """Collects the pairs of a file.

    Arguments:
      path, records: the file, and (line, record) for each pair.
      pair_of: record -> first text, second text, label and, if there are any, its group, the name of the document and
        its category; or the reason for which the pair is left out. An `InputError` needs no place.
      labels: the label names that may occur; None accepts numbers and any text that is a name on one line.
      remedy: the remedy in the error about another label.
    """
    known = None if labels is None else dict(zip(labels, labels))
    pairs: list[tuple] = []
    dropped: Counter[str] = Counter()
    for line, record in records:
        try:
            pair = pair_of(record)
            if isinstance(pair, str):
                dropped[pair] += 1
            else:
                pairs.append(_checked(pair, known, remedy))
        except InputError as error:
            raise error.at(path, line) from None
    if not pairs:
        raise InputError("the file holds no pairs" + dropped_text(dropped), path=path)
    texts_a, texts_b, names, *others = map(list, zip(*pairs))
    groups, documents, categories = (column if any(column) else None for column in others)
    return Split(texts_a, texts_b, names, groups, documents, path, dict(dropped), categories)


def _checked(pair: tuple, known: Mapping[str, str] | None, remedy: str | None) -> tuple:
    """Returns a pair of six entries, whose label and group share memory with equal ones."""
    text_a, text_b, label, group, document, category = (*pair, None, None, None)[:6]
    for what, text in (("first text", text_a), ("second text", text_b), ("label", label), ("group", group)):
        if isinstance(text, str) and (not text or text.isspace()):
            raise InputError(f"the {what} is empty", remedy="fill it in, or remove the pair")
    try:
        f"{text_a}{text_b}{label}{group}".encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{shown(error.object[error.start])} without its other half") from None
    if known is not None:
        if label not in known:
            raise InputError(f"label {shown(label)} is not one of {listed(known, most=12)}", remedy=remedy)
        label = known[label]
    elif isinstance(label, str):
        if printable(label) != label:  # tables print labels, sometimes as lines of their own
            raise InputError(f"label {shown(label)} holds a line end or a control character")
        label = sys.intern(label)
    return text_a, text_b, label, group and sys.intern(group), document, category


def is_number(text: str) -> bool:
    """Returns whether a text is written as a number; `number_of` also checks that the number is in its range."""
    return _NUMBER.fullmatch(text.strip()) is not None


def number_of(value: Any, what: str, lowest: float = -_LARGEST, highest: float = _LARGEST) -> float:
    """Returns `value`, a text or a number from `lowest` to `highest` that errors call `what`, as a float."""
    text = str(value)
    if isinstance(value, bool) or not is_number(text):
        raise InputError(f"{what} {shown(value)} is not a number", remedy="write it as in 3.5")
    if not lowest <= float(text) <= highest:
        raise InputError(f"{what} {shown(value)} is not between {lowest:g} and {highest:g}")
    return float(text)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a UTF-8 file, which is decompressed if its name ends in .gz, as `decode_lines` does."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else open(path, "rb") as file:
            yield from decode_lines(file, path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"it cannot be read ({getattr(error, 'strerror', None) or error})", path=path) from None


def decode_lines(raw_lines: Iterable[bytes], path: Path | str) -> Iterator[tuple[int, str]]:
    r"""Yields (line number counted from 1, text without its line end) for each of the raw lines, which end in b"\n".

    A byte-order mark, Windows line ends and a missing last line end are accepted.
    """
    for number, raw in enumerate(raw_lines, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = f"it is not UTF-8 text ({error})"
            raise InputError(problem, path=path, line=number, remedy="save it as text in UTF-8") from None
        yield number, line.removesuffix("\n").removesuffix("\r")


def without_blank(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yields the lines that hold more than spaces."""
    return ((number, line) for number, line in lines if line.strip(" "))


def format_of(source: Path | str) -> str | None:
    """Returns the format by the ending of a file's name, ignoring .gz; None if the ending is unknown."""
    suffix = Path(str(source).lower().removesuffix(".gz")).suffix.lstrip(".")
    return "jsonl" if suffix == "json" else suffix if suffix in FORMATS else None


def read_records(
    source: Path | str,
    parts: Sequence[str],
    layout: str | None = None,
    quoted: bool = False,
    lines: Iterator[tuple[int, str]] | None = None,
    numbered: Mapping[int, str] | None = None,
) -> Iterator[Record]:
    """Yields all fields of each record. Values that JSON cannot hold become texts or, as NaN does, null.

    Arguments:
      source: the file, or the name of the stream that `lines` come from. Rows of Parquet are counted from 0.
      parts: columns that each record must have, with texts that are not empty.
      layout: one of `FORMATS`; None: the format by the file's name, or else JSON if the first line has a brace.
      quoted: whether TSV is written with quotation marks.
      lines, numbered: as in `read_table`.
    """
    layout = layout or format_of(source)
    lines = read_lines(Path(source)) if lines is None else lines
    if layout is None:
        first = next(without_blank(lines), (1, ""))
        layout = "jsonl" if first[1].lstrip().startswith("{") else "tsv"
        lines = itertools.chain([first], lines)
    if layout == "parquet":
        rows = read_parquet(Path(source), parts)
        found = ((number, json.loads(json.dumps(row, default=str))) for number, row in rows)
    elif layout == "jsonl":
        found = read_objects(source, parts, lines)
    else:
        quoted_by = "," if layout == "csv" else "\t" if quoted else None
        found = read_table(source, parts, quoted_by=quoted_by, lines=lines, numbered=numbered, whole=True)
    for number, fields in found:
        try:
            if empty := [key for key in parts if not text_of(fields, key).strip()]:
                raise InputError(f"{empty[0]} is empty")
        except InputError as error:
            raise error.at(source, number) from None
        yield number, without_nan(fields)


def read_columns(path: Path, count: int, names: str, *, most: float | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, columns) for each line of a file without a header, of `count` to `most` columns."""
    for number, line in without_blank(read_lines(path)):
        columns = line.split("\t")
        if not count <= len(columns) <= (most or count):
            problem = f"{count_text(len(columns), 'column')} where {count} are expected ({names}, separated by tabs)"
            raise InputError(problem, path=path, line=number)
        yield number, columns


def read_table(
    path: Path | str,
    required: Sequence[str],
    *,
    quoted_by: str | None = None,
    lines: Iterator[tuple[int, str]] | None = None,
    numbered: Mapping[int, str] | None = None,
    whole: bool = False,
) -> Iterator[Record]:
    """Yields (number of the first line, column -> text) for each row of a table whose first line names the columns.

    Arguments:
      path: the file to read, or the name of a stream for error messages.
      required: the names of columns that the header must hold.
      quoted_by: the separator of a file in which quotation marks enclose a column that holds a separator or a line end
        (RFC 4180); None: tabs separate the columns, and quotation marks are ordinary characters.
      lines: the lines as `read_lines` yields them; None: `path` is read.
      numbered: number of a column from 1 -> its name, for a table without a line of names; other columns are named by
        their numbers.
      whole: whether all columns are used, so that no two may have the same name.
    """
    lines = read_lines(Path(path)) if lines is None else lines
    plain = ((number, line.split("\t")) for number, line in without_blank(lines))
    rows = _quoted(lines, path, quoted_by) if quoted_by else plain
    number, first = next(rows, (1, []))
    if not first:
        raise InputError("the file is empty", path=path)
    names = [name.strip() for name in first]
    if numbered:
        stated = [(numbered[place], name) for place, name in enumerate(names, start=1) if place in numbered]
        if any(part == name.lower() != "text" for part, name in stated):  # a text of a search may be "text"
            remedy = f"leave out the numbers: {','.join(map('='.join, stated))}"
            raise InputError("this looks like a header", path=path, line=number, remedy=remedy)
        rows = itertools.chain([(number, first)], rows)
        names = [numbered.get(place, str(place)) for place in range(1, len(names) + 1)]
    require_columns(names, [*required, *filter(None, names)] if whole else required, path, 1)
    for number, columns in rows:
        if len(columns) != len(names):
            problem = f"{count_text(len(columns), 'column')} where the first line has {len(names)}"
            raise InputError(problem, path=path, line=number)
        if [column.strip("\ufeff ") for column in columns] == names:
            raise InputError("the row repeats the header", path=path, line=number, remedy="were files joined?")
        yield number, dict(zip(names, columns))


def _quoted(lines: Iterator[tuple[int, str]], path: Path | str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the first line, columns) for each row in RFC 4180's format; skips blank lines between rows."""
    csv.field_size_limit(1 << 30)  # for the whole process; the default is 131,072
    rows, number = csv.reader((f"{line}\n" for _, line in lines), delimiter=separator, strict=True), 1
    try:
        for columns in rows:
            if columns:
                yield number, columns
            number = rows.line_num + 1
    except csv.Error as error:
        problem = f"the row that begins here cannot be read ({error})"
        raise InputError(problem, path=path, line=number, remedy="is a quotation mark not closed?") from None


def require_columns(names: Sequence[str], required: Sequence[str], path: Path | str, line: int | None = None) -> None:
    """Checks that the names of a table's columns hold each required one, once."""
    if twice := [name for name in required if names.count(name) > 1]:
        raise InputError(f"the header names column {shown(twice[0])} twice", path=path, line=line, remedy="rename one")
    if missing := [name for name in required if name not in names]:
        problem = f"the header has no column {listed(missing)}; it has {listed(names)}"
        tabs = "tabs separate the columns of .tsv, commas those of .csv: rename the file, or save it again"
        raise InputError(problem, path=path, line=line, remedy=tabs if len(names) == 1 < len(required) else _RENAME)


def read_objects(
    path: Path | str, required: Sequence[str], lines: Iterable[tuple[int, str]] | None = None
) -> Iterator[Record]:
    """Yields (line number, object) for each of the lines, which hold a JSON object with the required keys each."""
    for number, line in without_blank(read_lines(Path(path)) if lines is None else lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"not valid JSON ({str(error).replace(': line 1 column', ' at column')})"
            raise InputError(problem, path=path, line=number, remedy="each line holds one object") from None
        if not isinstance(value, dict):
            raise InputError(f"the line is not a JSON object but {shown(value)}", path=path, line=number)
        if missing := [key for key in required if key not in value]:
            problem = f"the object has no key {listed(missing)}; it has {listed(value)}"
            raise InputError(problem, path=path, line=number, remedy=_RENAME)
        yield number, value


def text_of(record: Mapping[str, Any], key: str) -> str:
    """Returns the text that a record holds under `key`."""
    if not isinstance(record[key], str):
        raise InputError(f"{shown(key)} must be a string, not {shown(record[key])}")
    return record[key]


def read_parquet(path: Path, required: Sequence[str], wanted: Sequence[str] | None = None) -> Iterator[Record]:
    """Yields (`Row`, column -> value) for each row of a table in Parquet; None: all columns are wanted."""
    file, rows = open_parquet(path), itertools.count()
    require_columns(file.schema_arrow.names, required, path)
    try:
        for batch in file.iter_batches(4096, columns=wanted):
            for record in batch.to_pylist():
                yield Row(next(rows)), record
    except (ValueError, OSError) as error:  # pyarrow's errors derive from these
        raise InputError(f"the file is damaged ({first_line(error)})", path=path, remedy="copy it again") from None


def open_parquet(path: Path) -> Any:
    """Opens a file, which may be compressed with gzip, as a `pyarrow.parquet.ParquetFile`."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NotInstalled("reading Parquet", "pyarrow", "tables", "or save it as CSV", path) from None
    try:
        packed = path.name.lower().endswith(".gz")  # `input_stream` decompresses by the ending of the name
        return parquet.ParquetFile(pyarrow.BufferReader(pyarrow.input_stream(path).read()) if packed else path)
    except (ValueError, OSError) as error:
        raise InputError(f"it is not a readable Parquet file ({first_line(error)})", path=path) from None


def _divided(whole: Split, units: Sequence[str], shares: Sequence[Fraction]) -> list[Split]:
    """Divides pairs into parts. Pairs of one unit stay together, and keep the order of the file.

    The units are taken in the order of their SHA-256. Dropped pairs are counted with the first part.
    """
    sizes = Counter(units)
    parts: dict[str, int] = {}
    number, before, ends = 0, 0, shares[0] * len(whole)
    for unit in sorted(sizes, key=lambda unit: hashlib.sha256(unit.encode()).digest()):
        while before >= ends and number + 1 < len(shares):
            number += 1
            ends += shares[number] * len(whole)
        parts[unit] = number
        before += sizes[unit]
    rows: list[list[int]] = [[] for _ in shares]
    for row, unit in enumerate(units):
        rows[parts[unit]].append(row)
    if not all(rows):
        problem = f"the split leaves a part without pairs: {len(whole)} pairs in {len(sizes)} groups that stay together"
        raise InputError(problem, path=whole.source, remedy="give other shares, or a file of its own for each split")
    return [whole.part(found, {} if number else whole.dropped) for number, found in enumerate(rows)]


def split_by_shares(whole: Split, shares: Sequence[Fraction], seed: int) -> list[Split]:
    """Splits the pairs of a file into one part for each of the shares, whose sum is 1, the same on every machine.

    Pairs of the same two texts stay together, up to order, case and punctuation, and so do the pairs of a group.
    """
    keys = whole.pair_keys()
    units = _joined_groups(whole.groups, keys) if whole.groups else keys
    return _divided(whole, [json.dumps([seed, unit]) for unit in units], shares)


def _joined_groups(groups: Sequence[str], keys: Sequence[Hashable]) -> list[str]:
    """Returns the unit of each pair, named by its first group in the order of texts. Groups that share a pair, by its
    key, are in one unit.
    """
    units, before = list(groups), None
    while units != before:
        before = units
        for names in (keys, groups):
            first: dict[Hashable, str] = {}
            for name, unit in zip(names, units, strict=True):
                first[name] = min(unit, first.get(name, unit))
            units = [first[name] for name in names]
    return units


def hold_out(whole: Split) -> tuple[Split, Split]:
    """Splits an official training file into train and dev, for a corpus that has no dev file.

    All pairs with the same first text stay together, because a corpus may pair one headline with many tweets. The first
    texts that come first by their SHA-256 form dev, until it has a tenth of the pairs. Dropped pairs count with train.
    """
    dev, train = _divided(whole, whole.text_a, (HELD_OUT_SHARE, 1 - HELD_OUT_SHARE))
    return dataclasses.replace(train, dropped=whole.dropped), dataclasses.replace(dev, dropped={})

"""Pairs of texts before they are encoded: splits, the rules that all formats share, and the division of one file."""

import dataclasses
import functools
import hashlib
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, listed, shown

TASKS = ("classification", "regression", "ranking")
NO_LABEL = "no label"  # a reason for which a pair is dropped
HELD_OUT_SHARE = 0.1
_FILL_IN = "fill it in, or remove the pair"
# Stricter than float(), which accepts "nan", "1_000" and digits of every script.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LARGEST = 3.4e38  # the largest float32, because the numbers become float32
# Categories of control characters and of line separators. A label is printed in tables, sometimes as a line of its own.
_NOT_IN_LABELS = ("Cc", "Zl", "Zp")


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
    """

    text_a: Sequence[str]
    text_b: Sequence[str]
    labels: Sequence[str] | Sequence[float]
    groups: Sequence[str] | None = None
    documents: Sequence[str] | None = None
    source: Path | None = None
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.text_a)

    def part(self, rows: Sequence[int], dropped: Mapping[str, int]) -> "Split":
        """Returns a split with the pairs of the given rows, in the order of the rows.

        Arguments:
          rows: the indices of the pairs.
          dropped: the value of `dropped` for the new split; the value of this split is not copied.
        """

        def taken(column: Sequence) -> list:
            return [column[row] for row in rows]

        return dataclasses.replace(
            self,
            text_a=taken(self.text_a),
            text_b=taken(self.text_b),
            labels=taken(self.labels),
            groups=None if self.groups is None else taken(self.groups),
            documents=None if self.documents is None else taken(self.documents),
            dropped=dropped,
        )

    def pair_keys(self) -> list[tuple[str, str]]:
        """Returns a key for each pair. It is equal for pairs of the same texts, up to order, case and punctuation."""
        key_of = functools.cache(_without_case_and_punctuation)
        return [tuple(sorted((key_of(a), key_of(b)))) for a, b in zip(self.text_a, self.text_b, strict=True)]


class _Spaces(dict[int, str]):
    """For `str.translate`: punctuation (Unicode's category P, and the grave accent of ``quotes'') -> a space."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        self[code] = " " if letter == "`" or unicodedata.category(letter).startswith("P") else letter
        return self[code]


_SPACES = _Spaces()


def _without_case_and_punctuation(text: str) -> str:
    return " ".join(text.casefold().translate(_SPACES).split()) or text


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
            for column in (split.text_a, split.text_b, split.labels, split.groups, split.documents):
                found.update(repr((name, None if column is None else [str(each) for each in column])).encode())
        return found.hexdigest()

    def in_train(self) -> dict[str, int]:
        """Returns 'dev' and 'test', if they exist, -> the number of their pairs that are in train, by their keys."""
        known = set(self.splits["train"].pair_keys())
        others = {name: split for name, split in self.splits.items() if name != "train"}
        return {name: sum(key in known for key in split.pair_keys()) for name, split in others.items()}


# --- collecting pairs ---------------------------------------------------------------------------------------------


def dropped_text(dropped: Mapping[str, int]) -> str:
    """Returns a note like " (2 dropped: no label)" to append to a statement about the remaining pairs, or ""."""
    reasons = ", ".join(f"{count} dropped: {reason}" for reason, count in dropped.items())
    return f" ({reasons})" if reasons else ""


class NoPairs(InputError):
    """The error about a file of which no pair is left.

    Attributes:
      dropped: reason -> number of pairs dropped for it.
    """

    def __init__(self, path: Path, dropped: Mapping[str, int]):
        remedy = "remove the file, or add labels" if NO_LABEL in dropped else None
        super().__init__("the file holds no pairs" + dropped_text(dropped), path=path, remedy=remedy)
        self.dropped = dropped


class PairCollector:
    """Collects the pairs of one file, column by column.

    Arguments:
      path: the file, for error messages and as the source of the split.
      labels: the label names that may occur; None accepts numbers and any text that is not empty.
      remedy: the remedy in the error about a label that is not one of `labels`.
    """

    def __init__(self, path: Path, labels: Sequence[str] | None = None, remedy: str | None = None):
        self.path, self.remedy = path, remedy
        self.known = None if labels is None else dict(zip(labels, labels))
        self.text_a: list[str] = []
        self.text_b: list[str] = []
        self.labels: list[Any] = []
        self.groups: list[str] = []
        self.documents: list[str] = []
        self.dropped: dict[str, int] = {}

    def add(
        self,
        line: int,
        text_a: str,
        text_b: str,
        label: str | float,
        group: str | None = None,
        document: str | None = None,
    ) -> None:
        """Adds the pair on `line`.

        Raises:
          InputError: a text, the label or the group is empty or not Unicode text, or the label is not one of the known
            labels or holds a line end or a control character.
        """
        for what, text in (("first text", text_a), ("second text", text_b), ("label", label), ("group", group)):
            if isinstance(text, str) and (not text or text.isspace()):
                raise InputError(f"the {what} is empty", path=self.path, line=line, remedy=_FILL_IN)
        try:
            f"{text_a}{text_b}{label}{group}".encode()
        except UnicodeEncodeError as error:
            half = shown(error.object[error.start])
            raise InputError(f"{half} without its other half", path=self.path, line=line, remedy=_FILL_IN) from None
        if self.known is not None:
            try:
                label = self.known[label]
            except KeyError:
                problem = f"label {shown(label)} is not one of {listed(self.known, most=12)}"
                raise InputError(problem, path=self.path, line=line, remedy=self.remedy) from None
        elif isinstance(label, str):
            if not label.isprintable() and any(unicodedata.category(letter) in _NOT_IN_LABELS for letter in label):
                raise InputError(
                    f"label {shown(label)} holds a line end or a control character",
                    path=self.path,
                    line=line,
                    remedy="a label is a name on one line",
                )
            label = sys.intern(label)
        if group is not None:
            self.groups.append(sys.intern(group))
        if document is not None:
            self.documents.append(document)
        self.text_a.append(text_a)
        self.text_b.append(text_b)
        self.labels.append(label)

    def drop(self, reason: str) -> None:
        """Counts a pair that is left out on purpose, for this reason."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def split(self) -> Split:
        """Returns the pairs added so far.

        Raises:
          NoPairs: no pair was added.
        """
        if not self.labels:
            raise NoPairs(self.path, self.dropped)
        return Split(
            text_a=self.text_a,
            text_b=self.text_b,
            labels=self.labels,
            groups=self.groups or None,
            documents=self.documents or None,
            source=self.path,
            dropped=self.dropped,
        )


def is_number(text: str) -> bool:
    """Returns whether a text is written as a number; `number_of` also checks that the number is in its range."""
    return _NUMBER.fullmatch(text.strip()) is not None


def number_of(
    value: Any, path: Path, line: int, *, what: str, lowest: float = -_LARGEST, highest: float = _LARGEST
) -> float:
    """Converts `value`, a text or a JSON number, to a finite float from `lowest` to `highest`.

    Arguments:
      value: the value to convert.
      path: the file, for error messages.
      line: the line of the value, for error messages.
      what: the name of the number in error messages.
      lowest: the least allowed number.
      highest: the greatest allowed number.

    Raises:
      InputError: the value is not a finite number in this range.
    """
    text = str(value)
    if isinstance(value, bool) or not is_number(text):
        raise InputError(f"{what} {shown(value)} is not a number", path=path, line=line, remedy="write it as in 3.5")
    number = float(text)
    if not lowest <= number <= highest:
        raise InputError(f"{what} {shown(value)} is not between {lowest:g} and {highest:g}", path=path, line=line)
    return number


# --- splitting ----------------------------------------------------------------------------------------------------


def split_by_shares(whole: Split, shares: Sequence[Fraction], seed: int) -> list[Split]:
    """Splits the pairs of a file into train, dev and test, the same in every run and on every machine.

    Pairs of the same two texts stay together, up to order, case and punctuation, and so do the pairs of a group. These
    units are taken in the order of the SHA-256 of the seed and their text, so that the parts do not depend on the order
    of the file. Pairs keep the order of the file. Dropped pairs are counted with the first part.

    Arguments:
      whole: the pairs of the file.
      shares: the share of each part; their sum is 1.
      seed: the seed that decides which pairs go into which part.

    Returns:
      One part for each share.

    Raises:
      InputError: a part has no pair.
    """
    keys = whole.pair_keys()
    units: Sequence[Hashable] = _joined_groups(whole.groups, keys) if whole.groups else keys
    sizes = Counter(units)
    order = sorted(sizes, key=lambda unit: hashlib.sha256(json.dumps([seed, unit]).encode()).digest())
    place: dict[Hashable, int] = {}
    number, before, ends = 0, 0, shares[0] * len(whole)
    for unit in order:
        while before >= ends and number + 1 < len(shares):
            number += 1
            ends += shares[number] * len(whole)
        place[unit] = number
        before += sizes[unit]
    rows: list[list[int]] = [[] for _ in shares]
    for row, unit in enumerate(units):
        rows[place[unit]].append(row)
    if not all(rows):
        raise InputError(
            f"the split leaves a part without pairs: {len(whole)} pairs in {len(order)} groups that stay together",
            path=whole.source,
            remedy="give other shares, or a file of its own for each split",
        )
    return [whole.part(found, {} if number else whole.dropped) for number, found in enumerate(rows)]


def _joined_groups(groups: Sequence[str], keys: Sequence[Hashable]) -> list[str]:
    """Returns the unit of each pair, named by its first group in the order of texts. Groups that share a pair, by its
    key, are in one unit.
    """
    parents = {group: group for group in groups}

    def unit_of(group: str) -> str:
        while parents[group] != group:
            parents[group] = group = parents[parents[group]]
        return group

    group_of_key: dict[Hashable, str] = {}
    for group, key in zip(groups, keys, strict=True):
        first, second = sorted((unit_of(group), unit_of(group_of_key.setdefault(key, group))))
        parents[second] = first
    return [unit_of(group) for group in groups]


def hold_out(whole: Split) -> tuple[Split, Split]:
    """Splits an official training file into train and dev, for a corpus that has no dev file.

    All pairs with the same first text stay together. In a corpus that pairs one headline with many tweets, a dev pair
    would otherwise have near copies in train. First texts are taken in the order of their SHA-256 until a tenth of the
    pairs is reached, so that the parts depend on the texts alone, not on their order. Pairs keep the order of the file.
    Dropped pairs are counted with train.

    Returns:
      Train and dev.

    Raises:
      InputError: all pairs have the same first text.
    """
    sizes = Counter(whole.text_a)
    order = sorted(sizes, key=lambda text: hashlib.sha256(text.encode()).digest())
    if len(order) < 2:
        raise InputError(
            "a dev split cannot be taken from the training file: all its pairs have the same first text",
            path=whole.source,
            remedy="use the complete official file",
        )
    dev, wanted = set(), HELD_OUT_SHARE * len(whole)
    for text in order[:-1]:
        if wanted <= 0:
            break
        dev.add(text)
        wanted -= sizes[text]
    rows: tuple[list[int], list[int]] = ([], [])
    for row, text in enumerate(whole.text_a):
        rows[text in dev].append(row)
    return whole.part(rows[False], whole.dropped), whole.part(rows[True], {})

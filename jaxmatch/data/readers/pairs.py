"""The pairs of one file, collected and checked against the rules that all formats share."""

import math
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

# Stricter than float(), which accepts "nan", "1_000" and digits of every script.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NO_LABEL = "no label"  # a reason for which a pair is dropped
_FILL_IN = "fill it in, or remove the pair"
_LARGEST = 3.4e38  # the largest float32, because the numbers become float32
# Categories of control characters and of line separators. A label is printed in tables, sometimes as a line of its own.
_NOT_IN_LABELS = ("Cc", "Zl", "Zp")


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
        if not text_a or text_a.isspace():
            raise InputError("the first text is empty", path=self.path, line=line, remedy=_FILL_IN)
        if not text_b or text_b.isspace():
            raise InputError("the second text is empty", path=self.path, line=line, remedy=_FILL_IN)
        try:
            f"{text_a}{text_b}{label}{group}".encode()
        except UnicodeEncodeError as error:
            half = shown(error.object[error.start])
            raise InputError(f"{half} without its other half", path=self.path, line=line, remedy=_FILL_IN) from None
        if self.known is not None:
            try:
                label = self.known[label]
            except KeyError:
                known = ", ".join(shown(name, 40) for name in list(self.known)[:12])
                more = ", ..." if len(self.known) > 12 else ""
                raise InputError(
                    f"label {shown(label)} is not one of {known}{more}", path=self.path, line=line, remedy=self.remedy
                ) from None
        elif isinstance(label, str):
            if not label:
                raise InputError("the label is empty", path=self.path, line=line, remedy=_FILL_IN)
            if not label.isprintable() and any(unicodedata.category(letter) in _NOT_IN_LABELS for letter in label):
                raise InputError(
                    f"label {shown(label)} holds a line end or a control character",
                    path=self.path,
                    line=line,
                    remedy="a label is a name on one line",
                )
            label = sys.intern(label)
        if group is not None:
            if not group:
                raise InputError("the group is empty", path=self.path, line=line, remedy=_FILL_IN)
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
    number = math.nan
    if isinstance(value, str):
        if is_number(value):
            number = float(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{what} {shown(value)} is not a number", path=path, line=line, remedy="write it as in 3.5")
    if not lowest <= number <= highest:
        raise InputError(f"{what} {shown(value)} is not between {lowest:g} and {highest:g}", path=path, line=line)
    return number

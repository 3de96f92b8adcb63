"""The layout of own data: its columns, the names of its labels, and which pairs are dev and test."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from jaxmatch.config.sections import OWN_LAYOUT
from jaxmatch.errors import InputError, nearest
from jaxmatch.printable import shown

REQUIRED = ("text_a", "text_b", "label")
KNOWN = (*REQUIRED, "group")
EXAMPLE = "text_a=question1,text_b=question2,label=is_duplicate"


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


def changed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the layout settings that differ from their defaults."""
    return {name: settings[name] for name in OWN_LAYOUT if settings.get(name)}


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

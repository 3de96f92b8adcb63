"""The layout of own data: its columns, the names of its labels, which pairs are dev and test."""

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
    """How the files of own data are read.

    Attributes:
      columns: 'text_a', 'text_b', 'label', 'group' -> the name in the file, where that is another.
      labels: label in the file -> its name. Empty: labels are names already.
      quoted: whether TSV is written with quotation marks, as CSV is.
      shares: the shares of train and dev, or of train, dev and test, in one file; empty: each split has a file.
      seed: another seed puts other pairs into these parts.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    quoted: bool = False
    shares: tuple[Fraction, ...] = ()
    seed: int = 0

    def column(self, name: str) -> str:
        """The name in the file of 'text_a', 'text_b', 'label' or 'group'."""
        return self.columns.get(name, name)

    @property
    def parts(self) -> dict[str, str]:
        """Column -> the part of a pair that it holds."""
        return {self.column(name): name for name in KNOWN}


PLAIN = Layout()


def layout_of(settings: Mapping[str, Any]) -> Layout:
    """The layout that a config's data section says; settings that are missing keep their defaults.

    Raises:
      InputError: a setting cannot be understood.
    """
    return Layout(
        columns=columns_of(settings.get("columns", "")),
        labels=_named(settings.get("labels", ""), "labels", "0=different,1=same"),
        quoted=bool(settings.get("quoted", False)),
        shares=shares_of(settings.get("split", "")),
        seed=settings.get("split_seed", 0),
    )


def said(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not at their defaults."""
    return {name: settings[name] for name in OWN_LAYOUT if settings.get(name)}


def _named(text: str, setting: str, example: str) -> dict[str, str]:
    """ "a=b,c=d" as {"a": "b", "c": "d"}."""
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
    """What "text_a=question1,text_b=question2" says: the part of a pair -> its column.

    Arguments:
      known: the parts there are.
      example: for error messages.

    Raises:
      InputError: it cannot be understood.
    """
    found = _named(text, "columns", example)
    for name in found:
        if name not in known:
            remedy = f"{nearest(name, known)}; write it like {example}"
            raise InputError(f"columns: {shown(name)} is not a part of a pair", remedy=remedy)
    named = [found.get(name, name) for name in known]
    for name in found.values():
        if named.count(name) > 1:
            raise InputError(f"columns: column {shown(name)} is named twice", remedy=f"write it like {example}")
    return found


def shares_of(text: str) -> tuple[Fraction, ...]:
    """The shares of "0.8/0.1/0.1"; () of "".

    Raises:
      InputError: they are not two or three positive numbers whose sum is 1.
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

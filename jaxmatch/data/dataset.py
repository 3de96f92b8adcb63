"""Data sets of sentence pairs as text, before they are encoded."""

import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

TASKS = ("classification", "regression", "ranking")


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
        """Returns 'dev' and 'test', if they exist, -> the number of their pairs that are in train too (`pair_keys`)."""
        known = set(pair_keys(self.splits["train"]))
        return {
            name: sum(key in known for key in pair_keys(split))
            for name, split in self.splits.items()
            if name != "train"
        }


def pair_keys(split: Split) -> list[tuple[str, str]]:
    """Returns a key for each pair. It is equal for pairs of the same texts, up to order, case and punctuation."""
    key_of = functools.cache(_without_case_and_punctuation)
    return [tuple(sorted((key_of(a), key_of(b)))) for a, b in zip(split.text_a, split.text_b, strict=True)]


class _Spaces(dict[int, str]):
    """For `str.translate`: punctuation (Unicode's category P, and the grave accent of ``quotes'') -> a space."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        self[code] = " " if letter == "`" or unicodedata.category(letter).startswith("P") else letter
        return self[code]


_SPACES = _Spaces()


def _without_case_and_punctuation(text: str) -> str:
    return " ".join(text.casefold().translate(_SPACES).split()) or text

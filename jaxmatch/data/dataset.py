"""Two-sentence data as it was read: text, not yet numbers."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

TASKS = ("classification", "regression", "ranking")


@dataclasses.dataclass(frozen=True)
class Split:
    """The pairs of one file, column by column; every column has one entry a pair.

    Attributes:
      text_a: first sentences (premise, question).
      text_b: second sentences (hypothesis, other question, candidate answer).
      labels: label names, or numbers for a regression.
      groups: what a candidate competes in (a ranking's question), or None.
      documents: the candidate's name inside its group, by which equal scores are ordered, or None.
      source: the file the pairs were read from.
      dropped: reason -> how many pairs were left out for it.
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


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A named set of splits.

    Attributes:
      name: its name in the catalog.
      task: "classification", "regression", or "ranking" (a binary classification scored within groups).
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: "train", "dev", "test" (those there are) -> Split.
      files: every file that was read; empty for generated data.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: Mapping[str, Split]
    files: tuple[Path, ...] = ()

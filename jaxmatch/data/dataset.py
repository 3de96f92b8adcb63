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

    def part(self, rows: Sequence[int], dropped: Mapping[str, int]) -> "Split":
        """The pairs of these rows, in their order.

        Arguments:
          rows: positions of pairs.
          dropped: of the part; the whole's count is not copied.
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
      name: its name in the catalog.
      task: "classification", "regression", or "ranking" (a binary classification scored within groups).
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: "train", "dev", "test" (those there are) -> Split.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: Mapping[str, Split]

"""What a table shows: its layout, the summaries that fill it, and the printed form of numbers and settings."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import SCORES

OWN = "this work"  # the name of our rows in a table with other rows
VARIANT = "variant"  # the column whose values are names, if a table has it
_KINDS = {str: "text", int: "number", bool: "truth value", Mapping: "dictionary"}


def _check(part: Any, kinds: Mapping[str, Any]) -> None:
    """Raises TypeError unless each field has its type. A table is made after all training, and must not fail then."""
    for name, kind in kinds.items():
        if not isinstance(value := getattr(part, name), kind):
            raise TypeError(f"{name} of a {type(part).__name__} is {value!r}: make it a {_KINDS[kind]}")


@dataclasses.dataclass(frozen=True)
class Published:
    """A row of a paper's table.

    Attributes:
      label: whose result it is, such as "RE2 (paper)".
      scores: score -> text, printed as it is given: {"test.map": "0.7452 ± 0.0044"}.
      source: where the row was printed: "Yang et al. (2019), Table 4".
      settings: the other columns of the row: a grid key, "parameters" or "seeds" -> value. If exactly one cell of a
        table has all these settings (except the last two), the scores are shown next to that cell, not in a row below.
      training_pairs: the number of training pairs; 0 if unknown. If our models were trained on another number of pairs
        (by more than 1%), the table prints the number, and does not say whether they are better or worse.
      chosen_on_test: whether the released setting of the row chooses checkpoints on the test set. A note says so.
      unlike: score -> why our score of that name cannot be compared with it. A note says so, and the table does not say
        which is better.

    Raises:
      TypeError: a field has another type than above.
    """

    label: str
    scores: Mapping[str, str]
    source: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    training_pairs: int = 0
    chosen_on_test: bool = False
    unlike: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        _check(
            self,
            {
                "label": str,
                "source": str,
                "scores": Mapping,
                "settings": Mapping,
                "training_pairs": int,
                "unlike": Mapping,
            },
        )
        for score, text in self.scores.items():
            if not isinstance(text, str):
                raise TypeError(f"the published {score} of {self.label} is {text!r}: give it as a text")


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The layout of a table.

    Attributes:
      title: what was done, without a full stop.
      rows: grid keys that label a row: dotted config paths, "variant" or "seed".
      columns: a grid key whose values each get columns of their own; "" for no such key.
      scores: "dev.", "test.", "best_on_test." or "times." and a score's name.
      published: rows of papers, shown next to our rows of the same settings, or else below them.
      notes: differences from the paper's setting, and whatever else a reader must know.
      order: grid key -> its values in the order in which they are shown. Values that are not named follow, sorted.
      original: grid key -> value: the setting that all others are compared with, such as {"variant": "original"}; or
        empty.
      ensembles: rows of papers for the table of ensembles (analysis/ensemble.py).
      paired: whether a setting is compared with the original seed by seed.

    Raises:
      TypeError: a field has another type than above, such as a text instead of a tuple.
    """

    title: str
    rows: tuple[str, ...]
    columns: str = ""
    scores: tuple[str, ...] = ("dev.accuracy", "test.accuracy")
    published: tuple[Published, ...] = ()
    notes: tuple[str, ...] = ()
    order: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    original: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ensembles: tuple[Published, ...] = ()
    paired: bool = False

    def __post_init__(self):
        _check(self, {"title": str, "columns": str, "order": Mapping, "original": Mapping, "paired": bool})
        for name in ("rows", "scores", "published", "notes", "ensembles"):
            if not isinstance(getattr(self, name), (tuple, list)):  # a single text would be read letter by letter
                raise TypeError(
                    f"{name} of a table is {getattr(self, name)!r}: make it a tuple, with a comma after a single entry"
                )
            kind = Published if name in ("published", "ensembles") else str
            if wrong := [entry for entry in getattr(self, name) if not isinstance(entry, kind)]:
                raise TypeError(f"{name} of a table has {wrong[0]!r}: make it a {_KINDS.get(kind, kind.__name__)}")
        for key, values in self.order.items():
            if not isinstance(values, (tuple, list)):
                raise TypeError(f"the order of {key} in a table is {values!r}: make it a tuple")


@dataclasses.dataclass(frozen=True)
class Summary:
    """One score over the finished runs of a cell.

    Attributes:
      values: seed -> value, for the runs that have the score.
      mean: the mean of the values, or None if there are no values.
      deviation: their sample standard deviation. None for fewer than two values, and for a time that runs share.
    """

    values: Mapping[int, float]
    mean: float | None
    deviation: float | None


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs that differ in the seed alone.

    Attributes:
      finished: the records of finished runs, by seed.
      diverged: the records of diverged runs, by seed. They are in no mean.
      dropped: the records of runs that successive halving dropped, by seed. They are in no mean.
      scores: score -> Summary.
    """

    finished: tuple[Mapping, ...]
    diverged: tuple[Mapping, ...]
    dropped: tuple[Mapping, ...]
    scores: Mapping[str, Summary]

    @property
    def records(self) -> tuple[Mapping, ...]:
        """All records of the cell."""
        return (*self.finished, *self.diverged, *self.dropped)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
      settings: grid key -> value.
      cells: one cell per value of the pivot key (a single cell without it); None where no run was made.
    """

    settings: Mapping[str, Any]
    cells: tuple[Cell | None, ...]


@dataclasses.dataclass(frozen=True)
class FloorRow:
    """A line about a floor or a pretrained model (baselines.py), which have no runs and no seeds.

    Attributes:
      title: the name of the floor or model.
      parameters: how many numbers were fitted.
      scores: "dev.", "test." or "times." and a score's name -> value.
      pretrained: whether the parameters were fitted elsewhere, not on the training pairs.
    """

    title: str
    parameters: int
    scores: Mapping[str, float]
    pretrained: bool = False


@dataclasses.dataclass(frozen=True)
class Content:
    """The content of a filled table, before it is printed.

    Attributes:
      layout: the requested layout.
      keys: grid keys of the row labels: the layout's, and any others in which the runs of a row differed.
      pivot: values of the layout's `columns` key; (None,) without it.
      rows: the lines, in order.
      caption: sentences that say how the numbers came about.
      floors: lines below the rows, which no row is compared with.
    """

    layout: TableLayout
    keys: tuple[str, ...]
    pivot: tuple[Any, ...]
    rows: tuple[Row, ...]
    caption: tuple[str, ...]
    floors: tuple[FloorRow, ...] = ()


# The printed form of scores, settings and durations

PARTS = ("dev", "test", "best_on_test", "times")
SELECTED_ON_TEST = "best on test (selected on test)"


def plain_score_name(score: str) -> str:
    """Returns a score's name in running text: "dev.mrr" -> "dev MRR"."""
    part, _, name = score.partition(".")
    printed = SCORES[name].title if name in SCORES else name.replace("_", " ")
    if part == "times":
        return printed
    return f"{SELECTED_ON_TEST}: {printed}" if part == "best_on_test" else f"{part} {printed}"


def score_heading(score: str) -> str:
    """Returns a score's name above its column: "test.accuracy" -> "test accuracy (%)"."""
    return plain_score_name(score) + (" (%)" if is_percent(score) else "")


def higher_is_better(score: str) -> bool | None:
    """Returns whether a larger value of a score such as "test.accuracy" is better, or None if it has no direction."""
    known = SCORES.get(score.partition(".")[2])
    return known and known.higher_is_better


def is_percent(score: str) -> bool:
    """Returns whether tables show a score in percent."""
    known = SCORES.get(score.partition(".")[2])
    return known is not None and known.percent


def format_number(score: str, value: float) -> str:
    """Formats a score: accuracy and its like in percent with one decimal, times with one, everything else with four."""
    percent = is_percent(score)
    decimals = 1 if percent or score.startswith("times.") else 4
    # Adding zero turns a rounded "-0.0" into "0.0".
    return f"{round(100.0 * value if percent else value, decimals) + 0.0:.{decimals}f}"


def setting_headings(keys: Sequence[str]) -> dict[str, str]:
    """Returns key -> heading: the last part of the dotted key, or the whole key if two have the same last part."""
    short = [key.rpartition(".")[2] for key in keys]
    return {
        key: (last if short.count(last) == 1 else key.replace(".", " ")).replace("_", " ")
        for key, last in zip(keys, short, strict=True)
    }


def format_setting(key: str, value: Any) -> str:
    """Formats a setting's value as a row label."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_setting(key, each) for each in value)
    return "as configured" if key == "variant" and value == "" else str(value)


def format_whole_numbers(values: Iterable[int]) -> str:
    """Formats the distinct values in their order, with thousands separators: "5" or "81,003 / 120,450"."""
    return " / ".join(dict.fromkeys(f"{value:,}" for value in values))


def format_ranges(numbers: Iterable[int]) -> str:
    """Formats whole numbers in ascending order, with three or more consecutive numbers as a range: "1–5, 8"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def setting_text(overrides: dict, variant: str = "") -> str:
    """Describes a place in the grid: "blocks=2 learning_rate=0.001"."""
    parts = [variant] if variant else []
    return " ".join(parts + [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in overrides.items()])


def shared_text(places: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Describes the settings that places in the grid, (overrides, variant), have in common, or returns "" if they share
    no setting.
    """
    (first, variant), *others = places
    same = {key: value for key, value in first.items() if all(overrides.get(key) == value for overrides, _ in others)}
    return setting_text(same, variant if all(other == variant for _, other in others) else "")


def duration_text(seconds: float) -> str:
    """Formats seconds for people: "45 s", "12 min", "3.4 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

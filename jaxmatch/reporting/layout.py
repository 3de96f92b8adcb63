"""What a table shows: its layout, and the printed form of numbers and settings."""

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import SCORES

VARIANT = "variant"  # the column whose values are names, if a table has it
NO_SETTINGS = ("parameters", "seeds")  # the keys of a published row that are not settings of a run
PARTS = ("dev", "test", "best_on_test", "times")  # of a record that hold scores


def check_types(part: Any) -> None:
    """Raises TypeError unless each field has its type. A table is made after all training, and must not fail then."""
    for field in dataclasses.fields(part):
        value, kind = getattr(part, field.name), typing.get_origin(field.type) or field.type
        wrong = [] if isinstance(value, (tuple, list) if kind is tuple else kind) else [value]
        if not wrong and kind in (tuple, Mapping):
            entry = typing.get_args(field.type)[kind is Mapping]
            entry = object if entry is Any else typing.get_origin(entry) or entry
            wrong = [each for each in (value.values() if kind is Mapping else value) if not isinstance(each, entry)]
        if wrong:
            what = kind.__name__ if kind is field.type else re.sub(r"[\w.]+\.(?=\w)", "", str(field.type))
            raise TypeError(f"{field.name} of a {type(part).__name__} cannot be {wrong[0]!r}: make it a {what}")


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
        check_types(self)


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The layout of a table.

    Attributes:
      title: what was done, without a full stop.
      rows: grid keys that label a row: dotted config paths, "variant" or "seed".
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
    scores: tuple[str, ...] = ("dev.accuracy", "test.accuracy")
    published: tuple[Published, ...] = ()
    notes: tuple[str, ...] = ()
    order: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    original: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ensembles: tuple[Published, ...] = ()
    paired: bool = False

    def __post_init__(self):
        check_types(self)


class BaselineRow(typing.NamedTuple):
    """A line about a baseline (baselines.py), which has no runs and no seeds.

    Attributes:
      title: the name of the baseline.
      parameters: how many numbers were fitted.
      scores: "dev.", "test." or "times." and a score's name -> value.
    """

    title: str
    parameters: int
    scores: Mapping[str, float]


# The printed form of scores, settings and durations


def plain_score_name(score: str) -> str:
    """Returns a score's name in running text: "dev.mrr" -> "dev MRR"."""
    part, _, name = score.partition(".")
    printed = SCORES[name].title if name in SCORES else name.replace("_", " ")
    return {"times": "", "best_on_test": "best on test (selected on test): "}.get(part, f"{part} ") + printed


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


def p_text(p_value: float) -> str:
    """Formats a p value as "= 0.017" or "< 0.001"."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def setting_text(overrides: Mapping[str, Any], variant: str = "") -> str:
    """Describes a place in the grid: "wide, blocks 2, learning rate 0.001"; "" if it has no settings."""
    headings = setting_headings(list(overrides))
    settings = [f"{headings[key]} {format_setting(key, value)}" for key, value in overrides.items()]
    return ", ".join(([variant] if variant else []) + settings)


def shared_text(places: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Describes the settings that places in the grid, (overrides, variant), have in common; "" if they share none."""
    (first, variant), *others = places
    same = {key: value for key, value in first.items() if all(overrides.get(key) == value for overrides, _ in others)}
    return setting_text(same, variant if all(other == variant for _, other in others) else "")


def duration_text(seconds: float) -> str:
    """Formats seconds for people: "45 s", "12 min", "3.4 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

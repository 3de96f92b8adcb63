"""Search spaces that are not grids: a range or choices for each setting that is searched."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import flatten, with_overrides
from jaxmatch.errors import InputError, shown
from jaxmatch.sweep import halving
from jaxmatch.sweep.sweep import Run, Sweep, changed

DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers between two ends, including the ends.

    Attributes:
      low: the lower end, an integer for a setting of integers.
      high: the upper end, of the same type.
      log: whether the logarithms of the numbers are uniformly distributed, instead of the numbers.
      step: the step between integers.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int = 1

    def rounded(self, value: int | float) -> int | float:
        """Returns a value as a number of the range, with no more digits than a table can show."""
        return value if isinstance(value, int) else min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclasses.dataclass(frozen=True)
class Points(Sweep):
    """A sweep of chosen settings instead of a grid.

    Attributes:
      points: for each point, dotted setting -> value.
    """

    points: Sequence[Mapping[str, Any]] = ()

    def runs(self) -> list[Run]:
        return [Run(with_overrides(self.config, point), seed, point) for point in self.points for seed in self.seeds]


@dataclasses.dataclass(frozen=True)
class Space:
    """A search space.

    Attributes:
      sweep: the sweep that holds what all points share: config, seeds, table.
      ranges: dotted setting -> range.
      choices: dotted setting -> the text of each choice -> its value.
    """

    sweep: Sweep
    ranges: Mapping[str, Range]
    choices: Mapping[str, Mapping[str, Any]]

    def place(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a point.

        Arguments:
          chosen: dotted setting -> a number, or the text of a choice.

        Raises:
          InputError: no run can have these settings together.
        """
        point = {
            name: self.choices[name][value] if name in self.choices else self.ranges[name].rounded(value)
            for name, value in chosen.items()
        }
        resolved = flatten(with_overrides(self.sweep.config, point))
        return {name: resolved[name] for name in (*self.choices, *self.ranges)}

    def points(self, places: Sequence[Mapping[str, Any]]) -> Points:
        """Returns the sweep of some points."""
        kept = {field.name: getattr(self.sweep, field.name) for field in dataclasses.fields(Sweep)}
        return Points(**kept, points=tuple(places))

    def texts(self) -> dict[str, Any]:
        """Returns the space as plain values."""
        ranges = {name: dataclasses.asdict(span) for name, span in self.ranges.items()}
        return ranges | {name: list(values) for name, values in self.choices.items()}


def space_of(sweep: Sweep, given: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Space:
    """Returns the search space of a sweep file and a command line.

    An axis of the grid becomes choices, unless a range is given for its setting.

    Arguments:
      sweep: the sweep of the file.
      given: dotted setting -> "LOW:HIGH", "LOW:HIGH:STEP", "log:LOW:HIGH", or choices written like those of a grid
        axis. "" removes the setting.
      overrides: the settings that the command line changes for all runs, which `sweep` already has.

    Raises:
      InputError: there is nothing to search, the sweep has variants, a setting cannot have the given values, or an
        override would not reach all trials.
    """
    if sweep.variants:
        raise InputError("a sweep with variants cannot be searched", remedy="make the variants choices of settings")
    in_ranges = {name: text for name, text in given.items() if ":" in text}
    texts = {name: text for name, text in sweep.space.items() if name not in given} | in_ranges
    removed = {name for name, text in given.items() if not text.strip() and name not in sweep.grid}
    if unknown := removed - sweep.space.keys():
        raise InputError(
            f"{min(unknown)} is not in the space of this sweep", remedy=f"leave out --space.{min(unknown)}"
        )
    choices = {name: text for name, text in given.items() if name not in in_ranges and name not in removed}
    sweep = changed(sweep, grid_overrides=choices)
    named = {name: {repr(value): value for value in values} for name, values in sweep.grid.items() if name not in texts}
    known = flatten(sweep.config)
    ranges = {}
    for name, text in texts.items():
        with_overrides(sweep.config, {name: known.get(name)})  # checks that the setting exists
        ranges[name] = _range(name, text, type(known[name]))
    if not ranges and not named:
        raise InputError(
            "there is nothing to search", remedy="give a space: --space.optimizer.learning_rate=log:1e-4:1e-2"
        )
    ends = {name: (span.low, span.high) for name, span in ranges.items()}
    for name, values in (ends | {name: tuple(values.values()) for name, values in named.items()}).items():
        if not values:
            raise InputError(f"the space of {name} has no values", remedy="give at least one")
        for value in values:
            with_overrides(sweep.config, {name: value})
    for key in overrides or {}:
        if key in named or key in ranges:
            raise InputError(f"config.{key} is in the space that is searched", remedy=f"leave out --config.{key}")
        if key.startswith("model.") and "model.name" in named:
            problem = f"config.{key} would not reach all models of the space"
            raise InputError(problem, remedy=f"give it as a choice: --space.{key}=…")
    halving.check_common({name: set(named.get(name, ())) for name in ("training.selection", *halving.SAME_PAIRS)})
    layout = sweep.table
    rows = [row for row in (*layout.rows, layout.columns) if row and row not in named and row not in ranges]
    layout = dataclasses.replace(layout, rows=(*rows, *named, *ranges), columns="")
    return Space(dataclasses.replace(sweep, grid={}, table=layout), ranges, named)


def _range(name: str, text: str, kind: type) -> Range:
    log = text.startswith("log:")
    numbers = text.removeprefix("log:").split(":")
    try:
        if kind not in (int, float) or len(numbers) not in ((2,) if log or kind is float else (2, 3)):
            raise ValueError
        low, high, *step = map(kind, numbers)
    except ValueError:
        example = "1:3, 8:64:8 or log:1:16" if kind is int else "0.1:0.5 or log:1e-4:1e-2"
        remedy = f"write it like {example}" if kind in (int, float) else "give choices: a,b"
        raise InputError(f"{shown(text)} is not a range of {name}", remedy=remedy) from None
    if not low < high or (log and low <= 0) or (step and not 0 < step[0] <= high - low):
        raise InputError(
            f"the range {text} of {name} holds nothing to choose from",
            remedy="give the lower end first" + (", above 0" if log else ""),
        )
    whole = step[0] if step else 1
    return Range(low, high - (high - low) % whole if kind is int else high, log, whole)

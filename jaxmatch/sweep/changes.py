"""Changes that a command line makes to a sweep: settings, grid axes and seeds, and the table that follows from them."""

import ast
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.errors import InputError, nearest
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.settings import NOT_A_LITERAL, flatten, with_overrides
from jaxmatch.sweep.grid import NOT_IDENTITY, Sweep

MOST_SEEDS = 100_000

# The score that selects the checkpoint -> the scores that a table shows if its layout names none.
_SHOWN_SCORES = {
    "mrr": ("dev.mrr", "test.map", "test.mrr"),
    "map": ("dev.map", "test.map", "test.mrr"),
    "recall_at_1": ("dev.recall_at_1", "test.recall_at_1", "test.recall_at_2", "test.recall_at_5", "test.accuracy"),
    "f1": ("dev.f1", "test.f1", "test.accuracy"),
    "max_f1": ("dev.max_f1", "test.max_f1", "test.accuracy"),
    "pearson": ("dev.pearson", "test.pearson", "test.spearman"),
}


def with_scores(layout: TableLayout, configs: Iterable[ConfigDict]) -> TableLayout:
    """Returns the layout with the scores that it shows of runs with these configs.

    A layout that names no scores other than times shows those that go with `training.selection`. If a run has
    `training.best_on_test`, the scores on test are also shown as "best_on_test" scores, ours and published ones.
    """
    configs = list(configs)
    scores, published = layout.scores, layout.published
    if all(score.startswith("times.") for score in scores):
        shown = (
            _SHOWN_SCORES.get(selection, (f"dev.{selection}", f"test.{selection}"))
            for selection in dict.fromkeys(config.training.selection for config in configs)
        )
        scores = (*dict.fromkeys(itertools.chain.from_iterable(shown)), *scores)
    if any(config.training.best_on_test for config in configs):
        tested = [score for score in scores if score.startswith("test.")]
        tested = tested or [f"test.{config.training.selection}" for config in configs]
        on_test = [score.replace("test.", "best_on_test.", 1) for score in tested]
        scores = tuple(dict.fromkeys((*scores, *on_test)))
        published = tuple(dataclasses.replace(row, scores={**row.scores, **_on_test(row)}) for row in published)
    return dataclasses.replace(layout, scores=scores, published=published)


def changed(
    sweep: Sweep,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
) -> Sweep:
    """Applies the changes of a command line to a sweep; see `launch.sweep` for the arguments.

    Raises:
      InputError: a setting does not exist or cannot have the given value, an override names a grid axis or a setting
        that a variant sets, or there are too many seeds.
    """
    overrides = overrides or {}
    grid = _changed_grid(sweep, overrides, grid_overrides or {})
    for key in overrides:
        _check_override(sweep, grid, key)
    config = with_overrides(sweep.config, overrides)
    table = _changed_table(sweep, config, grid, overrides)
    if seeds is not None:
        sweep = dataclasses.replace(sweep, seeds=_first_seeds(sweep.seeds, seeds))
    return dataclasses.replace(sweep, config=config, grid=grid, table=table)


def _changed_grid(
    sweep: Sweep, overrides: Mapping[str, Any], grid_overrides: Mapping[str, str]
) -> dict[str, Sequence[Any]]:
    """Returns the grid with some axes removed (text "") and others added or changed (text "1,2,3")."""
    grid = dict(sweep.grid)
    new = {key: text for key, text in grid_overrides.items() if text.strip()}
    for key in (key for key in grid_overrides if key not in new):
        if key not in grid:
            raise InputError(f"{key} is not an axis of this sweep's grid", remedy=nearest(key, grid))
        del grid[key]
    settings = flatten(with_overrides(sweep.config, overrides) if "model.name" in overrides else sweep.config)
    for key, text in new.items():
        if key not in settings:
            raise InputError(
                f'there is no setting "config.{key}" to make a grid axis of', remedy=nearest(key, list(settings))
            )
        grid[key] = values_of(text)
    return grid


def _variants_with(sweep: Sweep, key: str) -> list[str]:
    """Returns the names of the variants that set `key` themselves."""
    return [name for name, settings in sweep.variants.items() if key in settings]


def _check_override(sweep: Sweep, grid: Mapping[str, Any], key: str) -> None:
    """Checks that an override of a setting reaches all runs."""
    leave_out = "leave it out, or change the sweep file"
    if key in grid:
        raise InputError(f"config.{key} is an axis of this sweep's grid", remedy=f"give its values with --grid.{key}=…")
    if key.startswith("model.") and "model.name" in grid:
        # A model of the axis begins with its own defaults.
        problem = f"config.{key} would not reach all models of this sweep's grid"
        raise InputError(problem, remedy=f"give it as an axis with one value: --grid.{key}=…")
    own = _variants_with(sweep, key)
    if sweep.variants and len(own) == len(sweep.variants):
        raise InputError(f"every variant of this sweep sets config.{key}", remedy=leave_out)
    if key.startswith("model.") and _variants_with(sweep, "model.name"):
        raise InputError(f"config.{key} is not common to the models of this sweep", remedy=leave_out)
    # The settings of these variants would silently replace the override.
    if own:
        raise InputError(
            f"config.{key} would not reach {' and '.join(own)}, which set{'s' * (len(own) == 1)} it",
            remedy=leave_out,
        )


def _changed_table(
    sweep: Sweep, config: ConfigDict, grid: Mapping[str, Any], overrides: Mapping[str, Any]
) -> TableLayout:
    """Returns the layout of the table, adapted to the grid's axes."""
    layout, removed = sweep.table, sweep.grid.keys() - grid.keys()
    rows = [key for key in layout.rows if key not in removed]
    rows += [key for key in grid if key not in layout.rows and key != layout.columns]
    before, now = flatten(sweep.config), flatten(config)
    # A reader compares with the settings of the file. The place of the data and the way a run is computed do not
    # describe a result.
    different = [
        f"{key}={now[key]}" for key in overrides if now[key] != before.get(key) and not key.startswith(NOT_IDENTITY)
    ]
    notes = [*layout.notes]
    if different:
        notes.append(f"Settings changed from the file's: {', '.join(different)}")
    for key in grid:
        if own := _variants_with(sweep, key):
            notes.append(f"{key} is an axis of the grid, whose values stand in place of that of {' and of '.join(own)}")
    notes = list(dict.fromkeys(notes))  # a sweep may be changed again
    return dataclasses.replace(
        layout,
        rows=tuple(rows),
        columns="" if layout.columns in removed else layout.columns,
        order={**layout.order, **grid},
        notes=tuple(notes),
    )


def _first_seeds(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    """Returns the first `count` seeds of a sweep. If it has fewer, seeds above its largest one are added."""
    if count > MOST_SEEDS:
        raise InputError(f"{count} seeds are more than can be planned", remedy=f"give up to {MOST_SEEDS}")
    first = tuple(seeds)[:count]
    following = max(first, default=-1) + 1
    return first + tuple(range(following, following + count - len(first)))


def _on_test(row: Published) -> dict[str, str]:
    """Returns a row's published test scores as "best_on_test" scores if they were chosen on test."""
    return {
        score.replace("test.", "best_on_test.", 1): text
        for score, text in row.scores.items()
        if row.chosen_on_test and score.startswith("test.")
    }


def values_of(text: str) -> Sequence[Any]:
    """Parses the values of a grid axis: "1,2,3" as (1, 2, 3), "3,(1,3)" as (3, (1, 3)). Words stay strings."""
    try:
        return ast.literal_eval(f"({text},)")
    except NOT_A_LITERAL:
        pass
    values = []
    for part in text.split(","):
        try:
            values.append(ast.literal_eval(part.strip()))
        except NOT_A_LITERAL:
            values.append(part.strip())
    return tuple(values)

"""A sweep: a named grid of runs with the layout of the table it fills.

`changed` applies a command line to a sweep, and `smoke_sweep` shrinks one to seconds.
"""

import ast
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from jaxmatch.baselines import BASELINES
from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import (
    ADDED_DEFAULTS,
    NOT_A_LITERAL,
    OR_IMPORT,
    SECTIONS,
    DataConfig,
    flatten,
    with_overrides,
)
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, nearest
from jaxmatch.reporting.layout import Published, TableLayout, check_types
from jaxmatch.training.scores import score_names

# The section of settings that may differ inside one compiled program, as the seed may.
TRACED = "optimizer"
# The analyses that a sweep can request of its trained runs: command -> the options that the sweep may give.
ANALYSES = {"ensemble": ("split",), "occlusion": ("split",), "inspect": ("pair",)}
# Settings that say how a run is computed, not what it is.
NOT_IDENTITY = ("execution.", "data.directory", "data.vectors", "data.minimum_coverage")
# Settings that were added after runs had been recorded. At its default, such a setting does not change a run's name.
_ADDED_LATER = frozenset(
    """model.words model.encoder_activation model.score_scale model.intra_projection model.meta_factors model.flow_intra
    model.refinement_place model.dropout_placement data.truncation_side data.drop_from_length data.columns data.labels
    data.quoted data.split data.split_seed training.evaluate_each_epoch training.late_from_samples
    training.evaluate_every_samples_late training.minimum_samples training.mix_lengths""".split()
)


@dataclasses.dataclass(frozen=True)
class Run:
    """One config and one seed.

    Attributes:
      config: the resolved and locked config.
      seed: the seed of its parameters, masks and batch order.
      overrides: its place in the grid: the settings that the grid gives it.
      variant: the name of its variant, or "".
    """

    config: ConfigDict
    seed: int
    overrides: Mapping[str, Any]
    variant: str = ""

    def signature(self, fingerprint: str) -> str:
        """Returns an id of what a program is compiled for and trained on: data, and all settings but traced ones."""
        kept = {key: value for key, value in self._identity_settings().items() if not key.startswith(f"{TRACED}.")}
        return _hash({"settings": kept, "data": fingerprint})

    def identity(self, fingerprint: str) -> str:
        """Returns the name of the run, which depends on its settings, its seed and the content of the data."""
        return f"{_hash({'settings': self._identity_settings(), 'data': fingerprint})}-seed{self.seed}"

    def _identity_settings(self) -> dict[str, Any]:
        """Returns the settings that say what the run is."""
        sections = {"model": MODELS[self.config.model.name], **SECTIONS}
        fields = [(f"{name}.{each.name}", each) for name, one in sections.items() for each in dataclasses.fields(one)]
        later = {key: each.default for key, each in fields if key in _ADDED_LATER | ADDED_DEFAULTS.keys()}
        return {
            key: value
            for key, value in flatten(self.config).items()
            if not key.startswith(NOT_IDENTITY) and (key, value) not in later.items()
        }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    Attributes:
      name: the name of the folder and the table.
      config: the settings that all runs share.
      grid: dotted setting -> the values it takes. Every combination is trained.
      seeds: the seeds that every combination is trained with.
      table: the layout of the table: its scores, how it shows them, and published scores. If it names no scores other
        than times, a launcher adds those that go with `training.selection`. None: a row for each variant and each
        value of the grid.
      variants: name -> settings that change together (the rows of an ablation). Every variant is combined with the
        whole grid, whose values override those of the variant.
      analyses: command -> its options: the analyses of the trained runs, in this order (`ANALYSES`).
      baselines: the simple baselines that the table shows below the runs, out of "majority", "overlap", "cosine",
        "tfidf" and "bm25" (docs/how_to/papers.md). Without scikit-learn, "tfidf" is left out.
      command: the command line that started the sweep, so that it can be repeated, or "" for a start from Python.
      space: dotted setting -> a range as text, "1:3", "8:64:8" or "log:1e-4:1e-2", which `jaxmatch tune --optuna`
        searches instead of a grid axis.

    Raises:
      TypeError: a field has another type than above, or names an unknown baseline or analysis, or the config lacks a
        section.
    """

    name: str
    config: ConfigDict
    grid: Mapping[str, Iterable[Any]] = dataclasses.field(default_factory=dict)
    seeds: Iterable[int] = (0,)
    table: TableLayout = dataclasses.field(default=None)  # type: ignore[assignment]  # filled in below
    variants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    analyses: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    baselines: Sequence[str] = ()
    command: str = ""
    space: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        rows = (*(("variant",) if self.variants else ()), *self.grid)
        object.__setattr__(self, "table", self.table or TableLayout(title=self.name, rows=rows, scores=()))
        check_types(self)
        if missing := {"model", *SECTIONS} - set(self.config):
            raise TypeError(f"the config of the sweep lacks {', '.join(sorted(missing))}: begin with default_config()")
        for name, options in self.analyses.items():
            if name not in ANALYSES or set(options) - set(ANALYSES[name]):
                raise TypeError(f"the sweep asks for {name!r}: the analyses and their options are {ANALYSES}")
        if isinstance(self.baselines, str) or set(self.baselines) - set(BASELINES):
            raise TypeError(
                f"the sweep's baselines are {self.baselines!r}: make them a tuple of {', '.join(BASELINES)}"
            )
        object.__setattr__(self, "baselines", tuple(self.baselines))
        object.__setattr__(self, "seeds", _values("seeds", self.seeds))
        object.__setattr__(self, "grid", {key: _values(f"axis {key}", values) for key, values in self.grid.items()})

    def runs(self) -> list[Run]:
        """Returns a run for each variant, combination of the grid's values and seed. Seeds vary fastest.

        Raises:
          InputError: an axis or the seeds have no values or a value twice, a seed cannot be used, or a setting does not
            exist.
        """
        for name, values in {"seeds": self.seeds, **self.grid}.items():
            if not values:
                raise InputError(f"{name} of the sweep {self.name} has no values", remedy="give at least one")
            if len({repr(value) for value in values}) < len(values):
                raise InputError(f"{name} of the sweep {self.name} has a value twice", remedy="name each value once")
        for seed in self.seeds:
            if not isinstance(seed, int) or not 0 <= seed < 2**32:
                raise InputError(f"seed {seed!r} cannot be used", remedy="give whole numbers from 0 to 4294967295")
        runs = []
        for variant, settings in (self.variants or {"": {}}).items():
            for point in itertools.product(*self.grid.values()):
                place = dict(zip(self.grid, point, strict=True))
                config = with_overrides(self.config, {**settings, **place})
                resolved = flatten(config)
                place = {key: resolved[key] for key in place}
                runs += [Run(config, seed, place, variant) for seed in self.seeds]
        return runs


def _values(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Converts values of a grid, which may be a range or an array, to Python values."""
    if isinstance(values, str):  # it would be split into letters
        raise TypeError(f"{name} of the sweep is {values!r}: make it a tuple, with a comma after a single value")
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


# Changes of a command line: settings, grid axes and seeds, and the table that follows from them.

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
    selections = list(dict.fromkeys(config.training.selection for config in configs))
    scores, published = layout.scores, layout.published
    if all(score.startswith("times.") for score in scores):
        shown = (_SHOWN_SCORES.get(each, (f"dev.{each}", f"test.{each}")) for each in selections)
        scores = (*dict.fromkeys(itertools.chain(*shown)), *scores)
    if any(config.training.best_on_test for config in configs):
        tested = [score for score in scores if score.startswith("test.")] or [f"test.{each}" for each in selections]
        scores = tuple(dict.fromkeys((*scores, *(f"best_on_{score}" for score in tested))))
        published = tuple(
            dataclasses.replace(row, scores={**row.scores, **_best_on_test(row)}) for row in layout.published
        )
    return dataclasses.replace(layout, scores=scores, published=published)


def _best_on_test(row: Published) -> dict[str, str]:
    """Returns the test scores of a row that were chosen on test, as "best_on_test" scores."""
    tested = [score for score in row.scores if row.chosen_on_test and score.startswith("test.")]
    return {f"best_on_{score}": row.scores[score] for score in tested}


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
        that a variant sets.
    """
    overrides = overrides or {}
    grid = _changed_grid(sweep, overrides, grid_overrides or {})
    for key in overrides:
        check_override(sweep, grid, key)
    config = with_overrides(sweep.config, overrides)
    table = _changed_table(sweep, config, grid, overrides)
    if seeds is not None:  # if the sweep has fewer, seeds above its largest one are added
        following = max(sweep.seeds, default=-1) + 1
        added = range(following, following + seeds - len(tuple(sweep.seeds)))
        sweep = dataclasses.replace(sweep, seeds=(*tuple(sweep.seeds)[:seeds], *added))
    return dataclasses.replace(sweep, config=config, grid=grid, table=table)


def _changed_grid(
    sweep: Sweep, overrides: Mapping[str, Any], grid_overrides: Mapping[str, str]
) -> dict[str, Iterable[Any]]:
    """Returns the grid with some axes removed (text "") and others added or changed (text "1,2,3")."""
    grid = dict(sweep.grid)
    settings = flatten(with_overrides(sweep.config, overrides) if "model.name" in overrides else sweep.config)
    for key, text in grid_overrides.items():
        if not text.strip():
            if grid.pop(key, None) is None:
                raise InputError(f"{key} is not an axis of this sweep's grid", remedy=nearest(key, grid))
        elif key in settings:
            grid[key] = _parsed_values(text)
        else:
            remedy = nearest(key, list(settings)) + OR_IMPORT * key.startswith("optimizer.")
            raise InputError(f'there is no setting "config.{key}" to make a grid axis of', remedy=remedy)
    return grid


def _parsed_values(text: str) -> Sequence[Any]:
    """Parses the values of a grid axis: "1,2,3" as (1, 2, 3), "3,(1,3)" as (3, (1, 3)). Words stay texts."""
    try:
        return ast.literal_eval(f"({text},)")
    except NOT_A_LITERAL:
        return tuple(part.strip() for part in text.split(","))


def _variants_with(sweep: Sweep, key: str) -> list[str]:
    """Returns the names of the variants that set `key` themselves."""
    return [name for name, settings in sweep.variants.items() if key in settings]


def check_override(sweep: Sweep, grid: Mapping[str, Any], key: str) -> None:
    """Checks that an override of a setting reaches all runs."""
    if key in grid:
        raise InputError(f"config.{key} is an axis of this sweep's grid", remedy=f"give its values with --grid.{key}=…")
    if key.startswith("model.") and "model.name" in grid:  # a model of the axis begins with its own defaults
        problem = f"config.{key} would not reach all models of this sweep's grid"
        raise InputError(problem, remedy=f"give it as an axis with one value: --grid.{key}=…")
    own = _variants_with(sweep, key)
    if key.startswith("model.") and _variants_with(sweep, "model.name"):
        problem = f"config.{key} is not common to the models of this sweep"
    elif own:  # the settings of these variants would silently replace the override
        problem = f"config.{key} would not reach {' and '.join(own)}, which set{'s' * (len(own) == 1)} it"
    else:
        return
    raise InputError(problem, remedy="leave it out, or change the sweep file")


def _changed_table(
    sweep: Sweep, config: ConfigDict, grid: Mapping[str, Any], overrides: Mapping[str, Any]
) -> TableLayout:
    """Returns the layout of the table, adapted to the grid's axes."""
    layout, removed = sweep.table, sweep.grid.keys() - grid.keys()
    before, now = flatten(sweep.config), flatten(config)
    # A reader compares with the settings of the file. The place of the data and the way a run is computed do not
    # describe a result.
    different = [
        f"{key}={now[key]}" for key in overrides if now[key] != before.get(key) and not key.startswith(NOT_IDENTITY)
    ]
    notes = [*layout.notes, *([f"Settings changed from the file's: {', '.join(different)}"] if different else [])]
    for key in grid:
        if own := _variants_with(sweep, key):
            notes.append(f"{key} is an axis of the grid, whose values stand in place of that of {' and of '.join(own)}")
    return dataclasses.replace(
        layout,
        rows=tuple(dict.fromkeys(key for key in (*layout.rows, *grid) if key not in removed)),
        order={**layout.order, **grid},
        notes=tuple(dict.fromkeys(notes)),  # a sweep may be changed again
    )


# Smoke runs, which show whether a sweep loads, trains, records and tabulates.

NOTE = "Smoke run: a tiny model after a few steps on generated data; its scores mean nothing"
# The number of seeds and of variants that stay. A program takes far longer to compile than these few steps to train.
_FIRST = 2
# The settings of a smoke run. Settings that a model does not have are left out.
_TWO = ("blocks", "alignment_layers", "stacked_layers", "dense_blocks", "block_layers")
_SETTINGS = {
    **{f"data.{field.name}": field.default for field in dataclasses.fields(DataConfig) if field.name != "name"},
    **{f"model.{name}": 2 for name in _TWO},
    "model.encoder_layers": 1,
    "model.aggregation_layers": 1,
    "model.head_size": 12,
    "model.hidden_size": 12,  # can be divided among two, three or four kernel sizes
    "model.heads": 4,
    "model.grid_length": 16,
    "model.character_features": 4,
    "model.tags": False,  # the model of the tagger is a file, which a smoke run must not need
    "training.batch_size": 512,
    "training.epochs": 1,
    "training.evaluate_every_samples": 0,
    "training.evaluate_every_samples_late": 0,
    "training.maximum_buckets": 1,
    "optimizer.warmup_samples": 0,
}


def smoke_sweep(sweep: Sweep) -> Sweep:
    """Returns the sweep with a tiny model and a few steps on an embedded data set of the same task.

    A regression becomes a classification. The first two seeds stay, and the first two variants that differ in more than
    the size of the model. Axes of the grid whose values share a program stay as they are, and other axes keep only
    their first value. Published rows are removed, because there is nothing to compare.
    """
    embedded, known = _embedded(sweep.config), flatten(sweep.config)
    possible = (*score_names(catalog.EMBEDDED_TASKS[embedded], 3 if embedded == "embedded_inference" else 2), "loss")
    selection = sweep.config.training.selection if sweep.config.training.selection in possible else ""
    changes = {**_SETTINGS, "data.name": embedded, "training.selection": selection}
    config = with_overrides(sweep.config, {key: value for key, value in changes.items() if key in known})
    names = [score.partition(".")[2] for score in sweep.table.scores if not score.startswith("times.")]
    layout = dataclasses.replace(
        sweep.table,
        title=f"{sweep.table.title}: smoke run; its scores mean nothing",
        # Without scores, a launcher shows those that match the selection score.
        scores=sweep.table.scores if set(names) <= set(possible) else (),
        published=(),
        ensembles=(),
        notes=(*sweep.table.notes, NOTE),
    )
    return dataclasses.replace(
        sweep,
        name=f"{sweep.name}-smoke",
        config=config,
        grid={key: values if key.startswith(f"{TRACED}.") else tuple(values)[:1] for key, values in sweep.grid.items()},
        seeds=tuple(sweep.seeds)[:_FIRST],
        variants=_first_variants(config, sweep.variants),
        table=layout,
    )


def _embedded(config: ConfigDict) -> str:
    """Returns the embedded data set that replaces the data set of a config."""
    name, selection = config.data.name, config.training.selection
    if name in catalog.EMBEDDED_TASKS:
        return name
    # The user's own data are not read: the selection score shows the task.
    ranked, labels = selection.startswith(("map", "mrr", "recall_at_", "precision_at_", "ndcg")), ()
    task = config.data.task or ("ranking" if ranked else "classification")
    if name in catalog.CATALOG:
        task, labels = catalog.CATALOG[name].task, catalog.CATALOG[name].labels
    if task == "ranking":
        return "embedded_ranking"
    return "embedded_paraphrase" if len(labels) == 2 or selection in ("f1", "max_f1", "auc") else "embedded_inference"


def _first_variants(config: ConfigDict, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the first variants that still differ with a tiny model, as name -> settings."""
    found: dict[str, dict[str, Any]] = {}
    known = []
    for name, settings in variants.items():
        tiny = dict(settings)
        if "model.name" in settings:  # a model of its own is made as tiny as the others
            of_model = [key for key in flatten(with_overrides(config, settings)) if key.startswith("model.")]
            tiny |= {key: value for key, value in _SETTINGS.items() if key in settings or key in of_model}
        whole = flatten(with_overrides(config, tiny))
        if whole not in known and len(found) < _FIRST:
            found[name] = tiny
            known.append(whole)
    return found

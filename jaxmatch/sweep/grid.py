"""A sweep: a named grid of runs with the layout of the table it fills."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from jaxmatch.baselines.cross_encoder import NAME as CROSS_ENCODER
from jaxmatch.baselines.floors import FLOORS
from jaxmatch.config import ADDED_DEFAULTS, SECTIONS
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.settings import flatten, with_overrides

# The section of settings that may differ inside one compiled program, as the seed may.
TRACED = "optimizer"
# The analyses that a sweep can request of its trained runs: command -> the options that the sweep may give.
ANALYSES = {"ensemble": ("split",), "occlusion": ("split",), "inspect": ("pair",)}
# Settings that say how a run is computed, not what it is.
NOT_IDENTITY = ("execution.", "data.directory", "data.vectors", "data.minimum_coverage")
# Settings that were added after runs had been recorded, with the value that those runs were trained with. A setting at
# this value does not change a run's name.
_VALUES_OF_OLD_RUNS = {
    "model.words": "fixed",
    "model.encoder_activation": "gelu",
    "model.temperature": "learned",
    "model.intra_projection": True,
    "model.meta_factors": 0,
    "model.flow_intra": False,
    "model.refinement_place": "before",
    "model.dropout_placement": "released",
    "data.truncation_side": "right",
    "data.drop_from_length": 0,
    "data.columns": "",
    "data.labels": "",
    "data.quoted": False,
    "data.split": "",
    "data.split_seed": 0,
    "training.evaluate_each_epoch": False,
    "training.late_from_samples": 0,
    "training.evaluate_every_samples_late": 0,
    "training.minimum_samples": 0,
    "training.mix_lengths": False,
}


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
        """Returns an id of what a program is compiled for and trained on.

        It depends on all settings that say what the run is, except traced ones, and on the content of the data.
        """
        kept = {key: value for key, value in self._identity_settings().items() if not key.startswith(f"{TRACED}.")}
        return _hash({"settings": kept, "data": fingerprint})

    def identity(self, fingerprint: str) -> str:
        """Returns the name of the run.

        It depends on the settings, the seed and the content of the data, not on where the files are stored.
        """
        return f"{_hash({'settings': self._identity_settings(), 'data': fingerprint})}-seed{self.seed}"

    def _identity_settings(self) -> dict[str, Any]:
        """Returns the settings that say what the run is."""
        flat = flatten(self.config)
        return {
            key: value
            for key, value in flat.items()
            if not key.startswith(NOT_IDENTITY) and (key, value) not in (_VALUES_OF_OLD_RUNS | ADDED_DEFAULTS).items()
        }


def _values(name: str, values: Any) -> tuple[Any, ...]:
    """Converts values of a grid, which may be a range or an array, to Python values.

    Raises:
      TypeError: `values` is a single value.
    """
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable):  # a text would be split into letters
        raise TypeError(f"{name} of the sweep is {values!r}: make it a tuple, with a comma after a single value")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


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
      floors: the simple baselines that the table shows below the runs, out of "majority", "overlap", "cosine", "tfidf"
        and "bm25" (docs/how_to/papers.md).
      cross_encoder: the folder of a pretrained cross-encoder (`baselines/cross_encoder.py`) that the table shows below
        the floors, or "".
      command: the command line that started the sweep, so that it can be repeated, or "" for a start from Python.
      space: dotted setting -> a range as text, "1:3", "8:64:8" or "log:1e-4:1e-2", which `jaxmatch tune --optuna`
        searches instead of a grid axis.

    Raises:
      TypeError: a field has another type than above, or names an unknown floor or analysis, or the config lacks a
        section.
    """

    name: str
    config: ConfigDict
    grid: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    table: TableLayout = dataclasses.field(default=None)  # type: ignore[assignment]  # filled in below
    variants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    analyses: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    floors: Sequence[str] = ()
    cross_encoder: str = ""
    command: str = ""
    space: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.config, ConfigDict):
            raise TypeError(f"the config of the sweep is a {type(self.config).__name__}: begin with default_config()")
        if missing := {"model", *SECTIONS}.difference(self.config):
            raise TypeError(f"the config of the sweep lacks {', '.join(sorted(missing))}: begin with default_config()")
        if self.table is None and isinstance(self.grid, Mapping):
            rows = (*(("variant",) if self.variants else ()), *self.grid)
            object.__setattr__(self, "table", TableLayout(title=str(self.name), rows=rows, scores=()))
        if not isinstance(self.table, TableLayout):
            raise TypeError(f"the table of the sweep is a {type(self.table).__name__}: give a TableLayout")
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"the name of the sweep is {self.name!r}: give it a text")
        for name in ("grid", "variants", "analyses", "space"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} of the sweep is {getattr(self, name)!r}: make it a dictionary")
            if wrong := [key for key in getattr(self, name) if not isinstance(key, str)]:
                raise TypeError(f"{name} of the sweep has the key {wrong[0]!r}: make it a text")
        for name, text in self.space.items():
            if not isinstance(text, str) or ":" not in text:
                raise TypeError(f'the space of {name} is {text!r}: make it a text like "1:3" or "log:1e-4:1e-2"')
        for name, settings in self.variants.items():
            if not isinstance(settings, Mapping):
                raise TypeError(f"the variant {name!r} of the sweep is {settings!r}: make it a dictionary")
        if unknown := [name for name in self.analyses if name not in ANALYSES]:
            raise TypeError(f"the sweep asks for {unknown[0]!r}, which is not an analysis: use {', '.join(ANALYSES)}")
        for name, options in self.analyses.items():
            if not isinstance(options, Mapping) or set(options).difference(ANALYSES[name]):
                known = ", ".join(ANALYSES[name])
                raise TypeError(
                    f"the options of the analysis {name!r} are {options!r}: make them a dictionary, of {known} or "
                    "nothing"
                )
            if not isinstance(options.get("split", ""), str):
                raise TypeError(f"the split of the analysis {name!r} is {options['split']!r}: make it a text")
            pair = options.get("pair", ("", ""))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise TypeError(f"the pair of the analysis {name!r} is {pair!r}: make it a pair of texts")
        if isinstance(self.floors, str) or [name for name in self.floors if name not in FLOORS]:
            raise TypeError(f"the floors of the sweep are {self.floors!r}: make them a tuple, of {', '.join(FLOORS)}")
        if not isinstance(self.cross_encoder, str):
            raise TypeError(f"the cross-encoder of the sweep is {self.cross_encoder!r}: make it a text")
        object.__setattr__(self, "floors", tuple(self.floors))
        object.__setattr__(self, "seeds", _values("seeds", self.seeds))
        object.__setattr__(self, "grid", {key: _values(f"axis {key}", values) for key, values in self.grid.items()})

    @property
    def rows_without_runs(self) -> tuple[str, ...]:
        """The names of the table's rows that have no runs (reporting/floors_file.py)."""
        return (*self.floors, *([CROSS_ENCODER] if self.cross_encoder else []))

    def runs(self) -> list[Run]:
        """Returns all runs, in the order of the grid.

        Returns:
          A run for each variant, combination of the grid's values and seed. Seeds vary fastest, variants slowest.

        Raises:
          InputError: an axis has no values, seeds are missing or unusable, a value is given twice, or a setting does
            not exist.
        """
        if not self.seeds:
            raise InputError(f'the sweep "{self.name}" has no seeds', remedy="give at least one")
        for seed in self.seeds:
            if not isinstance(seed, int) or not 0 <= seed < 2**32:
                raise InputError(f"seed {seed!r} cannot be used", remedy="give whole numbers from 0 to 4294967295")
        if len(set(self.seeds)) < len(self.seeds):
            raise InputError(f'the sweep "{self.name}" gives a seed twice', remedy="name each seed once")
        for key, values in self.grid.items():
            if not values:
                raise InputError(
                    f'the grid axis "{key}" has no values', remedy="give at least one, or leave the axis out"
                )
            if len({repr(value) for value in values}) < len(values):
                raise InputError(f'the grid axis "{key}" has a value twice', remedy="name each value once")
        runs = []
        for variant, settings in (self.variants or {"": {}}).items():
            for point in itertools.product(*self.grid.values()):
                place = dict(zip(self.grid, point, strict=True))
                config = with_overrides(self.config, {**settings, **place})
                resolved = flatten(config)
                place = {key: resolved[key] for key in place}
                runs += [Run(config, seed, place, variant) for seed in self.seeds]
        return runs

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
from jaxmatch.reporting.tables import TableLayout
from jaxmatch.settings import flatten, with_overrides

# What may differ inside one compiled program, besides the seed.
TRACED = "optimizer"
# What a sweep can ask to be made of its runs once they are trained: command -> the options that it may give.
ANALYSES = {"ensemble": ("split",), "occlusion": ("split",), "inspect": ("pair",)}
# What says how a run is made, not what it is.
NOT_IDENTITY = ("execution.", "data.directory", "data.vectors")
# Settings that came after runs had been recorded, at the value that these were trained with: it does not change a run's
# name.
_SILENT = {
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
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One config and one seed.

    Attributes:
      config: resolved and locked.
      seed: of its parameters, masks and batch order.
      overrides: how it differs from the sweep's config: its place in the grid.
      variant: the name of its variant, or "".
    """

    config: ConfigDict
    seed: int
    overrides: Mapping[str, Any]
    variant: str = ""

    def signature(self, fingerprint: str) -> str:
        """Names what a program is compiled for and trained on: all settings but the traced ones, and the data's
        content.
        """
        kept = {key: value for key, value in self._said().items() if not key.startswith(f"{TRACED}.")}
        return _hash({"settings": kept, "data": fingerprint})

    def identity(self, fingerprint: str) -> str:
        """Names the run: its settings, its seed and the data's content, wherever the files lie."""
        return f"{_hash({'settings': self._said(), 'data': fingerprint})}-seed{self.seed}"

    def _said(self) -> dict[str, Any]:
        """The settings that say what the run is."""
        flat = flatten(self.config)
        return {
            key: value
            for key, value in flat.items()
            if not key.startswith(NOT_IDENTITY) and (key, value) not in (_SILENT | ADDED_DEFAULTS).items()
        }


def _values(name: str, values: Any) -> tuple[Any, ...]:
    """Values of a grid as Python's own; they may come as a range or an array.

    Raises:
      TypeError: not several values.
    """
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable):  # a text would be taken letter by letter
        raise TypeError(f"{name} of the sweep is {values!r}: make it a tuple, with a comma behind a single value")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    Attributes:
      name: what the folder and the table are called.
      config: what all runs share.
      grid: dotted setting -> the values it takes; every combination is trained.
      seeds: every combination is trained with each.
      table: which scores the table shows, how, and with which published ones; a launcher adds those that go with
        `training.selection` where there are none but times. None: a row for each variant and each value of the grid.
      variants: name -> settings that change together (the rows of an ablation); every variant meets the whole grid,
        which goes before what the variant sets itself.
      analyses: command -> its options: what is made of the trained runs, in this order (`ANALYSES`).
      floors: simple baselines that the table shows below the runs, of "majority", "overlap", "cosine", "tfidf" and
        "bm25" (docs/how_to/papers.md).
      cross_encoder: folder of a pretrained cross-encoder (`baselines/cross_encoder.py`) that the table shows below
        them, or "".
      command: the words that started it, for whoever wants to repeat it; "" where it was started from Python.
      space: dotted setting -> a range as text, "1:3", "8:64:8" or "log:1e-4:1e-2", which `jaxmatch tune --optuna`
        searches in place of an axis.

    Raises:
      TypeError: a field is of another type than above, or names a floor or an analysis that there is not; or the
        config lacks a section.
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
    def lines(self) -> tuple[str, ...]:
        """The names of the table's lines without runs (reporting/floors_file.py)."""
        return (*self.floors, *([CROSS_ENCODER] if self.cross_encoder else []))

    def runs(self) -> list[Run]:
        """All runs, in the order of the grid.

        Returns:
          A run for each variant, combination of the grid's values and seed. Seeds vary fastest, variants slowest.

        Raises:
          InputError: an axis without values, no seeds or unusable ones, a value given twice, or a setting that does not
            exist.
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

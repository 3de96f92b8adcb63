"""The plan of `jaxmatch timing`: a launcher with `get_timing()`, changed by the command line as sweeps are."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog, generated
from jaxmatch.errors import InputError
from jaxmatch.models import build
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.sweep.files import called, load_module
from jaxmatch.sweep.sweep import Sweep, changed, smoke_sweep
from jaxmatch.training.step import flattening

NO_SPLIT = "none"  # no throughput is measured
_SMOKE = {"batches": 3, "length": 6, "passes": 1, "most_pairs": 16, "published": (), "dimensions": generated.DIMENSIONS}
_SMOKE_NOTE = "Smoke run: tiny models on generated data; their times mean nothing"


@dataclasses.dataclass(frozen=True)
class Timing:
    """The description of a timing.

    Attributes:
      name: the name of the folder.
      title: the title of the table, without a full stop.
      config: the config that the models share. The throughput is measured on its data set.
      models: name of a row -> the settings of the config that it changes.
      batches: the number of timed batches, at least 2.
      published: rows of papers, with "times.batch_seconds" among the scores and "parameters" among the settings. A
        published row with the name of a row is shown next to it.
      notes: notes for the reader of the table.
      pairs: the number of pairs in a batch.
      length: the number of tokens in a sentence.
      dimensions: the size of the word vectors.
      passes: the number of timed passes over the split.
      most_pairs: the largest number of pairs of the split. None means all pairs.
      seeds: the number of models of a row, each with its own random weights. Batches are timed with every model, passes
        over the split with the first.
    """

    name: str
    title: str
    config: ConfigDict
    models: Mapping[str, Mapping[str, Any]]
    batches: int
    published: Sequence[Published] = ()
    notes: tuple[str, ...] = ()
    pairs: int = 8
    length: int = 20
    dimensions: int = 300
    passes: int = 3
    most_pairs: int | None = None
    seeds: int = 1


def resolve(
    file: Path,
    *,
    options: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    batches: int | None = None,
    seeds: int | None = None,
    smoke: bool = False,
) -> Timing:
    """Returns the timing that a file and a command line describe together.

    Arguments:
      file: a Python file with `get_timing()`.
      options: "data_directory", and any options that the file's `get_timing` takes.
      overrides: dotted setting -> value or its text, for all models.
      batches: the number of timed batches; default: that of the file.
      seeds: the number of models of each row; default: that of the file.
      smoke: whether to time tiny models on generated data.

    Raises:
      InputError: the file, an option or a setting cannot be used.
    """
    options, overrides = dict(options or {}), dict(overrides or {})
    directory = options.pop("data_directory", None)
    if directory is not None and not smoke:  # generated data needs no directory
        overrides["data.directory"] = directory
    module = load_module(file)
    if not hasattr(module, "get_timing"):
        raise InputError(
            "the file has no get_timing()", path=file, remedy="give a file of sweeps/ whose name ends in _timing.py"
        )
    timing = called(module, "get_timing", options, file)
    if not isinstance(timing, Timing):
        raise InputError(f"get_timing() returns a {type(timing).__name__}", path=file, remedy="return a Timing")
    # The timing is shrunk and changed in the form of a sweep, whose seeds are not used.
    layout = TableLayout(timing.title, (), notes=timing.notes)
    sweep = Sweep(timing.name, timing.config, {}, (0,), layout, timing.models)
    if smoke:
        shrunk = smoke_sweep(sweep)
        sweep = dataclasses.replace(shrunk, table=dataclasses.replace(layout, notes=(*timing.notes, _SMOKE_NOTE)))
        timing = dataclasses.replace(timing, **_SMOKE)
    sweep = changed(sweep, overrides=overrides)
    return dataclasses.replace(
        timing,
        name=sweep.name,
        config=sweep.config,
        models=sweep.variants,
        notes=sweep.table.notes,
        batches=timing.batches if batches is None else batches,
        seeds=timing.seeds if seeds is None else seeds,
    )


def plan_text(timing: Timing, split: str) -> str:
    """Returns a description of what would be timed, with one line per model."""
    outputs = len(labels_and_task(timing)[0]) or 1
    throughput = "" if split == NO_SPLIT else f", and {timing.passes + 1} passes over {timing.config.data.name} {split}"
    of_each = f" of each of {timing.seeds} random starts" if timing.seeds > 1 else ""
    lines = [
        f"{timing.title}: {timing.batches:,} batches{of_each} of {timing.pairs} pairs of {timing.length} tokens a "
        f"sentence{throughput}"
    ]
    for name, config in configs_of(timing).items():
        parameters = flattening(build(config.model, outputs=outputs), timing.dimensions).count
        lines.append(f"  {name}: {parameters:,} parameters")
    return "\n".join(lines)


def configs_of(timing: Timing) -> dict[str, ConfigDict]:
    return {name: with_overrides(timing.config, settings) for name, settings in timing.models.items()}


def labels_and_task(timing: Timing) -> tuple[tuple[str, ...], str]:
    """Returns the labels and the task of the data set.

    Raises:
      InputError: the labels are not known without reading the data set.
    """
    name = timing.config.data.name
    if name in catalog.CATALOG:
        return catalog.CATALOG[name].labels, catalog.CATALOG[name].task
    if name not in catalog.EMBEDDED_TASKS:
        raise InputError(
            f"the labels of data set {name!r} are not known without reading it", remedy="give a public data set"
        )
    return catalog.load(name).labels, catalog.EMBEDDED_TASKS[name]

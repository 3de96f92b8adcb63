"""What `jaxmatch timing` measures: a launcher with `get_timing()`, changed by the command line as sweeps are."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.data import catalog, synthetic
from jaxmatch.errors import InputError
from jaxmatch.models import build
from jaxmatch.reporting.tables import Published, TableLayout
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.changes import changed
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.launcher_files import called, load_module
from jaxmatch.sweep.memory import parameter_count
from jaxmatch.sweep.smoke import smoked

NO_SPLIT = "none"  # no throughput is measured
_SMOKE = {"batches": 3, "length": 6, "passes": 1, "most_pairs": 16, "published": (), "dimensions": synthetic.DIMENSIONS}
_SMOKE_NOTE = "Smoke run: tiny models on generated data; their times mean nothing"


@dataclasses.dataclass(frozen=True)
class Timing:
    """What is timed.

    Attributes:
      name: what the folder is called.
      title: of the table, without a full stop.
      config: what the models share; its data set is that of the throughput.
      models: name of a row -> settings of the config that it changes.
      batches: how many are timed; 2 or more.
      published: rows of papers: "times.batch_seconds" among the scores and "parameters" among the settings. One with
        the name of a row is shown next to it.
      notes: whatever else a reader must know.
      pairs: of a batch.
      length: tokens of a sentence.
      dimensions: of the word vectors.
      passes: over the split, that are timed.
      most_pairs: of the split, None for all.
      seeds: models of a row, each started from random weights of its own; batches are timed of each, the split of the
        first.
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
    """The timing that a file and a command line describe together.

    Arguments:
      file: a Python file with `get_timing()`.
      options: "data_directory", and whatever the file's `get_timing` takes.
      overrides: dotted setting -> value or its text, for all models.
      batches: how many, where it is not the file's number.
      seeds: how many models of each row, where it is not the file's number.
      smoke: tiny models on generated data.

    Raises:
      InputError: anything the user can fix.
    """
    options, overrides = dict(options or {}), dict(overrides or {})
    directory = options.pop("data_directory", None)
    if directory is not None and not smoke:  # generated data needs none
        overrides["data.directory"] = directory
    module = load_module(file)
    if not hasattr(module, "get_timing"):
        raise InputError(
            "the file has no get_timing()", path=file, remedy="give a file of sweeps/ whose name ends in _timing.py"
        )
    timing = called(module, "get_timing", options, file)
    if not isinstance(timing, Timing):
        raise InputError(f"get_timing() returns a {type(timing).__name__}", path=file, remedy="return a Timing")
    # As a sweep without seeds to train it is shrunk and changed as sweeps are.
    layout = TableLayout(timing.title, (), notes=timing.notes)
    sweep = Sweep(timing.name, timing.config, {}, (0,), layout, timing.models)
    if smoke:
        shrunk = smoked(sweep)
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
    """What would be timed, one line a model."""
    outputs = len(answers_of(timing)[0]) or 1
    throughput = "" if split == NO_SPLIT else f", and {timing.passes + 1} passes over {timing.config.data.name} {split}"
    of_each = f" of each of {timing.seeds} random starts" if timing.seeds > 1 else ""
    lines = [
        f"{timing.title}: {timing.batches:,} batches{of_each} of {timing.pairs} pairs of {timing.length} tokens a "
        f"sentence{throughput}"
    ]
    for name, config in configs_of(timing).items():
        parameters = parameter_count(build(config.model, outputs=outputs), timing.dimensions)
        lines.append(f"  {name}: {parameters:,} parameters")
    return "\n".join(lines)


def configs_of(timing: Timing) -> dict[str, ConfigDict]:
    return {name: with_overrides(timing.config, settings) for name, settings in timing.models.items()}


def answers_of(timing: Timing) -> tuple[tuple[str, ...], str]:
    """Labels and task of the data set."""
    name = timing.config.data.name
    if name in catalog.CATALOG:
        return catalog.CATALOG[name].labels, catalog.CATALOG[name].task
    if name not in catalog.EMBEDDED_TASKS:
        raise InputError(
            f"the labels of data set {name!r} are not known without reading it", remedy="give a public data set"
        )
    return catalog.load(name).labels, catalog.EMBEDDED_TASKS[name]

"""Inference time as a launcher: models with random weights, or a trained one, timed on the CPU, next to what papers
printed.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from jaxmatch.analysis.scoring import pairs_of
from jaxmatch.analysis.timing import batch_seconds, random_matcher, split_seconds
from jaxmatch.data import catalog, synthetic, tagging
from jaxmatch.data.dataset import Split
from jaxmatch.devices import devices_there_are
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.inference.matcher import Matcher
from jaxmatch.models import build, count_parameters
from jaxmatch.reporting.tables import Published, TableLayout
from jaxmatch.reporting.tables.times import read_times
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.launch import changed
from jaxmatch.sweep.launcher_files import called, load_module
from jaxmatch.sweep.memory import parameter_count
from jaxmatch.sweep.preparation import data_directory, data_settings
from jaxmatch.sweep.recording import commit, device_name, versions
from jaxmatch.sweep.smoke import smoked
from jaxmatch.workdir import TIMING_FILE, Workdir

FORMAT = 1
# What is read for the throughput where no split is: words enough for random ones.
NO_SPLIT = "none"
_MADE_UP = tuple(f"word{number}" for number in range(10_000))
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


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model to be timed with the random ones: its name, itself, and the pairs of its data set or None."""

    name: str
    matcher: Matcher
    split: Split | None


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
      InputError: anything the user can mend.
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
    outputs = len(_answers(timing)[0]) or 1
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


@contextlib.contextmanager
def on_the_cpu() -> Iterator[jax.Device]:
    """What is loaded, compiled and computed inside is so on the CPU, whatever accelerator there is.

    Raises:
      InputError: JAX is kept from the CPU.
    """
    device = devices_there_are("cpu")[0]
    with jax.default_device(device):
        yield device


def run(
    timing: Timing,
    *,
    split: str = "test",
    trained: Trained | None = None,
    command: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Times every model, and a trained one if it is given.

    Arguments:
      timing: what is timed.
      split: the pairs of the throughput, or `NO_SPLIT`.
      trained: a trained model, which was loaded `on_the_cpu`.
      command: that asked for it, for the record.
      say: called with a line about the next model.

    Returns:
      The record, as plain values for JSON; `drawings.timing` draws its figure, `tables.times` makes its table.

    Raises:
      InputError: the split cannot be read, a model takes parts of speech and NLTK's tagger is not installed, or JAX is
        kept from the CPU.
    """
    load = os.getloadavg()[0]
    pairs, answers = None if split == NO_SPLIT else split_of(timing, split), _answers(timing)
    if pairs is not None and any(config.model.get("tags") for config in configs_of(timing).values()):
        tagging.check_installed()  # found missing before anything is timed
    with on_the_cpu() as device:
        rows = []
        for name, config in configs_of(timing).items():
            say(name)
            starts = (_matcher(timing, config, pairs, *answers, seed) for seed in range(timing.seeds))
            rows.append({"model": name, **_row(timing, starts, pairs, timing.config.data.name, split)})
        if trained is not None:
            say(trained.name)
            data = trained.matcher.config["data"]["name"]
            rows.append(
                {"model": trained.name, "trained": True, **_row(timing, [trained.matcher], trained.split, data, split)}
            )
    return {
        "format": FORMAT,
        "kind": "timing",
        "name": timing.name,
        "title": timing.title,
        "command": command,
        "device": device_name([device]),
        "versions": versions(),
        "commit": commit(),
        "load_before": round(load, 1),
        "batch_size": timing.pairs,
        "length": timing.length,
        "batches": timing.batches,
        "seeds": timing.seeds,
        "rows": rows,
        "published": [
            {
                "model": row.label,
                "source": row.source,
                "parameters": row.settings.get("parameters"),
                "seconds": row.scores.get("times.batch_seconds"),
            }
            for row in timing.published
        ],
        "notes": [
            *timing.notes,
            "Products of words' vectors with weights are made once, before the times begin, where they fit",
        ],
    }


def check_folder(workdir: Path, timing: Timing) -> None:
    """Refuses, before anything is timed, a folder that holds a sweep or another timing, or that cannot be written.

    Raises:
      InputError: it does, what it holds cannot be read, or it or what it would lie in cannot be written.
    """
    Workdir(workdir)  # refuses a file
    if (workdir / "sweep.json").exists():
        raise InputError("a sweep was run in this folder", path=workdir, remedy="give a --workdir of its own")
    if (workdir / TIMING_FILE).exists() and (other := read_times(workdir / TIMING_FILE).get("name")) != timing.name:
        raise InputError(f"this folder holds the timing {other}", path=workdir, remedy="give a --workdir of its own")
    there = next(folder for folder in (workdir.absolute(), *workdir.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError("nothing can be written here", path=there, remedy="give another --workdir")


def write(record: Mapping[str, Any], workdir: Path) -> Path:
    """Keeps a record in its folder, and gives its file."""
    write_json(workdir / TIMING_FILE, record)
    return workdir / TIMING_FILE


def configs_of(timing: Timing) -> dict[str, ConfigDict]:
    return {name: with_overrides(timing.config, settings) for name, settings in timing.models.items()}


def _answers(timing: Timing) -> tuple[tuple[str, ...], str]:
    """Labels and task of the data set."""
    name = timing.config.data.name
    if name in catalog.CATALOG:
        return catalog.CATALOG[name].labels, catalog.CATALOG[name].task
    if name not in catalog.EMBEDDED_TASKS:
        raise InputError(
            f"the labels of data set {name!r} are known when it is read", remedy="time one that has an official form"
        )
    return catalog.load(name).labels, catalog.EMBEDDED_TASKS[name]


def split_of(timing: Timing, name: str) -> Split:
    data = timing.config.data
    found = catalog.load_split(data.name, data_directory(data.name, data.directory), name)
    return found.part(range(len(found))[: timing.most_pairs], found.dropped)


def _matcher(
    timing: Timing, config: ConfigDict, split: Split | None, labels: tuple[str, ...], task: str, seed: int
) -> Matcher:
    texts = _MADE_UP if split is None else (*split.text_a, *split.text_b)
    preprocessing = data_settings(config).preprocessing
    shared = {"labels": labels, "task": task, "dimensions": timing.dimensions, "seed": seed}
    return random_matcher(config.model.to_dict(), texts=texts, preprocessing=preprocessing, **shared)


def _row(timing: Timing, matchers: Iterable[Matcher], split: Split | None, data: str, name: str) -> dict[str, Any]:
    """What is known of a model: its settings and size, seconds of each batch, and of each pass over the split."""
    row: dict[str, Any] = {}
    for matcher in matchers:
        seconds = batch_seconds(
            matcher.model, pairs=timing.pairs, length=timing.length, batches=timing.batches
        ).tolist()
        if row:
            row["batch_seconds"] += seconds
            continue
        parameters = count_parameters(matcher.model.params)
        row = {"settings": matcher.config["model"], "parameters": parameters, "batch_seconds": seconds, "split": None}
        if split is not None:
            passes = split_seconds(matcher, pairs_of(split), timing.passes)
            row["split"] = {"data": f"{data} {name}", "pairs": len(split), "seconds": passes.tolist()}
    return row

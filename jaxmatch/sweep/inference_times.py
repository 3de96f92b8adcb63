"""Inference times of the models of a plan (timing_plan.py) on the CPU, for a table beside the papers' times.

The models have random weights; a trained model can be added.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from jaxmatch.analysis.evaluate import pairs_of
from jaxmatch.analysis.timing import batch_seconds, random_matcher, split_seconds
from jaxmatch.data import catalog
from jaxmatch.data.catalog import data_directory
from jaxmatch.data.pairs import Split
from jaxmatch.data.text import nltk_tagger
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.inference.matcher import Matcher
from jaxmatch.models import count_parameters
from jaxmatch.reporting.times import read_times
from jaxmatch.sweep.files import data_settings
from jaxmatch.sweep.recording import commit, device_name, versions
from jaxmatch.sweep.timing_plan import NO_SPLIT, Timing, configs_of, labels_and_task
from jaxmatch.workdir import TIMING_FILE, Workdir

FORMAT = 1
# Enough words to draw random ones from if no split is read.
_PLACEHOLDER_WORDS = tuple(f"word{number}" for number in range(10_000))


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model that is timed beside the random ones.

    Attributes:
      name: the name of its row.
      matcher: the model.
      split: the pairs of its data set for the throughput, or None.
    """

    name: str
    matcher: Matcher
    split: Split | None


@contextlib.contextmanager
def on_the_cpu() -> Iterator[jax.Device]:
    """Makes JAX load, compile and compute on the CPU in the block, even if there is an accelerator.

    Raises:
      InputError: JAX cannot use the CPU.
    """
    device = available_devices("cpu")[0]
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
    """Times every model of a timing, and a trained model if one is given.

    Arguments:
      timing: the timing.
      split: the name of the split whose pairs measure the throughput, or `NO_SPLIT`.
      trained: a trained model, which was loaded inside `on_the_cpu`.
      command: the command line that requested the timing, for the record.
      say: a function that is called with the name of each model before the model is timed.

    Returns:
      The record, as plain values for JSON. `figures` draws it, `times` makes its table.

    Raises:
      InputError: the split cannot be read, a model takes parts of speech and NLTK's tagger is not installed, or JAX
        cannot use the CPU.
    """
    load = os.getloadavg()[0]
    answers, pairs = labels_and_task(timing), None if split == NO_SPLIT else split_of(timing, split)
    if pairs is not None and any(config.model.get("tags") for config in configs_of(timing).values()):
        nltk_tagger()  # before anything is timed
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


def check_timing_folder(workdir: Path, timing: Timing) -> None:
    """Checks, before anything is timed, that a folder can be written and holds no sweep and no other timing.

    Raises:
      InputError: the folder holds a sweep or another timing, its timing cannot be read, or the folder, or the one it
        would be created in, cannot be written.
    """
    Workdir(workdir)  # raises an error if it is a file
    if (workdir / "sweep.json").exists():
        raise InputError("a sweep was run in this folder", path=workdir, remedy="give a --workdir of its own")
    if (workdir / TIMING_FILE).exists() and (other := read_times(workdir / TIMING_FILE).get("name")) != timing.name:
        raise InputError(f"this folder holds the timing {other}", path=workdir, remedy="give a --workdir of its own")
    ancestor = next(folder for folder in (workdir.absolute(), *workdir.absolute().parents) if folder.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError("nothing can be written here", path=ancestor, remedy="give another --workdir")


def write(record: Mapping[str, Any], workdir: Path) -> Path:
    """Writes a record to a folder, and returns its file."""
    write_json(workdir / TIMING_FILE, record)
    return workdir / TIMING_FILE


def split_of(timing: Timing, name: str) -> Split:
    """Reads the first `timing.most_pairs` pairs of a split of the timing's data set."""
    data = timing.config.data
    found = catalog.load_split(data.name, data_directory(data.name, data.directory), name)
    return found.part(range(len(found))[: timing.most_pairs], found.dropped)


def _matcher(
    timing: Timing, config: ConfigDict, split: Split | None, labels: tuple[str, ...], task: str, seed: int
) -> Matcher:
    texts = _PLACEHOLDER_WORDS if split is None else (*split.text_a, *split.text_b)
    preprocessing = data_settings(config).preprocessing
    shared = {"labels": labels, "task": task, "dimensions": timing.dimensions, "seed": seed}
    return random_matcher(config.model.to_dict(), texts=texts, preprocessing=preprocessing, **shared)


def _row(timing: Timing, matchers: Iterable[Matcher], split: Split | None, data: str, name: str) -> dict[str, Any]:
    """Returns a row of the record: a model's settings and size, and seconds of each batch and pass over the split."""
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

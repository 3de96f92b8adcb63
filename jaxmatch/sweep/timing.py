"""Inference times on the CPU, for a table beside the papers' times (`jaxmatch timing`).

A plan is what `get_timing()` of a file returns, changed by the command line as sweeps are. A batch is timed from word
ids to probabilities, as in Table 5 of RE2 and of ESAN, and a split from texts to labels. The models have random
weights; a trained model can be added.
"""

import collections
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from jaxmatch import models
from jaxmatch.analysis.evaluate import pairs_of
from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog, generated
from jaxmatch.data.catalog import data_directory
from jaxmatch.data.pairs import Split
from jaxmatch.data.text import UNKNOWN, Preprocessing, WordTable, build_vocabulary, character_table, nltk_tagger
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.inference.matcher import Matcher
from jaxmatch.models import build, count_parameters
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.reporting.times import read_times
from jaxmatch.sweep.files import called, data_settings, load_module
from jaxmatch.sweep.recording import commit, device_name, versions
from jaxmatch.sweep.sweep import Sweep, changed, smoke_sweep
from jaxmatch.training.step import flattening
from jaxmatch.workdir import TIMING_FILE, Workdir

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


# Predictions before the first that is timed. The first compiles and makes the lookup tables of words; the next may
# still find a cold cache.
_WARM = 3


def random_model(
    settings: Mapping[str, Any],
    *,
    vectors: np.ndarray,
    outputs: int,
    characters: np.ndarray | None = None,
    seed: int = 0,
) -> InferenceModel:
    """Builds an untrained model for timing; the values of its weights do not change a time.

    Arguments:
      settings: the settings that `jaxmatch.models.build` takes.
      vectors: <float32>[words, dimensions].
      outputs: the number of classes, or 1 for a regression.
      characters: the characters of the words as in an `InferenceModel`, for models that take characters.
      seed: the seed of the weights.

    Raises:
      InputError: the model does not have these settings.
    """
    module = models.build(settings, outputs=outputs)
    table = vectors if characters is None else WordTable(vectors, characters)
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    parameters = jax.jit(module.init)(jax.random.key(seed), side, side, table)["params"]
    return InferenceModel(module, parameters, vectors, characters)


def random_matcher(
    model: Mapping[str, Any],
    *,
    texts: Iterable[str],
    preprocessing: Preprocessing,
    labels: Sequence[str],
    task: str,
    dimensions: int,
    seed: int = 0,
) -> Matcher:
    """Builds a `Matcher` around a `random_model` with random word vectors.

    The number of words can change a time, because the table of their products may be too large to be used
    (inference/cpu.py).

    Arguments:
      model: the settings that `jaxmatch.models.build` takes.
      texts: the texts whose words are the vocabulary.
      preprocessing: the preprocessing that turns a text into tokens.
      labels, task: as in a `Matcher`.
      dimensions: the number of dimensions of the word vectors.
      seed: the seed of the weights.

    Raises:
      InputError: the model does not have these settings.
    """
    outputs = len(labels) or 1
    module = models.build(model, outputs=outputs)
    counts = collections.Counter(token for text in texts for token in preprocessing.tokens(text))
    words = build_vocabulary(counts, (), minimum_count=1)
    vectors = np.random.default_rng(0).normal(size=(len(words), dimensions)).astype(np.float32)
    vectors[: UNKNOWN + 1] = 0
    characters = character_table(words.words, module.config.known_characters) if module.takes_characters else None
    return Matcher(
        random_model(model, vectors=vectors, outputs=outputs, characters=characters, seed=seed),
        vocabulary=words,
        preprocessing=preprocessing,
        labels=labels,
        task=task,
        config={"model": dict(model)},
    )


def batch_seconds(model: InferenceModel, *, pairs: int, length: int, batches: int) -> np.ndarray:
    """Times batches of random words one by one, from word ids to probabilities, after a few batches that do not count.

    The times do not include reading text, as in the papers, nor computing parts of speech and exact matches for a model
    that takes them.

    Arguments:
      model: the model.
      pairs: the number of pairs in a batch.
      length: the number of tokens in a sentence.
      batches: the number of batches that are timed.

    Returns:
      <float64>[batches], seconds.
    """
    random, words = np.random.default_rng(0), model.vectors.shape[0]
    limits = {"tags": model.module.config.known_tags, "exact_match": 2}

    def side(low: int, high: int) -> np.ndarray:
        return random.integers(low, high, (pairs, length), dtype=np.int32)

    def random_prediction() -> Callable[[], Any]:
        ids = [side(min(UNKNOWN + 1, words - 1), words) for _ in range(2)]
        features = {name: (side(0, limits[name]), side(0, limits[name])) for name in model.module.token_features}
        return lambda: probabilities_of(model.logits(*ids, features))

    return _seconds((random_prediction() for _ in range(_WARM + batches)), warm=_WARM)


def split_seconds(matcher: Matcher, pairs: Sequence[tuple[str, str]], passes: int) -> np.ndarray:
    """Times the predictions of all pairs, from texts to labels, after a pass that does not count.

    Arguments:
      matcher: the model.
      pairs: pairs of texts.
      passes: the number of passes that are timed.

    Returns:
      <float64>[passes], seconds.
    """
    return _seconds((lambda: matcher.predict(pairs) for _ in range(1 + passes)), warm=1)


def _seconds(predictions: Iterable[Callable[[], Any]], warm: int) -> np.ndarray:
    """Times each prediction, and leaves out the first `warm` times."""
    found = []
    for predict in predictions:
        start = time.perf_counter()
        predict()  # returns numbers on the host, so no computation is still running
        found.append(time.perf_counter() - start)
    return np.array(found[warm:])


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

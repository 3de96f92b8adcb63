"""Inference times on the CPU beside those of papers (`jaxmatch timing`), and their table.

A batch is timed from word ids to probabilities, as in Table 5 of RE2 and of ESAN, and a split from texts to labels. The
models have random weights, which do not change a time.
"""

import collections
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from jaxmatch import models
from jaxmatch.analysis.evaluate import pairs_of
from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.catalog import data_directory
from jaxmatch.data.encoding import data_settings
from jaxmatch.data.text import UNKNOWN, WordTable, build_vocabulary, character_table, nltk_tagger
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError, printable_json, report_damage
from jaxmatch.files import read_json
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import InferenceModel, Matcher
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text, latex, markdown
from jaxmatch.reporting.statistics import mean_and_deviation
from jaxmatch.sweep.files import called, load_module
from jaxmatch.sweep.provenance import commit, device_name, versions
from jaxmatch.sweep.sweep import Sweep, changed, smoke_sweep
from jaxmatch.training.step import flattening

NO_SPLIT = "none"  # no throughput is measured
# A batch of both papers, the size of their word vectors, and the number of passes over a split.
PAIRS, LENGTH, DIMENSIONS, PASSES = 8, 20, 300, 3
# Predictions before the first that is timed. The first compiles and makes the lookup tables of words; the next may
# still find a cold cache.
_WARM = 3
# Enough words to draw random ones from if no split is read.
_PLACEHOLDER_WORDS = tuple(f"word{number}" for number in range(10_000))


@dataclasses.dataclass(frozen=True)
class Timing:
    """The description of a timing, which `get_timing()` of a file returns.

    Attributes:
      sweep: the models, one for each variant. Published rows have "times.batch_seconds" among the scores and
        "parameters" among the settings. One with the name of a variant is shown next to it.
      batches: the number of timed batches (at least 2).
      most_pairs: the largest number of pairs of the split; None: all pairs.
    """

    sweep: Sweep
    batches: int
    most_pairs: int | None = None

    def configs(self) -> dict[str, ConfigDict]:
        """Returns the config of each row."""
        return {name: with_overrides(self.sweep.config, settings) for name, settings in self.sweep.variants.items()}


def resolve(
    file: Path,
    *,
    options: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    batches: int | None = None,
    smoke: bool = False,
) -> Timing:
    """Returns the timing that a file with `get_timing()` and a command line describe together; see `launch.sweep`.

    Raises:
      InputError: the file, an option or a setting cannot be used.
    """
    options, overrides = dict(options or {}), dict(overrides or {})
    directory = options.pop("data_directory", None)
    if directory is not None and not smoke:  # generated data needs no directory
        overrides["data.directory"] = directory
    timing = called(load_module(file), "get_timing", options, file, Timing)
    if smoke:
        timing = Timing(smoke_sweep(timing.sweep), batches=3, most_pairs=16)
    sweep = changed(timing.sweep, overrides=overrides)
    return dataclasses.replace(timing, sweep=sweep, batches=batches or timing.batches)


def plan_text(timing: Timing, split: str) -> str:
    """Returns a description of what would be timed, with one line per model."""
    outputs = len(labels_and_task(timing)[0]) or 1
    passes = f", and {PASSES + 1} passes over {timing.sweep.config.data.name} {split}" * (split != NO_SPLIT)
    batches = f"{timing.batches:,} batches of {PAIRS} pairs of {LENGTH} tokens a sentence"
    lines = [f"{timing.sweep.table.title}: {batches}{passes}"]
    for name, config in timing.configs().items():
        parameters = flattening(models.build(config.model, outputs=outputs), DIMENSIONS).count
        lines.append(f"  {name}: {parameters:,} parameters")
    return "\n".join(lines)


def labels_and_task(timing: Timing) -> tuple[tuple[str, ...], str]:
    """Returns the labels and the task of the data set. Raises an `InputError` if they are in no catalog."""
    name = timing.sweep.config.data.name
    data = catalog.load(name) if name in catalog.EMBEDDED_TASKS else catalog.CATALOG.get(name)
    if data is None:
        problem = f"the labels of data set {name!r} are not known without reading it"
        raise InputError(problem, remedy="give a public data set")
    return data.labels, data.task


def random_model(
    settings: Mapping[str, Any],
    *,
    vectors: np.ndarray,
    outputs: int,
    characters: np.ndarray | None = None,
) -> InferenceModel:
    """Builds a model with random weights, as `jaxmatch.models.build` does, for `<float32>[words, dimensions]` vectors
    and, if it takes characters, those of the words as in an `InferenceModel`.
    """
    module = models.build(settings, outputs=outputs)
    table = vectors if characters is None else WordTable(vectors, characters)
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    parameters = jax.jit(module.init)(jax.random.key(0), side, side, table)["params"]
    return InferenceModel(module, parameters, vectors, characters)


def random_matcher(config: ConfigDict, texts: Iterable[str], labels: Sequence[str], task: str) -> Matcher:
    """Builds a `Matcher` around a `random_model` with random vectors for the words of the texts.

    The number of words can change a time, because the table of their products may be too large to be used
    (inference/cpu.py).
    """
    outputs, settings, preprocessing = len(labels) or 1, config.model.to_dict(), data_settings(config).preprocessing
    counts = collections.Counter(token for text in texts for token in preprocessing.tokens(text))
    words = build_vocabulary(counts, (), minimum_count=1)
    vectors = np.random.default_rng(0).normal(size=(len(words), DIMENSIONS)).astype(np.float32)
    vectors[: UNKNOWN + 1] = 0
    module = models.build(settings, outputs=outputs)
    characters = character_table(words.words, module.config.known_characters) if module.takes_characters else None
    return Matcher(
        random_model(settings, vectors=vectors, outputs=outputs, characters=characters),
        vocabulary=words,
        preprocessing=preprocessing,
        labels=labels,
        task=task,
        config={"model": settings},
    )


def batch_seconds(model: InferenceModel, batches: int) -> np.ndarray:
    """Times batches of random words one by one, from word ids to probabilities, after a few batches that do not count.

    The times do not include reading text, as in the papers, nor computing parts of speech and exact matches for a model
    that takes them. Returns `<float64>[batches]`, seconds.
    """
    random, words = np.random.default_rng(0), model.vectors.shape[0]
    limits = {"tags": model.module.config.known_tags, "exact_match": 2}

    def sides(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        return tuple(random.integers(low, high, (PAIRS, LENGTH), dtype=np.int32) for _ in range(2))

    def random_prediction() -> Callable[[], Any]:
        ids = sides(min(UNKNOWN + 1, words - 1), words)
        features = {name: sides(0, limits[name]) for name in model.module.token_features}
        return lambda: probabilities_of(model.logits(*ids, features))

    return _seconds((random_prediction() for _ in range(_WARM + batches)), warm=_WARM)


def split_seconds(matcher: Matcher, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Times passes over all pairs, from texts to labels, after one that does not count. Returns `<float64>[passes]`."""
    return _seconds((lambda: matcher.predict(pairs) for _ in range(1 + PASSES)), warm=1)


def _seconds(predictions: Iterable[Callable[[], Any]], warm: int) -> np.ndarray:
    """Times each prediction, and leaves out the first `warm` times."""
    found = []
    for predict in predictions:
        start = time.perf_counter()
        predict()  # returns numbers on the host, so no computation is still running
        found.append(time.perf_counter() - start)
    return np.array(found[warm:])


def run(timing: Timing, *, split: str, command: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Times every model of a timing on JAX's default device, which must be a CPU, and returns the record.

    Arguments:
      timing: the timing.
      split: the name of the split whose pairs measure the throughput, or `NO_SPLIT`.
      command: the command line that requested the timing.
      say: a function that is called with the name of each model.

    Raises:
      InputError: the split cannot be read, or a model takes parts of speech and NLTK's tagger is not installed.
    """
    load, sweep, data = os.getloadavg()[0], timing.sweep, timing.sweep.config.data
    labels, task = labels_and_task(timing)
    pairs, texts = None, _PLACEHOLDER_WORDS
    if split != NO_SPLIT:
        pairs = catalog.load_split(data.name, data_directory(data.name, data.directory), split)
        pairs = pairs.part(range(len(pairs))[: timing.most_pairs], pairs.dropped)
        texts = (*pairs.text_a, *pairs.text_b)
        if any(config.model.get("tags") for config in timing.configs().values()):
            nltk_tagger()  # before anything is timed
    rows = []
    for name, config in timing.configs().items():
        say(name)
        matcher = random_matcher(config, texts, labels, task)
        row = {"model": name, "settings": config.model.to_dict()}
        row["parameters"] = models.count_parameters(matcher.model.params)
        row |= {"batch_seconds": batch_seconds(matcher.model, timing.batches).tolist(), "split": None}
        if pairs is not None:
            seconds = split_seconds(matcher, pairs_of(pairs)).tolist()
            row["split"] = {"data": f"{data.name} {split}", "pairs": len(pairs), "seconds": seconds}
        rows.append(row)
    return {
        "format": 1,
        "kind": "timing",
        "name": sweep.name,
        "title": sweep.table.title,
        "command": command,
        "device": device_name(available_devices("cpu")[:1]),
        "versions": versions(),
        "commit": commit(),
        "load_before": round(load, 1),
        "batch_size": PAIRS,
        "length": LENGTH,
        "batches": timing.batches,
        "rows": rows,
        "published": [
            {
                "model": row.label,
                "source": row.source,
                "parameters": row.settings.get("parameters"),
                "seconds": row.scores.get("times.batch_seconds"),
            }
            for row in sweep.table.published
        ],
        "notes": [
            *sweep.table.notes,
            "Products of words' vectors with weights are made once, before the times begin, where they fit",
        ],
    }


# The table of a timing: a pure function of its record.


def read_times(file: Path) -> dict[str, Any]:
    """Reads the record of a timing. Raises an `InputError` if it cannot be read or is not one."""
    with report_damage(file, "run jaxmatch timing again", "the record"):
        record = read_json(file)
        if (record["kind"], record["format"]) != ("timing", 1):
            raise ValueError("it is not a timing of format 1")
        _sheet(record)  # raises an error if a field is missing
    return record


def times(record: Mapping[str, Any], format: str, verbose: bool = True) -> str:
    """Returns the table as "markdown", with a short caption unless `verbose`, "latex", "csv" or "json", which has all
    numbers unrounded.
    """
    if format == "json":
        return printable_json(record, indent=1) + "\n"
    sheet = _sheet(record)
    if format == "csv":
        lines = [line for section in sheet.sections for line in section]
        return csv_text([sheet.headings, *([cell.content for cell in line] for line in lines)])
    return markdown(sheet, verbose) if format == "markdown" else latex(sheet)


def _sheet(record: Mapping[str, Any]) -> Sheet:
    """Returns a table with one line per model. Models that only papers measured come last."""
    printed = {row["model"]: row for row in record["published"]}
    ours = {row["model"]: _measured(row) for row in record["rows"]}

    def line(name: str) -> tuple[Text, ...]:
        of_paper = (printed.get(name, {}).get(key) or NO_VALUE for key in ("parameters", "seconds"))
        return tuple(map(Text, (name, *ours.get(name, [NO_VALUE] * 3), *of_paper)))

    headings = ("parameters", "time (s/batch)", "pairs/s")
    headings = ("model", *(f"measured: {name}" for name in headings), *(f"published: {name}" for name in headings[:2]))
    caption, *details = _caption(record)
    sections = (tuple(map(line, ours)), tuple(line(name) for name in printed if name not in ours))
    return Sheet(
        title=record["title"],
        caption=(caption,),
        details=tuple(details),
        notes=(*record["notes"], f"Command: {record['command']}"),
        headings=headings,
        numeric=(False, True, True, True, True, True),
        sections=tuple(filter(None, sections)),
    )


def _measured(row: Mapping[str, Any]) -> list[str]:
    """Returns the parameters, the seconds of a batch and the pairs a second of a row."""
    mean, deviation = mean_and_deviation(row["batch_seconds"])
    cells = [f"{row['parameters']:,}", f"{mean:.4f} ± {deviation:.4f}", NO_VALUE]
    if split := row["split"]:
        mean, deviation = mean_and_deviation([split["pairs"] / seconds for seconds in split["seconds"]])
        cells[2] = f"{mean:,.0f} ± {deviation:,.0f}"
    return cells


def _caption(record: Mapping[str, Any]) -> list[str]:
    sentences = [
        f"Mean ± sample standard deviation of {record['batches']:,} batches of {record['batch_size']} pairs of "
        f"{record['length']} tokens a sentence, from word ids to probabilities, weights as they are before training."
    ]
    if split := next((row["split"] for row in record["rows"] if row["split"]), None):
        pairs = f"the {split['pairs']:,} of {split['data']}, texts in and labels out"
        passes = f"mean ± sample standard deviation of {len(split['seconds'])} passes"
        sentences.append(f"Pairs a second: {pairs}, {passes}.")
    if sources := dict.fromkeys(row["source"] for row in record["published"]):
        sentences.append(f"Published: {'; '.join(sources)}.")
    load = f"load before the run {record['load_before']:g}"
    sentences.append(f"Device: {record['device']}; jax {record['versions']['jax']}; {load}.")
    return sentences

"""The folder of a trained model: plain arrays and JSON, without pickles or code.

    model.json              format number, task, labels, settings, preprocessing, the run's config, checksums
    parameters.safetensors  <float32> arrays, named by their path in the parameter tree: "blocks_0/encoder/..."
    vocabulary.txt          one word per line, in the order of the ids (files.py)
    vectors.npy             <float32>[words, dimensions]
    calibration.json        optional (calibration.py)

Checksums protect against accidents. The characters of words are computed from the vocabulary, and exact matches from
the texts. Parts of speech need NLTK's tagger, whose model is not in the folder (data/text.py).
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import numpy as np
import safetensors.numpy
from flax import traverse_util

from jaxmatch import __version__, files, models
from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.errors import WAIT_OR_RESUME, InputError, count_text
from jaxmatch.files import hash_file
from jaxmatch.inference.calibration import FILE as CALIBRATION
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.files import COPY_AGAIN, decode_words, encode_words, read_checked, reading

FILE = "model.json"
FORMAT = 2
PARAMETERS, VOCABULARY, VECTORS = "parameters.safetensors", "vocabulary.txt", "vectors.npy"


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """The content of a model folder."""

    module: nn.Module
    parameters: Mapping[str, Any]
    vectors: np.ndarray
    vocabulary: Vocabulary
    labels: tuple[str, ...]
    task: str
    preprocessing: Preprocessing
    config: Mapping[str, Any]
    calibration: Calibration | None = None


def save(
    directory: str | os.PathLike,
    *,
    model_settings: Mapping[str, Any],
    params: Mapping[str, Any],
    vocabulary_words: Sequence[str],
    vectors: np.ndarray | None,
    labels: Sequence[str],
    task: str,
    preprocessing: Mapping[str, Any],
    config: Mapping[str, Any],
    vectors_file: Path | None = None,
) -> None:
    """Writes a model folder, atomically.

    Arguments:
      directory: the folder to create; an existing one is replaced.
      model_settings: the settings, as `jaxmatch.models.build` takes them.
      params: the parameter tree, arrays of float32.
      vocabulary_words: the words in the order of their ids, including the padding and the unknown word.
      vectors: <float32>[words, dimensions]; may be None if `vectors_file` is given.
      labels: label names in the order of the outputs; empty for a regression.
      task: "classification", "ranking" or "regression".
      preprocessing: the fields of `jaxmatch.data.tokens.Preprocessing`.
      config: the run's whole configuration, which can be written as JSON.
      vectors_file: an .npy file with the vectors, used instead of `vectors`. It is hard-linked, or copied if the file
        system has no links, so that the runs of a sweep share one file on disk.
    """
    with files.directory_atomically(directory) as folder:
        flat = traverse_util.flatten_dict(dict(params), sep="/")
        arrays = {name: np.asarray(value, np.float32, order="C") for name, value in flat.items()}
        (folder / PARAMETERS).write_bytes(safetensors.numpy.save(arrays))
        (folder / VOCABULARY).write_bytes(encode_words(vocabulary_words))
        if vectors_file is None:
            np.save(folder / VECTORS, np.asarray(vectors, np.float32), allow_pickle=False)
        else:
            _link(Path(vectors_file), folder / VECTORS)
        shape = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False).shape
        if len(shape) != 2 or shape[0] != len(vocabulary_words):
            raise ValueError(f"vectors of shape {shape} do not fit {len(vocabulary_words)} words")
        description = {
            "format": FORMAT,
            "jaxmatch": __version__,
            "task": task,
            "labels": list(labels),
            "model": dict(model_settings),
            "preprocessing": dict(preprocessing),
            "config": config,
            "sha256": {name: hash_file(folder / name) for name in (PARAMETERS, VOCABULARY, VECTORS)},
        }
        description["sha256"][FILE] = checksum_of(description)
        files.write_json(folder / FILE, description)


def save_calibration(path: str | os.PathLike, calibration: Calibration) -> Path:
    """Writes a calibration into a model folder, atomically, and returns the path of its file.

    Arguments:
      path: the model folder or the run folder around it.
      calibration: the calibration of this model.

    Raises:
      InputError: there is no model, or its description cannot be read.
    """
    folder = find(path)
    description = read_description(folder)
    calibration.save(folder, description["sha256"][PARAMETERS])
    return folder / CALIBRATION


def find(path: str | os.PathLike) -> Path:
    """Returns the model folder at `path`, which may be the model folder itself or the run folder around it.

    Raises:
      InputError: there is no model folder.
    """
    path = Path(path)
    with reading(path):
        for folder in (path, path / "model"):
            if (folder / FILE).is_file():
                return folder
        if not path.exists():
            raise InputError("there is no such folder", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")
        runs = sorted(found.parent.parent for found in path.glob(f"runs/*/model/{FILE}"))
        if runs:
            remedy = f"name one of them, such as {runs[0]}, or let a command choose with --best"
            raise InputError(f"holds {count_text(len(runs), 'run')}", path=path, remedy=remedy)
        if (path / "sweep.json").is_file():
            raise InputError("no run has finished yet", path=path, remedy=WAIT_OR_RESUME)
        if (path / "record.json").is_file():
            remedy = "give a run that finished; if this one did, remove its folder and run the sweep again"
            raise InputError("the run left a record but no model", path=path, remedy=remedy)
        raise InputError("holds no model (no model.json)", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")


def checksum_of(description: Mapping[str, Any]) -> str:
    """Computes the checksum of model.json, which depends on its content and not on its layout."""
    digests = {name: digest for name, digest in description["sha256"].items() if name != FILE}
    return hashlib.sha256(json.dumps({**description, "sha256": digests}, sort_keys=True).encode()).hexdigest()


def read_description(folder: Path) -> dict[str, Any]:
    """Reads model.json of a model folder.

    Raises:
      InputError: the file cannot be read, is damaged or was written by a newer version.
    """
    path = folder / FILE
    with reading(path):
        content = path.read_bytes()
    try:
        description = json.loads(content)
        stored = description["format"]
        if isinstance(stored, int) and stored > FORMAT:
            newer = f"use jaxmatch {description.get('jaxmatch', 'in a newer version')}"
            raise InputError(f"has format {stored}, and this version reads {FORMAT}", path=path, remedy=newer)
        is_whole = stored == FORMAT and description["sha256"][FILE] == checksum_of(description)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"is not the description of a jaxmatch model ({error!s:.300})", path=path) from error
    if not is_whole:
        raise InputError("is damaged: its checksum is not the one in it", path=path, remedy=COPY_AGAIN)
    return description


def read(path: str | os.PathLike) -> StoredModel:
    """Reads a model folder. `path` may also be the run folder around it.

    Raises:
      InputError: there is no model, it is damaged, or it was written by a newer version.
    """
    folder = find(path)
    description = read_description(folder)
    checksums, labels = description["sha256"], tuple(description["labels"])
    with _settings_of(folder / FILE):
        module = models.build(_tuples(description["model"]), outputs=len(labels) or 1)
        known = {field.name for field in dataclasses.fields(Preprocessing)}
        if unknown := sorted(description["preprocessing"].keys() - known):
            raise InputError(f"preprocessing has {unknown[0]}, which this version does not know")
    parameters = safetensors.numpy.load(read_checked(folder, PARAMETERS, checksums))
    try:
        vectors = np.load(io.BytesIO(read_checked(folder, VECTORS, checksums)), allow_pickle=False)
    except ValueError as error:
        raise InputError(f"is damaged ({error})", path=folder / VECTORS, remedy=COPY_AGAIN) from error
    return StoredModel(
        module=module,
        parameters=traverse_util.unflatten_dict(parameters, sep="/"),
        vectors=vectors,
        vocabulary=Vocabulary(decode_words(read_checked(folder, VOCABULARY, checksums))),
        labels=labels,
        task=description["task"],
        preprocessing=Preprocessing(**description["preprocessing"]),
        config=description["config"],
        calibration=Calibration.read(folder, checksums[PARAMETERS], labels),
    )


@contextlib.contextmanager
def _settings_of(path: Path) -> Iterator[None]:
    """Adds the path of the file with the settings to an InputError about them."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problem, path=path, remedy=error.remedy) from error


def _link(source: Path, target: Path) -> None:
    source = source.resolve()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Converts lists to tuples: JSON has no tuples, and the attributes of a module must not be lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}

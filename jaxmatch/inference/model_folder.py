"""The folder of a trained model: plain arrays and JSON, without pickles or code.

    model.json              format number, task, labels, settings, preprocessing, the run's config, checksums
    parameters.safetensors  <float32> arrays, named by their path in the parameter tree: "blocks_0/encoder/..."
    vocabulary.txt          one word per line, in the order of the ids (vocabulary_file.py)
    vectors.npy             <float32>[words, dimensions]
    calibration.json        optional (calibration.py)

This is format 2. Folders of format 1 can also be read. They have `parameters.npz` instead of the safetensors file, and
no checksum of model.json itself. Checksums protect against accidents only. Shapes and sizes are therefore checked as
well, before memory is allocated.

The characters of words are computed from the vocabulary, and exact matches from the texts. Parts of speech need NLTK's
tagger, whose model is not in the folder (data/text.py).
"""

import contextlib
import dataclasses
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import safetensors.numpy
from flax import traverse_util

from jaxmatch import __version__, files, models
from jaxmatch.data.text import LEAST_CHARACTERS, Preprocessing, Vocabulary
from jaxmatch.errors import WAIT_OR_RESUME, InputError
from jaxmatch.files import hash_file
from jaxmatch.inference import model_description, stored_arrays
from jaxmatch.inference.calibration import FILE as CALIBRATION
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.checked_files import COPY_AGAIN, array_file, read_checked_bytes, reading
from jaxmatch.inference.vocabulary_file import decode_words, encode_words
from jaxmatch.printable import count_text

_VOCABULARY, _VECTORS = "vocabulary.txt", "vectors.npy"
_PARAMETERS = {1: "parameters.npz", 2: "parameters.safetensors"}  # by format
_MAX_MEAN_WORD_BYTES = 1 << 10  # bytes, on average


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """The checked content of a model folder: the arrays fit the module, and the words fit the vectors."""

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
      preprocessing: the fields of `jaxmatch.data.text.Preprocessing`.
      config: the run's whole configuration, which can be written as JSON.
      vectors_file: an .npy file with the vectors, used instead of `vectors`. It is hard-linked, or copied if the file
        system has no links, so that the runs of a sweep share one file on disk.
    """
    model_description.check_task(task, labels, Path(directory))
    with files.directory_atomically(directory) as folder:
        flat = traverse_util.flatten_dict(dict(params), sep="/")
        arrays = {name: np.asarray(value, np.float32, order="C") for name, value in flat.items()}
        (folder / _PARAMETERS[model_description.FORMAT]).write_bytes(safetensors.numpy.save(arrays))
        (folder / _VOCABULARY).write_bytes(encode_words(vocabulary_words))
        if vectors_file is None:
            np.save(folder / _VECTORS, np.asarray(vectors, np.float32), allow_pickle=False)
        else:
            _link(Path(vectors_file), folder / _VECTORS)
        shape = np.load(folder / _VECTORS, mmap_mode="r", allow_pickle=False).shape
        if len(shape) != 2 or shape[0] != len(vocabulary_words):
            raise ValueError(f"vectors of shape {shape} do not fit {len(vocabulary_words)} words")
        description = {
            "format": model_description.FORMAT,
            "jaxmatch": __version__,
            "task": task,
            "labels": list(labels),
            "model": dict(model_settings),
            "preprocessing": dict(preprocessing),
            "config": config,
            "sha256": {
                name: hash_file(folder / name)
                for name in (_PARAMETERS[model_description.FORMAT], _VOCABULARY, _VECTORS)
            },
        }
        description["sha256"][model_description.FILE] = model_description.description_checksum(description)
        files.write_json(folder / model_description.FILE, description)


def save_calibration(path: str | os.PathLike, calibration: Calibration) -> Path:
    """Writes a calibration into a model folder, atomically, and returns the path of its file.

    Arguments:
      path: the model folder or the run folder around it.
      calibration: the calibration of this model.

    Raises:
      InputError: there is no model, or its description cannot be read.
    """
    folder = find(path)
    description = model_description.read_description(folder / model_description.FILE)
    calibration.save(folder, description["sha256"].get(_PARAMETERS[description["format"]]))
    return folder / CALIBRATION


def find(path: str | os.PathLike) -> Path:
    """Returns the model folder at `path`, which may be the model folder itself or the run folder around it.

    Raises:
      InputError: there is no model folder.
    """
    path = Path(path)
    with reading(path):
        for folder in (path, path / "model"):
            if (folder / model_description.FILE).is_file():
                return folder
        if not path.exists():
            raise InputError("there is no such folder", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")
        runs = sorted(found.parent.parent for found in path.glob(f"runs/*/model/{model_description.FILE}"))
        if runs:
            remedy = f"name one of them, such as {runs[0]}, or let a command choose with --best"
            raise InputError(f"holds {count_text(len(runs), 'run')}", path=path, remedy=remedy)
        if (path / "sweep.json").is_file():
            raise InputError("no run has finished yet", path=path, remedy=WAIT_OR_RESUME)
        if (path / "record.json").is_file():
            remedy = "give a run that finished; if this one did, remove its folder and run the sweep again"
            raise InputError("the run left a record but no model", path=path, remedy=remedy)
        raise InputError("holds no model (no model.json)", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")


def read(path: str | os.PathLike) -> StoredModel:
    """Reads and checks a model folder. `path` may also be the run folder around it.

    Raises:
      InputError: there is no model, it is damaged, or it was written by a newer version.
    """
    folder = find(path)
    try:
        return _read(folder)
    except RecursionError as error:
        raise InputError("is nested too deeply", path=folder / model_description.FILE, remedy=COPY_AGAIN) from error


def _read(folder: Path) -> StoredModel:
    description = model_description.read_description(folder / model_description.FILE)
    digests, labels = description["sha256"], tuple(description["labels"])
    with _settings_of(folder / model_description.FILE):
        module = models.build(_tuples(description["model"]), outputs=len(labels) or 1)
        preprocessing = model_description.preprocessing_of(description)
        if module.takes_characters and module.config.known_characters < LEAST_CHARACTERS:
            raise InputError(
                f"model.known_characters is {module.config.known_characters}",
                remedy=f"it is {LEAST_CHARACTERS} or more",
            )
    table = _shape_of_vectors(folder / _VECTORS)
    vocabulary = _vocabulary(folder / _VOCABULARY, digests.get(_VOCABULARY), table)
    parameters = folder / _PARAMETERS[description["format"]]
    shapes_of, arrays_of = {
        1: (stored_arrays.npz_shapes, stored_arrays.read_npz),
        2: (stored_arrays.safetensors_shapes, stored_arrays.read_safetensors),
    }[description["format"]]
    with array_file(parameters):
        shapes = shapes_of(parameters)
    _check_shapes(module, shapes, table, parameters)
    with array_file(parameters):
        arrays = arrays_of(read_checked_bytes(parameters, digests.get(parameters.name)))
    with array_file(folder / _VECTORS):
        vectors = stored_arrays.read_npy(read_checked_bytes(folder / _VECTORS, digests.get(_VECTORS)))
    for name, array in arrays.items():
        _check_finite(name, array, parameters)
    _check_finite("the table", vectors, folder / _VECTORS)
    return StoredModel(
        module=module,
        parameters=traverse_util.unflatten_dict(arrays, sep="/"),
        vectors=vectors,
        vocabulary=vocabulary,
        labels=labels,
        task=description["task"],
        preprocessing=preprocessing,
        config=description["config"],
        calibration=Calibration.read(folder, digests.get(parameters.name), labels),
    )


@contextlib.contextmanager
def _settings_of(path: Path) -> Iterator[None]:
    """Adds the path of the file with the settings to an InputError about them."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problem, path=path, remedy=error.remedy) from error


def _shape_of_vectors(path: Path) -> tuple[int, int]:
    with array_file(path), open(path, "rb") as file:
        shape = stored_arrays.npy_shape(file, os.fstat(file.fileno()).st_size)
        if len(shape) != 2:
            raise ValueError(f"its shape is {shape}, not (words, dimensions)")
    return shape


def _vocabulary(path: Path, digest: Any, table: tuple[int, int]) -> Vocabulary:
    """Reads the vocabulary and checks that it has as many words as the table has rows."""
    words = decode_words(read_checked_bytes(path, digest, most=_MAX_MEAN_WORD_BYTES * (table[0] + 1024)), path)
    if len(words) != table[0]:
        problem = f"vectors {list(table)} do not fit {len(words)} words"
        raise InputError(problem, path=path.with_name(_VECTORS), remedy=COPY_AGAIN)
    try:
        return Vocabulary(words)
    except ValueError as error:
        raise InputError(f"{error}", path=path, remedy=COPY_AGAIN) from error


def _check_shapes(
    module: nn.Module, stored: Mapping[str, stored_arrays.Shape], table: tuple[int, int], path: Path
) -> None:
    """Checks that the stored arrays have the shapes of the module's parameters, without computing anything."""
    # Tracing a model of a thousand layers takes half a minute, so the number of arrays is checked first.
    if (layers := module.config.least_layers) > len(stored):
        problem = (
            f"holds {len(stored)} arrays, too few for the {layers} layers of the settings in {model_description.FILE}"
        )
        raise InputError(problem, path=path)
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    with _settings_of(path.with_name(model_description.FILE)):
        # The key is made inside `eval_shape`, where JAX neither computes it nor compiles a program for it.
        wanted = jax.eval_shape(
            lambda side, words: module.init(jax.random.key(0), side, side, words)["params"],
            side,
            jax.ShapeDtypeStruct(table, np.float32),
        )
    wanted = {name: value.shape for name, value in traverse_util.flatten_dict(dict(wanted), sep="/").items()}
    for name in sorted(wanted.keys() | stored.keys()):
        if wanted.get(name) != stored.get(name):
            raise InputError(
                f"{name:.300} has shape {stored.get(name, 'none')}, and the model needs {wanted.get(name, 'none')}",
                path=path,
                remedy=f"the settings in {model_description.FILE} are of another model",
            )


def _check_finite(name: str, array: np.ndarray, path: Path) -> None:
    # The minimum and the maximum propagate NaN and infinity, and they take no memory.
    if array.size and not (math.isfinite(array.min()) and math.isfinite(array.max())):
        raise InputError(f"{name} holds NaN or infinity", path=path, remedy="train the model again")


def _link(source: Path, target: Path) -> None:
    source = source.resolve()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Converts lists to tuples: JSON has no tuples, and the attributes of a module must not be lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}

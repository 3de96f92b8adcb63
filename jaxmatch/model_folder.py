"""The folder a trained model lives in: plain arrays and JSON, no pickle, nothing that is executed.

    model.json              format number, task, labels, settings, preprocessing, the run's config, checksums of all files and of itself
    parameters.safetensors  <float32> arrays, named by their place in the parameter tree: "blocks_0/encoder/..."
    vocabulary.txt          one word a line, in the order of the ids; a word that would not survive that stands as JSON
    vectors.npy             <float32>[words, dimensions]

That is format 2. Folders of format 1 are read, too: they have `parameters.npz` in place of the safetensors file, and no checksum of
model.json. Checksums guard against accidents only: what a file says is checked besides, before memory is taken for it.

The characters of words follow from the vocabulary, exact matches from the texts; parts of speech need NLTK's tagger, whose model is
not in the folder (data/tagging.py).
"""

import contextlib
import dataclasses
import hashlib
import json
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

from jaxmatch import __version__, files, models, stored_arrays
from jaxmatch.data.characters import LEAST_KNOWN
from jaxmatch.data.dataset import TASKS
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import Vocabulary
from jaxmatch.errors import InputError
from jaxmatch.plain_file import check_plain_file
from jaxmatch.printable import shown

FORMAT = 2
_DESCRIPTION, _VOCABULARY, _VECTORS = "model.json", "vocabulary.txt", "vectors.npy"
_PARAMETERS = {1: "parameters.npz", 2: "parameters.safetensors"}  # by format
_KEYS = {
    "format": int, "jaxmatch": str, "task": str, "labels": list,
    "model": dict, "preprocessing": dict, "config": dict, "sha256": dict,
}  # fmt: skip
_MOST_OF_DESCRIPTION = 1 << 24  # bytes
_MOST_OF_A_WORD = 1 << 10  # bytes, in the mean
_COPY_AGAIN = "copy the folder again"


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """What a model folder holds, checked: arrays fit the module, words fit the vectors."""

    folder: Path
    module: nn.Module
    parameters: Mapping[str, Any]
    vectors: np.ndarray
    vocabulary: Vocabulary
    labels: tuple[str, ...]
    task: str
    preprocessing: Preprocessing
    config: Mapping[str, Any]


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
    """Writes a model folder, whole or not at all.

    Arguments:
      directory: the folder to make; one that is there is replaced.
      model_settings: what `jaxmatch.models.build` takes.
      params: the parameter tree, arrays of float32.
      vocabulary_words: the words in the order of their ids, padding and unknown included.
      vectors: <float32>[words, dimensions]; may be None when `vectors_file` is given.
      labels: label names in the order of the outputs; empty for a regression.
      task: "classification", "ranking" or "regression".
      preprocessing: the fields of `jaxmatch.data.tokens.Preprocessing`.
      config: the run's whole configuration; must be JSON.
      vectors_file: an .npy file with the same vectors, to be linked instead of written again: the runs of a
        sweep share one copy on the disk (a plain copy where the file system cannot link).
    """
    _check_task(task, labels, Path(directory))
    with files.directory_atomically(directory) as folder:
        flat = traverse_util.flatten_dict(dict(params), sep="/")
        arrays = {name: np.asarray(value, np.float32, order="C") for name, value in flat.items()}
        (folder / _PARAMETERS[FORMAT]).write_bytes(safetensors.numpy.save(arrays))
        (folder / _VOCABULARY).write_bytes(encode_words(vocabulary_words))
        if vectors_file is None:
            np.save(folder / _VECTORS, np.asarray(vectors, np.float32), allow_pickle=False)
        else:
            _link(Path(vectors_file), folder / _VECTORS)
        shape = np.load(folder / _VECTORS, mmap_mode="r", allow_pickle=False).shape
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
            "sha256": {name: _digest(folder / name) for name in (_PARAMETERS[FORMAT], _VOCABULARY, _VECTORS)},
        }
        description["sha256"][_DESCRIPTION] = _digest_of_description(description)
        files.write_json(folder / _DESCRIPTION, description)


def find(path: str | os.PathLike) -> Path:
    """The model folder at `path`, which may be the folder itself or the run folder around it.

    Raises:
      InputError: there is none.
    """
    path = Path(path)
    with _reading(path):
        for folder in (path, path / "model"):
            if (folder / _DESCRIPTION).is_file():
                return folder
        if not path.exists():
            raise InputError("there is no such folder", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")
        runs = sorted(found.parent.parent for found in path.glob(f"runs/*/model/{_DESCRIPTION}"))
        if runs:
            raise InputError(f"holds {len(runs)} runs", path=path, remedy=f"name one of them, such as {runs[0]}")
        if (path / "record.json").is_file():
            remedy = "give a run that finished; if this one did, remove its folder and run the sweep again"
            raise InputError("the run left a record but no model", path=path, remedy=remedy)
        raise InputError("holds no model (no model.json)", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")


def read(path: str | os.PathLike) -> StoredModel:
    """Reads and checks a model folder (see `find` for what `path` may be).

    Raises:
      InputError: there is no model, or it is damaged, or it was written by a newer version.
    """
    folder = find(path)
    try:
        return _read(folder)
    except RecursionError as error:
        raise InputError("is nested too deeply", path=folder / _DESCRIPTION, remedy=_COPY_AGAIN) from error


def _read(folder: Path) -> StoredModel:
    description = _description(folder / _DESCRIPTION)
    digests, labels = description["sha256"], tuple(description["labels"])
    with _settings_of(folder / _DESCRIPTION):
        module = models.build(_tuples(description["model"]), outputs=len(labels) or 1)
        preprocessing = _preprocessing(description["preprocessing"])
        if module.takes_characters and module.config.known_characters < LEAST_KNOWN:
            raise InputError(f"model.known_characters is {module.config.known_characters}", remedy=f"it is {LEAST_KNOWN} or more")
    table = _shape_of_vectors(folder / _VECTORS)
    vocabulary = _vocabulary(folder / _VOCABULARY, digests.get(_VOCABULARY), table)
    parameters = folder / _PARAMETERS[description["format"]]
    shapes_of, arrays_of = {
        1: (stored_arrays.npz_shapes, stored_arrays.read_npz),
        2: (stored_arrays.safetensors_shapes, stored_arrays.read_safetensors),
    }[description["format"]]
    with _array_file(parameters):
        shapes = shapes_of(parameters)
    _check_shapes(module, shapes, table, parameters)
    with _array_file(parameters):
        arrays = arrays_of(_checked_bytes(parameters, digests.get(parameters.name)))
    with _array_file(folder / _VECTORS):
        vectors = stored_arrays.read_npy(_checked_bytes(folder / _VECTORS, digests.get(_VECTORS)))
    for name, array in arrays.items():
        _check_finite(name, array, parameters)
    _check_finite("the table", vectors, folder / _VECTORS)
    return StoredModel(
        folder=folder,
        module=module,
        parameters=traverse_util.unflatten_dict(arrays, sep="/"),
        vectors=vectors,
        vocabulary=vocabulary,
        labels=labels,
        task=description["task"],
        preprocessing=preprocessing,
        config=description["config"],
    )


def _check_task(task: str, labels: Sequence[str], path: Path) -> None:
    if task not in TASKS:
        raise InputError(f"unknown task {shown(task)}", path=path, remedy=f"use one of {', '.join(TASKS)}")
    for label in labels:
        if not isinstance(label, str) or not label or any(mark in label for mark in "\r\n") or not _encodes(label):
            raise InputError(f"{shown(label)} is no label", path=path, remedy="a label is a text in one line")
    fitting = not labels if task == "regression" else len(labels) == 2 if task == "ranking" else len(labels) > 0
    if not fitting or len(set(labels)) != len(labels):
        raise InputError(f"labels {shown(list(labels))} do not fit the task {task}", path=path)


def _encodes(text: str) -> bool:
    """Whether a text can be written: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _description(path: Path) -> dict[str, Any]:
    """What model.json says, each of its parts of the right type."""
    try:
        description = json.loads(_bytes(path, _MOST_OF_DESCRIPTION))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"cannot be read ({error})", path=path, remedy=_COPY_AGAIN) from error
    if not isinstance(description, dict) or type(description.get("format")) is not int or description["format"] < 1:
        raise InputError("is not the description of a jaxmatch model", path=path)
    if description["format"] > FORMAT:
        raise InputError(
            f"has format {description['format']}, and this version reads up to {FORMAT}", path=path,
            remedy=f"use jaxmatch {description.get('jaxmatch', 'in a newer version')}",
        )
    missing = sorted(set(_KEYS) - set(description))
    if missing:
        raise InputError(f"lacks {', '.join(missing)}", path=path, remedy=_COPY_AGAIN)
    for key, kind in _KEYS.items():
        if not isinstance(description[key], kind):
            raise InputError(f"{key!r} is not a {kind.__name__}", path=path, remedy=_COPY_AGAIN)
    if description["format"] > 1 and description["sha256"].get(_DESCRIPTION) != _digest_of_description(description):
        raise InputError("is damaged: its checksum is not the one in it", path=path, remedy=_COPY_AGAIN)
    _check_task(description["task"], description["labels"], path)
    _check_data(description["config"].get("data", {}), path)
    return description


def _digest_of_description(description: Mapping[str, Any]) -> str:
    """The checksum of model.json, which does not depend on how it is laid out."""
    digests = {name: digest for name, digest in description["sha256"].items() if name != _DESCRIPTION}
    return hashlib.sha256(json.dumps({**description, "sha256": digests}, sort_keys=True).encode()).hexdigest()


def _check_data(data: Any, path: Path) -> None:
    """Holds what is used of a run's config to its types; the rest is only shown."""
    kinds = {"name": str, "directory": str, "minimum_count": int}
    if not isinstance(data, dict) or any(not isinstance(data[key], kind) for key, kind in kinds.items() if key in data):
        raise InputError("'config' does not say what data the model was trained on", path=path, remedy=_COPY_AGAIN)


def _preprocessing(values: Mapping[str, Any]) -> Preprocessing:
    known = {field.name: field.type for field in dataclasses.fields(Preprocessing)}
    for name, value in values.items():
        if type(value) is not known.get(name):
            problem = f"preprocessing has {shown(name)}: {shown(value)}, which this version does not know"
            raise InputError(problem, remedy=_COPY_AGAIN)
    return Preprocessing(**values)


@contextlib.contextmanager
def _settings_of(path: Path) -> Iterator[None]:
    """Has what is wrong with settings name the file they stand in."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problem, path=path, remedy=error.remedy) from error


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what the system says of a file that cannot be read into one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path, remedy=_COPY_AGAIN) from error


@contextlib.contextmanager
def _array_file(path: Path) -> Iterator[None]:
    """Has what is wrong with the arrays of a file name it; opening anything but a plain file might never end."""
    try:
        with _reading(path):
            check_plain_file(path, _COPY_AGAIN)
            yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"is damaged: {error!s:.300}", path=path, remedy=_COPY_AGAIN) from error


def _bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a plain file of at most so many bytes."""
    with _reading(path):
        check_plain_file(path, _COPY_AGAIN, most)
        return path.read_bytes()


def _checked_bytes(path: Path, expected: Any, most: int | None = None) -> bytes:
    content = _bytes(path, most)
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError("is damaged: its checksum is not the one in model.json", path=path, remedy=_COPY_AGAIN)
    return content


def _shape_of_vectors(path: Path) -> tuple[int, int]:
    with _array_file(path), open(path, "rb") as file:
        shape = stored_arrays.npy_shape(file, os.fstat(file.fileno()).st_size)
        if len(shape) != 2:
            raise ValueError(f"its shape is {shape}, not (words, dimensions)")
    return shape


def _vocabulary(path: Path, digest: Any, table: tuple[int, int]) -> Vocabulary:
    """The words, as many as the table has rows."""
    words = decode_words(_checked_bytes(path, digest, most=_MOST_OF_A_WORD * (table[0] + 1024)), path)
    if len(words) != table[0]:
        problem = f"vectors {list(table)} do not fit {len(words)} words"
        raise InputError(problem, path=path.with_name(_VECTORS), remedy=_COPY_AGAIN)
    try:
        return Vocabulary(words)
    except ValueError as error:
        raise InputError(f"{error}", path=path, remedy=_COPY_AGAIN) from error


def _check_shapes(module: nn.Module, stored: Mapping[str, stored_arrays.Shape], table: tuple[int, int], path: Path) -> None:
    """Holds the stored arrays to those the module would make, without computing anything."""
    # A model of a thousand layers takes half a minute to trace.
    if (layers := module.config.least_layers) > len(stored):
        problem = f"holds {len(stored)} arrays, too few for the {layers} layers of the settings in {_DESCRIPTION}"
        raise InputError(problem, path=path)
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    with _settings_of(path.with_name(_DESCRIPTION)):
        wanted = jax.eval_shape(module.init, jax.random.key(0), side, side, jax.ShapeDtypeStruct(table, np.float32))["params"]
    wanted = {name: value.shape for name, value in traverse_util.flatten_dict(dict(wanted), sep="/").items()}
    for name in sorted(wanted.keys() | stored.keys()):
        if wanted.get(name) != stored.get(name):
            raise InputError(
                f"{name:.300} has shape {stored.get(name, 'none')}, and the model needs {wanted.get(name, 'none')}",
                path=path,
                remedy=f"the settings in {_DESCRIPTION} are of another model",
            )


def _check_finite(name: str, array: np.ndarray, path: Path) -> None:
    # NaN and infinity survive the smallest and the largest, which take no memory.
    if array.size and not (math.isfinite(array.min()) and math.isfinite(array.max())):
        raise InputError(f"{name} holds NaN or infinity", path=path, remedy="train the model again")


def encode_words(words: Sequence[str]) -> bytes:
    """The words as lines of UTF-8; what a line would not carry unchanged stands as JSON in its quotes."""
    return "".join(f"{_escaped(word)}\n" for word in words).encode()


def _escaped(word: str) -> str:
    # Line ends, blanks of other scripts and lone surrogates would not come back as they went in.
    return word if word and word.isprintable() and not word.startswith('"') else json.dumps(word)


def decode_words(content: bytes, path: Path) -> tuple[str, ...]:
    """What `encode_words` was given.

    Raises:
      InputError: a line is not a word.
    """
    *lines, rest = content.split(b"\n")
    if rest:
        raise InputError("ends within a line", path=path, line=len(lines) + 1)
    words = []
    for number, line in enumerate(lines, start=1):
        try:
            words.append(json.loads(line) if line.startswith(b'"') else line.decode())
        except ValueError as error:
            raise InputError(f"is not a word ({error})", path=path, line=number) from error
    return tuple(words)


def _link(source: Path, target: Path) -> None:
    source = source.resolve()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows no tuples, and a module's attributes must not be lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}

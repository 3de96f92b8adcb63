"""The folder a trained model lives in: plain arrays and JSON, no pickle, nothing that is executed.

    model.json       format number, task, labels, settings, preprocessing, the run's config, a checksum of each file below
    parameters.npz   <float32> arrays, named by their place in the parameter tree: "blocks_0/encoder/..."
    vocabulary.txt   one word a line, in the order of the ids; a word that would not survive that stands as JSON
    vectors.npy      <float32>[words, dimensions]

The characters of words follow from the vocabulary, exact matches from the texts; parts of speech need NLTK's tagger, whose model is
not in the folder (data/tagging.py).
"""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util

from jaxmatch import __version__, files, models
from jaxmatch.data.dataset import TASKS
from jaxmatch.errors import InputError

FORMAT = 1
_PARAMETERS, _VOCABULARY, _VECTORS = "parameters.npz", "vocabulary.txt", "vectors.npy"
_FILES = (_PARAMETERS, _VOCABULARY, _VECTORS)
_KEYS = {"format", "task", "labels", "model", "preprocessing", "config", "sha256", "jaxmatch"}
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)  # what reading a broken array raises


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """What a model folder holds, checked: arrays fit the module, words fit the vectors."""

    folder: Path
    module: nn.Module
    parameters: Mapping[str, Any]
    vectors: np.ndarray
    words: tuple[str, ...]
    labels: tuple[str, ...]
    task: str
    preprocessing: Mapping[str, Any]
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
        np.savez(folder / _PARAMETERS, **{name: np.asarray(value, np.float32) for name, value in flat.items()})
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
            "sha256": {name: _digest(folder / name) for name in _FILES},
        }
        files.write_json(folder / "model.json", description)


def find(path: str | os.PathLike) -> Path:
    """The model folder at `path`, which may be the folder itself or the run folder around it."""
    path = Path(path)
    for folder in (path, path / "model"):
        if (folder / "model.json").is_file():
            return folder
    if not path.exists():
        raise InputError("there is no such folder", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")
    runs = sorted(found.parent.parent for found in path.glob("runs/*/model/model.json"))
    if runs:
        raise InputError(f"holds {len(runs)} runs", path=path, remedy=f"name one of them, such as {runs[0]}")
    if (path / "record.json").is_file():
        raise InputError("the run left a record but no model", path=path, remedy="give a run that finished; if this one did, remove its folder and run the sweep again")
    raise InputError("holds no model (no model.json)", path=path, remedy="give a run's folder: WORKDIR/runs/RUN")


def read(path: str | os.PathLike) -> StoredModel:
    """Reads and checks a model folder (see `find` for what `path` may be).

    Raises:
      InputError: there is no model, or it is damaged, or it was written by a newer version.
    """
    folder = find(path)
    description = _description(folder)
    digests = description["sha256"]
    contents = {name: _checked_bytes(folder / name, digests.get(name)) for name in _FILES}
    vectors = _array(contents[_VECTORS], folder / _VECTORS)
    words = decode_words(contents[_VOCABULARY], folder / _VOCABULARY)
    if vectors.ndim != 2 or len(vectors) != len(words) or vectors.dtype != np.float32:
        raise InputError(
            f"vectors {vectors.dtype}{list(vectors.shape)} do not fit {len(words)} words", path=folder / _VECTORS
        )
    labels = tuple(description["labels"])
    module = models.build(_tuples(description["model"]), outputs=len(labels) or 1)
    parameters = _parameters(contents[_PARAMETERS], folder / _PARAMETERS)
    _check_shapes(module, parameters, vectors, folder / _PARAMETERS)
    return StoredModel(
        folder=folder,
        module=module,
        parameters=traverse_util.unflatten_dict(parameters, sep="/"),
        vectors=vectors,
        words=words,
        labels=labels,
        task=description["task"],
        preprocessing=description["preprocessing"],
        config=description["config"],
    )


def _check_task(task: str, labels: Sequence[str], folder: Path) -> None:
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}", path=folder, remedy=f"use one of {', '.join(TASKS)}")
    if (task == "regression") != (len(labels) == 0) or len(set(labels)) != len(labels):
        raise InputError(f"labels {list(labels)} do not fit the task {task}", path=folder)


def _description(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    try:
        description = files.read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path=path, remedy="copy the folder again") from error
    if not isinstance(description, dict) or not isinstance(description.get("format"), int):
        raise InputError("is not the description of a jaxmatch model", path=path)
    if description["format"] > FORMAT:
        raise InputError(
            f"has format {description['format']}, and this version reads up to {FORMAT}", path=path,
            remedy=f"use jaxmatch {description.get('jaxmatch', 'in a newer version')}",
        )
    missing = sorted(_KEYS - set(description))
    if missing:
        raise InputError(f"lacks {', '.join(missing)}", path=path, remedy="copy the folder again")
    for key, kind in {"labels": list, "model": dict, "preprocessing": dict, "config": dict, "sha256": dict}.items():
        if not isinstance(description[key], kind):
            raise InputError(f"{key!r} is not a {kind.__name__}", path=path, remedy="copy the folder again")
    _check_task(description["task"], description["labels"], path)
    return description


def _checked_bytes(path: Path, expected: str | None) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=path, remedy="copy the folder again") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(
            "is damaged: its checksum is not the one in model.json", path=path, remedy="copy the folder again"
        )
    return content


def _array(content: bytes, path: Path) -> np.ndarray:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except _DAMAGE as error:
        raise InputError(f"is not an array file ({error})", path=path) from error


def _parameters(content: bytes, path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise InputError(f"is not an archive of arrays ({error})", path=path) from error


def _check_shapes(module: nn.Module, parameters: Mapping[str, np.ndarray], vectors: np.ndarray, path: Path) -> None:
    """Holds the stored arrays to those the module would make, without computing anything."""
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    table = jax.ShapeDtypeStruct(vectors.shape, vectors.dtype)
    wanted = jax.eval_shape(module.init, jax.random.key(0), side, side, table)["params"]
    wanted = {name: value.shape for name, value in traverse_util.flatten_dict(dict(wanted), sep="/").items()}
    stored = {name: value.shape for name, value in parameters.items()}
    for name in sorted(wanted.keys() | stored.keys()):
        if wanted.get(name) != stored.get(name):
            raise InputError(
                f"{name} has shape {stored.get(name, 'none')}, and the model needs {wanted.get(name, 'none')}", path=path
            )


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
    words = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
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


def _tuples(value: Any) -> Any:
    """JSON knows no tuples, and a module's attributes must not be lists."""
    if isinstance(value, list):
        return tuple(_tuples(element) for element in value)
    if isinstance(value, dict):
        return {key: _tuples(element) for key, element in value.items()}
    return value

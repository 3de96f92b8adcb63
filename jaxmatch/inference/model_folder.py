"""The folder of a trained model: plain arrays and JSON, without pickles or code.

    model.json              format number, task, labels, settings, preprocessing, the run's config, checksums
    parameters.safetensors  <float32> arrays, named by their path in the parameter tree: "blocks_0/encoder/..."
    vocabulary.txt          one word per line, in the order of the ids
    vectors.npy             <float32>[words, dimensions]
    calibration.json        optional (calibration.py)

A file whose checksum is right holds what was written, and its content is trusted. The characters of words are computed
from the vocabulary, and exact matches from the texts. Parts of speech need NLTK's tagger, whose model is not in the
folder (data/text.py).
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import numpy as np
import safetensors.numpy
from flax import traverse_util

from jaxmatch import __version__, files, models
from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.errors import InputError, report_damage, shown
from jaxmatch.inference.calibration import Calibration

FILE, FORMAT = "model.json", 2
PARAMETERS, VOCABULARY, VECTORS = "parameters.safetensors", "vocabulary.txt", "vectors.npy"
COPY_AGAIN = "copy the folder again"


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
    """Writes a model folder, atomically; an existing one is replaced.

    Arguments:
      model_settings: the settings, as `jaxmatch.models.build` takes them.
      params: the parameter tree, arrays of float32.
      vocabulary_words: the words in the order of their ids, including the padding and the unknown word.
      vectors: <float32>[words, dimensions]; None if `vectors_file` is given.
      labels, task: as in a `Matcher`.
      preprocessing: the fields of `jaxmatch.data.text.Preprocessing`.
      config: the run's whole configuration, which can be written as JSON.
      vectors_file: an .npy file with the vectors. It is hard-linked, or copied if the file system has no links, so that
        the runs of a sweep share one file on disk.
    """
    with files.directory_atomically(directory) as folder:
        (folder / PARAMETERS).write_bytes(encode_parameters(params))
        (folder / VOCABULARY).write_bytes(encode_words(vocabulary_words))
        if vectors_file is None:
            np.save(folder / VECTORS, np.asarray(vectors, np.float32), allow_pickle=False)
        else:
            source = Path(vectors_file).resolve()
            try:
                os.link(source, folder / VECTORS)
            except OSError:
                shutil.copyfile(source, folder / VECTORS)
        description = {
            "format": FORMAT,
            "jaxmatch": __version__,
            "task": task,
            "labels": list(labels),
            "model": dict(model_settings),
            "preprocessing": dict(preprocessing),
            "config": config,
            "sha256": {name: files.hash_file(folder / name) for name in (PARAMETERS, VOCABULARY, VECTORS)},
        }
        description["sha256"][FILE] = checksum_of(description)
        files.write_json(folder / FILE, description)


def save_calibration(path: str | os.PathLike, calibration: Calibration) -> Path:
    """Writes a calibration into a model's folder or run folder, atomically, and returns the path of its file."""
    folder = find(path)
    return calibration.save(folder, read_description(folder)["sha256"][PARAMETERS])


def find(path: str | os.PathLike) -> Path:
    """Returns the model folder at `path`, which may be the run folder around it; an InputError if there is none."""
    path = Path(path)
    for folder in (path, path / "model"):
        if os.path.isfile(folder / FILE):
            return folder
    remedy = "give the folder of a finished run: WORKDIR/runs/RUN"
    if not os.path.exists(path):
        raise InputError("there is no such folder", path=path, remedy=remedy)
    raise InputError(f"holds no model (no {FILE})", path=path, remedy=remedy)


def checksum_of(description: Mapping[str, Any]) -> str:
    """Computes the checksum of the content of model.json."""
    digests = {name: digest for name, digest in description["sha256"].items() if name != FILE}
    return hashlib.sha256(json.dumps({**description, "sha256": digests}, sort_keys=True).encode()).hexdigest()


def read_description(folder: Path) -> dict[str, Any]:
    """Reads model.json of a model folder; an InputError if it is damaged or was written by a newer version."""
    path = folder / FILE
    with report_damage(path, COPY_AGAIN):
        description = files.read_json(path)
        if description["format"] != FORMAT:
            problem = f"has format {description['format']}, and this version reads {FORMAT}"
            raise InputError(problem, path=path, remedy=f"use jaxmatch {description['jaxmatch']}")
        if description["sha256"][FILE] != checksum_of(description):
            raise ValueError("its checksum is not the one in it")
    return description


def read(path: str | os.PathLike) -> tuple[nn.Module, dict, np.ndarray, dict[str, Any]]:
    """Reads the model folder at `path` or in it: the module, its parameters, the vectors, and what a `Matcher` takes.

    Raises:
      InputError: there is no model, it is damaged, or it was written by a newer version.
    """
    folder = find(path)
    description = read_description(folder)
    checksums, labels = description["sha256"], tuple(description["labels"])
    # JSON has no tuples, and the attributes of a module must not be lists.
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in description["model"].items()}
    try:
        module = models.build(settings, outputs=len(labels) or 1)
        preprocessing = Preprocessing(**description["preprocessing"])
    except InputError as error:
        raise InputError(error.problem, path=folder / FILE, remedy=error.remedy) from error
    except TypeError as error:
        raise InputError(f"was written by another version of jaxmatch ({error})", path=folder / FILE) from error
    parameters = safetensors.numpy.load(read_checked(folder, PARAMETERS, checksums))
    with report_damage(folder / VECTORS, COPY_AGAIN):
        vectors = np.load(io.BytesIO(read_checked(folder, VECTORS, checksums)), allow_pickle=False)
    run = folder.parent if folder.name == "model" else folder
    about = {
        "vocabulary": Vocabulary(decode_words(read_checked(folder, VOCABULARY, checksums))),
        "labels": labels,
        "task": description["task"],
        "preprocessing": preprocessing,
        "config": description["config"],
        "calibration": Calibration.read(folder, checksums[PARAMETERS], labels),
        "run": run,
        "dev_score": _dev_score(run),
    }
    return module, traverse_util.unflatten_dict(parameters, sep="/"), vectors, about


def _dev_score(run: Path) -> str:
    """Returns the dev score that chose a run's checkpoint, in words; "" without a record."""
    try:
        record = files.read_json(run / "record.json")
        name = record["selected_on"].removeprefix("dev.")
        return f"dev {name} {record['dev'][name]:.4f}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read_checked(folder: Path, name: str, checksums: Mapping[str, str], remedy: str = COPY_AGAIN) -> bytes:
    """Reads a file of a folder; an InputError if it cannot be read, or has another SHA-256 checksum."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=folder / name, remedy=remedy) from error
    if hashlib.sha256(content).hexdigest() != checksums.get(name):
        raise InputError("is damaged: its checksum differs", path=folder / name, remedy=remedy)
    return content


def check_replaceable(folder: Path, description: str, kind: str) -> None:
    """Checks that a folder holds only the files that its description lists, since replacing it removes all files.

    The folder may be missing or empty. `description` is the name of the JSON file in it that lists all other files
    under "sha256", and `kind` the content that the folder is to have, such as "an index".
    """
    try:
        known = {description, *files.read_json(folder / description)["sha256"].keys()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = set()
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    if other := sorted({path.relative_to(folder).as_posix() for path in found} - known):
        problem = f"there is something else than {kind}: {shown(other[0])}"
        raise InputError(problem, path=folder, remedy="name a new folder")


def encode_parameters(params: Mapping[str, Any]) -> bytes:
    """Encodes a parameter tree as safetensors of float32 arrays, named by their path in the tree."""
    flat = traverse_util.flatten_dict(dict(params), sep="/")
    return safetensors.numpy.save({name: np.asarray(value, np.float32, order="C") for name, value in flat.items()})


def encode_words(words: Sequence[str]) -> bytes:
    """Encodes words in UTF-8, one per line. A word that a line cannot store unchanged is written as JSON, in quotes."""

    def escaped(word: str) -> str:
        # Line ends, blanks of other scripts and lone surrogates would not be read as they were written.
        return word if word and word.isprintable() and not word.startswith('"') else json.dumps(word)

    return "".join(f"{escaped(word)}\n" for word in words).encode()


def decode_words(content: bytes) -> tuple[str, ...]:
    """Decodes the words that `encode_words` encoded."""
    lines = content.split(b"\n")[:-1]
    return tuple(json.loads(line) if line.startswith(b'"') else line.decode() for line in lines)

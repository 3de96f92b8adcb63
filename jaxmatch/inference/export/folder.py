"""The folder of an exported model: its program or its weights, and everything that converts texts to its inputs.

export.json                        task, labels, calibration, names of the inputs, vectors of new words, the model's
                                   settings, checksums
tokenizer.json                     how texts become tokens (`substitutions` of data/text.py)
vocabulary.json                    the words in the order of their ids
vectors.npy                        <float32>[words, dimensions]
program.stablehlo, program.onnx    (vectors, ids, sentences) -> logits <float32>[batch, outputs]; or instead
parameters.safetensors             <float32> arrays, named by their path in the parameter tree
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
import safetensors.numpy
from flax import traverse_util

from jaxmatch import __version__, files
from jaxmatch.data.text import UNKNOWN_WORD, substitutions
from jaxmatch.data.vectors import hashed_rule
from jaxmatch.errors import InputError
from jaxmatch.files import hash_file
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.checked_files import check_replaceable
from jaxmatch.inference.export import formats

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

DESCRIPTION, FORMAT = "export.json", 1
# Format -> the name of the program's file and the function that makes its content. "safetensors" has no program.
_PROGRAMS: dict[str, tuple[str, Callable[[formats.Function, tuple[int, int]], bytes]]] = {
    "stablehlo": ("program.stablehlo", formats.stablehlo),
    "onnx": ("program.onnx", formats.onnx),
}
FORMATS = (*_PROGRAMS, "safetensors")


def export(matcher: Matcher, directory: str | os.PathLike, format: str) -> None:
    """Writes a folder with a model for other programs, atomically.

    Arguments:
      matcher: the model.
      directory: the folder to create; an earlier export is replaced.
      format: "stablehlo", "onnx" or "safetensors".

    Raises:
      InputError: the model cannot be exported to this format, the format is unknown, a library is missing, or the
        folder holds something other than an export.
    """
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}", remedy=f"use one of {', '.join(FORMATS)}")
    path = Path(directory)
    check_replaceable(path, DESCRIPTION, "an export")
    name, content = _content(matcher, format)
    with files.directory_atomically(path) as folder:
        (folder / name).write_bytes(content)
        _write_lines(folder / "vocabulary.json", matcher.vocabulary.words)
        np.save(folder / "vectors.npy", np.asarray(matcher.model.vectors, np.float32), allow_pickle=False)
        preprocessing = vars(matcher.preprocessing)
        rules = {
            **preprocessing,
            "substitutions": substitutions(matcher.preprocessing.tokenizer),
            "unknown_word": UNKNOWN_WORD,
        }
        files.write_json(folder / "tokenizer.json", rules)
        calibration, settings = matcher.calibration or Calibration(), matcher.model.module.config
        described = {
            "format": FORMAT,
            "jaxmatch": __version__,
            "jax": jax.__version__,
            "file": name,
            "task": matcher.task,
            "labels": matcher.labels,
            "temperature": calibration.temperature,
            "threshold": calibration.threshold,
            "positive": calibration.positive,
            "new_words": hashed_rule() if matcher.hashed else None,
            "model": {"name": settings.name, **dataclasses.asdict(settings)},
            "sha256": {file.name: hash_file(file) for file in sorted(folder.iterdir())},
        }
        if format != "safetensors":
            described["inputs"] = formats.INPUTS
        files.write_json(folder / DESCRIPTION, described)


def _content(matcher: Matcher, format: str) -> tuple[str, bytes]:
    """Returns the name and the content of the file with the program or the weights."""
    if format not in _PROGRAMS:
        flat = traverse_util.flatten_dict(jax.tree.map(np.asarray, dict(matcher.model.params)), sep="/")
        arrays = {name: np.asarray(value, np.float32, order="C") for name, value in flat.items()}
        return "parameters.safetensors", safetensors.numpy.save(arrays)
    weights_alone = "--format safetensors writes its weights"
    model = matcher.model
    taken = ("characters",) * model.module.takes_characters + model.module.token_features
    if taken:
        raise InputError(f"the model takes {' and '.join(taken)} of each word, not words alone", remedy=weights_alone)
    if substitutions(matcher.preprocessing.tokenizer) is None:
        raise InputError(
            f"the tokenizer {matcher.preprocessing.tokenizer!r} cannot be written as plain rules", remedy=weights_alone
        )
    name, make = _PROGRAMS[format]
    return name, make(formats.function_of(model), model.vectors.shape)


def _write_lines(path: Path, words: tuple[str, ...]) -> None:
    """Writes words as a JSON list, one word per line, in ASCII: a word may contain half of a surrogate pair."""
    path.write_text("[\n" + ",\n".join(map(json.dumps, words)) + "\n]\n", encoding="ascii")

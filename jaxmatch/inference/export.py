"""Trained models as files for programs without this package: StableHLO, ONNX, safetensors.

An exported folder has the program or the weights, and everything that converts texts to its inputs:

    export.json                        task, labels, calibration, names of the inputs, vectors of new words, the model's
                                       settings, checksums
    tokenizer.json                     how texts become tokens (data/text.py)
    vocabulary.json                    the words in the order of their ids
    vectors.npy                        <float32>[words, dimensions]
    program.stablehlo, program.onnx    (vectors, ids, sentences) -> logits <float32>[batch, outputs]; or instead
    parameters.safetensors             <float32> arrays, named by their path in the parameter tree

A program takes `INPUTS` in this order: vectors <float32>[words, dimensions], ids <int32>[batch, length] and sentences
<int8>[batch, length]. The sizes words, batch and length are free. The weights are constants of the program, with weight
normalization folded into them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from flax import traverse_util

from jaxmatch import __version__, files
from jaxmatch.data.text import UNKNOWN_WORD, substitutions
from jaxmatch.data.vectors import hashed_rule
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.files import hash_file
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.files import check_replaceable
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.layers.core import traced_for

INPUTS = ("vectors", "ids", "sentences")
OUTPUT = "logits"
if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

# The platforms that a program in StableHLO can run on.
PLATFORMS = ("cpu", "cuda", "tpu")
# The sizes that a new program is tested with: (pairs, tokens in a row, words beyond those of the vocabulary).
_TRIED = ((1, 5, 0), (3, 12, 2))
_TOLERANCE = 1e-4

Function = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def function_of(model: InferenceModel) -> Function:
    """Returns the model as a function (vectors, ids, sentences) -> logits."""
    module, params = model.folded

    def match(vectors: jax.Array, ids: jax.Array, sentences: jax.Array) -> jax.Array:
        return module.apply({"params": params}, {"ids": ids}, sentences, vectors, method="match")

    return match


def stablehlo(function: Function, vectors_shape: tuple[int, int]) -> bytes:
    """Exports a function to StableHLO, serialized by `jax.export`.

    Arguments:
      function: the model, as `function_of` returns it.
      vectors_shape: the shape of the word vectors.

    Raises:
      InputError: a library is missing, JAX cannot export the function with free numbers of words, pairs and tokens, or
        the program gives other outputs than the function.
    """
    if importlib.util.find_spec("flatbuffers") is None:  # `jax.export` serializes with it
        raise NotInstalled("StableHLO", "flatbuffers", "stablehlo")
    with _refusing("StableHLO", "the weights alone: --format safetensors"):
        exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*_arguments(vectors_shape))
        content = bytes(exported.serialize())
        again = jax.export.deserialize(bytearray(content))
    check("StableHLO", function, lambda *arguments: again.call(*arguments), vectors_shape)
    return content


def onnx(function: Function, vectors_shape: tuple[int, int]) -> bytes:
    """Exports a function to ONNX with jax2onnx, and tests the program in ONNX Runtime.

    Arguments:
      function, vectors_shape: as in `stablehlo`.

    Raises:
      InputError: a library is missing, jax2onnx cannot convert the function, or the program gives other outputs than
        the function.
    """
    try:
        with quiet():
            import jax2onnx
            import onnxruntime
    except ImportError as error:
        then = "then: pip install --no-deps 'jax2onnx>=0.17.1,<0.18'"
        raise NotInstalled("ONNX", error.name, "onnx", then) from None
    with _refusing("ONNX", "--format stablehlo may"), quiet(), _unchanged(jnp), traced_for("cpu"):
        # An ONNX program cannot choose by platform, so an LSTM is exported in its form for a CPU.
        written = jax2onnx.to_onnx(function, inputs=list(_arguments(vectors_shape)), model_name="jaxmatch")
        _rename(written.graph)
        content = written.SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # without warnings of unused constants, which do no harm
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    check("ONNX", function, lambda *arguments: session.run([OUTPUT], dict(zip(INPUTS, arguments)))[0], vectors_shape)
    return content


def _arguments(vectors_shape: tuple[int, int]) -> tuple[jax.ShapeDtypeStruct, ...]:
    *rows, words = jax.export.symbolic_shape("batch, length, words")
    return (
        jax.ShapeDtypeStruct((words, vectors_shape[1]), np.float32),
        jax.ShapeDtypeStruct(rows, np.int32),
        jax.ShapeDtypeStruct(rows, np.int8),
    )


def check(kind: str, function: Function, program: Callable[..., Any], vectors_shape: tuple[int, int]) -> None:
    """Checks that a program gives the outputs of the function it was made from, on random word vectors and ids.

    Raises:
      InputError: the program fails, or its outputs differ.
    """
    generator, jitted = np.random.default_rng(0), jax.jit(function)
    for batch, length, more in _TRIED:
        words = vectors_shape[0] + more
        vectors = generator.normal(size=(words, vectors_shape[1])).astype(np.float32)
        ids = generator.integers(min(2, words - 1), words, (batch, length)).astype(np.int32)
        sentences = np.where(np.arange(length) < length // 2, 1, 2).astype(np.int8) * np.ones((batch, 1), np.int8)
        ids[-1, -1] = sentences[-1, -1] = 0
        expected = np.asarray(jitted(vectors, ids, sentences))
        with _refusing(kind, "the weights alone: --format safetensors"):
            found = np.asarray(program(vectors, ids, sentences))
        if not np.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise InputError(f"the {kind} program gives other outputs than the model, so it was not written")


def _rename(graph: Any) -> None:
    """Renames the inputs and the output of an ONNX graph to `INPUTS` and `OUTPUT`."""
    names = dict(zip([value.name for value in (*graph.input, *graph.output)], (*INPUTS, OUTPUT), strict=True))
    for value in (*graph.input, *graph.output):
        value.name = names[value.name]
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


@contextlib.contextmanager
def _refusing(kind: str, remedy: str) -> Iterator[None]:
    """Turns any exception of a converter into an InputError of one line.

    Converters report an unsupported operation by exceptions of many classes.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"the model cannot be exported to {kind} ({reason:.200})", remedy=remedy) from error


@contextlib.contextmanager
def _unchanged(module: ModuleType) -> Iterator[None]:
    """Restores the attributes of a module: jax2onnx 0.17 leaves a function of its own in `jax.numpy`."""
    before = dict(vars(module))
    try:
        yield
    finally:
        for name, value in before.items():
            if vars(module).get(name) is not value:
                setattr(module, name, value)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses warnings and log messages of converters about parts that are not installed or not needed."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


DESCRIPTION, FORMAT = "export.json", 1
# Format -> the name of the program's file and the function that makes its content. "safetensors" has no program.
_PROGRAMS: dict[str, tuple[str, Callable[[Function, tuple[int, int]], bytes]]] = {
    "stablehlo": ("program.stablehlo", stablehlo),
    "onnx": ("program.onnx", onnx),
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
            described["inputs"] = INPUTS
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
    return name, make(function_of(model), model.vectors.shape)


def _write_lines(path: Path, words: tuple[str, ...]) -> None:
    """Writes words as a JSON list, one word per line, in ASCII: a word may contain half of a surrogate pair."""
    path.write_text("[\n" + ",\n".join(map(json.dumps, words)) + "\n]\n", encoding="ascii")

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
<int8>[batch, length]. The sizes words, batch and length are free. The weights are constants of the program.
"""

import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import __version__, files
from jaxmatch.data.text import UNKNOWN_WORD, substitutions
from jaxmatch.data.vectors import hashed_rule
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.matcher import InferenceModel, Matcher
from jaxmatch.inference.model_folder import check_replaceable, encode_parameters
from jaxmatch.layers.core import traced_for

DESCRIPTION, FORMAT = "export.json", 1
INPUTS, OUTPUT = ("vectors", "ids", "sentences"), "logits"
# The platforms that a program in StableHLO can run on.
PLATFORMS = ("cpu", "cuda", "tpu")
# The sizes that a new program is tested with: (pairs, tokens in a row, words beyond those of the vocabulary).
_TRIED = ((1, 5, 0), (3, 12, 2))
_WEIGHTS = "--format safetensors writes its weights"

Function = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def function_of(model: InferenceModel) -> Function:
    """Returns the model as a function (vectors, ids, sentences) -> logits."""
    module, params = model.folded

    def match(vectors: jax.Array, ids: jax.Array, sentences: jax.Array) -> jax.Array:
        return module.apply({"params": params}, {"ids": ids}, sentences, vectors, method="match")

    return match


def stablehlo(function: Function, vectors_shape: tuple[int, int]) -> bytes:
    """Exports a function with free numbers of words, pairs and tokens to StableHLO, serialized by `jax.export`.

    Raises:
      InputError: a library is missing, JAX cannot export the function, or the program gives other outputs.
    """
    if importlib.util.find_spec("flatbuffers") is None:  # `jax.export` serializes with it
        raise NotInstalled("StableHLO", "flatbuffers", "stablehlo")
    with _refusing("StableHLO", "the weights alone: --format safetensors"):
        exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*_arguments(vectors_shape))
        content = bytes(exported.serialize())
        again = jax.export.deserialize(bytearray(content))
    check("StableHLO", function, again.call, vectors_shape)
    return content


def onnx(function: Function, vectors_shape: tuple[int, int]) -> bytes:
    """Exports a function to ONNX with jax2onnx, and tests the program in ONNX Runtime.

    Raises:
      InputError: a library is missing, jax2onnx cannot convert the function, or the program gives other outputs.
    """
    try:
        with quiet():
            import jax2onnx
            import onnxruntime
    except ImportError as error:
        then = "then: pip install --no-deps 'jax2onnx>=0.17.1,<0.18'"
        raise NotInstalled("ONNX", error.name, "onnx", then) from None
    with _refusing("ONNX", "--format stablehlo may"), quiet(), traced_for("cpu"):
        # An ONNX program cannot choose by platform, so an LSTM is exported in its form for a CPU.
        written = jax2onnx.to_onnx(function, inputs=list(_arguments(vectors_shape)), model_name="jaxmatch")
        graph = written.graph
        values = [*graph.input, *graph.output]
        names = dict(zip([value.name for value in values], (*INPUTS, OUTPUT), strict=True))
        for value in values:
            value.name = names[value.name]
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        content = written.SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # without warnings of unused constants, which do no harm
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    check("ONNX", function, lambda *arguments: session.run([OUTPUT], dict(zip(INPUTS, arguments)))[0], vectors_shape)
    return content


def _arguments(vectors_shape: tuple[int, int]) -> tuple[jax.ShapeDtypeStruct, ...]:
    *rows, words = jax.export.symbolic_shape("batch, length, words")
    shapes = (words, vectors_shape[1]), rows, rows
    return tuple(map(jax.ShapeDtypeStruct, shapes, (np.float32, np.int32, np.int8)))


def check(kind: str, function: Function, program: Callable[..., Any], vectors_shape: tuple[int, int]) -> None:
    """Raises an InputError unless a program gives the outputs of its function, on random word vectors and ids."""
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
        if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
            raise InputError(f"the {kind} program gives other outputs than the model, so it was not written")


@contextlib.contextmanager
def _refusing(kind: str, remedy: str) -> Iterator[None]:
    """Turns any exception of a converter, which may be of any class, into an InputError of one line."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = f"the model cannot be exported to {kind} ({type(error).__name__}: {error!s:.200})"
        raise InputError(reason, remedy=remedy) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses warnings and log messages of converters, and restores `jax.numpy`, which jax2onnx 0.17 changes."""
    before, attributes = logging.root.manager.disable, dict(vars(jnp))
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
        vars(jnp).update(attributes)


# Format -> the function that makes the program. "safetensors" has none.
_PROGRAMS = {"stablehlo": stablehlo, "onnx": onnx}
FORMATS = (*_PROGRAMS, "safetensors")


def export(matcher: Matcher, directory: str | os.PathLike, format: str) -> None:
    """Writes a folder with a model for other programs, atomically. An earlier export is replaced.

    Arguments:
      matcher, directory: the model and the folder.
      format: "stablehlo", "onnx" or "safetensors".

    Raises:
      InputError: the model cannot be exported to this format, the format is unknown, a library is missing, or the
        folder holds something other than an export.
    """
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}", remedy=f"use one of {', '.join(FORMATS)}")
    path, vectors = Path(directory), np.asarray(matcher.model.vectors, np.float32)
    check_replaceable(path, DESCRIPTION, "an export")
    rules, module = substitutions(matcher.preprocessing.tokenizer), matcher.model.module
    if format == "safetensors":
        name, content = "parameters.safetensors", encode_parameters(matcher.model.params)
    elif taken := ("characters",) * module.takes_characters + module.token_features:
        raise InputError(f"the model takes {' and '.join(taken)} of each word, not words alone", remedy=_WEIGHTS)
    elif rules is None:
        tokenizer = matcher.preprocessing.tokenizer
        raise InputError(f"the tokenizer {tokenizer!r} cannot be written as plain rules", remedy=_WEIGHTS)
    else:
        name, content = f"program.{format}", _PROGRAMS[format](function_of(matcher.model), vectors.shape)
    with files.directory_atomically(path) as folder:
        (folder / name).write_bytes(content)
        # One word per line, in ASCII: a word may contain half of a surrogate pair.
        words = ",\n".join(map(json.dumps, matcher.vocabulary.words))
        (folder / "vocabulary.json").write_text(f"[\n{words}\n]\n", encoding="ascii")
        np.save(folder / "vectors.npy", vectors, allow_pickle=False)
        tokenizer = {**vars(matcher.preprocessing), "substitutions": rules, "unknown_word": UNKNOWN_WORD}
        files.write_json(folder / "tokenizer.json", tokenizer)
        calibration = matcher.calibration or Calibration()
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
            "model": {"name": module.config.name, **dataclasses.asdict(module.config)},
            "sha256": {file.name: files.hash_file(file) for file in sorted(folder.iterdir())},
            **({} if format == "safetensors" else {"inputs": INPUTS}),
        }
        files.write_json(folder / DESCRIPTION, described)

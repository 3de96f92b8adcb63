"""An exported model predicts like `predict` in a process that cannot import this package."""

import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import saved_model
from flax import traverse_util
from saved_model import TEXTS

import jaxmatch
from jaxmatch import models
from jaxmatch.cli.main import main
from jaxmatch.cli.models import EXPORT_FORMATS
from jaxmatch.config.models import MODELS
from jaxmatch.data.vectors import hashed_rule, hashed_vectors
from jaxmatch.inference import export as export_module
from jaxmatch.inference import model_folder
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.export import FORMATS, export
from jaxmatch.inference.matcher import InferenceModel

PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "export.md"
SCRIPT, HASHED_WORDS = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
ALONE = "import runpy, sys; sys.modules['jaxmatch'] = None; runpy.run_path('run_export.py', run_name='__main__')"
PAIRS = [
    *((a, b) for a, b in TEXTS if "\u2028" not in a + b),
    ("(a) B, c... d!", "e"),
    ("?", "no, no"),
    ("a" * 9, "<padding>"),
]
EXPORTED = sorted(MODELS.keys() - {"diin"})
# The shapes of the inputs of each program: (pairs, tokens).
SHAPES = ((1, 2), (5, 17))


def needs_jax2onnx():
    with export_module.quiet():
        pytest.importorskip("jax2onnx", reason="pip install --no-deps 'jax2onnx>=0.17.1,<0.18'")


def run_script(folder, exported, pairs):
    """Runs the script of the page in a process without this package and without UTF-8, and returns what it prints."""
    (folder / "run_export.py").write_text(SCRIPT)
    (folder / "hashed_words.py").write_text(HASHED_WORDS)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(exported)],
        input="".join(f"{a}\t{b}\n" for a, b in pairs),
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["stablehlo", "onnx"])
def test_an_export_runs_without_this_package(tmp_path, format):
    if format == "onnx":
        needs_jax2onnx()
    run = saved_model.save(tmp_path / "run", preprocessing=saved_model.PREPROCESSING | {"tokenizer": "word"})
    model_folder.save_calibration(run, Calibration(temperature=1.7))
    exported = tmp_path / "exported"
    assert main(["export", str(run), "--format", format, "--output", str(exported)]) == 0
    expected = jaxmatch.load(run).predict(PAIRS)
    for pairs in (PAIRS, PAIRS[:1]):
        found = run_script(tmp_path, exported, pairs)
        assert len(found) == len(pairs)
        for probabilities, prediction in zip(found, expected[: len(pairs)], strict=True):
            assert probabilities == pytest.approx(prediction.probabilities, abs=1e-5)
    about = json.loads((exported / "export.json").read_text())
    assert about["labels"] == list(saved_model.LABELS) and about["temperature"] == 1.7


@pytest.mark.slow
def test_exported_model_computes_hashed_vectors_of_new_words(tmp_path):
    table = np.concatenate([np.zeros((2, 300), np.float32), hashed_vectors(saved_model.WORDS[2:])])
    hashed = {"data": {"name": "own", "vectors": "hashed"}, "model": saved_model.SETTINGS}
    parameters = saved_model.parameters(3, dimensions=300)
    run = saved_model.save(tmp_path / "run", vectors=table, params=parameters, config=hashed)
    export(jaxmatch.load(run), tmp_path / "exported", "stablehlo")
    pairs = [("a zebra", "b"), ("a quagga", "zebra"), ("<padding> Zoë", "b"), ("?", "<unknown>"), *PAIRS]
    answers = run_script(tmp_path, tmp_path / "exported", pairs)
    for answer, prediction in zip(answers, jaxmatch.load(run).predict(pairs), strict=True):
        assert answer == pytest.approx(prediction.probabilities, abs=1e-5)
    rule = json.loads((tmp_path / "exported" / "export.json").read_text())["new_words"]
    assert rule == hashed_rule()


def test_documented_hashing_rule_gives_the_vectors_of_training():
    names = {}
    exec(HASHED_WORDS, names)
    words = ["a", "zebra", "Zoë", "\udc80x", "international", "<padding>", "\U0001f600"]
    np.testing.assert_array_equal(names["vectors_of"](words, hashed_rule()), hashed_vectors(words))


@functools.cache
def small(name):
    """Returns a small model of this name, with random parameters and word vectors."""
    sizes = {"hidden_size": 8, "head_size": 8, "blocks": 2, "encoder_layers": 1, "stacked_layers": 2}
    known = {field.name for field in dataclasses.fields(MODELS[name])}
    settings = {"name": name} | {key: value for key, value in sizes.items() if key in known}
    vectors = np.random.default_rng(0).normal(size=(30, 12)).astype(np.float32)
    module, side = models.build(settings, outputs=3), {"ids": np.ones((1, 2), np.int32)}
    generator = np.random.default_rng(1)
    parameters = jax.tree_util.tree_map_with_path(
        lambda path, leaf: np.asarray(generator.normal(path[-1].key == "gain", 0.3, leaf.shape), np.float32),
        jax.eval_shape(module.init, jax.random.key(0), side, side, vectors)["params"],
    )
    return InferenceModel(module, parameters, vectors, optimize_for_cpu=False)


def rows(batch, length):
    generator = np.random.default_rng(length)
    ids = generator.integers(1, 30, (batch, length)).astype(np.int32)
    sentences = np.where(np.arange(length) < length // 2, 1, 2).astype(np.int8) * np.ones((batch, 1), np.int8)
    if length > 2:
        ids[-1, -1] = sentences[-1, -1] = 0
    return ids, sentences


@functools.cache
def expected(name, shape):
    """Returns the model's logits <float32>[batch, 3] for the rows of this shape."""
    ids, _ = rows(*shape)
    split = shape[1] // 2
    return small(name).logits(ids[:, :split], ids[:, split:])


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr(export_module, "check", lambda *_: None)  # the comparisons of the tests are stricter


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_stablehlo_export_of_every_model_but_diin_takes_any_batch_and_length(name, unchecked):
    model = small(name)
    content = export_module.stablehlo(export_module.function_of(model), model.vectors.shape)
    program = jax.export.deserialize(bytearray(content))
    assert program.platforms == export_module.PLATFORMS
    more = np.concatenate([model.vectors, np.ones((3, 12), np.float32)])
    for shape, words in zip(SHAPES, (model.vectors, more)):
        np.testing.assert_allclose(program.call(words, *rows(*shape)), expected(name, shape), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_onnx_export_of_every_model_but_diin_gives_the_same_logits(name, unchecked):
    needs_jax2onnx()
    if name != "re2" and jax.__version_info__ >= (0, 12):
        pytest.skip("of the models, jax2onnx 0.17 converts only RE2 with JAX 0.12")
    import onnxruntime

    model, before = small(name), dict(vars(jnp))
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(export_module.onnx(export_module.function_of(model), model.vectors.shape))
    assert [value.name for value in session.get_inputs()] == list(export_module.INPUTS)
    assert {key: value for key, value in vars(jnp).items() if key in before} == before  # the converter patches JAX
    for shape in SHAPES:
        (found,) = session.run(["logits"], dict(zip(export_module.INPUTS, (np.asarray(model.vectors), *rows(*shape)))))
        np.testing.assert_allclose(found, expected(name, shape), atol=1e-5)


def test_safetensors_export_holds_the_weights_of_the_model(run, tmp_path):
    export(jaxmatch.load(run), tmp_path / "exported", "safetensors")
    found = safetensors.numpy.load_file(tmp_path / "exported" / "parameters.safetensors")
    expected = traverse_util.flatten_dict(saved_model.parameters(3), sep="/")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    np.testing.assert_array_equal(np.load(tmp_path / "exported" / "vectors.npy"), saved_model.vectors())
    assert tuple(json.loads((tmp_path / "exported" / "vocabulary.json").read_text())) == saved_model.WORDS
    about = json.loads((tmp_path / "exported" / "export.json").read_text())
    assert about["model"].items() >= saved_model.SETTINGS.items() and about["task"] == "classification"
    assert about["new_words"] is None


def test_export_states_the_calibration(binary, tmp_path):
    matcher = jaxmatch.load(binary)
    matcher.calibration = Calibration(temperature=1.7, threshold=0.3, positive="0")
    export(matcher, tmp_path / "exported", "safetensors")
    about = json.loads((tmp_path / "exported" / "export.json").read_text())
    assert (about["temperature"], about["threshold"], about["positive"]) == (1.7, 0.3, "0")
    assert set(FORMATS) == set(EXPORT_FORMATS)


@pytest.mark.parametrize(
    ("changed", "tokenizer", "problem"),
    [
        ({"characters": "cnn"}, "word", "the model takes characters of each word, not words alone; --format safete"),
        ({}, "tweet", "the tokenizer 'tweet' cannot be written as plain rules; --format safetensors"),
    ],
)
def test_unsupported_model_is_one_line_and_nothing_is_written(tmp_path, capsys, changed, tokenizer, problem):
    settings, preprocessing = saved_model.SETTINGS | changed, saved_model.PREPROCESSING | {"tokenizer": tokenizer}
    parameters = saved_model.parameters(3, settings=settings)
    options = {"model_settings": settings, "params": parameters, "preprocessing": preprocessing}
    run = saved_model.save(tmp_path / "run", **options)
    assert main(["export", str(run), "--format", "stablehlo", "--output", str(tmp_path / "exported")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"jaxmatch: {problem}") and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert main(["export", str(run), "--format", "safetensors", "--output", str(tmp_path / "exported")]) == 0


@pytest.mark.slow
def test_a_failed_conversion_is_reported_in_one_line():
    diin = small("diin")
    with pytest.raises(jaxmatch.InputError, match=r"cannot be exported to StableHLO \(TypeError: .*safetensors$"):
        export_module.stablehlo(export_module.function_of(diin), diin.vectors.shape)
    needs_jax2onnx()
    with pytest.raises(jaxmatch.InputError, match=r"cannot be exported to ONNX \(.*; --format stablehlo may$"):
        export_module.onnx(export_module.function_of(diin), diin.vectors.shape)


def test_exported_program_with_different_outputs_is_refused():
    """For example, a random number or the state of a library may have become a constant of the program."""
    calls = []

    def function(vectors, ids, sentences):
        calls.append(1)
        return vectors[ids].sum(axis=1) + len(calls)

    with pytest.raises(jaxmatch.InputError, match="gives other outputs than the model, so it was not written"):
        export_module.stablehlo(function, (30, 12))


def test_missing_jax2onnx_is_reported_and_nothing_is_written(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    assert main(["export", str(run), "--format", "onnx", "--output", str(tmp_path / "exported")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("jaxmatch: ONNX needs jax2onnx, which is not installed; pip install 'jaxmatch[onnx]'")
    assert not (tmp_path / "exported").exists()


def test_export_does_not_replace_a_folder_with_other_files(run, tmp_path, capsys):
    (tmp_path / "letters").write_text("dear")
    for format in FORMATS:
        assert main(["export", str(run), "--format", format, "--output", str(tmp_path)]) == 2
        assert "there is something else than an export: 'letters'; name a new folder" in capsys.readouterr().err
    assert (tmp_path / "letters").read_text() == "dear"
    for _ in range(2):
        assert main(["export", str(run), "--format", "safetensors", "--output", str(tmp_path / "exported")]) == 0
    (tmp_path / "exported" / "mine.txt").write_text("mine")
    assert main(["export", str(run), "--format", "safetensors", "--output", str(tmp_path / "exported")]) == 2
    assert "there is something else than an export: 'mine.txt'; name a new folder" in capsys.readouterr().err
    assert (tmp_path / "exported" / "mine.txt").read_text() == "mine"
    with pytest.raises(jaxmatch.InputError, match="no format 'pickle'; use one of stablehlo, onnx, safetensors"):
        export(jaxmatch.load(run), tmp_path / "exported", "pickle")

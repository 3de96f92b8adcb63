"""A model is saved as a whole or not at all and read back unchanged; damaged files are refused and execute no code."""

import json
import os

import jax
import numpy as np
import pytest
import safetensors.numpy
import saved_model
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxmatch
from jaxmatch import files
from jaxmatch.errors import InputError
from jaxmatch.inference import model_folder
from jaxmatch.inference.model_folder import decode_words, encode_words

PAIRS = [("a b c", "no d"), ("e d c b a", "new york")]
PARAMETERS = "parameters.safetensors"
BIAS = "prediction/output/bias"
NAMES = [PARAMETERS, "vocabulary.txt", "vectors.npy"]


@pytest.fixture
def model(run_copy):
    """A model folder that a test may damage."""
    return run_copy / "model"


def test_non_finite_model_output_is_an_error(model):
    changed = {BIAS: np.array([0, 0, 3e38], np.float32), "prediction/output/gain": np.full(3, 3e38, np.float32)}
    arrays = {**safetensors.numpy.load_file(model / PARAMETERS), **changed}
    (model / PARAMETERS).write_bytes(safetensors.numpy.save(arrays))
    saved_model.edit(model)
    with pytest.raises(InputError, match="the model's output for pair 0 is not finite"):
        jaxmatch.load(model).predict(PAIRS)


@pytest.mark.parametrize("name", NAMES)
def test_changed_byte_or_missing_file_is_an_error(model, name):
    path = model / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: is damaged"):
        jaxmatch.load(model)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: cannot be read"):
        jaxmatch.load(model)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x"}', "[" * 100_000])
def test_a_broken_description_is_refused(model, content):
    (model / "model.json").write_text(content)
    with pytest.raises(InputError, match="model.json: the file is damaged"):
        jaxmatch.load(model)


@pytest.mark.parametrize(("key", "value"), [("labels", ["no"]), ("sha256", {})])
def test_a_changed_description_is_refused(model, key, value):
    description = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps({**description, key: value}))
    with pytest.raises(InputError, match="model.json: the file is damaged"):
        jaxmatch.load(model)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": 3, "jaxmatch": "9.0"}, "has format 3, and this version reads 2; use jaxmatch 9.0"),
        ({"model": {"name": "re2", "blocks": 0}}, "model.json: .*blocks"),
        ({"preprocessing": {"stemming": True}}, "was written by another version of jaxmatch .*stemming"),
    ],
)
def test_a_description_of_another_version_is_refused(model, changed, message):
    saved_model.edit(model, **changed)
    with pytest.raises(InputError, match=message):
        jaxmatch.load(model)


class _Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_loading_does_not_execute_pickles(model, tmp_path):
    """Even with right checksums, an array that hides a pickle is refused before it is unpickled."""
    array = np.empty(1, object)
    array[0] = _Payload(tmp_path / "executed")
    np.save(model / "vectors.npy", array, allow_pickle=True)
    saved_model.edit(model)
    with pytest.raises(InputError, match="vectors.npy: the file is damaged"):
        jaxmatch.load(model)
    assert not (tmp_path / "executed").exists()
    np.load(model / "vectors.npy", allow_pickle=True)[0].close()  # the trap would have worked
    assert (tmp_path / "executed").exists()


def test_saving_twice_gives_the_same_bytes(run, tmp_path):
    again = saved_model.save(tmp_path / "again")
    for path in (run / "model").iterdir():
        assert path.read_bytes() == (again / "model" / path.name).read_bytes(), path.name


def test_a_failed_save_keeps_the_previous_model(run_copy, monkeypatch):
    _, before, *_ = model_folder.read(run_copy)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files, "write_json", fail)
    with pytest.raises(OSError, match="no space left"):
        saved_model.save(run_copy, params=saved_model.parameters(3, seed=9))
    jax.tree.map(np.testing.assert_array_equal, model_folder.read(run_copy)[1], before)
    assert os.listdir(run_copy) == ["model"]


def test_vectors_are_linked_and_copied_where_linking_fails(tmp_path, monkeypatch):
    shared = tmp_path / "shared.npy"
    np.save(shared, saved_model.vectors())
    linked = saved_model.save(tmp_path / "linked", vectors=None, vectors_file=shared)
    assert (linked / "model" / "vectors.npy").samefile(shared)

    def refuse(*_):
        raise OSError("cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    copied = saved_model.save(tmp_path / "copied", vectors=None, vectors_file=shared)
    assert not (copied / "model" / "vectors.npy").samefile(shared)
    for run in (linked, copied):
        np.testing.assert_array_equal(model_folder.read(run)[2], saved_model.vectors())


def test_several_kernel_sizes_are_saved_and_read_back(tmp_path):
    several = {**saved_model.SETTINGS, "kernel_size": (1, 3)}
    params = saved_model.parameters(3, settings=several)
    run = saved_model.save(tmp_path / "run", model_settings=several, params=params)
    assert model_folder.read(run)[0].config.kernel_sizes == (1, 3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=8)))
def test_vocabulary_encoding_round_trips_any_words(words):
    assert decode_words(encode_words(words)) == tuple(words)

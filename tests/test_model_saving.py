"""A model is saved as the same bytes each time, is saved as a whole or not at all, and is read back unchanged."""

import os

import jax
import numpy as np
import pytest
import saved_model
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch import files
from jaxmatch.inference import model_folder
from jaxmatch.inference.model_folder import decode_words, encode_words


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

"""Networks in the authors' layout: the converted model gives the same logits, and converting back loses nothing."""

import argparse
import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import reference_re2
from random_parameters import random_parameters

from jaxmatch.errors import InputError
from jaxmatch.inference.interop import re2_from_pytorch, re2_from_tensorflow, re2_to_pytorch, read_pytorch_checkpoint
from jaxmatch.inference.matcher import InferenceModel
from jaxmatch.models import build
from jaxmatch.models.pair_model import pair_rows

FOLDER = Path(__file__).with_name("golden")
PYTORCH, TENSORFLOW = sorted(FOLDER.glob("*.npz")), sorted(FOLDER.glob("tensorflow/*.npz"))
CHOICES = {
    "alignment": ("linear", "identity"),
    "fusion": ("full", "simple"),
    "connection": ("aug", "residual", "none"),
    "prediction": ("full", "symmetric", "simple"),
    "blocks": (1, 2, 3),
    "enc_layers": (1, 2, 3),
}
COMBINATIONS = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())]
SIZES = {"hidden_size": 4, "embedding_dim": 5, "num_classes": 3, "num_vocab": 12, "kernel_sizes": [3]}
IDS_A = np.array([[3, 4, 5, 6, 11], [7, 8, 0, 0, 0], [1, 0, 0, 0, 0]], np.int32)
IDS_B = np.array([[9, 3, 0, 0, 0], [2, 8, 7, 10, 0], [4, 5, 6, 8, 9]], np.int32)


def load(path):
    """Reads a golden file: the weights, the settings, both sides' ids, and the logits of the authors' code."""
    with np.load(path, allow_pickle=False) as file:
        weights = {name.partition("/")[2]: file[name] for name in file.files if "/" in name}
        return weights, json.loads(str(file["settings"])), file["ids_a"], file["ids_b"], file["logits"]


def assert_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def eagerly(bound, ids_a, ids_b):
    """Computes logits without compiling the model, because compiling takes longer than one run."""
    return bound.module.apply({"params": bound.params}, {"ids": ids_a}, {"ids": ids_b}, bound.vectors)


def random_network(seed=0, **settings):
    settings = {**SIZES, **{name: values[0] for name, values in CHOICES.items()}, **settings}
    return reference_re2.random_state(settings, np.random.default_rng(seed)), settings


@pytest.mark.parametrize("path", [*PYTORCH, *TENSORFLOW], ids=lambda path: path.stem)
def test_logits_equal_those_of_the_authors_code(path):
    weights, settings, ids_a, ids_b, logits = load(path)
    if path in PYTORCH:
        converted = re2_from_pytorch(weights, settings)
        reference = reference_re2.logits(weights, settings, ids_a, ids_b)
        np.testing.assert_allclose(reference, logits, rtol=1e-9, atol=1e-9)
    else:
        optimizer = {f"{name}/Adam": value for name, value in weights.items()} | {"global_step": np.zeros(())}
        converted = re2_from_tensorflow(weights | optimizer, settings)  # ignores what is not of the network
    assert_close(converted.logits(ids_a, ids_b), logits)
    assert len(PYTORCH) == len(TENSORFLOW) == 6


@pytest.mark.parametrize("alignment", CHOICES["alignment"])
@pytest.mark.parametrize("fusion", CHOICES["fusion"])
@pytest.mark.parametrize("connection", CHOICES["connection"])
def test_every_combination_equals_the_reference(alignment, fusion, connection):
    chosen = {"alignment": alignment, "fusion": fusion, "connection": connection}
    for seed, (blocks, layers) in enumerate([(1, 2), (2, 1), (3, 3)]):
        vectors_of_both = None
        for prediction in CHOICES["prediction"]:
            sizes = {"blocks": blocks, "enc_layers": layers}
            state, settings = random_network(seed, **chosen, **sizes, prediction=prediction)
            bound = re2_from_pytorch(state, settings)
            params = {"params": bound.params}
            # With the same seed, all three prediction layers have the same layers below, which are computed once.
            if vectors_of_both is None:
                rows = pair_rows({"ids": IDS_A}, {"ids": IDS_B})
                vectors_of_both = bound.module.apply(params, *rows, bound.vectors, method="sentence_vectors")
            ours = bound.module.apply(params, *vectors_of_both, None, method=lambda model, *seen: model.predict(*seen))
            assert_close(ours, reference_re2.logits(state, settings, IDS_A, IDS_B))


@pytest.mark.parametrize("combination", COMBINATIONS[::37], ids=lambda one: "-".join(map(str, one.values())))
def test_round_trip_preserves_parameters_and_settings(combination):
    state, settings = random_network(**combination)
    again, settings_again = re2_to_pytorch(re2_from_pytorch(state, settings))
    unused = settings["blocks"] == 1 and settings["connection"] == "residual"  # its map is not used and not written
    assert settings_again == {**settings, **({"connection": "none"} if unused else {})}
    if settings["blocks"] == 1:
        state = {name: value for name, value in state.items() if not name.startswith("connection.")}
    assert again.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_array_equal(again[name], value)


def test_unnormalized_weights_are_exported_as_direction_and_gain():
    module = build({"hidden_size": 4, "weight_normalization": "none", "connection": "vanilla_running_sum"}, outputs=3)
    vectors = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    params = random_parameters(module, {"ids": IDS_A}, {"ids": IDS_B}, vectors)
    bound = InferenceModel(module, params, vectors)
    state, settings = re2_to_pytorch(bound)
    assert_close(bound.logits(IDS_A, IDS_B), reference_re2.logits(state, settings, IDS_A, IDS_B))


def test_four_blocks_are_read_as_the_released_running_sum():
    state, settings = random_network(blocks=4)
    bound = re2_from_pytorch(state, settings)
    assert_close(eagerly(bound, IDS_A, IDS_B), reference_re2.logits(state, settings, IDS_A, IDS_B))
    by_equation = InferenceModel(
        bound.module.clone(config=dataclasses.replace(bound.module.config, connection="augmented")),
        bound.params,
        bound.vectors,
    )
    expected = reference_re2.logits(state, {**settings, "connection": "eq1"}, IDS_A, IDS_B)
    assert_close(eagerly(by_equation, IDS_A, IDS_B), expected)
    with pytest.raises(InputError, match="augmented_running_sum"):
        re2_to_pytorch(by_equation)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"blocks": 2, "connection": "vanilla"}, "no connection 'vanilla' of 2 blocks; .*'vanilla_running_sum'"),
        ({"parallel_blocks": True}, "no parallel blocks"),
        ({"encoder_input": False}, "blocks without the encoder's input"),
        ({"characters": "cnn"}, "no characters or other features of words"),
        ({"exact_match": True}, "no characters or other features of words"),
        ({"encoder_activation": "relu"}, "no convolutions with relu"),
    ],
)
def test_networks_the_released_code_lacks_are_refused(settings, problem):
    bound = InferenceModel(build(settings, outputs=3), {}, np.zeros((2, 3), np.float32))
    with pytest.raises(InputError, match=problem):
        re2_to_pytorch(bound)


@pytest.mark.parametrize(
    ("convert", "network", "name"),
    [
        (re2_from_pytorch, random_network, "blocks.0.alignment.temperature"),
        (re2_from_tensorflow, lambda: load(TENSORFLOW[0])[:2], "block-1/align/sub/bias"),
    ],
)
def test_weights_and_settings_that_do_not_fit_are_errors(convert, network, name):
    arrays, settings = network()
    with pytest.raises(InputError, match=f"the network lacks {name}"):
        convert({key: value for key, value in arrays.items() if key != name}, settings)
    with pytest.raises(InputError, match="the network has more.weight"):
        convert({**arrays, "more.weight": np.zeros(3)}, settings)
    with pytest.raises(InputError, match="lack hidden_size"):
        convert(arrays, {key: value for key, value in settings.items() if key != "hidden_size"})
    with pytest.raises(InputError, match=f"has shape .*{settings['hidden_size']}.*, not .*5"):
        convert(arrays, {**settings, "hidden_size": 5})
    with pytest.raises(InputError, match="connection is 'augmented'"):
        convert(arrays, {**settings, "connection": "augmented"})


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_file_gives_the_logits_of_the_released_code(tmp_path, zipped):
    torch = pytest.importorskip("torch", reason="reads a file of PyTorch")
    state, settings, ids_a, ids_b, logits = load(PYTORCH[0])
    tensors = {name: torch.tensor(value) for name, value in state.items()}
    content = {"state_dict": {"model": tensors}, "args": argparse.Namespace(**settings)}
    torch.save(content, tmp_path / "best.pt", _use_new_zipfile_serialization=zipped)
    arrays, known = read_pytorch_checkpoint(tmp_path / "best.pt")
    assert arrays.keys() == state.keys() and known == settings
    for name, value in state.items():
        np.testing.assert_array_equal(arrays[name], value)
    assert_close(re2_from_pytorch(arrays, known).logits(ids_a, ids_b), logits)


@pytest.mark.parametrize("content", [{}, {"state_dict": {"model": {"a": 1}}}, os.getcwd, b"damaged"])
def test_a_pytorch_file_that_is_not_an_re2_checkpoint_is_refused(tmp_path, content):
    torch = pytest.importorskip("torch", reason="reads a file of PyTorch")
    path = tmp_path / "best.pt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(InputError, match=r"best\.pt: this is not a checkpoint of the authors' RE2 \(.*give the best"):
        read_pytorch_checkpoint(path)


def test_a_checkpoint_without_pytorch_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'jaxmatch\[torch\]'"):
        read_pytorch_checkpoint(tmp_path / "best.pt")

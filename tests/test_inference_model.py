"""A model on a CPU uses inference/cpu. On other devices or with optimize_for_cpu=False, it is not imported."""

import copy
import pickle
import sys

import numpy as np
import pytest
from random_parameters import random_parameters

import jaxmatch
from jaxmatch.inference import inference_model
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.models import build

FEATURES = {
    "tags": True,
    "known_tags": 6,
    "exact_match": True,
    "characters": "bilstm",
    "character_features": 4,
    "known_characters": 9,
}
MODELS = (
    {"name": "re2", "hidden_size": 8, "blocks": 2, "encoder_layers": 1},
    {
        "name": "csran",
        "hidden_size": 3,
        "stacked_layers": 1,
        "highway_layers": 1,
        "factors": 2,
        "head_size": 5,
        **FEATURES,
    },
)
WORDS, DIMENSIONS = 9, 24
A, B = np.random.default_rng(0).integers(2, WORDS, (2, 3, 5))


@pytest.fixture(params=MODELS, ids=lambda settings: settings["name"])
def model(request):
    module = build(request.param, outputs=3)
    vectors = np.random.default_rng(1).normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
    side = {
        name: np.ones((1, 1, *((16,) if name == "characters" else ())), np.int32)
        for name in ("ids", *module.token_features)
    }
    characters = np.ones((WORDS, 16), np.uint16) if module.takes_characters else None
    return InferenceModel(module, random_parameters(module, side, side, vectors), vectors, characters)


@pytest.fixture
def without_cpu(monkeypatch):
    """Makes any import of inference/cpu fail."""
    monkeypatch.setitem(sys.modules, "jaxmatch.inference.cpu", None)


def logits(model):
    return model.logits(A, B, {name: (A % 2, B % 2) for name in model.module.token_features})


def plain(model):
    return InferenceModel(model.module, model.params, model.vectors, model.characters, optimize_for_cpu=False)


def test_on_a_cpu_a_model_is_optimized(model, without_cpu):
    with pytest.raises(ImportError, match=r"jaxmatch\.inference\.cpu"):
        logits(model)


def test_a_model_that_is_not_optimized_gives_the_same_logits(model, monkeypatch):
    expected = logits(model)
    monkeypatch.setitem(sys.modules, "jaxmatch.inference.cpu", None)
    np.testing.assert_allclose(logits(plain(model)), expected, rtol=1e-4, atol=1e-4)
    assert np.ptp(expected) > 1e-2


def test_cpu_module_is_not_imported_on_another_device(model, without_cpu, monkeypatch):
    monkeypatch.setattr(inference_model, "is_on_cpu", lambda array: False)
    assert logits(model).shape == (3, 3)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copied", "pickled"]
)
def test_optimize_for_cpu_is_kept_by_copying_and_pickling(model, without_cpu, duplicate):
    logits(duplicate(plain(model)))


def test_load_accepts_optimize_for_cpu(run, without_cpu):
    assert jaxmatch.load(run, optimize_for_cpu=False).predict([("a", "b c")])
    with pytest.raises(ImportError, match=r"jaxmatch\.inference\.cpu"):
        jaxmatch.load(run).predict([("a", "b c")])


def test_package_exports_load_and_interop():
    assert {"load", "interop"} <= set(dir(jaxmatch))
    assert callable(jaxmatch.interop.re2_from_pytorch) and callable(jaxmatch.interop.re2_from_tensorflow)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = jaxmatch.lod

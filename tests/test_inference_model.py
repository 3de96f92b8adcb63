"""A model on a CPU uses inference/cpu. On other devices or with optimize_for_cpu=False, it is not imported."""

import copy
import pickle
import sys

import numpy as np
import pytest
from random_parameters import random_parameters

import jaxmatch
from jaxmatch.inference import matcher
from jaxmatch.inference.matcher import InferenceModel
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


def test_a_model_that_is_not_optimized_gives_the_same_logits(model, monkeypatch):
    expected = logits(model)
    monkeypatch.setitem(sys.modules, "jaxmatch.inference.cpu", None)
    for one in (plain(model), copy.deepcopy(plain(model)), pickle.loads(pickle.dumps(plain(model)))):
        np.testing.assert_allclose(logits(one), expected, rtol=1e-4, atol=1e-4)
    assert np.ptp(expected) > 1e-2


def test_cpu_module_is_not_imported_on_another_device(model, without_cpu, monkeypatch):
    monkeypatch.setattr(matcher, "_is_on_cpu", lambda array: False)
    assert logits(model).shape == (3, 3)


def test_load_accepts_optimize_for_cpu(run, without_cpu):
    assert jaxmatch.load(run, optimize_for_cpu=False).predict([("a", "b c")])
    with pytest.raises(ImportError, match=r"jaxmatch\.inference\.cpu"):
        jaxmatch.load(run).predict([("a", "b c")])

"""A model.json that does not fit its model, or is not a valid description, is refused quickly and in one line."""

import json

import pytest
import saved_model
from refusals import soon_refused

import jaxmatch
from jaxmatch.errors import InputError


@pytest.fixture
def model(run_copy):
    """A model folder whose description a test may change."""
    return run_copy / "model"


def test_very_long_values_are_refused_with_a_short_message(model):
    for changed in ({"name": "x" * 10**6}, {"fusion": "x" * 10**6}, {"x" * 10**6: 1}):
        saved_model.edit(model, model={**saved_model.SETTINGS, **changed})
        soon_refused(model, "model.json: ")
    for changed in (
        {"labels": ["x", ["y" * 10**6]]},
        {"preprocessing": {"y" * 10**6: 1}},
        {"task": "y" * 10**6},
        {"labels": ["y" * 10**6] * 2},
    ):
        saved_model.edit(model, **{"model": saved_model.SETTINGS, **changed})
        soon_refused(model, "model.json: ")


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": 10**30},
        {"hidden_size": 1 << 21},
        {"blocks": 1000},
        {"encoder_layers": 1000},
        {"blocks": 1000, "encoder_layers": 1000},
        {"kernel_size": 10**9 + 1},
        {"kernel_size": [1] * 4},
        {"kernel_size": [[3]]},
        {"fusion": ["full"]},
        {"fusion": {}},
        {"name": ["re2"]},
        {"name": "csran", "stacked_layers": 1000},
        {"name": "esan", "alignment_layers": 600, "encoder_layers": 600},
        {"blocks": True},
        {"blocks": 1.0},
        {"hidden_size": None},
        {"characters": "bilstm", "character_features": 5},
        {"characters": "cnn", "known_characters": 100},
        {"tags": 1},
        {"parent": None},
    ],
    ids=str,
)
def test_invalid_model_settings_are_refused_quickly(model, changed):
    settings = {"name": changed["name"]} if "name" in changed else saved_model.SETTINGS
    saved_model.edit(model, model={**settings, **changed})
    soon_refused(model, "model.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True])
def test_model_setting_that_is_not_a_finite_number_is_refused(model, value):
    saved_model.edit(model, model={"name": "esan", "forget_bias": value})
    soon_refused(model, "model.json: model.forget_bias is .*; give a finite number")


@pytest.mark.parametrize(
    "changed",
    [
        {"tokenizer": "stemmer"},
        {"tokenizer": ["word"]},
        {"lowercase": "no"},
        {"lowercase": 1},
        {"maximum_length": True},
        {"maximum_length": 1.5},
    ],
    ids=str,
)
def test_invalid_preprocessing_is_refused(model, changed):
    saved_model.edit(model, preprocessing={**saved_model.PREPROCESSING, **changed})
    soon_refused(model, "model.json: ")


@pytest.mark.parametrize("wrong", [1, "", "y\n", "a\rb", {}, None, "\ud800"], ids=ascii)
def test_labels_that_are_not_single_lines_of_text_are_refused(model, wrong):
    saved_model.edit(model, labels=["x", wrong, "y"])
    soon_refused(model, "model.json: .* is not a label")


def test_ranking_with_three_labels_is_refused(model):
    saved_model.edit(model, task="ranking")
    soon_refused(model, "model.json: labels .* do not fit the task ranking")


@pytest.mark.parametrize("value", [None, [], 3, -1, 1.5, True, "x", {"a": 1}, [[[]]]], ids=str)
@pytest.mark.parametrize("key", ["format", "jaxmatch", "task", "labels", "model", "preprocessing", "config", "sha256"])
def test_any_wrong_value_is_refused_or_ignored(model, key, value):
    saved_model.edit(model, **{key: value})
    try:
        jaxmatch.load(model)
    except InputError as error:
        assert "model.json" in str(error) and "\n" not in str(error)
    else:
        assert (key, value) in [("jaxmatch", "x"), ("config", {"a": 1})]


@pytest.mark.parametrize("data", [3, [], {"name": 3}, {"directory": 3}, {"minimum_count": "x"}], ids=str)
def test_wrong_types_in_the_data_config_are_refused(model, data):
    saved_model.edit(model, config={"data": data})
    soon_refused(model, "model.json: 'config' does not say")


def test_description_with_a_wrong_checksum_is_refused(model):
    path = model / "model.json"
    for before, after in (
        ("entailment", "entailmend"),
        ('"lowercase": true', '"lowercase": false'),
        ('_length": 0', '_length": 8'),
    ):
        content = path.read_text()
        assert content.count(before) == 1
        path.write_text(content.replace(before, after))
        soon_refused(model, "model.json: is damaged: its checksum is not the one in it")
        path.write_text(content)
    jaxmatch.load(model)


@pytest.mark.parametrize("deep", ["[" * 90000 + "]" * 90000, "[" * 900 + "]" * 900, '{"a":' * 700 + "1" + "}" * 700])
@pytest.mark.parametrize("key", ["labels", "model", "sha256", "preprocessing"])
def test_deep_nesting_is_refused(model, key, deep):
    path = model / "model.json"
    description = json.loads(path.read_text())
    value = f'{{"name": {deep}}}' if isinstance(description[key], dict) else f"[{deep}]"
    description[key] = "HERE"
    path.write_text(json.dumps(description).replace('"HERE"', value))
    soon_refused(model, "model.json: ")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": 3}, "has format 3, and this version reads up to 2"),
        ({"format": "x"}, "is not the description of a jaxmatch model"),
        ({"labels": "abc"}, "'labels' is not a list"),
        ({"labels": ["x", "x", "y"]}, "do not fit the task"),
        ({"labels": ["x", "y"]}, r"has shape \(3,\), and the model needs \(2,\)"),
        ({"task": "translation"}, "unknown task 'translation'"),
        ({"model": {**saved_model.SETTINGS, "blocks": 2}}, "blocks_1/.* has shape none"),
        ({"model": {**saved_model.SETTINGS, "alignment": "identity"}}, "alignment/.*, and the model needs none"),
        ({"model": {**saved_model.SETTINGS, "name": "other"}}, "no model 'other'"),
        ({"preprocessing": {"stemmer": True}}, "preprocessing has 'stemmer': True, which this version does not know"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_in_one_line(run_copy, changed, message):
    saved_model.edit(run_copy / "model", **changed)
    with pytest.raises(InputError, match=message) as caught:
        jaxmatch.load(run_copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', "[" * 100_000])
def test_a_broken_description_is_refused(run_copy, content):
    (run_copy / "model" / "model.json").write_text(content)
    with pytest.raises(InputError, match="model.json: "):
        jaxmatch.load(run_copy)

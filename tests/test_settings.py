"""Settings: names, types and bounds of overrides."""

import dataclasses
import math
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_collections import ConfigDict

from jaxmatch import models
from jaxmatch.config import MODELS, SECTIONS, DataConfig, RE2Config
from jaxmatch.data.dataset import TASKS
from jaxmatch.data.tokens import TOKENIZERS, TRUNCATION_SIDES
from jaxmatch.errors import InputError
from jaxmatch.layers.characters import CHARACTER_ENCODERS
from jaxmatch.layers.connection import CONNECTIONS
from jaxmatch.layers.convolution import ACTIVATIONS
from jaxmatch.layers.fusion import FUSIONS
from jaxmatch.layers.matmul import PRECISIONS
from jaxmatch.layers.prediction import PREDICTIONS
from jaxmatch.settings import default_config, flatten, model_config, validate, with_overrides

KNOWN = flatten(default_config())


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("model.block", "model.blocks"),
        ("optimizer.learning_rat", "optimizer.learning_rate"),
        ("learning_rate", "optimizer.learning_rate"),
        ("training.learning_rate", "optimizer.learning_rate"),
        ("model.hiden_size", "model.hidden_size"),
        ("data.vector", "data.vectors"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(wrong, meant):
    with pytest.raises(InputError) as caught:
        with_overrides(default_config(), {wrong: "1"})
    assert f'"config.{wrong}"' in str(caught.value)
    assert f'did you mean "{meant}"?' in str(caught.value)


def test_a_name_like_no_other_is_answered_with_all_known_ones():
    with pytest.raises(InputError) as caught:
        with_overrides(default_config(), {"zzz": "1"})
    assert all(key in str(caught.value) for key in KNOWN)


def test_a_section_is_no_setting():
    with pytest.raises(InputError, match='there is no setting "config.model"'):
        with_overrides(default_config(), {"model": "re2"})


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("model.blocks", "3", 3),
        ("model.blocks", 3.0, 3),
        ("optimizer.learning_rate", "2e-3", 0.002),
        ("optimizer.learning_rate", "1", 1.0),
        ("optimizer.gradient_clip", 0, 0.0),
        ("data.lowercase", "false", False),
        ("data.lowercase", "True", True),
        ("data.name", "own", "own"),
        ("data.directory", "2024", "2024"),
        ("model.kernel_size", "(1, 3)", (1, 3)),
        ("model.kernel_size", "[1, 3]", (1, 3)),
        ("model.kernel_size", 5, 5),
        ("training.epochs", " 4 ", 4),
    ],
)
def test_values_take_the_type_of_their_setting(key, given, value):
    got = flatten(with_overrides(default_config(), {key: given}))[key]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.blocks", "two"),
        ("model.blocks", "1.5"),
        ("model.blocks", "True"),
        ("model.blocks", "0"),
        ("model.kernel_size", "2"),
        ("model.kernel_size", "large"),
        ("model.kernel_size", "None"),
        ("model.alignment", "linaer"),
        ("data.lowercase", "1"),
        ("data.lowercase", "maybe"),
        ("data.name", 3),
        ("data.tokenizer", "words"),
        ("data.task", "rank"),
        ("training.selection", "acuracy"),
        ("training.batch_size", "0"),
        ("training.epochs", "1e400"),
        ("optimizer.learning_rate", "fast"),
        ("optimizer.learning_rate", "-0.1"),
        ("optimizer.learning_rate", "1e400"),
        ("optimizer.learning_rate", 10**400),
        ("optimizer.learning_rate", math.nan),
        ("optimizer.learning_rate", "True"),
        ("optimizer.learning_rate", None),
        ("optimizer.dropout_rate", "1.0"),
        ("optimizer.dropout_rate", "-0.1"),
        ("execution.maximum_replicas", "-1"),
        ("execution.steps_at_once", "0"),
    ],
)
def test_values_that_no_run_could_use_are_refused_by_name(key, value):
    with pytest.raises(InputError) as caught:
        with_overrides(default_config(), {key: value})
    assert key in str(caught.value)


@pytest.mark.parametrize("value", ["1.5", "30"])
def test_a_share_is_at_most_one(value):
    with pytest.raises(InputError, match=f"model.first_scale is {value}.*give a number up to 1"):
        with_overrides(default_config(), {"model.name": "diin", "model.first_scale": value})


def test_a_misspelt_choice_is_answered_with_the_nearest():
    with pytest.raises(InputError, match='did you mean "accuracy"'):
        with_overrides(default_config(), {"training.selection": "acuracy"})
    with pytest.raises(InputError, match='did you mean "linear"'):
        with_overrides(default_config(), {"model.alignment": "linaer"})
    with pytest.raises(InputError, match="there is no model .xlnet.; known: re2, esan, csran, cafe, bimpm"):
        with_overrides(default_config(), {"model.name": "xlnet"})
    with pytest.raises(InputError, match='there is no model .esann.; did you mean "esan"'):
        default_config("esann")


def test_a_setting_of_several_numbers_can_become_one_again():
    several = with_overrides(default_config(), {"model.kernel_size": (1, 3)})
    assert with_overrides(several, {"model.kernel_size": "3"}).model.kernel_size == 3


def test_an_override_changes_a_copy_and_the_copy_is_locked():
    config = default_config()
    changed = with_overrides(config, {"model.blocks": 3})
    assert (config.model.blocks, changed.model.blocks) == (2, 3)
    with pytest.raises(AttributeError):
        changed.model.block = 4
    differing = {key for key, value in flatten(changed).items() if value != KNOWN[key]}
    assert differing == {"model.blocks"}


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(sorted(KNOWN)),
    st.text(max_size=12) | st.sampled_from(["1e999", "nan", "-1", "((", "0x1f", "None", "{}"]),
)
def test_any_text_is_taken_or_refused_in_one_line(key, text):
    try:
        changed = with_overrides(default_config(), {key: text})
    except InputError as error:
        assert "\n" not in str(error)
    else:
        validate(changed)
        default = KNOWN[key]
        assert isinstance(flatten(changed)[key], (int, tuple) if key == "model.kernel_size" else type(default))


@pytest.mark.parametrize(("old", "new"), [("re2", "esan"), ("esan", "re2"), ("csran", "cafe")])
def test_another_model_brings_its_own_settings(old, new):
    base = with_overrides(default_config(old), {"model.hidden_size": 77, "training.epochs": 3})
    changed = with_overrides(base, {"model.precision": "bfloat16", "model.name": new})
    assert changed.model == with_overrides(default_config(new), {"model.precision": "bfloat16"}).model
    assert changed.training.epochs == 3
    assert with_overrides(base, {"model.name": old}).model.hidden_size == 77
    with pytest.raises(InputError, match='there is no setting "config.model.blocks"'):
        with_overrides(default_config(), {"model.name": "esan", "model.blocks": "3"})


def test_a_config_built_by_hand_has_all_settings_and_no_others():
    settings = default_config().to_dict()
    del settings["training"]["patience_samples"]
    with pytest.raises(
        InputError, match="the config lacks config.training.patience_samples; begin with default_config()"
    ):
        with_overrides(ConfigDict(settings), {})
    settings = default_config().to_dict()
    settings["optimizer"]["learning_rates"] = 0.1
    with pytest.raises(
        InputError, match='no setting "config.optimizer.learning_rates"; did you mean "optimizer.learning_rate"'
    ):
        with_overrides(ConfigDict(settings), {})


def test_flatten_names_every_leaf_once():
    assert flatten(ConfigDict({"a": {"b": 1, "c": {"d": (2, 3)}}, "e": ""})) == {"a.b": 1, "a.c.d": (2, 3), "e": ""}


@pytest.mark.parametrize(
    "key", ["data.maximum_length", "training.epochs", "model.hidden_size", "optimizer.warmup_samples"]
)
def test_numbers_that_no_device_counts_to_are_refused(key):
    with pytest.raises(InputError, match=f"{key} is 2147483648; give a whole number up to"):
        validate(with_overrides(default_config(), {key: 2**31}))
    with pytest.raises(InputError, match=f"{key} is 9[0-9.]+; give a whole number up to"):
        validate(with_overrides(default_config(), {key: "1e99"}))


def test_more_layers_than_can_be_traced_are_refused():
    with pytest.raises(InputError, match="model.blocks is 1001; give a whole number up to 1000"):
        validate(with_overrides(default_config(), {"model.blocks": 1001}))


def test_choices_are_those_of_the_code():
    choices = {
        (config, field.name): typing.get_args(typing.get_type_hints(config)[field.name])
        for config in (*MODELS.values(), *SECTIONS.values())
        for field in dataclasses.fields(config)
    }
    registries = {
        (RE2Config, "connection"): CONNECTIONS,
        (RE2Config, "fusion"): FUSIONS,
        (RE2Config, "prediction"): PREDICTIONS,
        (RE2Config, "encoder_activation"): ACTIVATIONS,
        (RE2Config, "precision"): PRECISIONS,
        (RE2Config, "characters"): ("none", *CHARACTER_ENCODERS),
        (DataConfig, "tokenizer"): TOKENIZERS,
        (DataConfig, "task"): ("", *TASKS),
        (DataConfig, "truncation_side"): TRUNCATION_SIDES,
    }
    for (config, name), known in registries.items():
        assert set(choices[config, name]) == set(known), (config, name)


def test_every_setting_says_what_it_is():
    for config in (*MODELS.values(), *SECTIONS.values()):
        for field in dataclasses.fields(config):
            assert field.metadata["help"].strip(), (config, field.name)
    assert set(MODELS) == set(models.MODELS)


def test_a_model_of_an_older_version_may_have_a_field_that_is_gone():
    assert model_config({"name": "re2", "blocks": 2, "kernels": "xla"}) == model_config({"name": "re2", "blocks": 2})
    with pytest.raises(InputError, match="kernel"):
        model_config({"name": "re2", "kernel": "xla"})

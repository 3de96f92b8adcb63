"""Settings: names, types and bounds of overrides."""

import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_collections import ConfigDict

from jaxmatch import models
from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import SECTIONS, default_config, flatten, model_config, validate, with_overrides
from jaxmatch.errors import InputError
from jaxmatch.sweep.files import load_config, load_module

KNOWN = flatten(default_config())


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("model.block", "model.blocks"),
        ("optimizer.learning_rat", "optimizer.learning_rate"),
        ("training.learning_rate", "optimizer.learning_rate"),
    ],
)
def test_an_unknown_setting_is_refused_with_a_suggestion(wrong, suggestion):
    with pytest.raises(InputError) as caught:
        with_overrides(default_config(), {wrong: "1"})
    assert f'"config.{wrong}"' in str(caught.value)
    assert f'did you mean "{suggestion}"?' in str(caught.value)


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("model.blocks", "3", 3),
        ("model.blocks", 3.0, 3),
        ("optimizer.learning_rate", "2e-3", 0.002),
        ("optimizer.gradient_clip", 0, 0.0),
        ("data.lowercase", "false", False),
        ("data.directory", "2024", "2024"),
        ("model.kernel_size", "(1, 3)", (1, 3)),
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
        ("model.blocks", "True"),
        ("model.kernel_size", "2"),
        ("model.alignment", "linaer"),
        ("data.name", 3),
        ("training.epochs", "1e400"),
        ("training.epochs", "(" * 1000),
        ("optimizer.learning_rate", "-0.1"),
        ("optimizer.learning_rate", 10**400),
        ("optimizer.learning_rate", math.nan),
    ],
)
def test_invalid_values_are_errors_that_name_the_setting(key, value):
    with pytest.raises(InputError) as caught:
        with_overrides(default_config(), {key: value})
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model.name": "diin", "model.first_scale": "30"}, "model.first_scale is 30.*give a number up to 1"),
        ({"training.selection": "acuracy"}, 'did you mean "accuracy".*--import'),
        ({"model.name": "xlnet"}, "there is no model .xlnet.; known: re2, esan, csran, cafe, bimpm"),
        ({"model.name": "transformer", "model.hidden_size": 30}, "does not fit 4 attention heads; give a mult"),
        ({"model.kernel_size": (1, 3, 5, 7)}, "hidden_size 150 does not fit 4 kernel sizes; give a mult"),
        ({"model.blocks": 1001}, "model.blocks is 1001; give a whole number up to 1000"),
        ({"model.name": "esan", "model.blocks": "3"}, 'there is no setting "config.model.blocks"'),
    ],
)
def test_an_error_says_what_to_give_instead(changes, problem):
    with pytest.raises(InputError, match=problem):
        with_overrides(default_config(), changes)


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
def test_changing_the_model_replaces_its_settings(old, new):
    base = with_overrides(default_config(old), {"model.hidden_size": 77, "training.epochs": 3})
    changed = with_overrides(base, {"model.precision": "bfloat16", "model.name": new})
    assert changed.model == with_overrides(default_config(new), {"model.precision": "bfloat16"}).model
    assert changed.training.epochs == 3
    assert with_overrides(base, {"model.name": old}).model.hidden_size == 77


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda training: training.pop("patience_samples"), "the config lacks config.training.patience_samples; begin"),
        (lambda training: training.update(epoch=1), '"config.training.epoch"; did you mean "training.epochs"'),
    ],
)
def test_a_user_built_config_with_missing_or_extra_settings_is_an_error(change, problem):
    settings = default_config().to_dict()
    change(settings["training"])
    with pytest.raises(InputError, match=problem):
        with_overrides(ConfigDict(settings), {})


def test_every_setting_has_a_help_text():
    for config in (*MODELS.values(), *SECTIONS.values()):
        for field in dataclasses.fields(config):
            assert field.metadata["help"].strip(), (config, field.name)
    assert set(MODELS) == set(models.MODELS)


def test_a_removed_field_of_an_older_model_is_ignored():
    assert model_config({"name": "re2", "blocks": 2, "kernels": "xla"}) == model_config({"name": "re2", "blocks": 2})
    with pytest.raises(InputError, match="kernel"):
        model_config({"name": "re2", "kernel": "xla"})


# --- config files


ROOT = Path(__file__).parent.parent


CONFIGS = [(file, name) for file in sorted((ROOT / "configs").glob("*.py")) for name in load_module(file).DATA_SETS]


def test_every_model_has_a_config_file():
    assert sorted({file.stem for file, _ in CONFIGS}) == sorted(MODELS) and len(CONFIGS) >= 32


@pytest.mark.parametrize(("file", "dataset"), CONFIGS, ids=lambda one: getattr(one, "stem", one))
def test_every_config_file_loads_and_is_locked_and_valid(file, dataset):
    config = load_config(file.with_name(f"{file.stem}_{dataset}.py"))
    assert config == load_config(file, dataset=dataset)
    assert config.is_locked
    model = file.stem
    assert config.model.name == model
    assert config.data.name == dataset
    assert set(flatten(config)) == set(flatten(default_config(model)))
    validate(config)


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("x = 1\n", "no get_config", None),
        ("def get_config():\n    return {}\n", "returns a dict", None),
        ("def get_config():\n    x = 1\n    return x.y\n", "AttributeError", 3),
    ],
)
def test_a_broken_config_file_is_reported_with_its_line(tmp_path, text, problem, line):
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert problem in str(caught.value)
    assert caught.value.path == file
    assert caught.value.line == line


def test_an_existing_config_file_takes_precedence_over_a_data_set_suffix(tmp_path):
    text = "from jaxmatch.config.settings import default_config, of_data_set, with_overrides\n"
    text += "def get_config(dataset='a'):\n"
    text += " return with_overrides(default_config(), of_data_set({name: {} for name in ('a', 'b_c')}, dataset))\n"
    (tmp_path / "my_model.py").write_text(text)
    assert load_config(tmp_path / "my_model.py").data.name == "a"
    assert load_config(tmp_path / "my_model_b_c.py").data.name == "b_c"
    (tmp_path / "my_model_b_c.py").write_text(text)
    assert load_config(tmp_path / "my_model_b_c.py").data.name == "a"
    with pytest.raises(InputError, match="there is no setting for the data set 'b_x'; did you mean \"b_c\""):
        load_config(tmp_path / "my_model_b_x.py")
    with pytest.raises(InputError, match="this file has no option --size"):
        load_config(tmp_path / "my_model.py", size="3")
    with pytest.raises(InputError, match="there is no such file"):
        load_config(tmp_path / "other_a.py")

"""Config files of the package and of users."""

from pathlib import Path

import pytest

from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import default_config, flatten, validate
from jaxmatch.errors import InputError
from jaxmatch.sweep.files import load_config, load_module

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
        ("def get_config(:\n", "syntax", 1),
        ("import there_is_no_such_module\n", "ModuleNotFoundError", 1),
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


def test_a_misspelt_setting_is_reported_with_its_line_and_a_suggestion(tmp_path):
    file = tmp_path / "misspelt.py"
    file.write_text(
        "from jaxmatch.config.settings import default_config\n"
        "def get_config():\n    config = default_config()\n    config.model.block = 3\n    return config\n"
    )
    with pytest.raises(InputError, match='"blocks"') as caught:
        load_config(file)
    assert caught.value.line == 4


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

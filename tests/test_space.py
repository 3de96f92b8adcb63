"""The search space comes from the sweep file and the command line, and an invalid one is refused."""

import pytest
from small_sweep import space

from jaxmatch.config.settings import default_config
from jaxmatch.errors import InputError
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.sweep.tune import space_of

pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'jaxmatch[optuna]'")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402


def test_search_space_combines_the_sweep_file_and_the_command_line():
    found = space(
        {"model.blocks": "1:3", "model.hidden_size": "30:100:20", "optimizer.dropout_rate": "0.8,0.9"},
        grid={"model.blocks": (1, 2), "model.kernel_size": (3, (1, 3))},
        space={"optimizer.learning_rate": "log:1e-4:1e-2"},
        seeds=(0, 1),
    )
    assert found.distributions == {
        "model.kernel_size": CategoricalDistribution(("3", "(1, 3)")),
        "optimizer.dropout_rate": CategoricalDistribution(("0.8", "0.9")),
        "optimizer.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
        "model.blocks": IntDistribution(1, 3),
        "model.hidden_size": IntDistribution(30, 90, step=20),
    }
    chosen = {
        "model.kernel_size": "(1, 3)",
        "optimizer.dropout_rate": "0.8",
        "model.blocks": 2,
        "model.hidden_size": 50,
    }
    place = found.place(chosen | {"optimizer.learning_rate": 0.001})
    assert place["model.kernel_size"] == (1, 3) and place["model.hidden_size"] == 50
    runs = found.points([place]).runs()
    assert [(run.seed, run.config.model.blocks, run.overrides) for run in runs] == [(0, 2, place), (1, 2, place)]
    assert set(found.sweep.table.rows) == place.keys() and not found.sweep.grid


def test_values_are_rounded_to_four_digits_and_stay_in_range():
    found = space({"optimizer.learning_rate": "log:0.00012345:0.0012345", "model.blocks": "1:3"})
    rates = [
        found.place({"optimizer.learning_rate": rate, "model.blocks": 3})["optimizer.learning_rate"]
        for rate in (0.00012345, 0.000456789, 0.0012345)
    ]
    assert rates == [0.00012345, 0.0004568, 0.001234]


def test_settings_with_an_empty_value_are_not_searched():
    file = {"grid": {"model.blocks": (1, 2)}, "space": {"optimizer.learning_rate": "0.1:0.2"}}
    assert list(space({"model.blocks": ""}, **file).distributions) == ["optimizer.learning_rate"]
    left = space({"optimizer.learning_rate": ""}, **file)
    assert left.distributions == {"model.blocks": CategoricalDistribution(("1", "2"))}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("model.blocks", "1:2.5", "'1:2.5' is not a range of model.blocks: "),
        ("model.blocks", "3:1", "; write it like 1:3, 8:64:8"),
        ("model.blocks", "1:3:5", "'1:3:5' is not a range of model.blocks: the lower end comes first"),
        ("model.blocks", "1:3:0", "'1:3:0' is not a range"),
        ("model.blocks", "0:3", "model.blocks is 0; give a whole number from 1"),
        ("optimizer.learning_rate", "log:0:1", "'log:0:1' is not a range"),
        ("optimizer.learning_rate", "0.1:nan", "'0.1:nan' is not a range"),
        ("optimizer.learning_rate", "0.1:inf", "optimizer.learning_rate is inf; give a finite number"),
        ("optimizer.learning_rat", "0.1:0.2", 'there is no setting "config.optimizer.learning_rat"; did you mean'),
        ("model.fusion", "a:b", "'a:b' is not a range of model.fusion: it has no numbers; give choices: a,b"),
        ("model.fusion", "simple,none", "model.fusion is 'none'"),
        ("optimizer.dropout_rate", "", "optimizer.dropout_rate is not an axis of this sweep's grid"),
        ("data.name", "sick,snli", "the settings of this grid differ in data.name"),
    ],
)
def test_invalid_search_space_is_refused(name, text, problem):
    with pytest.raises(InputError) as error:
        space({name: text})
    assert problem in str(error.value)


def test_overrides_that_would_not_reach_all_trials_are_refused():
    rates = {"optimizer.learning_rate": "log:1e-4:1e-1"}
    sweep = Sweep("s", default_config(), space=rates)
    with pytest.raises(InputError, match="config.optimizer.learning_rate is an axis of"):
        space_of(sweep, {}, {"optimizer.learning_rate": "0.01"})
    models = {"model.name": "re2,esan"}
    with pytest.raises(InputError, match="config.model.precision would not reach all models of"):
        space_of(sweep, models, {"model.precision": "bfloat16"})
    assert space_of(sweep, models, {"training.epochs": "2"}).distributions.keys() >= {"model.name"}


def test_empty_space_and_variants_are_refused():
    with pytest.raises(InputError, match="there is nothing to search; give a space: --space"):
        space({})
    with pytest.raises(InputError, match="a sweep with variants cannot be searched"):
        space({"optimizer.learning_rate": "log:1e-4:1e-1"}, variants={"a": {}})

"""Overriding fields of a sweep's config on the command line."""

import pytest
from paper_sweeps import SWEEPS, resolved, shown

from jaxmatch.errors import InputError
from jaxmatch.sweep import launch

CONFIG = SWEEPS.parent / "configs" / "re2_sick.py"


def test_field_set_by_every_variant_cannot_be_overridden():
    with pytest.raises(InputError, match="config.model.blocks would not reach 1 block and .* set it"):
        resolved("re2_robustness", "snli", overrides={"model.blocks": "3"})
    assert resolved("re2_ablation", "snli", overrides={"model.blocks": "2"}).config.model.blocks == 2


def test_field_set_by_some_variants_cannot_be_overridden():
    with pytest.raises(InputError, match="config.model.fusion would not reach simple fusion, which sets it"):
        resolved("re2_ablation", "snli", overrides={"model.fusion": "simple"})
    with pytest.raises(InputError, match="config.optimizer.learning_rate would not reach .*ESAN.*, which set"):
        resolved("comparison", "embedded_paraphrase", overrides={"optimizer.learning_rate": "0.01"})
    assert resolved("comparison", "quora", overrides={"training.epochs": "2"}).config.training.epochs == 2


def test_field_of_one_model_cannot_be_overridden_beside_an_axis_of_models():
    axis = {"model.name": "re2,esan"}
    with pytest.raises(InputError, match=r"config.model.precision would not reach all models.*--grid.model.precision"):
        launch.resolve(CONFIG, overrides={"model.precision": "bfloat16"}, grid_overrides=axis)
    runs = launch.resolve(CONFIG, grid_overrides={**axis, "model.precision": "bfloat16"}).runs()
    assert {(run.config.model.name, run.config.model.precision) for run in runs} == {
        ("re2", "bfloat16"),
        ("esan", "bfloat16"),
    }


def test_best_on_test_columns_can_be_disabled():
    assert shown(resolved("re2_main", "wikiqa")).scores == (
        "dev.mrr",
        "test.map",
        "test.mrr",
        "best_on_test.map",
        "best_on_test.mrr",
    )
    scores = shown(resolved("re2_main", "wikiqa", overrides={"training.best_on_test": "False"})).scores
    assert not any("best" in score for score in scores)

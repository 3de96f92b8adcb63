"""The single changes between the configured setting of RE2 and the code of its authors."""

from pathlib import Path

import pytest

from jaxmatch import load_config
from jaxmatch.config.settings import flatten, with_overrides
from jaxmatch.errors import InputError
from jaxmatch.papers import re2
from jaxmatch.sweep import launch

SWEEPS = Path(__file__).parent.parent / "sweeps"


def test_residual_ablation_uses_the_connection_of_each_setting():
    kinds = {}
    for setting in ("configured", "paper", "released_pytorch", "released_tensorflow"):
        planned = launch.resolve(SWEEPS / "re2_ablation.py", options={"dataset": "wikiqa", "setting": setting})
        kinds[setting] = planned.variants["residual conn."]["model.connection"]
    assert kinds == {
        "configured": "vanilla",
        "paper": "vanilla",
        "released_pytorch": "vanilla_running_sum",
        "released_tensorflow": "vanilla_projected",
    }


@pytest.mark.parametrize("dataset", ["wikiqa", "scitail"])
def test_all_single_changes_combined_equal_the_tensorflow_code(dataset):
    planned = launch.resolve(SWEEPS / "re2_differences.py", options={"dataset": dataset})
    changes = {name: dict(change) for name, change in planned.variants.items()}
    whole = with_overrides(planned.config, changes.pop("TensorFlow code"))
    released = re2.with_setting(dataset, load_config("re2", dataset=dataset), "released_tensorflow")
    assert flatten(whole) == flatten(with_overrides(released, {"training.best_on_test": True}))
    assert changes.pop("TensorFlow code without mixed lengths")["training.epochs"] == released.training.epochs
    combined = flatten(
        with_overrides(planned.config, {name: value for each in changes.values() for name, value in each.items()})
    )
    # With two blocks, the sum over all earlier blocks is the output of the one earlier block.
    assert {name for name, value in flatten(whole).items() if combined[name] != value} == {"model.connection"}
    assert planned.config.model.blocks == 2


def test_changes_can_be_selected_and_unknown_ones_are_refused():
    chosen = launch.resolve(SWEEPS / "re2_differences.py", options={"changes": "original,ReLU"})
    assert list(chosen.variants) == ["original", "ReLU"]
    for options, message in (
        ({"changes": "original,relu"}, 'there is no change "relu"'),
        ({"dataset": "snli"}, 'there is no short training for "snli"'),
    ):
        with pytest.raises(InputError, match=message):
            launch.resolve(SWEEPS / "re2_differences.py", options=options)

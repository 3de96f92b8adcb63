"""Successive halving: its rungs, its ranking by dev scores, its errors, and the options of the command."""

import math

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.sweep import halving, launch
from jaxmatch.sweep.halving import Halving, default_rungs, ranking, result_at
from jaxmatch.sweep.plan import make_plan


def test_a_third_of_the_settings_is_kept_at_each_rung():
    rule = Halving(eta=3, rungs=(1, 3), epochs=9, settings=9)
    assert rule.counts() == (9, 3, 1)
    # 9 x 1 + 3 x 2 + 1 x 6 of 9 x 9 epochs
    assert rule.share() == pytest.approx(21 / 81)
    assert rule.text(810) == (
        "  successive halving of 9 settings over 9 epochs keeps 3 after epoch 1, 1 after epoch 3; 210 of 810 steps of "
        "runs (26%) if all settings cost the same and no run stops early"
    )
    # 60 settings of the paper's grid in 30 epochs: 60 x 3 + 20 x 7 + 7 x 20 = 460 of 1800
    assert default_rungs(30, 60, 3) == (3, 10)
    assert Halving(3, (3, 10), 30, 60).share() == pytest.approx(460 / 1800)


@pytest.mark.parametrize(
    ("epochs", "settings", "eta", "first", "rungs"),
    [
        (30, 3, 3, 1, (10,)),  # one rung leaves one setting
        (30, 60, 2, 1, (7, 15)),
        (30, 60, 3, 5, (5, 10)),  # nothing is known before the first evaluation
        (2, 60, 3, 1, (1,)),
        (1, 60, 3, 1, ()),
    ],
)
def test_default_rungs(epochs, settings, eta, first, rungs):
    assert default_rungs(epochs, settings, eta, first) == rungs


def curve(*scores):
    return [{"samples": 10 * number, "dev": {"accuracy": score}} for number, score in enumerate(scores, start=1)]


def test_result_at_a_rung_is_the_best_dev_score_up_to_the_given_samples():
    run = {"curve": curve(0.5, 0.8, 0.7, 0.9), "diverged_at_samples": None}
    assert [result_at(run, "accuracy", samples) for samples in (9, 10, 20, 30, 40)] == [None, 0.5, 0.8, 0.8, 0.9]
    diverged = run | {"diverged_at_samples": 25}
    # A run that diverges in the first step after a rung has not diverged at the rung.
    assert result_at(diverged, "accuracy", 20) == result_at(diverged, "accuracy", 25) == 0.8
    assert math.isnan(result_at(diverged, "accuracy", 30))
    losses = [{"samples": 1, "dev": {"loss": 0.3}}, {"samples": 2, "dev": {"loss": 0.5}}]
    assert result_at({"curve": losses, "diverged_at_samples": None}, "loss", 2) == 0.3
    # An undefined score is null in a record.
    assert result_at(run | {"curve": curve(None, 0.1)}, "accuracy", 20) == 0.1
    assert result_at(run | {"curve": curve(None)}, "accuracy", 20) is None


def test_settings_are_ranked_by_the_mean_of_their_seeds():
    results = {
        "one good seed": [0.9, 0.1],
        "first of equals": [0.6, 0.6],
        "second of equals": [0.7, 0.5],
        "a diverged seed": [0.99, math.nan],
        "a diverged seed and one not yet known": [None, math.nan],
        "not yet known": [0.99, None],
    }
    equals = ["first of equals", "second of equals"]
    assert [name for name, _ in ranking(results, "accuracy")] == [*equals, "one good seed", "not yet known"]
    assert [name for name, _ in ranking(results, "loss")] == ["one good seed", *equals, "not yet known"]


# There are 64 pairs per epoch, so dev is first scored in the second epoch.
LATE = {"training.evaluate_every_samples": "100"}


def planned(files, grid="0.01,0.003,0.001", epochs=9, **arguments):
    overrides = small_sweep.overrides(files) | {"training.epochs": str(epochs)} | arguments.pop("overrides", {})
    axes = {"optimizer.learning_rate": grid, **arguments.pop("axes", {})}
    return launch.resolve(files / "small.py", overrides=overrides, grid_overrides=axes, **arguments)


def test_settle_uses_the_default_or_given_rungs_of_a_plan(small_files):
    plan = make_plan(planned(small_files, seeds=2))
    assert halving.halving_rule(plan) == Halving(3, (3,), 9, 3)
    assert halving.halving_rule(plan, eta=2, rungs=(1, 4)) == Halving(2, (1, 4), 9, 3)
    assert [len(runs) for runs in halving.settings_of(plan).values()] == [2, 2, 2]
    late = make_plan(planned(small_files, overrides=LATE))
    assert halving.halving_rule(late, eta=9).rungs == (2,)


@pytest.mark.parametrize(
    ("changes", "arguments", "problem"),
    [
        ({"grid": "0.01"}, {}, "1 setting over 9 epochs cannot be halved"),
        ({"epochs": 1}, {}, "3 settings over 1 epoch cannot be halved after the epochs none"),
        ({}, {"rungs": (3, 1)}, "cannot be halved after the epochs 3, 1; .* from 1, .* to 8"),
        ({"overrides": LATE}, {"rungs": (1,)}, "from 2, by when dev is scored, to 8"),
        ({"axes": {"training.selection": "accuracy,loss"}}, {}, r"differ in training.selection \(dev.acc"),
    ],
)
def test_plans_and_rungs_that_cannot_be_halved_are_errors(small_files, changes, arguments, problem):
    with pytest.raises(InputError, match=problem):
        halving.halving_rule(make_plan(planned(small_files, **changes)), **arguments)


def test_rungs_without_halving_and_invalid_halving_options_are_errors(capsys, tmp_path):
    assert main(["tune", "a.py", "--workdir", str(tmp_path), "--rungs", "3"]) == 2
    assert capsys.readouterr().err == "jaxmatch: --rungs needs --halving\n"
    assert main(["tune", "a.py", "--halving", "--rungs", "0"]) == 2

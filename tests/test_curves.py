"""The values of figures over training and over a setting: groups of runs, means and deviations."""

import math

import pytest
from small_records import setting_record

from jaxmatch.errors import InputError
from jaxmatch.reporting.figures import curves, scores_against
from jaxmatch.reporting.records import by_setting, setting_name


def scored(setting, seed, scores=(), status="finished", variant="", **overrides):
    curve = [
        {"samples": 100 * (step + 1), "dev": {"accuracy": score, "loss": 1.0}} for step, score in enumerate(scores)
    ]
    return setting_record(overrides, seed, None, status, variant, run=f"{setting}-seed{seed}", curve=curve)


RECORDS = [
    scored("b", 1, (0.5, 0.7, 0.8), blocks=10),
    scored("b", 0, (0.3, 0.6), blocks=10),  # stopped early
    scored("a", 12, (0.4,), blocks=2),
    scored("a", 3, (0.9, math.nan), "diverged", blocks=2),
]


def test_settings_are_sorted_by_value_and_their_runs_by_seed():
    groups = by_setting(RECORDS)
    assert [[one["run"] for one in members] for members in groups] == [["a-seed12"], ["b-seed0", "b-seed1"]]
    assert [setting_name(members[0]) for members in groups] == ["blocks 2", "blocks 10"]


def test_a_setting_is_named_by_its_variant_and_values():
    assert setting_name(scored("a", 0, variant="w/o enc-in", kernel=[1, 3])) == "w/o enc-in, kernel 1, 3"
    assert setting_name(scored("a", 0)) == "as configured"
    mixed = [scored("x", 0, kernel="wide"), scored("y", 0, kernel=3), scored("z", 0, variant="a", kernel=1)]
    assert [members[0]["run"] for members in by_setting(mixed)] == ["y-seed0", "x-seed0", "z-seed0"]


def test_curve_means_and_deviations_equal_hand_computed_values():
    data = curves(RECORDS)
    assert (data["kind"], data["score"]) == ("curves", "dev.accuracy")
    one, two = data["settings"]
    assert one == {
        "name": "blocks 2",
        "seeds": [12],
        "points": [{"samples": 100, "mean": 0.4, "deviation": None}],
    }
    assert two["seeds"] == [0, 1]
    # The curve ends where the first seed stops: the mean of the others would be of other runs.
    assert [point["samples"] for point in two["points"]] == [100, 200]
    assert [point["mean"] for point in two["points"]] == pytest.approx([0.4, 0.65])
    assert two["points"][0]["deviation"] == pytest.approx(math.sqrt(2 * 0.1**2))


def test_scores_that_are_nan_or_none_are_left_out():
    found = scored("a", 0, (0.5, math.nan, None))
    (setting,) = curves([found])["settings"]
    assert [point["samples"] for point in setting["points"]] == [100]
    (setting,) = curves([found | {"selected_on": "dev.loss"}])["settings"]
    assert [point["mean"] for point in setting["points"]] == [1.0, 1.0, 1.0]


def test_unfinished_runs_and_different_scores_are_refused():
    with pytest.raises(InputError, match="no run has finished"):
        curves([RECORDS[3]])
    with pytest.raises(InputError, match="different scores: dev.accuracy, dev.mrr"):
        curves([RECORDS[0], {**RECORDS[1], "selected_on": "dev.mrr"}])


DEPTH = "model.stacked_layers"


def at(seed, accuracy, variant="CSRAN", status="finished", test=None, data="snli", **changed):
    overrides = {DEPTH: changed.pop("depth", 1), **changed}
    scores = {"accuracy": accuracy, "loss": 1.0}
    return setting_record(overrides, seed, scores, status, variant, data, test=test)


DEPTHS = [
    at(0, 0.7, variant="stacked model", depth=2),
    at(1, 0.9, depth=10),
    at(0, 0.8, depth=10),
    at(1, 0.6, depth=2),
    at(0, 0.4, depth=2),
    at(2, math.nan, depth=2, status="diverged"),
]


def test_curves_equal_hand_computed_means_and_deviations():
    data = scores_against(DEPTHS, DEPTH)
    assert (data["kind"], data["axis"], data["score"]) == ("scores", DEPTH, "dev.accuracy")
    one, two = data["curves"]
    assert one["name"] == "CSRAN" and [point["value"] for point in one["points"]] == [2, 10]
    assert [point["mean"] for point in one["points"]] == pytest.approx([0.5, 0.85])
    assert [point["deviation"] for point in one["points"]] == pytest.approx([math.sqrt(0.02), math.sqrt(0.005)])
    assert [point["seeds"] for point in one["points"]] == [[0, 1], [0, 1]]
    assert two == {"name": "stacked model", "points": [{"value": 2, "mean": 0.7, "deviation": None, "seeds": [0]}]}
    losses = scores_against([one | {"selected_on": "dev.loss"} for one in DEPTHS], DEPTH)
    assert losses["score"] == "dev.loss" and losses["curves"][1]["points"][0]["mean"] == 1.0


def test_axis_can_be_named_by_its_suffix_and_other_axes_split_the_curves():
    records = [at(0, 0.1 * depth * rate, depth=depth, rate=rate) for depth in (1, 2) for rate in (1, 3)]
    data = scores_against(records, "stacked_layers", "dev.loss")
    assert [(curve["name"], [point["mean"] for point in curve["points"]]) for curve in data["curves"]] == [
        ("CSRAN, rate 1", [1.0, 1.0]),
        ("CSRAN, rate 3", [1.0, 1.0]),
    ]


def test_each_data_set_has_its_own_curve():
    """CSRAN's Figure 3 has one curve per data set."""
    data = scores_against([at(0, 0.5), at(0, 0.7, data="quora"), at(0, 0.8, data="quora", depth=2)], DEPTH)
    assert {curve["name"]: len(curve["points"]) for curve in data["curves"]} == {"snli: CSRAN": 1, "quora: CSRAN": 2}


@pytest.mark.parametrize(
    ("records", "arguments", "problem"),
    [
        ([], (DEPTH,), "no run has finished"),
        (
            DEPTHS,
            ("model.blocks",),
            "'model.blocks' is not an axis of this sweep's grid; its axes are model.stacked_layers",
        ),
        (
            [{**DEPTHS[0], "overrides": {}}],
            (DEPTH,),
            "is not an axis of this sweep's grid; draw its learning curves",
        ),
        ([at(0, 0.1, **{"other.stacked_layers": 2})], ("stacked_layers",), "is more than one axis"),
        ([at(0, 0.1, depth="deep")], (DEPTH,), "is 'deep' in run .*, which is not a number"),
        (
            DEPTHS,
            (DEPTH, "test.accuracy"),
            "score 'test.accuracy' of run .* is missing or undefined; its scores are dev.accuracy, dev.loss",
        ),
        ([at(0, None)], (DEPTH,), "the score 'dev.accuracy' of run .* is missing or undefined"),
        (
            [at(0, 0.1), {**at(0, 0.2), "run": "other-seed0"}],
            (DEPTH,),
            "runs of two folders or settings have model.stacked_layers=1",
        ),
        (
            [at(0, 0.1), {**at(0, 0.2, depth=2), "selected_on": "dev.f1"}],
            (DEPTH,),
            "say which with --score",
        ),
        (DEPTHS + DEPTHS, (DEPTH,), "runs of two folders or settings have .*; leave one of the two out"),
    ],
)
def test_invalid_requests_are_refused(records, arguments, problem):
    with pytest.raises(InputError, match=problem):
        scores_against(records, *arguments)

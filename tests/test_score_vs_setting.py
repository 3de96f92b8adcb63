"""Scores against a setting of the grid: means and deviations computed by hand, and invalid requests."""

import math

import pytest
from small_records import setting_record

from jaxmatch.errors import InputError
from jaxmatch.reporting.figures import scores_against

DEPTH = "model.stacked_layers"


def scored(seed, accuracy, variant="CSRAN", status="finished", test=None, data="snli", **changed):
    overrides = {DEPTH: changed.pop("depth", 1), **changed}
    scores = {"accuracy": accuracy, "loss": 1.0}
    return setting_record(overrides, seed, scores, status, variant, data, test=test)


RECORDS = [
    scored(0, 0.7, variant="stacked model", depth=2),
    scored(1, 0.9, depth=10),
    scored(0, 0.8, depth=10),
    scored(1, 0.6, depth=2),
    scored(0, 0.4, depth=2),
    scored(2, math.nan, depth=2, status="diverged"),
]


def test_curves_equal_hand_computed_means_and_deviations():
    data = scores_against(RECORDS, DEPTH)
    assert (data["kind"], data["axis"], data["score"]) == ("scores", DEPTH, "dev.accuracy")
    one, two = data["curves"]
    assert one["name"] == "CSRAN" and [point["value"] for point in one["points"]] == [2, 10]
    assert [point["mean"] for point in one["points"]] == pytest.approx([0.5, 0.85])
    assert [point["deviation"] for point in one["points"]] == pytest.approx([math.sqrt(0.02), math.sqrt(0.005)])
    assert [point["seeds"] for point in one["points"]] == [[0, 1], [0, 1]]
    assert two == {"name": "stacked model", "points": [{"value": 2, "mean": 0.7, "deviation": None, "seeds": [0]}]}
    losses = scores_against([one | {"selected_on": "dev.loss"} for one in RECORDS], DEPTH)
    assert losses["score"] == "dev.loss" and losses["curves"][1]["points"][0]["mean"] == 1.0


def test_axis_can_be_named_by_its_suffix_and_other_axes_split_the_curves():
    records = [scored(0, 0.1 * depth * rate, depth=depth, rate=rate) for depth in (1, 2) for rate in (1, 3)]
    data = scores_against(records, "stacked_layers", "dev.loss")
    assert [(curve["name"], [point["mean"] for point in curve["points"]]) for curve in data["curves"]] == [
        ("CSRAN, rate=1", [1.0, 1.0]),
        ("CSRAN, rate=3", [1.0, 1.0]),
    ]


def test_each_data_set_has_its_own_curve():
    """CSRAN's Figure 3 has one curve per data set."""
    data = scores_against([scored(0, 0.5), scored(0, 0.7, data="quora"), scored(0, 0.8, data="quora", depth=2)], DEPTH)
    assert {curve["name"]: len(curve["points"]) for curve in data["curves"]} == {"snli: CSRAN": 1, "quora: CSRAN": 2}


@pytest.mark.parametrize(
    ("records", "arguments", "problem"),
    [
        ([], (DEPTH,), "no run has finished"),
        (
            RECORDS,
            ("model.blocks",),
            "'model.blocks' is not an axis of this sweep's grid; its axes are model.stacked_layers",
        ),
        ([{**RECORDS[0], "overrides": {}}], (DEPTH,), "is not an axis of this sweep's grid; draw its learning curves"),
        ([scored(0, 0.1, **{"other.stacked_layers": 2})], ("stacked_layers",), "is more than one axis"),
        ([scored(0, 0.1, depth="deep")], (DEPTH,), "is 'deep' in run .*, which is not a number"),
        (RECORDS, (DEPTH, "test.accuracy"), "has no score 'test.accuracy'; its scores are dev.accuracy, dev.loss"),
        (RECORDS, (DEPTH, "times.train"), "has no score 'times.train'"),
        ([scored(0, None)], (DEPTH,), "the score 'dev.accuracy' of run .* is undefined; draw another: --score"),
        (
            [scored(0, 0.1), {**scored(0, 0.2), "run": "other-seed0"}],
            (DEPTH,),
            "two settings have model.stacked_layers=1",
        ),
        ([scored(0, 0.1), {**scored(0, 0.2, depth=2), "selected_on": "dev.f1"}], (DEPTH,), "say which with --score"),
        (RECORDS + RECORDS, (DEPTH,), "is in 2 of the folders; leave all but one of them out"),
    ],
)
def test_invalid_requests_are_refused(records, arguments, problem):
    with pytest.raises(InputError, match=problem):
        scores_against(records, *arguments)

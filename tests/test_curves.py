"""Grouping of runs by setting, and the means and standard deviations of their curves."""

import json
import math
import statistics
from pathlib import Path

import pytest
from small_records import setting_record

from jaxmatch.errors import InputError
from jaxmatch.reporting.figures import curves
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
    assert [setting_name(members[0]) for members in groups] == ["blocks=2", "blocks=10"]


def test_a_setting_is_named_by_its_variant_and_values():
    assert setting_name(scored("a", 0, variant="w/o enc-in", kernel=[1, 3])) == "w/o enc-in, kernel=[1, 3]"
    assert setting_name(scored("a", 0)) == "as configured"
    mixed = [scored("x", 0, kernel="wide"), scored("y", 0, kernel=3), scored("z", 0, variant="a", kernel=1)]
    assert [members[0]["run"] for members in by_setting(mixed)] == ["y-seed0", "x-seed0", "z-seed0"]


def test_curve_means_and_deviations_equal_hand_computed_values():
    data = curves(RECORDS)
    assert (data["kind"], data["score"]) == ("curves", "dev.accuracy")
    one, two = data["settings"]
    assert one == {
        "name": "blocks=2",
        "seeds": [12],
        "points": [{"samples": 100, "mean": 0.4, "deviation": None, "seeds": 1}],
    }
    assert two["seeds"] == [0, 1]
    assert [(point["samples"], point["seeds"]) for point in two["points"]] == [(100, 2), (200, 2), (300, 1)]
    assert [point["mean"] for point in two["points"]] == pytest.approx([0.4, 0.65, 0.8])
    assert two["points"][0]["deviation"] == pytest.approx(math.sqrt(2 * 0.1**2))
    assert two["points"][2]["deviation"] is None


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


def test_curves_of_the_quickstart_results_equal_the_statistics_module():
    files = sorted((Path(__file__).parent.parent / "results" / "quickstart" / "runs").glob("*/record.json"))
    records = [json.loads(file.read_text()) for file in files]
    groups = by_setting(records)
    assert [[record["seed"] for record in members] for members in groups] == [[0, 1, 2]] * 4
    # The runs of a setting stop at different times. The last point that all of them have:
    index = min(len(record["curve"]) for record in groups[3]) - 1
    point = curves(records)["settings"][3]["points"][index]
    scores = [record["curve"][index]["dev"]["accuracy"] for record in groups[3]]
    assert (point["mean"], point["deviation"]) == pytest.approx((statistics.fmean(scores), statistics.stdev(scores)))

"""The verdict of a report, compared with hand-computed values."""

import dataclasses
from pathlib import Path

import pytest
from scipy import stats
from small_records import LAYOUT, record

from jaxmatch.reporting import statistics, verdict
from jaxmatch.reporting.records import SweepFolder
from jaxmatch.reporting.report import points

FOLDER = SweepFolder(Path("runs/small"), "small", LAYOUT, {}, {}, command="jaxmatch sweep small.py")


def folder(*records, **changes):
    known = {each["run"]: each for each in records}
    return dataclasses.replace(FOLDER, runs=dict.fromkeys(known, {}), records=known, **changes)


def accuracies(blocks, *values, **changes):
    """Returns runs of one setting with these dev accuracies."""
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test={"accuracy": value - 0.1}, **changes)
        for seed, value in enumerate(values)
    ]


def test_verdict_of_a_significantly_best_setting():
    runs = [*accuracies(1, 0.70, 0.71, 0.72), *accuracies(2, 0.80, 0.81, 0.85), *accuracies(3, 0.1, 0.11, 0.12)]
    best, beyond, run, test, command = verdict.verdict(folder(*runs))
    assert best.startswith("Best by mean dev accuracy: blocks=2 learning_rate=0.001, 82.0 ± 2.6% over 3 seeds.")
    assert best.endswith("That is 11.0 points better than the next, blocks=1 learning_rate=0.001.")
    p_value = stats.ttest_ind([0.80, 0.81, 0.85], [0.70, 0.71, 0.72], equal_var=False).pvalue
    assert beyond == f"It is beyond seed noise: better than every other setting (p = {p_value:.3f}, Welch with Holm)."
    assert run == "Run to use: runs/small/runs/run-2-0.001-2 (the best of them on dev, seed 2)."
    assert test == "Its test accuracy, which took no part in the choice: 72.0 ± 2.6% over 3 seeds."
    assert command == "Command: jaxmatch sweep small.py"


def test_settings_within_seed_noise_are_listed_with_the_seeds_needed():
    high, low, lower = (0.80, 0.82, 0.84, 0.83), (0.80, 0.82, 0.83), (0.785, 0.795, 0.80)
    sentences = verdict.verdict(folder(*accuracies(1, *low), *accuracies(2, *high), *accuracies(3, *lower)))
    p_value = stats.ttest_ind(high, lower, equal_var=False).pvalue
    assert p_value < 0.05 < 2 * p_value < 0.1  # Holm's correction for two comparisons
    assert sentences[1] == (
        f"Within seed noise of it (p {2 * p_value:.3f} or more, Welch with Holm): "
        "blocks=1 learning_rate=0.001, blocks=3 learning_rate=0.001."
    )
    needed = statistics.seeds_to_separate(high, low, 0.05 / 2)
    assert needed > statistics.seeds_to_separate(high, low) > 3
    assert sentences[2] == (
        f"About {needed:,} seeds each, {needed - 3:,} more than now, are needed to separate it from blocks=1 "
        "learning_rate=0.001 in dev accuracy "
        "(power 80%, level 5%, corrected for 2 comparisons)."
    )


def test_identical_seeds_allow_no_significance_test():
    sentences = verdict.verdict(folder(*accuracies(1, 0.7, 0.7, 0.7), *accuracies(2, 0.8, 0.8, 0.8)))
    assert sentences[0].endswith("That is 10.0 points better than the next, blocks=1 learning_rate=0.001.")
    assert sentences[1] == (
        "The seeds of blocks=2 learning_rate=0.001 do not differ, nor do those of blocks=1 learning_rate=0.001, "
        "so no test is possible."
    )
    tie = verdict.verdict(folder(*accuracies(1, 0.7, 0.8), *accuracies(2, 0.8, 0.7)))
    assert tie[0].endswith("That is as good as the next, blocks=2 learning_rate=0.001.")


def test_verdict_with_one_setting_one_seed_or_no_scores():
    alone = verdict.verdict(folder(*accuracies(1, 0.7)))
    assert alone[0] == (
        "Best by mean dev accuracy: blocks=1 learning_rate=0.001, 70.0% over 1 seed. It is the only setting."
    )
    others = [record(blocks, seed=seed, status="dropped") for blocks in (2, 3) for seed in (0, 1)]
    named = [one | {"run": f"setting{one['overrides']['model.blocks']}-seed{one['seed']}"} for one in others]
    assert verdict.verdict(folder(*accuracies(1, 0.7), *named))[0].endswith(
        "It is the only one of 3 settings with a dev score."
    )
    two = verdict.verdict(folder(*accuracies(1, 0.7), *accuracies(2, 0.8)))
    assert two[1].startswith("Not every setting has two seeds or more")
    assert verdict.verdict(folder()) == verdict.verdict(folder(record(status="diverged"))) == []


def test_unfinished_runs_are_reported_and_diverged_runs_are_not_counted():
    runs = [*accuracies(1, 0.7, 0.72), *accuracies(2, 0.8, 0.82), record(2, seed=9, status="diverged")]
    unfinished = folder(*runs)
    unfinished = dataclasses.replace(unfinished, runs={**unfinished.runs, "to come": {}})
    assert "1 of 6 runs has not finished; this may change." in verdict.verdict(unfinished)
    assert "81.0 ± 1.4% over 2 seeds" in verdict.verdict(unfinished)[0]


def test_lower_is_better_for_a_loss():
    def errors(blocks, *values):
        return [
            record(blocks, seed=seed, selected_on="dev.loss", dev={"loss": value}, test={"loss": value})
            for seed, value in enumerate(values)
        ]

    sentences = verdict.verdict(folder(*errors(1, 0.5, 0.52), *errors(2, 0.3, 0.32)))
    assert sentences[0].startswith("Best by mean dev loss: blocks=2") and "0.2000 better" in sentences[0]
    effects = verdict.effects(folder(*errors(1, 0.5, 0.52), *errors(2, 0.3, 0.32)))
    assert {each.value: each.difference for each in effects} == {1: pytest.approx(0.2), 2: None}


def test_runs_on_different_data_are_not_compared():
    other = accuracies(2, 0.9, 0.9)
    for each in other:
        each["data"] = {**each["data"], "name": "snli"}
    assert verdict.verdict(folder(*accuracies(1, 0.7, 0.7), *other)) == []


def test_axis_effects_compare_settings_that_differ_only_in_that_axis():
    table = {(1, 0.001): 0.70, (2, 0.001): 0.75, (1, 0.002): 0.60, (3, 0.001): 0.95}
    runs = [record(blocks, rate, seed=1, dev={"accuracy": value}) for (blocks, rate), value in table.items()]
    found = {(each.axis, each.value): each for each in verdict.effects(folder(*runs))}
    blocks = {value: each for (axis, value), each in found.items() if axis == "model.blocks"}
    assert blocks[3].difference is None and blocks[3].mean == 0.95
    assert blocks[1].settings == 2 and blocks[1].mean == pytest.approx(0.65)
    assert blocks[1].difference == pytest.approx(0.70 - 0.95)  # at the rate that both have
    rate = found["optimizer.learning_rate", 0.002]
    assert rate.difference == pytest.approx(0.60 - 0.70)


def test_chart_points_are_means_over_samples_that_all_seeds_reached():
    def curve(*values):
        return [
            {"samples": 10 * (place + 1), "train_loss": 1.0, "dev": {"accuracy": value}}
            for place, value in enumerate(values)
        ]

    runs = [
        record(1, seed=0, curve=curve(0.5, 0.6, 0.9)),
        record(1, seed=1, curve=curve(0.7, 0.8)),
        record(2, seed=0, curve=curve(0.1, None)),
    ]
    rows = [(row["setting"][:8], row["pairs"], row["score"]) for row in points(folder(*runs))]
    expected = [("blocks=2", 10, 10.0), ("blocks=1", 10, 60.0), ("blocks=1", 20, 70.0)]
    assert rows == [(name, pairs, pytest.approx(value)) for name, pairs, value in expected]

"""The verdict of a report, compared with hand-computed values."""

import dataclasses
from pathlib import Path

from scipy import stats
from small_records import record

from jaxmatch.reporting import report, statistics
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import SweepFolder

LAYOUT = TableLayout("small", ("model.blocks",))
FOLDER = SweepFolder(Path("runs/small"), "small", LAYOUT, {}, {}, command="jaxmatch sweep small.py")


def folder(*records, **changes):
    known = {each["run"]: each for each in records}
    return dataclasses.replace(FOLDER, runs=dict.fromkeys(known, {}), records=known, **changes)


def verdict(*records, **changes):
    of = folder(*records, **changes)
    return report.verdict(of, report.Ranking(of))


def effects(*records):
    """Returns axis and value -> the printed cells of its effect."""
    sheet = report.effects(report.Ranking(folder(*records)))
    rows = [[text.content for text in row] for row in sheet.sections[0]]
    return {(axis, value): cells for axis, value, *cells in rows}


def accuracies(blocks, *values, **changes):
    """Returns runs of one setting with these dev accuracies."""
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test={"accuracy": value - 0.1}, **changes)
        for seed, value in enumerate(values)
    ]


def test_verdict_of_a_significantly_best_setting():
    runs = [*accuracies(1, 0.70, 0.71, 0.72), *accuracies(2, 0.80, 0.81, 0.85), *accuracies(3, 0.1, 0.11, 0.12)]
    best, beyond, run, test, command = verdict(*runs)
    assert best.startswith("Best by mean dev accuracy: blocks 2, 82.0 ± 2.6% over 3 seeds.")
    assert best.endswith("That is 11.0 points better than the next, blocks 1.")
    p_value = stats.ttest_ind([0.80, 0.81, 0.85], [0.70, 0.71, 0.72], equal_var=False).pvalue
    assert (
        beyond
        == f"It is beyond seed noise: better than every other with a dev score (p = {p_value:.3f}, Welch with Holm)."
    )
    assert run == "Run to use: runs/small/runs/run-2-0.001-2 (the best of them on dev, seed 2)."
    assert test == "Its test accuracy, which took no part in the choice: 72.0 ± 2.6% over 3 seeds."
    assert command == "Command: jaxmatch sweep small.py"


def test_settings_within_seed_noise_are_listed_with_the_seeds_needed():
    high, low, lower = (0.80, 0.82, 0.84, 0.83), (0.80, 0.82, 0.83), (0.785, 0.795, 0.80)
    sentences = verdict(*accuracies(1, *low), *accuracies(2, *high), *accuracies(3, *lower))
    p_value = stats.ttest_ind(high, lower, equal_var=False).pvalue
    assert p_value < 0.05 < 2 * p_value < 0.1  # Holm's correction for two comparisons
    assert sentences[1] == (
        f"Within seed noise of it (p {2 * p_value:.3f} or more, Welch with Holm): blocks 1; blocks 3."
    )
    needed = statistics.seeds_to_separate(high, low, 0.05 / 2)
    assert needed > statistics.seeds_to_separate(high, low) > 3
    assert sentences[2] == (
        f"About {needed:,} seeds each, {needed - 3:,} more than now, are needed to separate it from blocks 1 in "
        "dev accuracy (power 80%, level 5%, corrected for 2 comparisons)."
    )


def test_identical_seeds_allow_no_significance_test():
    sentences = verdict(*accuracies(1, 0.7, 0.7, 0.7), *accuracies(2, 0.8, 0.8, 0.8))
    assert sentences[0].endswith("That is 10.0 points better than the next, blocks 1.")
    assert sentences[1] == "Too few seeds, or seeds that do not differ: blocks 2 and blocks 1 cannot be tested."
    tie = verdict(*accuracies(1, 0.7, 0.8), *accuracies(2, 0.8, 0.7))
    assert tie[0].endswith("That is as good as the next, blocks 2.")


def test_verdict_with_one_setting_one_seed_or_no_scores():
    alone = verdict(*accuracies(1, 0.7), record(2, status="dropped"))
    assert alone[0] == (
        "Best by mean dev accuracy: blocks 1, 70.0% over 1 seed. It is the only setting with a dev score."
    )
    two = verdict(*accuracies(1, 0.7), *accuracies(2, 0.8))
    assert two[1].startswith("Too few seeds")
    assert verdict() == verdict(record(status="diverged")) == []


def test_unfinished_runs_are_reported_and_diverged_runs_are_not_counted():
    runs = [*accuracies(1, 0.7, 0.72), *accuracies(2, 0.8, 0.82), record(2, seed=9, status="diverged")]
    planned = {**folder(*runs).runs, "to come": {}}
    unfinished = dataclasses.replace(folder(*runs), runs=planned)
    sentences = report.verdict(unfinished, report.Ranking(unfinished))
    assert "1 of 6 runs has not finished; this may change." in sentences and "81.0 ± 1.4% over 2 seeds" in sentences[0]


def test_lower_is_better_for_a_loss():
    def errors(blocks, *values):
        return [
            record(blocks, seed=seed, selected_on="dev.loss", dev={"loss": value}, test={"loss": value})
            for seed, value in enumerate(values)
        ]

    sentences = verdict(*errors(1, 0.5, 0.52), *errors(2, 0.3, 0.32))
    assert sentences[0].startswith("Best by mean dev loss: blocks 2") and "0.2000 better" in sentences[0]
    found = effects(*errors(1, 0.5, 0.52), *errors(2, 0.3, 0.32))
    assert found == {("blocks", "1"): ["1", "0.5100", "0.2000"], ("blocks", "2"): ["1", "0.3100", "–"]}


def test_runs_on_different_data_are_not_compared():
    other = accuracies(2, 0.9, 0.9)
    for each in other:
        each["data"] = {**each["data"], "name": "snli"}
    assert verdict(*accuracies(1, 0.7, 0.7), *other) == []


def test_axis_effects_compare_settings_that_differ_only_in_that_axis():
    table = {(1, 0.001): 0.70, (2, 0.001): 0.75, (1, 0.002): 0.60, (3, 0.001): 0.95}
    runs = [record(blocks, rate, seed=1, dev={"accuracy": value}) for (blocks, rate), value in table.items()]
    found = effects(*runs)
    assert found["blocks", "3"] == ["1", "95.0", "–"]
    assert found["blocks", "1"] == ["2", "65.0", "-25.0"]  # at the rate that both have
    assert found["learning rate", "0.002"][-1] == "-10.0"

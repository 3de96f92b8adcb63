"""The verdict on a sweep, and the effects of its axes, compared with hand-computed values."""

import dataclasses
from pathlib import Path

import pytest
from scipy import stats
from small_records import record

from jaxmatch.reporting import report, statistics
from jaxmatch.reporting.layout import BaselineRow, TableLayout
from jaxmatch.reporting.records import SweepFolder
from jaxmatch.reporting.verdict import Ranking, verdict

LAYOUT = TableLayout("small", ("model.blocks",))
BASELINE = BaselineRow("majority class", 0, {"dev.accuracy": 0.3, "test.accuracy": 0.3})
FOLDER = SweepFolder(Path("runs/small"), "small", LAYOUT, {}, {}, baselines=(BASELINE,))


def folder(*records, **changes):
    known = {each["run"]: each for each in records}
    return dataclasses.replace(FOLDER, runs=dict.fromkeys(known, {}), records=known, **changes)


def sentences(*records, **changes):
    of = folder(*records, **changes)
    return verdict(of, Ranking(of))[0]


def effects(*records):
    """Returns axis and value -> the printed cells of its effect."""
    sheet = report.effects(Ranking(folder(*records)))
    rows = [[text.content for text in row] for row in sheet.sections[0]]
    return {(axis, value): cells for axis, value, *cells in rows}


def accuracies(blocks, *values, **changes):
    """Returns runs of one setting with these dev accuracies. Test accuracies are ten points lower."""
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test={"accuracy": value - 0.1}, **changes)
        for seed, value in enumerate(values)
    ]


def test_verdict_of_a_significantly_best_setting():
    runs = [*accuracies(1, 0.70, 0.71, 0.72), *accuracies(2, 0.80, 0.81, 0.85), *accuracies(3, 0.1, 0.11, 0.12)]
    (baseline, best, beyond, run), command = verdict(folder(*runs), Ranking(folder(*runs)))
    assert baseline == (
        "The best setting, blocks 2, is 42.0 points above the best baseline, majority class, in test accuracy "
        "(72.0 ± 2.6% over 3 seeds, against 30.0%)."
    )
    assert best == (
        "Best by mean dev accuracy: blocks 2, 82.0 ± 2.6% over 3 seeds; the next, blocks 1, is 11.0 points below it."
    )
    p = stats.ttest_ind([0.80, 0.81, 0.85], [0.70, 0.71, 0.72], equal_var=False).pvalue
    assert beyond.endswith(f"seed noise: better than every other with a dev score (p = {p:.3f}, Welch with Holm).")
    assert run == "Run to use: runs/small/runs/run-2-0.001-2 (seed 2, the best on dev)."
    assert command == "jaxmatch predict runs/small --best --input pairs.tsv"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.75, "is 4.0 points below the best baseline, word overlap, in test accuracy: not worth using (71.0"),
        (0.705, "is 0.5 points above the best baseline, word overlap, in test accuracy, within seed noise (71.0"),
        (0.60, "is 11.0 points above the best baseline, word overlap, in test accuracy (71.0"),
    ],
)
def test_the_best_setting_is_compared_with_the_best_baseline_first(value, text):
    baselines = (BASELINE, BaselineRow("word overlap", 9, {"test.accuracy": value}))
    runs = accuracies(2, 0.80, 0.81, 0.82)
    assert text in sentences(*runs, baselines=baselines)[0]
    on_dev = sentences(*({**each, "test": None} for each in runs), baselines=baselines)[0]
    assert "51.0 points above the best baseline, majority class, in dev accuracy" in on_dev
    assert sentences(*runs, baselines=())[0].startswith("No baseline was fitted")


def test_settings_within_seed_noise_are_listed_with_the_seeds_needed():
    high, low, lower = (0.80, 0.82, 0.84, 0.83), (0.80, 0.82, 0.83), (0.785, 0.795, 0.80)
    runs = [*accuracies(1, *low), *accuracies(2, *high), *accuracies(3, *lower)]
    _, _, within, needed, *_ = sentences(*runs)
    p_value = stats.ttest_ind(high, lower, equal_var=False).pvalue
    assert p_value < 0.05 < 2 * p_value < 0.1  # Holm's correction for two comparisons
    assert within == f"Within seed noise of it (p {2 * p_value:.3f} or more, Welch with Holm): blocks 1; blocks 3."
    count = statistics.seeds_to_separate(high, low)  # of settings with different numbers of seeds, the fewer count
    more = f"About {count} seeds each, {count - 3} more than now, are needed to tell blocks 2 and blocks 1 apart (power"
    assert needed.startswith(more)


def test_a_worse_mean_within_noise_after_a_better_one_beyond_it_is_explained():
    runs = [*accuracies(1, 0.80, 0.801, 0.802), *accuracies(2, 0.82, 0.821, 0.822), *accuracies(3, 0.6, 0.8, 0.9)]
    found = " ".join(sentences(*runs))
    p = stats.ttest_ind((0.82, 0.821, 0.822), (0.6, 0.8, 0.9), equal_var=False).pvalue
    assert f"Within seed noise of it (p {p:.3f} or more, Welch with Holm): blocks 3." in found
    assert (
        "blocks 1 has a better mean than blocks 3 and yet is beyond noise, because Welch's test weighs how much the "
        "seeds of each setting spread (blocks 1: 80.1 ± 0.1% over 3 seeds; blocks 3: 76.7 ± 15.3% over 3 seeds)."
    ) in found


@pytest.mark.parametrize(("late", "told"), [(2, True), (1, False)])
def test_a_setting_that_was_best_at_the_last_evaluation_needs_more_training(late, told):
    runs = accuracies(1, 0.7, 0.8, 0.9, curve=[{"samples": 4500}, {"samples": 9000}])
    runs = [{**each, "selected_at_samples": 9000 if seed < late else 4500} for seed, each in enumerate(runs)]
    text = "Best at the last evaluation in 2 of 3 runs of this setting: train longer (--epochs)."
    assert (text in sentences(*runs)) == told and ("train longer" in " ".join(sentences(*runs))) == told


def test_the_run_to_use_is_the_one_that_best_takes():
    """The best single run may belong to another setting than the best mean."""
    assert sentences(*accuracies(1, 0.7, 0.95), *accuracies(2, 0.9, 0.9))[-1] == (
        "Run to use: runs/small/runs/run-1-0.001-1 (seed 1 of blocks 1, learning rate 0.001, the best on dev)."
    )


def test_identical_seeds_allow_no_significance_test():
    found = sentences(*accuracies(1, 0.7, 0.7, 0.7), *accuracies(2, 0.8, 0.8, 0.8))
    assert found[1].endswith("the next, blocks 1, is 10.0 points below it.")
    assert found[2] == "Too few seeds, or seeds that do not differ: blocks 2 and blocks 1 cannot be tested."
    tie = sentences(*accuracies(1, 0.7, 0.8), *accuracies(2, 0.8, 0.7))
    assert tie[1].endswith("the next, blocks 2, is as good.")


def test_verdict_with_one_setting_one_seed_or_no_scores():
    alone = sentences(*accuracies(1, 0.7), record(2, status="dropped"))
    assert alone[1] == "Best by mean dev accuracy: blocks 1, 70.0% over 1 seed."
    two = sentences(*accuracies(1, 0.7), *accuracies(2, 0.8))
    assert two[2].startswith("Too few seeds")
    for nothing in ([], [record(status="diverged")]):
        assert verdict(folder(*nothing), Ranking(folder(*nothing))) == ([], "")


def test_unfinished_runs_are_reported_and_diverged_runs_are_not_counted():
    runs = [*accuracies(1, 0.7, 0.72), *accuracies(2, 0.8, 0.82), record(2, seed=9, status="diverged")]
    planned = {**folder(*runs).runs, "to come": {}}
    found = dataclasses.replace(folder(*runs), runs=planned)
    text = " ".join(verdict(found, Ranking(found))[0])
    assert "1 of 6 runs has not finished: this may change." in text and "81.0 ± 1.4% over 2 seeds" in text


def test_lower_is_better_for_a_loss():
    def errors(blocks, *values):
        return [
            record(blocks, seed=seed, selected_on="dev.loss", dev={"loss": value}, test={"loss": value})
            for seed, value in enumerate(values)
        ]

    runs = [*errors(1, 0.5, 0.52), *errors(2, 0.3, 0.32)]
    layout, row = TableLayout("t", ("model.blocks",), scores=("dev.loss",)), BaselineRow("f", 1, {"test.loss": 0.2})
    baseline, best, *_ = sentences(*runs, layout=layout, baselines=(row,))
    assert best.startswith("Best by mean dev loss: blocks 2") and "blocks 1, is 0.2000 worse than it." in best
    assert "is 0.1100 worse than the best baseline, f, in test loss: not worth using" in baseline
    assert effects(*runs) == {("blocks", "1"): ["1", "0.5100", "0.2000"], ("blocks", "2"): ["1", "0.3100", "–"]}


def test_runs_on_different_data_are_not_compared():
    other = accuracies(2, 0.9, 0.9)
    for each in other:
        each["data"] = {**each["data"], "name": "snli"}
    assert sentences(*accuracies(1, 0.7, 0.7), *other) == []


def test_axis_effects_compare_settings_that_differ_only_in_that_axis():
    table = {(1, 0.001): 0.70, (2, 0.001): 0.75, (1, 0.002): 0.60, (3, 0.001): 0.95}
    runs = [record(blocks, rate, seed=1, dev={"accuracy": value}) for (blocks, rate), value in table.items()]
    found = effects(*runs)
    assert found["blocks", "3"] == ["1", "95.0", "–"]
    assert found["blocks", "1"] == ["2", "65.0", "-25.0"]  # at the rate that both have
    assert found["learning rate", "0.002"][-1] == "-10.0"

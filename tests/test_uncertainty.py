"""Statistics of tables and reports: bold, Holm, seeds needed, sampling error, convergence, bootstrap."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from small_records import cells, record

from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import SweepFolder, read_sweep_folder
from jaxmatch.reporting.report import certainty
from jaxmatch.reporting.table import make_table

RESULTS = Path(__file__).parent.parent / "results"
LAYOUT = TableLayout("t", ("model.blocks",), scores=("dev.accuracy", "test.accuracy"))


def runs(blocks, values, **changes):
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test={"accuracy": value}, **changes)
        for seed, value in enumerate(values)
    ]


def test_p_values_of_a_column_are_corrected_for_multiple_tests():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1})
    first, second = runs(1, (0.80, 0.82, 0.84)), runs(2, (0.70, 0.72, 0.74))
    alone = cells(make_table([*first, *second], layout))[2][-1]
    table = make_table([*first, *second, *runs(3, (0.81, 0.83, 0.82))], layout)
    beside = cells(table)
    assert alone == "−10.0 (p = 0.004)" and beside[2][-1] == "−10.0 (p = 0.007)"
    assert beside[3][-1] == "+0.0 (p = 1.000)"
    exported = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["p_holm"] == pytest.approx(2 * exported["p_value"])


def test_caption_states_how_many_seeds_separate_the_two_best_settings():
    near = make_table([*runs(1, (0.80, 0.82, 0.84)), *runs(2, (0.79, 0.80, 0.83))], LAYOUT).markdown()
    settings = "the two best settings (blocks 1; blocks 2) in test accuracy"
    assert f"About 38 seeds each, 35 more than now, are needed to separate {settings}" in near
    # Of settings with different numbers of seeds, the one with fewer counts.
    first, second = (0.80, 0.82, 0.84), (0.79, 0.80, 0.83, 0.82)
    count = statistics.seeds_to_separate(first, second)
    uneven = make_table([*runs(1, first), *runs(2, second)], LAYOUT).markdown()
    assert f"About {count:,} seeds each, {count - 3:,} more than now, are needed to separate {settings}" in uneven
    far = make_table([*runs(1, (0.80, 0.82, 0.84)), *runs(2, (0.70, 0.72, 0.74))], LAYOUT).markdown()
    assert "The seeds separate the two best settings (blocks 1; blocks 2) in test accuracy (p = 0.004" in far
    assert "two best" not in make_table(runs(1, (0.80, 0.82)), LAYOUT).markdown()
    assert "two best" not in make_table([*runs(1, (0.8,)), *runs(2, (0.7,))], LAYOUT).markdown()


def test_caption_states_the_sampling_error_of_the_test_set():
    text = make_table([*runs(1, (0.80, 0.82)), *runs(2, (0.70, 0.72))], LAYOUT).markdown()
    assert "Sampling error of the best test accuracy: 81.0%, 95% interval 79.9 to 82.1 (4,927 pairs)" in text
    # A table without test scores states the error of dev.
    dev = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    text = make_table(runs(1, (0.80, 0.82)), dev).markdown()
    assert "Sampling error of the best dev accuracy: 81.0%, 95% interval 77.3 to 84.2 (500 pairs)" in text
    # So does a table of runs whose test labels are not public.
    unscored = [{**one, "test": None} for one in runs(1, (0.80, 0.82))]
    assert make_table(unscored, LAYOUT).markdown().count("Sampling error of the best dev accuracy: 81.0%") == 1
    ranking = TableLayout("t", ("model.blocks",), scores=("dev.accuracy", "test.mrr"))
    assert "Sampling error" not in make_table([record(seed=seed) for seed in (1, 2)], ranking).markdown()


def test_caption_states_the_sampling_error_of_a_correlation():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.pearson", "test.pearson"))
    found = [record(seed=seed, dev={"pearson": 0.8}, test={"pearson": value}) for seed, value in enumerate((0.7, 0.72))]
    text = make_table(found, layout).markdown()
    assert "Sampling error of the best test Pearson: 0.7100, 95% interval 0.6959 to 0.7236 (4,927 pairs)" in text


def test_paired_table_uses_a_paired_t_test():
    """The change is small and similar for each seed; the spread over the seeds is larger."""
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1}, paired=True)
    first, second = (0.70, 0.75, 0.80, 0.85), (0.71, 0.761, 0.812, 0.86)
    found = [*runs(1, first), *runs(2, second)]
    (changed,) = (row[-1] for row in cells(make_table(found, layout))[2:])
    p_value = stats.ttest_rel(second, first).pvalue
    assert p_value < 0.001 and changed == r"+1.1 (p \< 0.001)"
    text = make_table(found, layout).markdown()
    assert "; p: paired t-test, two-sided, over the seeds that both have" in text
    exported = json.loads(make_table(found, layout).json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["method"] == "paired t-test, two-sided" and exported["p_value"] == pytest.approx(p_value)
    assert r"The seeds separate the two best settings (blocks 2; blocks 1) in dev accuracy (p \< 0.001" in text
    # The differences of the three seeds that both have, which are the last three, are 0.5, 1.0 and 0.1 points.
    near = make_table([*runs(1, first), *runs(2, (0, 0.755, 0.81, 0.851))[1:]], layout).markdown()
    count = statistics.shared_seeds_to_separate([0.005, 0.01, 0.001])
    assert f"About {count} shared seeds, {count - 3} more than now, are needed to separate the two best" in near
    fewer = cells(make_table([*runs(1, first), *runs(2, second)[1:]], layout))[2][-1]
    assert fewer.endswith(f"(p = {stats.ttest_rel(second[1:], first[1:]).pvalue:.3f})")


def test_paired_table_shows_the_difference_that_it_tests():
    """Over all seeds, two blocks have the better mean. Over the three seeds that both have, they are clearly worse."""
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1}, paired=True)
    original, more = (0.85, 0.861, 0.849), (0.80, 0.81, 0.80, 0.95, 0.96, 0.95)
    table = make_table([*runs(1, original), *runs(2, more)], layout)
    difference = 100 * (np.mean(more[:3]) - np.mean(original))
    assert cells(table)[2][-1].startswith(f"−{-difference:.1f} (p")
    text = table.markdown()
    assert "Bold" not in text and "separate the two best" not in text
    exported = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["lower"] < exported["difference"] < exported["upper"] < 0


def test_data_sets_of_equal_name_but_different_files_are_not_compared():
    """The files of training may differ, because no score depends on them."""

    def of(directory, values, blocks):
        files = {"train": f"for {blocks} blocks", "dev": directory}
        data = record()["data"] | {"name": "own", "fingerprint": directory, "files": files}
        changes = {"data": data, "config": {"data": {"directory": directory}}}
        return runs(blocks, values, **changes)

    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    first, second = (0.80, 0.82, 0.84), (0.70, 0.72, 0.74)
    same = make_table([*of("a", first, 1), *of("a", second, 2)], layout).markdown()
    assert "Bold" in same and "on own" not in same
    text = make_table([*of("a", first, 1), *of("b", second, 2)], layout).markdown()
    assert "Bold" not in text and "two best" not in text
    for directory, best in (("a", "82.0%"), ("b", "72.0%")):
        assert f"Sampling error of the best dev accuracy on own in {directory}: {best}" in text


def test_bold_caption_states_that_unfinished_settings_are_excluded():
    found = [*runs(1, (0.80, 0.82, 0.84)), *runs(2, (0.70, 0.72, 0.74))]
    assert "Bold: better than every other on the same data" in make_table(found, LAYOUT).markdown()
    dropped = [one | {"status": "dropped", "dropped": {"after_epochs": 1}} for one in runs(3, (0.9, 0.9, 0.9))]
    text = make_table([*found, *dropped], LAYOUT).markdown()
    assert "Bold: better than every other that finished on the same data" in text


def test_the_caption_names_the_data_set_where_there_are_several():
    def on(name, one):
        config = {"data": {"name": name}, "model": {"blocks": one["overrides"]["model.blocks"]}}
        return {**one, "data": {**one["data"], "name": name, "fingerprint": name}, "config": config}

    found = [*runs(1, (0.80, 0.82)), *runs(2, (0.70, 0.72))]
    layout = TableLayout("t", ("model.blocks", "data.name"), scores=("test.accuracy",))
    records = [on(name, one) for name in ("sick", "snli") for one in found]
    text = make_table(records, layout).markdown()
    for name in ("sick", "snli"):
        assert f"Sampling error of the best test accuracy on {name}: 81.0%" in text
        assert f"in test accuracy on {name} (p = " in text


def test_caption_states_the_sampling_error_of_a_ranking():
    layout = TableLayout("t", ("model.blocks",), scores=("test.map", "test.mrr"))

    def caption(*changes):
        scores = {"accuracy": 0.9, "map": 0.72, "mrr": 0.75}
        records = [record(1, seed=seed, test=scores) | one for seed, one in enumerate(changes)]
        return make_table(records, layout).markdown()

    first, second = (
        {"test_sampling": {"questions": 243, "deviations": {"map": 0.36 + more, "mrr": 0.4}}} for more in (0, 0.04)
    )
    # 1.96 * 0.38 / sqrt(243) = 0.0478, and 1.96 * 0.4 / sqrt(243) = 0.0503.
    note = "best test scores: MAP 0.7200 ± 0.0478 and MRR 0.7500 ± 0.0503 (95% interval, 243 questions), in addition to"
    assert note in caption(first, second)
    assert "questions)" not in caption(first, {})  # a record of an older version
    for questions in (0, 1):  # with right and wrong answers
        undefined = {"test_sampling": {"questions": questions, "deviations": {"map": None, "mrr": None}}}
        assert "questions)" not in caption(undefined)


@pytest.mark.parametrize(
    ("curves", "note"),
    [
        ([(4500, 9000), (4500,)], "Best at the last evaluation: 1 of 2 runs, which had 1 to 2 evaluations."),
        ([(4500, 9000), (4500, 9000)], "Best at the last evaluation: 0 of 2 runs, which had 2 evaluations."),
        ([(4500,), (4500,)], "Best at the last evaluation: 2 of 2 runs, which had 1 evaluation."),
        ([(4500,), ()], ""),  # a record without a curve
    ],
)
def test_caption_counts_runs_that_were_best_at_the_last_evaluation(curves, note):
    records = [
        record(1, seed=seed, curve=[{"samples": samples} for samples in curve]) for seed, curve in enumerate(curves)
    ]
    text = make_table(records, LAYOUT).markdown()
    assert note in text and ("Best at the last" in text) == bool(note)


def test_bootstrap_and_improvement_probability_equal_expected_values():
    values = np.random.default_rng(1).normal(0.8, 0.02, 30).tolist()
    lower, upper = statistics.bootstrap_interval(values)
    error = np.std(values) / np.sqrt(len(values))  # the standard error of a normal mean of many values
    assert (lower, upper) == pytest.approx((np.mean(values) - 1.96 * error, np.mean(values) + 1.96 * error), abs=6e-4)
    assert statistics.bootstrap_interval([0.8]) is None
    # 0.5 beats 0.4 alone, 0.9 beats all three, and 0.5 ties with 0.5: (1 + 0.5 + 3) / 6.
    assert statistics.probability_of_improvement([0.5, 0.9], [0.4, 0.5, 0.6]) == pytest.approx(4.5 / 6)


def test_improvement_interval_matches_scipy_and_needs_little_memory():
    values, others = [0.81, 0.83, 0.84, 0.86, 0.86], [0.79, 0.82, 0.84, 0.85]

    def share(one, other):
        return stats.mannwhitneyu(one, other).statistic / (len(one) * len(other))

    assert statistics.probability_of_improvement(values, others) == pytest.approx(share(values, others))
    judge = stats.bootstrap((values, others), share, n_resamples=2_000, vectorized=False, method="percentile", rng=0)
    found = statistics.improvement_interval(values, others)
    assert found == pytest.approx(tuple(judge.confidence_interval), abs=0.051)  # one of the 20 pairs is 0.05
    tracemalloc.start()
    statistics.improvement_interval(np.linspace(0, 1, 100), np.linspace(0, 1, 100))
    assert tracemalloc.get_traced_memory()[1] < 50e6  # all pairs of all draws would be 400 MB
    tracemalloc.stop()
    assert statistics.improvement_interval([0.8], others) is statistics.improvement_interval(values, [0.8]) is None


def test_a_lower_loss_beats_a_higher_one():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.loss",))
    losses = {1: (0.5, 0.6), 2: (0.2, 0.55)}  # of four pairs, two blocks win three
    found = [
        record(blocks, seed=seed, dev={"loss": value}) for blocks in losses for seed, value in enumerate(losses[blocks])
    ]
    folder = SweepFolder(Path("."), "s", layout, {}, {one["run"]: one for one in found})
    ((_, sheet),) = certainty(folder)
    assert [row[-1].content.partition(" ")[0] for row in sheet.sections[0]] == ["–", "75%"]


def test_report_states_how_often_the_best_beats_the_others():
    folder = read_sweep_folder(RESULTS / "sick")
    ((heading, sheet),) = certainty(folder)
    text = " ".join(cell.content for row in sheet.sections[0] for cell in row)
    assert heading == "test accuracy (%), sick"
    # Of the test accuracies of five seeds each, 1 + 2 + 2 + 5 + 5 of 25 pairs are won.
    assert "blocks 3, learning rate 0.001 5 85.2 84.4 to 86.1 – blocks 2, learning rate 0.001 5 84.7" in text
    assert "84.3 to 85.2 60% (20% to 92%) blocks 1, learning rate 0.001" in text

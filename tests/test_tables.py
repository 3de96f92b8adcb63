"""Rows, means and deviations follow from the records; invalid records are errors."""

import csv
import io
import json
import math
import re

import pytest
from small_records import LAYOUT, cells, record

from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import TableLayout, format_number, format_ranges, score_heading, setting_headings
from jaxmatch.reporting.table import make_table


def test_mean_and_sample_deviation_over_seeds():
    values = (0.80, 0.82, 0.87)
    records = [record(seed=seed, dev={"accuracy": value}, test=None) for seed, value in enumerate(values)]
    header, row = cells(make_table(records, LAYOUT))
    assert header == ["blocks", "learning rate", "parameters", "seeds", "dev accuracy (%)", "test accuracy (%)"]
    # Mean 83, deviations -3 -1 4, so the variance is 26 / 2.
    assert row == ["1", "0.001", "1,000,001", "3", f"83.0 ± {math.sqrt(13):.1f}", "–"]
    assert row[4] == "83.0 ± 3.6"


def test_one_seed_has_no_deviation():
    table = make_table([record(seed=3)], LAYOUT)
    assert cells(table)[1][3:] == ["1", "81.3", "80.3"]
    assert "seed 3" in table.caption[0] and "±" not in str(cells(table))


def test_one_time_for_runs_that_trained_together_has_no_deviation():
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy", "times.train_seconds"))
    together = [record(seed=seed) for seed in (1, 2)]
    assert cells(make_table(together, layout))[1][4:] == ["81.2 ± 0.1", "12.3"]
    separate = [record(seed=seed, cohort=f"c{seed}", times={"train_seconds": 10.0 * seed}) for seed in (1, 2)]
    assert cells(make_table(separate, layout))[1][5] == "15.0 ± 7.1"


def test_the_best_mean_is_bold_only_if_it_is_significantly_better():
    records = [record(blocks, rate, seed) for blocks in (1, 2, 3) for rate in (0.001, 0.02) for seed in (1, 2, 3)]
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy", "dev.loss", "dev.mrr", "best_on_test.accuracy"))
    rows = cells(make_table(records, layout))
    bold = [[text.startswith("**") for text in row[4:]] for row in rows[1:]]
    # A smaller loss is better; scores chosen on test are never bold.
    assert bold == [[False] * 4] * 4 + [[True, True, True, False], [False] * 4]
    assert "Bold: better than every other on the same data" in make_table(records, layout).markdown()
    near = [record(blocks, rate, seed) for blocks in (1, 2, 3) for rate in (0.001, 0.002) for seed in (1, 3)]
    assert "**8" not in make_table(near, layout).markdown()  # 86.2 and 86.1, by two seeds each
    alone = make_table([record(3, 0.001, seed) for seed in (1, 2)], layout).markdown()
    assert "**" not in alone.replace("**t.**", "")


def test_the_best_of_each_data_set_is_bold():
    def on(data, blocks, seed):
        made = record(blocks, seed=seed)
        made["data"] = made["data"] | {"name": data, "fingerprint": data}
        made["config"] = made["config"] | {"data": {"name": data}}
        return made

    records = [
        on(data, *of) for data, *of in (("sick", 1, 1), ("sick", 1, 2), ("sick", 2, 1), ("sick", 2, 2), ("snli", 3, 1))
    ]
    rows = cells(make_table(records, TableLayout("t", ("data.name", "model.blocks"), scores=("dev.accuracy",))))
    assert [row[-1] for row in rows[1:]] == ["81.2 ± 0.1", "**84.1 ± 0.1**", "86.1"]


def test_the_best_of_single_seeds_is_not_bold():
    records = [record(blocks, dev={"accuracy": value}) for blocks, value in ((1, 0.85), (2, 0.7), (3, 0.8))]
    rows = cells(make_table(records, TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))))
    assert [row[-1] for row in rows[1:]] == ["85.0", "70.0", "80.0"]


def test_diverged_runs_are_counted_but_not_averaged():
    records = [record(3, seed=seed) for seed in (1, 3)] + [record(3, seed=2, status="diverged")]
    # A run that diverged late has scores of its checkpoint; they do not count either.
    records.append(record(3, seed=4, status="diverged") | {"dev": {"accuracy": 0.1}, "test": {"accuracy": 0.1}})
    records.append(record(3, 0.1, seed=1, status="diverged"))
    table = make_table(records, LAYOUT)
    _, first, second = cells(table)
    assert first[3:] == ["2 + 2 diverged", "86.2 ± 0.1", "85.2 ± 0.1"]
    assert second[3:] == ["0 + 1 diverged", "diverged", "diverged"]
    assert "3 of 5 runs diverged" in table.markdown()
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(line["finished"], line["diverged"], line["dev.accuracy.n"]) for line in lines] == [
        ("2", "2", "2"),
        ("0", "1", "0"),
    ]
    assert lines[1]["dev.accuracy.mean"] == ""


@pytest.mark.parametrize("status", ["diverged", "dropped"])
def test_table_without_a_finished_run_counts_the_others(status):
    table = make_table([record(3, seed=seed, status=status) | {"curve": [{"samples": 1}]} for seed in (1, 2)], LAYOUT)
    assert f"0 + 2 {status}" in table.markdown() and "Best at the last evaluation" not in table.markdown()
    assert all(map(len, (table.csv(), table.json(), table.latex())))


def test_missing_and_undefined_scores_are_not_averaged():
    records = [record(seed=1), record(seed=2, test=None), record(seed=3, test={"accuracy": math.nan})]
    table = make_table(records, LAYOUT)
    assert cells(table)[1][-1] == "80.1 (n = 1)"
    assert "(n = k): only k of the runs" in table.markdown()
    (row,) = json.loads(table.json())["rows"]
    assert row["runs"][2]["scores"]["test"]["accuracy"] is None and row["scores"]["test.accuracy"]["n"] == 1


def test_numbers_ranges_and_headings_are_formatted():
    assert format_number("dev.accuracy", 0.85349) == "85.3"
    assert format_number("test.macro_f1", 1.0) == "100.0"
    assert format_number("test.map", 0.74521) == "0.7452"
    assert format_number("test.pearson", -0.00001) == "0.0000"
    assert format_number("times.train_seconds", 12.34) == "12.3"
    assert score_heading("dev.mrr") == "dev MRR"
    assert score_heading("best_on_test.f1") == "best on test (selected on test): F1 (%)"
    assert format_ranges([5, 1, 2, 3, 9, 8, 3]) == "1–3, 5, 8, 9"
    assert setting_headings(["model.blocks", "a.rate", "b.rate"]) == {
        "model.blocks": "blocks",
        "a.rate": "a rate",
        "b.rate": "b rate",
    }


def test_rows_are_sorted_numerically_or_in_the_given_order():
    records = [record(dev={"accuracy": 0.5}, overrides={"optimizer.warmup": n}, run=str(n)) for n in (100, 9, 20)]
    layout = TableLayout("t", ("optimizer.warmup",))
    assert [row[0] for row in cells(make_table(records, layout))[1:]] == ["9", "20", "100"]
    ordered = TableLayout("t", ("optimizer.warmup",), order={"optimizer.warmup": (20, 100)})
    assert [row[0] for row in cells(make_table(records, ordered))[1:]] == ["20", "100", "9"]


def test_a_grid_key_missing_from_the_layout_becomes_a_row_label():
    records = [record(2, rate, seed) for rate in (0.001, 0.002) for seed in (1, 2)]
    table = make_table(records, TableLayout("t", ("model.blocks",)))
    assert table.keys == ("model.blocks", "optimizer.learning_rate") and len(table.rows) == 2
    # Variants bring their own overrides, so the variant alone is the key.
    variants = [
        record(2, seed=seed, variant=variant, overrides={"model.alignment": alignment}, run=variant + str(seed))
        for variant, alignment in (("", "linear"), ("identity", "identity"))
        for seed in (1, 2)
    ]
    table = make_table(variants, TableLayout("t", ("model.blocks",)))
    assert table.keys == ("model.blocks", "variant")
    assert [row[1] for row in cells(table)[1:]] == ["as configured", "identity"]


def test_a_run_of_a_narrower_grid_is_assigned_to_its_row_by_its_config():
    narrow = record(2, seed=1) | {"overrides": {}}
    table = make_table([narrow, record(2, seed=2), record(2, rate=0.002, seed=1)], LAYOUT)
    assert [len(row.cells[0].finished) for row in table.rows] == [2, 1]


def test_pivot_gives_each_value_its_columns():
    records = [record(blocks, rate, seed) for blocks in (1, 2) for rate in (0.001, 0.002) for seed in (1, 2)]
    records = [each for each in records if (each["overrides"]["model.blocks"], each["seed"]) != (2, 2)]
    records = [each for each in records if each["run"] != "run-2-0.002-1"]
    layout = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy", "test.accuracy"))
    table = make_table(records, layout)
    header, first, second = cells(table)
    assert header[3:] == [
        "learning rate 0.001: dev accuracy (%)",
        "learning rate 0.001: test accuracy (%)",
        "learning rate 0.002: dev accuracy (%)",
        "learning rate 0.002: test accuracy (%)",
    ]
    assert first == ["1", "1,000,001", "2", "81.2 ± 0.1", "80.2 ± 0.1", "81.0 ± 0.1", "80.0 ± 0.1"]
    assert second == ["2", "1,000,002", "1 / –", "84.1", "83.1", "–", "–"]
    latex = table.latex()
    assert r"& & & \multicolumn{2}{c}{learning rate 0.001} &" in latex.replace("  ", " ")
    assert r"\cmidrule(lr){4-5} \cmidrule(lr){6-7}" in latex
    # CSV still has one line for each cell.
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(line["model.blocks"], line["optimizer.learning_rate"]) for line in lines] == [
        ("1", "0.001"),
        ("1", "0.002"),
        ("2", "0.001"),
    ]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "no records"),
        ([record(test={"mrr": 0.5})], "'test.accuracy', which no record has; use one of test.mrr"),
        ([record(overrides={}, config={})], "record run-1-0.001-1 has no setting 'model.blocks'"),
        ([record(), record(run="twin")], "run-1-0.001-1 and twin belong to the same table cell and seed"),
        (
            [record(), record(seed=2, data=record()["data"] | {"fingerprint": "g"})],
            "run-1-0.001-1 and run-1-0.001-2 belong to the same table cell but were trained on different data",
        ),
    ],
)
def test_invalid_records_are_errors(records, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make_table(records, LAYOUT)


def test_duplicate_records_error_names_the_settings_that_differ():
    twin = record(run="twin", config={"model": {"name": "re2", "blocks": 1}, "optimizer": {"warmup": 5}})
    with pytest.raises(InputError, match=r"differ in optimizer\.learning_rate, optimizer\.warmup"):
        make_table([record(), twin], LAYOUT)


def test_a_score_without_a_known_prefix_is_an_error():
    with pytest.raises(InputError, match="'accuracy', which is not a score"):
        make_table([record()], TableLayout("t", (), scores=("accuracy",)))


def test_runs_of_different_settings_are_not_averaged_as_seeds():
    config = record()["config"] | {"training": {"evaluate_every_samples": 1280}}
    runs = [record(run="aaa-seed1"), record(seed=2, run="aaa-seed2"), record(seed=3, run="bbb-seed3", config=config)]
    assert make_table(runs[:2], LAYOUT).rows[0].cells[0].scores["dev.accuracy"].mean
    message = (
        "aaa-seed1 and bbb-seed3 belong to the same table cell but differ in training.evaluate_every_samples; name"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        make_table(runs, LAYOUT)

"""Tables say what the records say, in every format and whatever order the records come in."""

import copy
import csv
import io
import json
import math
import re
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.errors import InputError
from jaxmatch.experiments.tables import Published, TableLayout, formats, make_table, numbers

ACCURACY = {1: 0.81, 2: 0.84, 3: 0.86}


def record(blocks=1, rate=0.001, seed=1, status="finished", **changes):
    accuracy = ACCURACY[blocks] + seed / 1000 - (rate - 0.001)
    scores = {"accuracy": accuracy, "loss": 1 - accuracy, "mrr": accuracy / 2}
    made = {
        "format": 1,
        "run": f"run-{blocks}-{rate}-{seed}",
        "sweep": "sick",
        "cohort": "c",
        "seed": seed,
        "variant": "",
        "overrides": {"model.blocks": blocks, "optimizer.learning_rate": rate},
        "config": {"model": {"name": "re2", "blocks": blocks}, "optimizer": {"learning_rate": rate, "warmup": 0}},
        "status": status,
        "diverged_at_samples": 512 if status == "diverged" else None,
        "selected_on": "dev.accuracy",
        "selected_at_samples": 4500,
        "dev": scores,
        "test": {name: value - 0.01 for name, value in scores.items()},
        "best_on_test": {"scores": {"accuracy": accuracy + 0.05}, "at_samples": 9000},
        "curve": [],
        "times": {"train_seconds": 12.34},
        "versions": {"jax": "0.10.2"},
        "device": "cpu x86_64",
        "commit": "abc",
        "data": {
            "name": "sick",
            "fingerprint": "f",
            "train": 4500,
            "dev": 500,
            "test": 4927,
            "vectors": "minilm.300d.zip",
            "coverage": 0.987,
        },
        "parameters": 1_000_000 + blocks,
    }
    if status == "diverged":
        made |= {"dev": None, "test": None, "best_on_test": None}
    return made | changes


LAYOUT = TableLayout("RE2 on SICK", ("model.blocks", "optimizer.learning_rate"))


def cells(table):
    """The body of the Markdown table as stripped text, header first."""
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [rows[0], *rows[2:]]


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
    assert "seed 3" in table.caption[0] and "±" not in table.markdown()


def test_best_mean_is_bold_and_only_where_there_is_a_choice():
    records = [record(blocks, rate, seed) for blocks in (1, 2, 3) for rate in (0.001, 0.002) for seed in (1, 3)]
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy", "dev.loss", "dev.mrr", "best_on_test.accuracy"))
    rows = cells(make_table(records, layout))
    bold = [[text.startswith("**") for text in row[4:]] for row in rows[1:]]
    # 86.2 and 86.1 print differently; a smaller loss is better; what was chosen on test wins nothing.
    assert bold == [[False] * 4] * 4 + [[True, True, True, False], [False] * 4]
    alone = make_table([record(3, 0.001, seed) for seed in (1, 2)], layout).markdown()
    assert "**" not in alone.replace("**t.**", "")


def test_the_best_of_each_data_set_is_bold():
    def on(data, blocks, seed):
        made = record(blocks, seed=seed)
        made["data"] = made["data"] | {"name": data, "fingerprint": data}
        made["config"] = made["config"] | {"data": {"name": data}}
        return made

    records = [on(data, blocks, 1) for data, blocks in (("sick", 1), ("sick", 2), ("snli", 3))]
    rows = cells(make_table(records, TableLayout("t", ("data.name", "model.blocks"), scores=("dev.accuracy",))))
    assert [row[-1] for row in rows[1:]] == ["81.1", "**84.1**", "86.1"]


def test_equal_in_print_is_equally_bold():
    records = [record(blocks, dev={"accuracy": value}) for blocks, value in ((1, 0.85001), (2, 0.85), (3, 0.8))]
    rows = cells(make_table(records, TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))))
    assert [row[-1] for row in rows[1:]] == ["**85.0**", "**85.0**", "80.0"]


def test_diverged_runs_are_counted_and_in_no_mean():
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


def test_missing_and_undefined_scores_are_not_averaged():
    records = [record(seed=1), record(seed=2, test=None), record(seed=3, test={"accuracy": math.nan})]
    table = make_table(records, LAYOUT)
    assert cells(table)[1][-1] == "80.1 (n = 1)"
    assert "(n = k): only k of the runs" in table.markdown()
    assert json.loads(table.json())["rows"][0]["runs"][2]["scores"]["test"]["accuracy"] is None


def test_numbers_are_printed_as_readers_expect_them():
    assert numbers.print_number("dev.accuracy", 0.85349) == "85.3"
    assert numbers.print_number("test.macro_f1", 1.0) == "100.0"
    assert numbers.print_number("test.map", 0.74521) == "0.7452"
    assert numbers.print_number("test.pearson", -0.00001) == "0.0000"
    assert numbers.print_number("times.train_seconds", 12.34) == "12.3"
    assert numbers.score_heading("dev.mrr") == "dev MRR"
    assert numbers.score_heading("best_on_test.f1") == "best on test (selected on test): F1 (%)"
    assert numbers.print_ranges([5, 1, 2, 3, 9, 8, 3]) == "1–3, 5, 8, 9"
    assert numbers.setting_headings(["model.blocks", "a.rate", "b.rate"]) == {
        "model.blocks": "blocks",
        "a.rate": "a rate",
        "b.rate": "b rate",
    }


def test_rows_are_in_the_order_of_numbers_not_of_text():
    records = [record(dev={"accuracy": 0.5}, overrides={"optimizer.warmup": n}, run=str(n)) for n in (100, 9, 20)]
    layout = TableLayout("t", ("optimizer.warmup",))
    assert [row[0] for row in cells(make_table(records, layout))[1:]] == ["9", "20", "100"]
    asked = TableLayout("t", ("optimizer.warmup",), order={"optimizer.warmup": (20, 100)})
    assert [row[0] for row in cells(make_table(records, asked))[1:]] == ["20", "100", "9"]


def test_a_grid_key_the_layout_forgot_becomes_a_row_label_and_is_not_averaged_over():
    records = [record(2, rate, seed) for rate in (0.001, 0.002) for seed in (1, 2)]
    table = make_table(records, TableLayout("t", ("model.blocks",)))
    assert table.keys == ("model.blocks", "optimizer.learning_rate") and len(table.rows) == 2
    # Variants bring their own overrides: the variant alone says it all.
    variants = [
        record(2, seed=seed, variant=variant, overrides={"model.alignment": alignment}, run=variant + str(seed))
        for variant, alignment in (("", "linear"), ("identity", "identity"))
        for seed in (1, 2)
    ]
    table = make_table(variants, TableLayout("t", ("model.blocks",)))
    assert table.keys == ("model.blocks", "variant")
    assert [row[1] for row in cells(table)[1:]] == ["as configured", "identity"]


def test_a_run_of_a_narrower_grid_finds_its_row_by_its_config():
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
    assert second == ["2", "1,000,002", "1 / –", "**84.1**", "**83.1**", "–", "–"]
    latex = table.latex()
    assert r"& & & \multicolumn{2}{c}{learning rate 0.001} &" in latex.replace("  ", " ")
    assert r"\cmidrule(lr){4-5} \cmidrule(lr){6-7}" in latex
    # CSV stays one line a cell.
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(line["model.blocks"], line["optimizer.learning_rate"]) for line in lines] == [
        ("1", "0.001"),
        ("1", "0.002"),
        ("2", "0.001"),
    ]


PAPER = Published(
    "RE2 (paper)",
    {"test.map": "0.7452 ± 0.0044", "test.mrr": "0.7618 ± 0.0040"},
    "Yang et al. (2019), Table 4",
    {"model.blocks": 2, "parameters": "2.8M", "seeds": 10},
)


def test_published_rows_stand_below_as_they_were_printed():
    records = [record(1, seed=seed, test={"map": 0.7, "mrr": 0.7}) for seed in (1, 2)]
    layout = TableLayout("t", ("model.blocks",), scores=("dev.mrr", "test.map", "test.mrr"), published=(PAPER,))
    table = make_table(records, layout)
    header, own, paper = cells(table)
    assert header[0] == "model" and own[0] == "this work"
    assert paper == ["RE2 (paper)", "2", "2.8M", "10", "", "0.7452 ± 0.0044", "0.7618 ± 0.0040"]
    assert "- RE2 (paper): Yang et al. (2019), Table 4." in table.markdown()
    assert table.latex().count(r"\midrule") == 2
    assert "0.7452" not in table.csv()
    assert json.loads(table.json())["published"][0]["scores"]["test.map"] == "0.7452 ± 0.0044"


def test_published_scores_without_a_column_are_told_in_a_note():
    records = [record(1, test={"map": 0.7, "mrr": 0.7})]
    some = make_table(records, TableLayout("t", ("model.blocks",), scores=("test.map",), published=(PAPER,)))
    assert "Table 4; test MRR 0.7618 ± 0.0040." in some.markdown() and cells(some)[2][-1] == "0.7452 ± 0.0044"
    pivoted = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("test.map",), (PAPER,))
    table = make_table(records, pivoted)
    assert "Table 4; test MAP 0.7452 ± 0.0044; test MRR 0.7618 ± 0.0040." in table.markdown()
    assert len(cells(table)) == 2 and cells(table)[0][0] == "blocks"


def with_accuracies(blocks, values, **changes):
    return [record(blocks, seed=seed, dev={"accuracy": value}, test=None, **changes) for seed, value in enumerate(values)]


def beside(text, values=(0.80, 0.82, 0.84), score="accuracy"):
    paper = Published("RE2 (paper)", {f"dev.{score}": text}, "Table 1", {"model.blocks": 1, "model.name": "re2", "seeds": 10})
    records = [record(1, seed=seed, dev={score: value}, test=None) for seed, value in enumerate(values)]
    layout = TableLayout("t", ("model.blocks",), scores=(f"dev.{score}",), published=(paper,))
    return make_table([*records, record(2, dev={score: 0.5}, test=None)], layout)


@pytest.mark.parametrize(
    ("text", "shown"),
    # Mean 82, deviation 2, t(2) = 4.303: the interval is 82 ± 4.303 * 2 / sqrt 3, from 77.03 to 86.97.
    [("86.9 ± 0.2", "86.9 ± 0.2 (covers)"), ("87.0", "87.0 (misses)"), ("77.1", "77.1 (covers)"), ("77.0", "77.0 (beats)"), ("about", "about")],
)
def test_a_published_number_of_the_same_settings_stands_beside_with_what_the_interval_says(text, shown):
    table = beside(text)
    header, first, second = cells(table)
    assert header == ["blocks", "parameters", "seeds", "dev accuracy (%)", "published: dev accuracy (%)"]
    assert (first[-1], second[-1]) == (shown, "")
    assert ("covers, beats, misses" in table.markdown()) == (text != "about")
    assert "- RE2 (paper): Table 1; 10 seeds." in table.markdown()
    told = json.loads(table.json())["rows"][0]["scores"]["dev.accuracy"]
    assert told["published"]["text"] == text and told["published"]["verdict"] == (shown.partition("(")[2].rstrip(")") or None)
    assert told["interval"]["lower"] == pytest.approx(0.7703, abs=1e-4) and told["interval"]["upper"] == pytest.approx(0.8697, abs=1e-4)
    first, second = csv.DictReader(io.StringIO(table.csv()))
    assert first["dev.accuracy.published"] == ("" if text == "about" else str(float(text[:4]) / 100))
    assert second["dev.accuracy.published"] == second["dev.accuracy.lower"] == ""
    assert float(first["dev.accuracy.lower"]) == told["interval"]["lower"]


def test_a_smaller_loss_beats_and_shares_are_not_percent():
    assert cells(beside("0.9", score="loss"))[1][-1] == "0.9 (beats)"
    assert cells(beside("0.7", score="loss"))[1][-1] == "0.7 (misses)"
    assert cells(beside("0.8200 ± 0.0100", score="mrr"))[1][-1] == "0.8200 ± 0.0100 (covers)"
    assert cells(beside("0.82", values=(0.82,), score="mrr"))[1][-1] == "0.82"


def test_settings_that_two_rows_or_none_have_put_a_published_row_below():
    two = [record(1, rate, seed) for rate in (0.001, 0.002) for seed in (1, 2)]
    for settings_, below in (({"model.blocks": 1}, True), ({"model.blocks": 9}, True), ({"seeds": 10}, True), ({"model.name": "esan"}, True)):
        paper = Published("P", {"dev.accuracy": "88.0"}, "Table 1", settings_)
        rows = cells(make_table(two, TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), published=(paper,))))
        assert (rows[-1][0] == "P") == below and "published" not in " ".join(rows[0])


def test_sources_are_told_once():
    papers = [Published("RE2 (paper)", {"dev.accuracy": "88.0"}, "Table 6", {"model.blocks": blocks}) for blocks in (1, 2, 3)]
    other = Published("ESIM", {"dev.accuracy": "87.0"}, "Table 6")
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), published=(*papers, other))
    text = make_table([record(blocks) for blocks in (1, 2)], layout).markdown()
    assert text.count("Table 6") == 1 and "- RE2 (paper), ESIM: Table 6." in text


ORIGINAL = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1})


def test_differences_to_the_original_with_welch_s_test():
    records = [*with_accuracies(1, (0.80, 0.82, 0.84)), *with_accuracies(2, (0.70, 0.72, 0.74)), *with_accuracies(3, (0.85,))]
    table = make_table(records, ORIGINAL)
    header, *rows = cells(table)
    assert header[-1] == "difference: dev accuracy (%)"
    # Standard error sqrt(2 * 0.0004 / 3), so t = -6.124 with 4 degrees of freedom: u = t / sqrt(t^2 + 4) = 0.95059, and
    # p = 1 - 1.5 (u - u^3 / 3) = 0.0036.
    assert [row[-1] for row in rows] == ["", "−10.0 (p = 0.004)", "+3.0"]
    text = table.markdown()
    assert "Differences are to blocks 1; p: Welch's t-test, two-sided" in text and "not corrected for several comparisons" in text
    assert r"$-$10.0 (p = 0.004)" in table.latex()
    one, two, three = csv.DictReader(io.StringIO(table.csv()))
    assert (one["dev.accuracy.difference"], one["dev.accuracy.p_value"], three["dev.accuracy.p_value"]) == ("", "", "")
    assert float(two["dev.accuracy.p_value"]) == pytest.approx(0.0036, abs=1e-5)
    assert float(two["dev.accuracy.lower"]) == pytest.approx(0.72 - 0.04968, abs=1e-5)  # of the mean, not of the difference
    told = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert told["difference"] == pytest.approx(-0.1) and told["statistic"] == pytest.approx(-6.1237, abs=1e-4)


def test_differences_are_within_the_rest_of_the_grid():
    accuracies = {(1, 0.001): 0.8, (2, 0.001): 0.9, (1, 0.002): 0.5, (2, 0.002): 0.4, (3, 0.003): 0.7}
    records = [record(blocks, rate, dev={"accuracy": value}, test=None) for (blocks, rate), value in accuracies.items()]
    rows = cells(make_table(records, TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), original={"model.blocks": 1})))
    assert {tuple(row[:2]): row[-1] for row in rows[1:]} == {
        ("1", "0.001"): "", ("1", "0.002"): "", ("2", "0.001"): "+10.0", ("2", "0.002"): "−10.0", ("3", "0.003"): "",
    }  # fmt: skip
    pivoted = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy",), original={"model.blocks": 1})
    header, _, second, _ = cells(make_table(records, pivoted))
    assert header[-1] == "learning rate 0.003: difference: dev accuracy (%)"
    assert second[3:] == ["**90.0**", "+10.0", "40.0", "−10.0", "–", ""]


def test_no_differences_without_the_original_s_runs():
    table = make_table(with_accuracies(2, (0.7, 0.8)), ORIGINAL)
    assert "difference" not in table.markdown().lower()
    assert next(csv.DictReader(io.StringIO(table.csv())))["dev.accuracy.difference"] == ""


def test_an_original_that_labels_no_row_is_refused():
    with pytest.raises(InputError, match="named by 'variant', which labels no row; name it by model.blocks"):
        make_table([record()], TableLayout("t", ("model.blocks",), original={"variant": "original"}))


def test_the_caption_says_test_was_scored_only_where_there_is_a_test_split():
    def choice(*tests):
        records = [record(n + 1, data=record()["data"] | {"test": test}) for n, test in enumerate(tests)]
        return make_table(records, LAYOUT).caption[1]

    assert choice(4927) == "Checkpoint chosen on dev accuracy; test scored once, with that checkpoint."
    assert choice(0) == choice(None) == "Checkpoint chosen on dev accuracy."
    assert choice(4927, 0) == "Checkpoint chosen on dev accuracy; test, where there is one, scored once, with that checkpoint."


def test_caption_says_how_the_numbers_came_about():
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy", "best_on_test.accuracy"), notes=("Not GloVe.",))
    for text in (
        make_table([record(seed=seed) for seed in (1, 2, 3)], layout).markdown(),
        make_table([record(seed=seed) for seed in (1, 2, 3)], layout).latex().replace("--", "–").replace(r"\_", "_"),
    ):
        for part in (
            "over 3 seeds (1–3)",
            "Checkpoint chosen on dev accuracy",
            "chosen on the test set itself",
            "sick (4,500 training, 500 dev, 4,927 test pairs)",
            "minilm.300d.zip, covering 98.7",
            "Device: cpu x86_64",
            "best on test (selected on test)",
            "Not GloVe.",
        ):
            assert part in text
    uneven = make_table([record(1, seed=1), record(1, seed=2), record(2, seed=1)], LAYOUT)
    assert uneven.caption[0] == "Mean ± sample standard deviation over as many of the seeds 1, 2 as the row says."


def test_caption_gives_a_coverage_only_where_there_is_one():
    for coverage in (None, {"words": 3}, math.nan):
        bare = make_table([record(seed=1), record(seed=2, data=record()["data"] | {"coverage": coverage})], LAYOUT)
        assert "Word vectors: minilm.300d.zip." in bare.caption


SMALL_GRID = [record(b, r, s) for b in (1, 2) for r in (0.001, 0.002) for s in (1, 2, 3)] + [
    record(3, 0.001, 1, status="diverged"),
    record(3, 0.001, 2, device="gpu"),
]


@settings(max_examples=20, deadline=None)
@given(st.permutations(SMALL_GRID), st.sampled_from(["", "optimizer.learning_rate"]))
def test_the_order_of_records_does_not_matter(records, pivot):
    layout = TableLayout("t", ("model.blocks",), pivot)
    one, two = make_table(SMALL_GRID, layout), make_table(records, layout)
    assert one.markdown() == two.markdown()
    assert one.latex() == two.latex()
    assert one.csv() == two.csv()
    assert one.json() == two.json()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_csv_and_json_hold_unrounded_numbers(values):
    records = [record(seed=seed, dev={"accuracy": value}) for seed, value in enumerate(values)]
    table = make_table(records, LAYOUT)
    (line,) = csv.DictReader(io.StringIO(table.csv()))
    assert float(line["dev.accuracy.mean"]) == statistics.fmean(values)
    assert float(line["dev.accuracy.std"]) == statistics.stdev(values)
    assert line["dev.accuracy.n"] == str(len(values))
    (row,) = json.loads(table.json())["rows"]
    assert row["scores"]["dev.accuracy"]["values"] == {str(seed): value for seed, value in enumerate(values)}
    assert [run["run"] for run in row["runs"]] == [each["run"] for each in records]


def test_json_has_what_a_run_left():
    (row,) = json.loads(make_table([record()], LAYOUT).json())["rows"]
    (run,) = row["runs"]
    assert run["times"] == {"train_seconds": 12.34} and run["versions"] == {"jax": "0.10.2"}
    assert run["scores"]["best_on_test"]["accuracy"] == pytest.approx(0.861)
    assert row["settings"] == {"model.blocks": 1, "optimizer.learning_rate": 0.001}


def unescape(latex):
    """Undoes the escapes of LaTeX that this project makes, longest first."""
    table = formats._LATEX
    names = sorted(table.values(), key=len, reverse=True) + ["{}"]
    back = {escape: character for character, escape in table.items()} | {"{}": ""}
    return re.sub("|".join(map(re.escape, names)), lambda match: back[match[0]], latex)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab \\&%$#_{}~^<>|`\"[]*±×–“”,-'", max_size=20))
def test_latex_escapes_can_be_undone_and_leave_nothing_special(text):
    text = " ".join(text.split())
    escaped = formats.escape_latex(text)
    assert unescape(escaped) == text
    bare = re.sub(r"\\[a-z]+\{\}|\$\\[a-z]+\$|\$-\$|\\[&%$#_{}]|\{\[\}|\{\*\}|\{\}", "", escaped)
    assert not set(bare) & set("\\&%$#_{}~^<>|\"[*")
    # Signs that LaTeX would draw together stand there only for the one character that they mean.
    for sign, means in (("--", "–"), ("''", "”"), ("``", "“"), (",,", "„")):
        assert escaped.count(sign) == text.count(means)


def test_special_characters_survive_in_both_formats():
    name = "50% of a_b & c|d {x} #1 *new* _it_"
    records = [record(variant=name, device="a_b")]
    table = make_table(records, TableLayout("100% & more", ("variant",)))
    assert cells(table)[1][0] == r"50% of a_b & c\|d {x} #1 \*new\* \_it\_"
    latex = table.latex()
    assert r"50\% of a\_b \& c\textbar{}d \{x\} \#1 {*}new{*} \_it\_ &" in latex
    assert r"\caption{100\% \& more." in latex and r"\label{tab:100-more}" in latex


def test_latex_rows_have_as_many_cells_as_columns_and_braces_match():
    layout = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy", "test.accuracy"))
    for pivot in (layout, LAYOUT):
        latex = make_table(SMALL_GRID, pivot).latex()
        columns = len(re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)[1])
        rows = [line for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert len(rows) == 1 + len(make_table(SMALL_GRID, pivot).rows)
        assert all(len(re.split(r"(?<!\\)&", row)) == columns for row in rows)
        plain = re.sub(r"\\[{}]", "", latex)
        assert plain.count("{") == plain.count("}")
        assert latex.index(r"\toprule") < latex.index(r"\midrule") < latex.index(r"\bottomrule")
        for environment in ("table", "tabular"):
            assert latex.count(rf"\begin{{{environment}}}") == latex.count(rf"\end{{{environment}}}") == 1


def damaged(**changes):
    return copy.deepcopy(record()) | changes


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "no records"),
        ([record(), 3], "record number 2 is not"),
        ([{key: value for key, value in record().items() if key != "run"}], "record number 1 has no field 'run'"),
        ([damaged(format=2)], "record run-1-0.001-1 has format 2"),
        ([damaged(seed="1")], "record run-1-0.001-1: field 'seed' cannot be \"1\""),
        ([damaged(parameters=True)], "field 'parameters' cannot be true"),
        ([damaged(status="running")], "status 'running'"),
        ([damaged(dev=None)], "finished but has no dev scores"),
        ([damaged(dev={"accuracy": "high"})], "dev.accuracy' is not a number: \"high\""),
        ([damaged(best_on_test={"accuracy": 1.0})], "best_on_test.scores"),
        ([damaged(data={"name": "sick"})], "has no field 'data.fingerprint'"),
        ([damaged(test={"mrr": 0.5})], "'test.accuracy', which no record has; use one of test.mrr"),
        ([damaged(overrides={}, config={})], "record run-1-0.001-1 has no setting 'model.blocks'"),
        ([record(), record(run="twin")], "run-1-0.001-1 and twin have one place in the table and one seed"),
        (
            [record(), record(seed=2, data=record()["data"] | {"fingerprint": "g"})],
            "run-1-0.001-1 and run-1-0.001-2 have one place in the table but were trained on different data",
        ),
    ],
)
def test_damaged_records_are_named(records, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make_table(records, LAYOUT)


def test_a_caption_says_what_splits_are_that_are_not_what_their_names_say():
    about = {"test": "the mismatched pairs", "dev": "the matched pairs"}
    table = make_table([record(data=record()["data"] | {"about": about})], LAYOUT).markdown()
    assert "4,927 test pairs; dev: the matched pairs; test: the mismatched pairs)." in table
    for nothing in ({}, None, "x"):
        assert "4,927 test pairs)." in make_table([record(data=record()["data"] | {"about": nothing})], LAYOUT).markdown()


def test_twins_are_told_apart_by_what_differs_in_their_configs():
    twin = record(run="twin", config={"model": {"name": "re2", "blocks": 1}, "optimizer": {"warmup": 5}})
    with pytest.raises(InputError, match=r"differ in optimizer\.learning_rate, optimizer\.warmup"):
        make_table([record(), twin], LAYOUT)


def test_a_score_of_no_known_part_is_refused():
    with pytest.raises(InputError, match="'accuracy', which is no score"):
        make_table([record()], TableLayout("t", (), scores=("accuracy",)))

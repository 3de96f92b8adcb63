"""Tables: rows, means and deviations, published numbers and differences, captions, formats, and invalid records."""

import csv
import io
import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_records import LAYOUT, SMALL_GRID, cells, record

from jaxmatch.errors import InputError
from jaxmatch.reporting import formats
from jaxmatch.reporting.layout import Published, TableLayout, format_number, score_heading, setting_headings
from jaxmatch.reporting.table import caption, format_ranges, make_table


def test_mean_and_sample_deviation_over_seeds():
    values = (0.80, 0.82, 0.87)
    records = [record(seed=seed, dev={"accuracy": value}, test=None) for seed, value in enumerate(values)]
    header, row = cells(make_table(records, LAYOUT))
    assert header == ["blocks", "learning rate", "parameters", "seeds", "dev accuracy (%)", "test accuracy (%)"]
    # Mean 83, deviations -3 -1 4, so the variance is 26 / 2.
    assert row == ["1", "0.001", "1,000,001", "3", f"83.0 ± {math.sqrt(13):.1f}", "–"]
    assert row[4] == "83.0 ± 3.6"


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
    counts = [(line["finished"], line["diverged"], line["dev.accuracy.n"]) for line in lines]
    assert counts == [("2", "2", "2"), ("0", "1", "0")] and lines[1]["dev.accuracy.mean"] == ""


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
    assert row["test.accuracy.n"] == 1 and row["test.accuracy.std"] is None


def test_numbers_ranges_and_headings_are_formatted():
    assert format_number("dev.accuracy", 0.85349) == "85.3"
    assert format_number("test.macro_f1", 1.0) == "100.0"
    assert format_number("test.map", 0.74521) == "0.7452"
    assert format_number("test.pearson", -0.00001) == "0.0000"
    assert format_number("times.train_seconds", 12.34) == "12.3"
    assert score_heading("dev.mrr") == "dev MRR"
    assert score_heading("best_on_test.f1") == "best on test (selected on test): F1 (%)"
    assert format_ranges([5, 1, 2, 3, 9, 8, 3]) == "1–3, 5, 8, 9"
    assert list(setting_headings(["model.blocks", "a.rate", "b.rate"]).values()) == ["blocks", "a rate", "b rate"]


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
    assert [len(row.finished) for row in table.rows] == [2, 1]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "no records"),
        ([record(dev={"mrr": 0.5}, test={}, best_on_test=None)], "'dev.accuracy', which no run has; did you mean"),
        ([record(overrides={}, config={})], "the table shows 'model.blocks', which is not a setting of its runs"),
        ([record(), record(run="twin")], "run-1-0.001-1 and twin belong to the same row of the table and seed, but"),
        ([record(), record(run="twin", config={"optimizer": {"warmup": 5}})], "differ in model.blocks, model.name, o"),
        ([record(), record(seed=2, data=record()["data"] | {"fingerprint": "g"})], "in record.data.fingerprint; name"),
    ],
)
def test_invalid_records_are_errors(records, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make_table(records, LAYOUT)


def test_runs_of_different_settings_are_not_averaged_as_seeds():
    config = record()["config"] | {"training": {"evaluate_every_samples": 1280}}
    runs = [record(run="aaa-seed1"), record(seed=2, run="aaa-seed2"), record(seed=3, run="bbb-seed3", config=config)]
    assert make_table(runs[:2], LAYOUT).rows[0].scores["dev.accuracy"].mean
    message = "aaa-seed1 and bbb-seed3 belong to the same .*, but differ in training.evaluate_every_samples"
    with pytest.raises(InputError, match=message):
        make_table(runs, LAYOUT)


def test_caption_counts_the_test_pairs_that_are_in_train():
    def sentences(*counts):
        data = record()["data"]
        records = [record(n + 1, data=data | {"in_train": count}) for n, count in enumerate(counts)]
        return [sentence for sentence in make_table(records, LAYOUT).caption if "training set too" in sentence]

    about = "of sick are in the training set too, up to order, case and punctuation."
    assert sentences({"dev": 7, "test": 81}, {"dev": 7, "test": 81}) == [f"81 test pairs {about}"]
    assert sentences({"dev": 7, "test": 0}, None, {}) == []


def test_caption_states_that_test_was_scored_at_every_evaluation():
    config = record()["config"] | {"training": {"best_on_test": True}}
    others = record(2), record(3, selected_on="dev.loss")
    text = "Checkpoint chosen on dev accuracy; test scored with that checkpoint, and besides at every evaluation."
    assert make_table([record(config=config)], LAYOUT).caption[1] == text
    assert make_table([record(config=config), *others[:1]], LAYOUT).caption[1] == text
    assert make_table([record(config=config), *others], LAYOUT).caption[1] == text.replace(";", " or dev loss;")


def test_caption_states_seeds_selection_data_vectors_and_device():
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy", "best_on_test.accuracy"), notes=("Not GloVe.",))
    table = make_table([record(seed=seed) for seed in (1, 2, 3)], layout)
    for text in (table.markdown(), table.latex().replace("--", "–").replace(r"\_", "_")):
        for part in (
            "over 3 seeds (1–3)",
            "Checkpoint chosen on dev accuracy",
            "chosen on the test set itself",
            "sick (4,500 training, 500 dev, 4,927 test pairs)",
            "minilm.300d.zip (98.7",
            "Device: cpu x86_64",
            "best on test (selected on test)",
            "Not GloVe.",
        ):
            assert part in text
    uneven = make_table([record(1, seed=1), record(1, seed=2), record(2, seed=1)], LAYOUT)
    assert uneven.caption[0] == "Mean ± sample standard deviation over as many of the seeds 1, 2 as the row says."
    others = make_table([record(blocks, seed=seed) for blocks, seed in ((1, 1), (1, 2), (2, 2), (2, 3))], LAYOUT)
    assert others.caption[0] == "Mean ± sample standard deviation over as many of the seeds 1–3 as the row says."


def test_caption_explains_the_best_f1_over_thresholds():
    layout = TableLayout("t", (), scores=("dev.max_f1",))
    found = make_table([record(dev={"max_f1": 0.84, "accuracy": 0.9})], layout)
    assert "Max F1 is the best F1 over all thresholds on the scored pairs themselves." in found.details
    assert "84.0" in found.markdown() and "Max F1" not in make_table([record()], LAYOUT).markdown()


def test_caption_states_whether_punctuation_is_removed():
    def sentences(*flags):
        settings = [{"data": {"remove_punctuation": each}} if each is not None else {} for each in flags]
        records = [record(blocks, config=record()["config"] | each) for blocks, each in enumerate(settings, 1)]
        return [sentence for sentence in make_table(records, LAYOUT).details if "unctuation" in sentence]

    assert sentences(True, True) == ["Punctuation is removed."] and sentences(False) == ["Punctuation is kept."]
    assert sentences(True, False) == ["Punctuation is removed in some runs and kept in others."]
    assert sentences(None) == sentences(True, None) == []  # records without the setting


@pytest.mark.parametrize(
    ("shares", "text"),
    [([0.9953], "99.5%"), ([1.0], "100%"), ([0.99962], "more than 99.9%"), ([1.0, 0.9], "90.0% to 100%")],
)
def test_caption_states_the_share_of_tokens_with_a_vector(shares, text):
    data = [record()["data"] | {"coverage": {"tokens_with_vector": share}} for share in shares]
    records = [record(blocks, data=each) for blocks, each in enumerate(data, 1)]
    assert f"Word vectors: minilm.300d.zip ({text} of the tokens have one)." in make_table(records, LAYOUT).caption


def test_caption_shows_the_descriptions_of_splits():
    about = {"test": "the mismatched pairs", "dev": "the matched pairs"}
    table = make_table([record(data=record()["data"] | {"about": about})], LAYOUT).markdown()
    assert "4,927 test pairs; dev: the matched pairs; test: the mismatched pairs)." in table
    table = make_table([record(data=record()["data"] | {"about": {}})], LAYOUT).markdown()
    assert "4,927 test pairs)." in table


@pytest.mark.parametrize(
    ("versions", "earlier", "text"),
    [
        (({"jax": "1", "numpy": "2"}, {"jax": "1", "numpy": "2"}), {}, None),
        (({"jax": "1", "numpy": "2"}, {"jax": "3", "numpy": "2"}), {}, "jax 1, 3."),
        (({"jax": "1"}, {"jax": "3", "jaxmatch": "4"}), {}, "jax 1, 3; jaxmatch 4, unknown."),
        (({"jax": "1"}, {"jax": "1"}), {"commit": "cccc", "versions": {"jax": "2"}}, "commits abc, cccc; jax 1, 2."),
    ],
)
def test_caption_names_the_versions_if_several_trained_the_runs_of_a_mean(versions, earlier, text):
    one, other = (record(seed=seed, versions=each) for seed, each in enumerate(versions))
    if earlier:
        last = {name: one[name] for name in ("commit", "versions", "device")}
        one["trained_by"] = [earlier | {"device": "another"}, last]
    table = make_table([one, other], LAYOUT)
    if text:
        assert table.caption[-1] == f"Several versions of the program trained the runs of one mean: {text}"
    assert any(line.startswith("Device: ") and ("another" in line) == bool(earlier) for line in table.details)
    assert any("Several versions" in line for line in table.caption) == (text is not None)


def test_caption_says_what_has_one_run():
    runs = [record(blocks, rate) for blocks in (1, 2) for rate in (0.001, 0.002)]
    assert make_table(runs, LAYOUT).caption[0] == "One run a row, seed 1."
    assert caption(runs[:1], (), [runs[:1]])[0][0] == "One run, seed 1."


PAPER = Published(
    "RE2 (paper)",
    {"test.map": "0.7452 ± 0.0044", "test.mrr": "0.7618 ± 0.0040"},
    "Yang et al. (2019), Table 4",
    {"model.blocks": 2, "parameters": "2.8M", "seeds": 10},
)


def test_published_rows_are_listed_below_as_printed():
    records = [record(1, seed=seed, test={"map": 0.7, "mrr": 0.7}) for seed in (1, 2)]
    layout = TableLayout("t", ("model.blocks",), scores=("dev.mrr", "test.map", "test.mrr"), published=(PAPER,))
    table = make_table(records, layout)
    header, own, paper = cells(table)
    assert header[0] == "model" and own[0] == "RE2"
    assert paper == ["RE2 (paper)", "2", "2.8M", "10", "", "0.7452 ± 0.0044", "0.7618 ± 0.0040"]
    assert "- RE2 (paper): Yang et al. (2019), Table 4." in table.markdown()
    assert table.latex().count(r"\midrule") == 2
    assert "0.7452" not in table.csv()
    assert json.loads(table.json())["published"][0]["scores"]["test.map"] == "0.7452 ± 0.0044"


def with_accuracies(blocks, values, **changes):
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test=None, **changes) for seed, value in enumerate(values)
    ]


def compared(text, values=(0.80, 0.82, 0.84), score="accuracy"):
    paper = Published(
        "RE2 (paper)", {f"dev.{score}": text}, "Table 1", {"model.blocks": 1, "model.name": "re2", "seeds": 10}
    )
    records = [record(1, seed=seed, dev={score: value}, test=None) for seed, value in enumerate(values)]
    layout = TableLayout("t", ("model.blocks",), scores=(f"dev.{score}",), published=(paper,))
    return make_table([*records, record(2, dev={score: 0.5}, test=None)], layout)


@pytest.mark.parametrize(
    ("text", "shown"),
    # Mean 82, deviation 2, t(2) = 4.303: the interval is 82 ± 4.303 * 2 / sqrt 3, from 77.03 to 86.97.
    [
        # A printed 87.0 may be 86.95, and a printed 77.0 may be 77.05.
        ("86.9 ± 0.2", "86.9 ± 0.2 (covers: −9.8 to +0.0)"),
        ("87.0", "87.0 (covers: −10.0 to +0.0)"),
        ("87.1", "87.1 (misses: −10.1 to −0.1)"),
        ("87.00", "87.00 (misses: −10.0 to +0.0)"),
        ("86.969", "86.969 (misses: −9.9 to +0.0)"),  # at least 86.9685, and the interval ends at 86.9683
        ("77.0", "77.0 (covers: +0.0 to +10.0)"),
        ("76.9", "76.9 (beats: +0.1 to +10.1)"),
        ("about", "about"),
    ],
)
def test_published_number_of_the_same_settings_gets_a_verdict(text, shown):
    table = compared(text)
    header, first, second = cells(table)
    assert header == ["blocks", "parameters", "seeds", "dev accuracy (%)", "published: dev accuracy (%)"]
    assert (first[-1], second[-1]) == (shown, "")
    assert ("covers: the interval contains zero" in table.markdown()) == (text != "about")
    assert "- RE2 (paper): Table 1; 10 seeds." in table.markdown()
    (row, _) = json.loads(table.json())["rows"]
    assert row["dev.accuracy.verdict"] == (shown.partition("(")[2].partition(":")[0] or None)
    first, second = csv.DictReader(io.StringIO(table.csv()))
    assert first["dev.accuracy.published"] == ("" if text == "about" else str(float(text.split()[0]) / 100))
    assert second["dev.accuracy.published"] == ""


def test_a_lower_published_loss_is_beaten_by_a_lower_one():
    assert cells(compared("0.9", (0.50, 0.52, 0.54), "loss"))[1][-1].startswith("0.9 (beats: ")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"scores": ("accuracy",)}, "'accuracy', which no run has"),
        ({"original": {"blocks": 1}}, "named by 'blocks', which labels no row; name it by seed or variant"),
    ],
)
def test_a_layout_that_names_what_is_not_there_is_refused(layout, message):
    with pytest.raises(InputError, match=message):
        make_table([record()], TableLayout("t", (), **layout))


def judged(records, **about):
    paper = Published("P", {"test.accuracy": "60.0"}, "Table 1", {"model.blocks": 1}, **about)
    return make_table(records, TableLayout("t", ("model.blocks",), scores=("test.accuracy",), published=(paper,)))


def test_published_models_of_another_training_set_get_no_verdict():
    records = [record(1, seed=seed, test={"accuracy": 0.80 + seed / 100}) for seed in (1, 2)]
    (pairs,) = {each["data"]["train"] for each in records}
    for published_pairs, shown in (
        (0, "60.0 (beats: +15.1 to +27.9)"),
        (pairs, "60.0 (beats: +15.1 to +27.9)"),
        (pairs + pairs // 200, "60.0 (beats: +15.1 to +27.9)"),
        (pairs + pairs // 50, f"60.0 ({pairs + pairs // 50:,} training pairs)"),
    ):
        table = judged([*records, record(2, test={"accuracy": 0.5})], training_pairs=published_pairs)
        assert cells(table)[1][-1] == shown
        verdict = json.loads(table.json())["rows"][0]["test.accuracy.verdict"]
        assert verdict == ("beats" if "beats" in shown else None)


def test_published_scores_of_another_quantity_get_a_note_and_no_verdict():
    records = [record(1, seed=seed, test={"accuracy": 0.80 + seed / 100}) for seed in (1, 2)]
    unlike = {"test.accuracy": "another accuracy", "test.f1": "another F1"}
    table = judged([*records, record(2, test={"accuracy": 0.5})], unlike=unlike, chosen_on_test=True)
    assert cells(table)[1][-1] == "60.0"
    chosen = "its released configuration chooses checkpoints on the test set"
    assert f"Table 1; {chosen}; test accuracy (%): another accuracy." in table.markdown()
    assert "another F1" not in table.markdown()


def test_published_row_matching_two_rows_or_none_is_listed_below():
    two = [record(1, rate, seed) for rate in (0.001, 0.002) for seed in (1, 2)]
    for same in ({"model.blocks": 1}, {"model.blocks": 9}, {"seeds": 10}, {"model.name": "esan"}):
        paper = Published("P", {"dev.accuracy": "88.0"}, "Table 1", same)
        rows = cells(make_table(two, TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), published=(paper,))))
        assert rows[-1][0] == "P" and "published" not in " ".join(rows[0])


ORIGINAL = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1})


def test_differences_to_the_original_have_p_values_of_welch_tests():
    several = [*with_accuracies(1, (0.80, 0.82, 0.84)), *with_accuracies(2, (0.70, 0.72, 0.74))]
    table = make_table([*several, *with_accuracies(3, (0.85,))], ORIGINAL)
    header, *rows = cells(table)
    assert header[-1] == "difference: dev accuracy (%)"
    # Standard error sqrt(2 * 0.0004 / 3), so t = -6.124 with 4 degrees of freedom: u = t / sqrt(t^2 + 4) = 0.95059, and
    # p = 1 - 1.5 (u - u^3 / 3) = 0.0036.
    assert [row[-1] for row in rows] == ["", "−10.0 (p = 0.004)", "+3.0"]
    text = table.markdown()
    assert "Differences are to blocks 1; p: Welch's t-test, two-sided" in text and "by Holm for all of a column" in text
    assert r"$-$10.0 (p = 0.004)" in table.latex()
    one, two, three = csv.DictReader(io.StringIO(table.csv()))
    assert (one["dev.accuracy.difference"], one["dev.accuracy.p_value"], three["dev.accuracy.p_value"]) == ("", "", "")
    assert float(three["dev.accuracy.difference"]) == pytest.approx(0.03)
    assert float(two["dev.accuracy.p_value"]) == pytest.approx(0.0036, abs=1e-5)
    (_, row, _) = json.loads(table.json())["rows"]
    assert row["dev.accuracy.difference"] == pytest.approx(-0.1) and row["dev.accuracy.p_holm"] > 0


def test_differences_compare_rows_with_equal_other_settings():
    accuracies = {(1, 0.001): 0.8, (2, 0.001): 0.9, (1, 0.002): 0.5, (2, 0.002): 0.4, (3, 0.003): 0.7}
    records = [record(blocks, rate, dev={"accuracy": value}, test=None) for (blocks, rate), value in accuracies.items()]
    layout = TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), original={"model.blocks": 1})
    differences = {tuple(row[:2]): row[-1] for row in cells(make_table(records, layout))[1:] if row[-1]}
    assert differences == {("2", "0.001"): "+10.0", ("2", "0.002"): "−10.0"}


@settings(max_examples=20, deadline=None)
@given(st.permutations(SMALL_GRID))
def test_tables_do_not_depend_on_record_order(records):
    one, two = make_table(SMALL_GRID, LAYOUT), make_table(records, LAYOUT)
    assert (one.markdown(), one.latex(), one.csv(), one.json()) == (two.markdown(), two.latex(), two.csv(), two.json())


def unescape(latex):
    """Undoes the escapes of LaTeX that this project makes, longest first."""
    table = formats.LATEX
    names = sorted(table.values(), key=len, reverse=True) + ["{}"]
    back = {escape: character for character, escape in table.items()} | {"{}": ""}
    return re.sub("|".join(map(re.escape, names)), lambda match: back[match[0]], latex)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab \\&%$#_{}~^<>|`\"[]*±×–“”,-'", max_size=20))
def test_latex_escapes_are_reversible_and_leave_no_special_characters(text):
    text = " ".join(text.split())
    escaped = formats.escape_latex(text)
    assert unescape(escaped) == text
    bare = re.sub(r"\\[a-z]+\{\}|\$\\[a-z]+\$|\$-\$|\\[&%$#_{}]|\{\[\}|\{\*\}|\{\}", "", escaped)
    assert not set(bare) & set('\\&%$#_{}~^<>|"[*')
    # LaTeX ligatures occur only where the text has the character that they produce.
    for sign, means in (("--", "–"), ("''", "”"), ("``", "“"), (",,", "„")):
        assert escaped.count(sign) == text.count(means)


def test_special_characters_are_escaped_in_markdown_and_latex():
    name = "50% of a_b & c|d {x} #1 *new* _it_"
    records = [record(variant=name, device="a_b")]
    table = make_table(records, TableLayout("100% & more", ("variant",)))
    assert cells(table)[1][0] == r"50% of a_b & c\|d {x} #1 \*new\* \_it\_"
    latex = table.latex()
    assert r"50\% of a\_b \& c\textbar{}d \{x\} \#1 {*}new{*} \_it\_ &" in latex
    assert r"\caption{100\% \& more." in latex and r"\label{tab:100-more}" in latex

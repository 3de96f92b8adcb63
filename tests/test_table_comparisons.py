"""Published numbers with the verdict of our interval, and tests of the differences to the original."""

import csv
import io
import json

import pytest
from small_records import LAYOUT, cells, record

from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.reporting.table import make_table

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
    assert header[0] == "model" and own[0] == "this work"
    assert paper == ["RE2 (paper)", "2", "2.8M", "10", "", "0.7452 ± 0.0044", "0.7618 ± 0.0040"]
    assert "- RE2 (paper): Yang et al. (2019), Table 4." in table.markdown()
    assert table.latex().count(r"\midrule") == 2
    assert "0.7452" not in table.csv()
    assert json.loads(table.json())["published"][0]["scores"]["test.map"] == "0.7452 ± 0.0044"


def test_published_scores_without_a_column_are_listed_in_a_note():
    records = [record(1, test={"map": 0.7, "mrr": 0.7})]
    some = make_table(records, TableLayout("t", ("model.blocks",), scores=("test.map",), published=(PAPER,)))
    assert "Table 4; test MRR 0.7618 ± 0.0040." in some.markdown() and cells(some)[2][-1] == "0.7452 ± 0.0044"
    pivoted = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("test.map",), (PAPER,))
    table = make_table(records, pivoted)
    assert "Table 4; test MAP 0.7452 ± 0.0044; test MRR 0.7618 ± 0.0040." in table.markdown()
    assert len(cells(table)) == 2 and cells(table)[0][0] == "blocks"


def test_published_row_of_a_column_is_shown_in_that_column_alone():
    records = [record(blocks, rate) for blocks in (1, 2) for rate in (0.001, 0.002)]
    paper = Published("P", {"dev.accuracy": "88.0"}, "Table 1", {"optimizer.learning_rate": 0.002})
    layout = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy",), (paper,))
    assert cells(make_table(records, layout))[-1] == ["P", "", "", "", "", "88.0"]


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
    score = json.loads(table.json())["rows"][0]["scores"]["dev.accuracy"]
    verdict = shown.partition("(")[2].partition(":")[0] or None
    assert score["published"]["text"] == text and score["published"]["verdict"] == verdict
    assert [score["interval"][end] for end in ("lower", "upper")] == pytest.approx([0.7703, 0.8697], abs=1e-4)
    first, second = csv.DictReader(io.StringIO(table.csv()))
    assert first["dev.accuracy.published"] == ("" if text == "about" else str(float(text.split()[0]) / 100))
    assert second["dev.accuracy.published"] == second["dev.accuracy.lower"] == ""
    assert float(first["dev.accuracy.lower"]) == score["interval"]["lower"]


def test_smaller_loss_beats_and_ranking_scores_are_not_in_percent():
    assert cells(compared("0.90", score="loss"))[1][-1] == "0.90 (beats: −0.1297 to −0.0303)"
    assert cells(compared("0.70", score="loss"))[1][-1] == "0.70 (misses: +0.0703 to +0.1697)"
    assert cells(compared("0.8200 ± 0.0100", score="mrr"))[1][-1] == "0.8200 ± 0.0100 (covers: −0.0454 to +0.0454)"
    assert cells(compared("0.82", values=(0.82,), score="mrr"))[1][-1] == "0.82"


@pytest.mark.parametrize(
    ("texts", "legend"),
    [
        (("80.0 ± 0.2", "70.0 ± 0.1"), "The interval includes the paper's own deviation over its seeds."),
        (("80.0 ± 0.2", "70.0"), "paper's own deviation over its seeds where the paper prints one."),
        (("80.0", "70.0"), "The interval does not include how much the published number depends on seeds."),
    ],
)
def test_legend_says_whether_intervals_include_the_deviation_of_the_paper(texts, legend):
    records = [*with_accuracies(1, (0.80, 0.82, 0.84)), *with_accuracies(2, (0.70, 0.72, 0.74))]
    papers = [
        Published("P", {"dev.accuracy": text}, "Table 1", {"model.blocks": blocks, "seeds": 10})
        for blocks, text in enumerate(texts, start=1)
    ]
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), published=tuple(papers))
    assert legend in make_table(records, layout).markdown()


def test_seeds_with_equal_scores_give_no_verdict():
    assert cells(compared("86.9", values=(0.82, 0.82, 0.82)))[1][-1] == "86.9"


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
        verdict = json.loads(table.json())["rows"][0]["scores"]["test.accuracy"]["published"]["verdict"]
        assert verdict == ("beats" if "beats" in shown else None)


def test_published_scores_of_another_quantity_get_a_note_and_no_verdict():
    records = [record(1, seed=seed, test={"accuracy": 0.80 + seed / 100}) for seed in (1, 2)] + [
        record(2, test={"accuracy": 0.5})
    ]
    table = judged(records, unlike={"test.accuracy": "another accuracy", "test.f1": "another F1"}, chosen_on_test=True)
    assert cells(table)[1][-1] == "60.0"
    text = table.markdown()
    assert (
        "Table 1; its released configuration chooses checkpoints on the test set; test accuracy (%): another accuracy."
        in text
    )
    assert "another F1" not in text


def test_published_row_matching_two_rows_or_none_is_listed_below():
    two = [record(1, rate, seed) for rate in (0.001, 0.002) for seed in (1, 2)]
    for same in ({"model.blocks": 1}, {"model.blocks": 9}, {"seeds": 10}, {"model.name": "esan"}):
        paper = Published("P", {"dev.accuracy": "88.0"}, "Table 1", same)
        rows = cells(make_table(two, TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), published=(paper,))))
        assert rows[-1][0] == "P" and "published" not in " ".join(rows[0])


def test_sources_are_listed_once():
    papers = [
        Published("RE2 (paper)", {"dev.accuracy": "88.0"}, "Table 6", {"model.blocks": blocks}) for blocks in (1, 2, 3)
    ]
    other = Published("ESIM", {"dev.accuracy": "87.0"}, "Table 6")
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), published=(*papers, other))
    text = make_table([record(blocks) for blocks in (1, 2)], layout).markdown()
    assert text.count("Table 6") == 1 and "- RE2 (paper), ESIM: Table 6." in text


ORIGINAL = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1})


def test_differences_to_the_original_have_p_values_of_welch_tests():
    records = [
        *with_accuracies(1, (0.80, 0.82, 0.84)),
        *with_accuracies(2, (0.70, 0.72, 0.74)),
        *with_accuracies(3, (0.85,)),
    ]
    table = make_table(records, ORIGINAL)
    header, *rows = cells(table)
    assert header[-1] == "difference: dev accuracy (%)"
    # Standard error sqrt(2 * 0.0004 / 3), so t = -6.124 with 4 degrees of freedom: u = t / sqrt(t^2 + 4) = 0.95059, and
    # p = 1 - 1.5 (u - u^3 / 3) = 0.0036.
    assert [row[-1] for row in rows] == ["", "−10.0 (p = 0.004)", "+3.0"]
    text = table.markdown()
    assert (
        "Differences are to blocks 1; p: Welch's t-test, two-sided" in text
        and "corrected by Holm for all of a column" in text
    )
    assert r"$-$10.0 (p = 0.004)" in table.latex()
    one, two, three = csv.DictReader(io.StringIO(table.csv()))
    assert (one["dev.accuracy.difference"], one["dev.accuracy.p_value"], three["dev.accuracy.p_value"]) == ("", "", "")
    assert float(three["dev.accuracy.difference"]) == pytest.approx(0.03)
    assert float(two["dev.accuracy.p_value"]) == pytest.approx(0.0036, abs=1e-5)
    assert float(two["dev.accuracy.lower"]) == pytest.approx(
        0.72 - 0.04968, abs=1e-5
    )  # the bound of the mean, not of the difference
    score = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert score["difference"] == pytest.approx(-0.1) and score["statistic"] == pytest.approx(-6.1237, abs=1e-4)


def test_differences_compare_rows_with_equal_other_settings():
    accuracies = {(1, 0.001): 0.8, (2, 0.001): 0.9, (1, 0.002): 0.5, (2, 0.002): 0.4, (3, 0.003): 0.7}
    records = [record(blocks, rate, dev={"accuracy": value}, test=None) for (blocks, rate), value in accuracies.items()]
    rows = cells(
        make_table(records, TableLayout("t", LAYOUT.rows, scores=("dev.accuracy",), original={"model.blocks": 1}))
    )
    assert {tuple(row[:2]): row[-1] for row in rows[1:]} == {
        ("1", "0.001"): "",
        ("1", "0.002"): "",
        ("2", "0.001"): "+10.0",
        ("2", "0.002"): "−10.0",
        ("3", "0.003"): "",
    }
    pivoted = TableLayout(
        "t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy",), original={"model.blocks": 1}
    )
    header, _, second, _ = cells(make_table(records, pivoted))
    assert header[-1] == "learning rate 0.003: difference: dev accuracy (%)"
    assert second[3:] == ["90.0", "+10.0", "40.0", "−10.0", "–", ""]
    several = [record(blocks, rate, seed) for blocks in (1, 2) for rate in (0.001, 0.002) for seed in (1, 2)]
    text = make_table(several, pivoted).markdown()
    assert "corrected by Holm for all differences of a score, over all columns." in text


def test_no_differences_without_runs_of_the_original():
    table = make_table(with_accuracies(2, (0.7, 0.8)), ORIGINAL)
    assert "difference" not in table.markdown().lower()
    assert next(csv.DictReader(io.StringIO(table.csv())))["dev.accuracy.difference"] == ""


def test_an_original_that_labels_no_row_is_refused():
    with pytest.raises(InputError, match="named by 'variant', which labels no row; name it by model.blocks"):
        make_table([record()], TableLayout("t", ("model.blocks",), original={"variant": "original"}))

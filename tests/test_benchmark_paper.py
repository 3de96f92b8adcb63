import dataclasses
from pathlib import Path

import pytest

from benchmarks import paper_tables, steps
from benchmarks.item import Settings
from benchmarks.items import paper
from jaxmatch import models
from jaxmatch.sweep import preparation


def small(**changes):
    """Returns a small config. It has two layers, so that Table 7 has other models than the released one."""
    settings = Settings("", "", "", "", 1, True, Path())
    return settings.config("re2_embedded_inference", **{**steps.SMALL, "model__encoder_layers": 2, **changes})


@pytest.fixture
def throughput():
    config = small(training__epochs=3)
    data = preparation.prepare(config)
    return paper.Throughput(
        config=config,
        data=data,
        replicas=10,
        length=12,
        pair_seconds=0.01,
        peer_pair_seconds={"peer": 0.05, "sorted": 0.02},
        ratios={},
        compile_seconds=36.0,
    )


def released():
    return {
        name: Settings("", "", "", "", 1, False, Path()).config(file).model.to_dict()
        for name, (file, _) in paper_tables.DATA_SETS.items()
    }


def test_the_tables_have_the_papers_rows():
    rows = list(paper_tables.rows(released()))
    count = {table: sum(row.table == table for row in rows) for table in "123467"}
    assert count == {"1": 1, "2": 1, "3": 1, "4": 1, "6": 4 * 7, "7": 3 * 10}
    # The original is in Tables 1-4, 6 and 7, and in Table 7 "2 blocks" and "2 enc. layers" are the same model.
    assert sum(row.new for row in rows) == 4 + 4 * 6 + 3 * 8
    changed = {(row.data_set, row.name): dict(row.changes) for row in rows}
    assert changed["SciTail", "alignment alt."] == {"alignment": "linear"}
    assert changed["SNLI", "alignment alt."] == {"alignment": "identity"}
    assert changed["WikiQA", "prediction alt."] == {"prediction": "full"}
    assert changed["Quora", "5 enc. layers"] == {"blocks": 2, "encoder_layers": 5}


def test_new_rows_are_those_with_a_distinct_model():
    settings = released()
    built = set()
    for row in paper_tables.rows(settings):
        module = models.build({**settings[row.data_set], **row.changes}, outputs=3)
        assert row.new == ((row.data_set, module) not in built)
        built.add((row.data_set, module))


def test_seconds_are_interpolated_linearly_between_lengths():
    points = {10: 1.0, 20: 2.0, 40: 6.0}
    assert paper.interpolated(points, 20) == 2.0
    assert paper.interpolated(points, 15) == pytest.approx(1.5)
    assert paper.interpolated(points, 30) == pytest.approx(4.0)
    assert paper.interpolated(points, 50) == pytest.approx(8.0)
    assert paper.interpolated(points, 5) == pytest.approx(0.5)
    assert paper.interpolated({10: 3.0}, 20) == pytest.approx(6.0)
    # A steep line must not lead to zero seconds for short pairs.
    assert paper.interpolated({10: 1.0, 20: 9.0}, 4) == pytest.approx(0.4)


def test_epoch_mean_is_weighted_by_the_share_of_each_length():
    points = {10: 1.0, 20: 2.0}
    assert paper.epoch_pair_seconds(points, {10: 0.75, 20: 0.25}) == pytest.approx(1.25)
    assert paper.epoch_pair_seconds(points, {10: 0.5, 20: 0.0, 40: 0.5}) == pytest.approx(2.5)


def test_chosen_lengths_are_quantiles_of_the_tokens():
    shares = {10: 0.5, 20: 0.25, 30: 0.0, 100: 0.25}  # tokens: 5, 5, 0, 25 of 35
    assert paper.chosen_lengths(shares, (0.1, 0.25, 0.9)) == [10, 20, 100]
    assert paper.chosen_lengths(shares, (0.5, 0.9)) == [100]


def test_row_hours_scale_with_pairs_and_work(throughput):
    dev = throughput.data.splits["dev"].pairs
    hours = paper.row_hours(throughput, 1000, {})
    assert hours["train"] == pytest.approx(10 * 3 * (1000 + dev / 3) * 0.01 / 3600)
    # Evaluation is included in our hours and in the peer's.
    assert hours["peer"] == pytest.approx(5 * hours["train"])
    assert hours["sorted"] == pytest.approx(2 * hours["train"])
    assert hours["compile"] == pytest.approx(0.01)
    more = paper.row_hours(throughput, 1000, {"blocks": 2})
    products = [steps.products_of_a_step(config, throughput.data, 12) for config in (small(), small(model__blocks=2))]
    assert more["train"] / hours["train"] == pytest.approx(products[1].multiply_adds / products[0].multiply_adds)
    assert more["peer"] / hours["peer"] == pytest.approx(more["train"] / hours["train"])
    assert 1 < more["compile"] / hours["compile"] == pytest.approx(products[1].products / products[0].products)


def test_table_totals_are_sums_and_missing_peer_times_are_none(throughput):
    rows = paper.table_rows({"SNLI": throughput, "WikiQA": throughput}, up_to=1)
    *parts, total = rows
    assert [(row["table"], row["data_set"]) for row in rows] == [
        ("1", "SNLI"),
        ("4", "WikiQA"),
        ("6", "SNLI"),
        ("6", "WikiQA"),
        ("7", "SNLI"),
        ("all", "all"),
    ]
    for key in ("rows", "runs", "train", "compile", "total", "peer", "sorted"):
        assert total[key] == pytest.approx(sum(part[key] for part in parts))
    assert total["total"] == pytest.approx(total["train"] + total["compile"])
    assert total["ratio"] == pytest.approx(total["peer"] / total["total"])
    assert total["sorted_ratio"] == pytest.approx(total["sorted"] / total["total"])
    # Training pairs of the full sets, and a third of dev each.
    dev = throughput.data.splits["dev"].pairs / 3
    assert parts[0]["train"] / parts[1]["train"] == pytest.approx((549_367 + dev) / (20_360 + dev))
    without_peer = dataclasses.replace(throughput, peer_pair_seconds={})
    rows = paper.table_rows({"SNLI": without_peer}, up_to=1)
    assert all(row[key] is None for row in rows for key in ("peer", "ratio", "sorted", "sorted_ratio"))
    assert rows[-1]["train"] > 0


@pytest.mark.slow
def test_the_item_runs(quick):
    rows, notes = paper.run(quick)
    assert rows[-1]["table"] == "all" and rows[-1]["total"] > 0
    assert {row["table"] for row in rows} == {"1", "2", "3", "4", "6", "7", "all"}
    assert "dominates" in notes[0]

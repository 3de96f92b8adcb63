"""A table's caption says how its numbers came about."""

import math

import pytest
from small_records import LAYOUT, record

from jaxmatch.reporting.tables import TableLayout, make_table


def test_the_caption_says_test_was_scored_only_where_there_is_a_test_split():
    def choice(*tests):
        records = [record(n + 1, data=record()["data"] | {"test": test}) for n, test in enumerate(tests)]
        return make_table(records, LAYOUT).caption[1]

    assert choice(4927) == "Checkpoint chosen on dev accuracy; test scored once, with that checkpoint."
    assert choice(0) == choice(None) == "Checkpoint chosen on dev accuracy."
    assert (
        choice(4927, 0)
        == "Checkpoint chosen on dev accuracy; test, where there is one, scored once, with that checkpoint."
    )


def test_the_caption_says_when_test_was_scored_more_often():
    asked = record()["config"] | {"training": {"best_on_test": True}}
    (said,) = make_table([record(config=asked)], LAYOUT).caption[1:2]
    assert (
        said == "Checkpoint chosen on dev accuracy; test scored with that checkpoint, and besides at every evaluation."
    )


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
            "minilm.300d.zip (98.7",
            "Device: cpu x86_64",
            "best on test (selected on test)",
            "Not GloVe.",
        ):
            assert part in text
    uneven = make_table([record(1, seed=1), record(1, seed=2), record(2, seed=1)], LAYOUT)
    assert uneven.caption[0] == "Mean ± sample standard deviation over as many of the seeds 1, 2 as the row says."


def test_caption_gives_a_coverage_only_where_there_is_one():
    for coverage in (None, {"words": 3}, {"tokens_with_vector": math.nan}, 0.987):
        bare = make_table([record(seed=1), record(seed=2, data=record()["data"] | {"coverage": coverage})], LAYOUT)
        assert "Word vectors: minilm.300d.zip." in bare.caption


def test_caption_says_whether_punctuation_is_removed():
    def said(*told):
        configs = [
            record()["config"] | ({"data": {"remove_punctuation": each}} if each is not None else {}) for each in told
        ]
        records = [record(blocks, config=config) for blocks, config in enumerate(configs, 1)]
        return [sentence for sentence in make_table(records, LAYOUT).caption if "unctuation" in sentence]

    assert said(True, True) == ["Punctuation is removed."] and said(False) == ["Punctuation is kept."]
    assert said(True, False) == ["Punctuation is removed in some runs and kept in others."]
    assert said(None) == said(True, None) == []  # records without the setting


@pytest.mark.parametrize(
    ("shares", "said"),
    # Only a share of 1 is shown as 100%.
    [
        ([0.9953], "99.5%"),
        ([1.0], "100%"),
        ([0.99962], "more than 99.9%"),
        ([0.99949], "99.9%"),
        ([1.0, 0.9], "90.0% to 100%"),
    ],
)
def test_caption_says_how_many_tokens_have_a_vector(shares, said):
    data = [record()["data"] | {"coverage": {"tokens_with_vector": share}} for share in shares]
    records = [record(blocks, data=each) for blocks, each in enumerate(data, 1)]
    assert f"Word vectors: minilm.300d.zip ({said} of the tokens have one)." in make_table(records, LAYOUT).caption


def test_a_caption_says_what_splits_are_that_are_not_what_their_names_say():
    about = {"test": "the mismatched pairs", "dev": "the matched pairs"}
    table = make_table([record(data=record()["data"] | {"about": about})], LAYOUT).markdown()
    assert "4,927 test pairs; dev: the matched pairs; test: the mismatched pairs)." in table
    for nothing in ({}, None, "x"):
        assert (
            "4,927 test pairs)." in make_table([record(data=record()["data"] | {"about": nothing})], LAYOUT).markdown()
        )

"""Captions of tables: seeds, selection, data, vectors, preprocessing and device."""

import pytest
from small_records import LAYOUT, record

from jaxmatch.reporting.captions import caption
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.table import make_table


def test_caption_mentions_test_only_if_there_is_a_test_split():
    def choice(*tests):
        records = [record(n + 1, data=record()["data"] | {"test": test}) for n, test in enumerate(tests)]
        return make_table(records, LAYOUT).caption[1]

    assert choice(4927) == "Checkpoint chosen on dev accuracy; test scored once, with that checkpoint."
    assert choice(0) == choice(None) == "Checkpoint chosen on dev accuracy."
    assert (
        choice(4927, 0)
        == "Checkpoint chosen on dev accuracy; test, where there is one, scored once, with that checkpoint."
    )


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
    others = make_table([record(blocks, seed=seed) for blocks, seed in ((1, 1), (1, 2), (2, 2), (2, 3))], LAYOUT)
    assert others.caption[0] == "Mean ± sample standard deviation over as many of the seeds 1–3 as the row says."


def test_caption_explains_the_best_f1_over_thresholds():
    layout = TableLayout("t", (), scores=("dev.max_f1",))
    found = make_table([record(dev={"max_f1": 0.84, "accuracy": 0.9})], layout)
    assert "Max F1 is the best F1 over all thresholds on the scored pairs themselves." in found.caption
    assert "84.0" in found.markdown() and "Max F1" not in make_table([record()], LAYOUT).markdown()


def test_caption_omits_the_vector_coverage_if_a_run_lacks_it():
    for coverage in (None, {"tokens_with_vector": None}):
        bare = make_table([record(seed=1), record(seed=2, data=record()["data"] | {"coverage": coverage})], LAYOUT)
        assert "Word vectors: minilm.300d.zip." in bare.caption


def test_caption_states_whether_punctuation_is_removed():
    def sentences(*flags):
        configs = [
            record()["config"] | ({"data": {"remove_punctuation": each}} if each is not None else {}) for each in flags
        ]
        records = [record(blocks, config=config) for blocks, config in enumerate(configs, 1)]
        return [sentence for sentence in make_table(records, LAYOUT).caption if "unctuation" in sentence]

    assert sentences(True, True) == ["Punctuation is removed."] and sentences(False) == ["Punctuation is kept."]
    assert sentences(True, False) == ["Punctuation is removed in some runs and kept in others."]
    assert sentences(None) == sentences(True, None) == []  # records without the setting


@pytest.mark.parametrize(
    ("shares", "text"),
    # Only a share of 1 is shown as 100%.
    [
        ([0.9953], "99.5%"),
        ([1.0], "100%"),
        ([0.99962], "more than 99.9%"),
        ([0.99949], "99.9%"),
        ([1.0, 0.9], "90.0% to 100%"),
    ],
)
def test_caption_states_the_share_of_tokens_with_a_vector(shares, text):
    data = [record()["data"] | {"coverage": {"tokens_with_vector": share}} for share in shares]
    records = [record(blocks, data=each) for blocks, each in enumerate(data, 1)]
    assert f"Word vectors: minilm.300d.zip ({text} of the tokens have one)." in make_table(records, LAYOUT).caption


def test_caption_shows_the_descriptions_of_splits():
    about = {"test": "the mismatched pairs", "dev": "the matched pairs"}
    table = make_table([record(data=record()["data"] | {"about": about})], LAYOUT).markdown()
    assert "4,927 test pairs; dev: the matched pairs; test: the mismatched pairs)." in table
    for nothing in ({}, None, "x"):
        assert (
            "4,927 test pairs)." in make_table([record(data=record()["data"] | {"about": nothing})], LAYOUT).markdown()
        )


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
    caption = make_table([one, other], LAYOUT).caption
    if text:
        assert caption[-1] == f"Several versions of the program trained the runs of one mean: {text}"
    assert any(line.startswith("Device: ") and ("another" in line) == bool(earlier) for line in caption)
    assert any("Several versions" in line for line in caption) == (text is not None)


def test_caption_names_the_commits_if_several_trained_the_runs_of_a_mean():
    runs = [record(seed=1, commit="aaaaaaaaaaaa"), record(seed=2, commit="bbbbbbbbbbbb"), record(2, seed=1, commit="")]
    last = make_table(runs, LAYOUT).caption[-1]
    assert last == "Several versions of the program trained the runs of a mean: commits aaaaaaaa, bbbbbbbb."
    assert make_table(runs[1:], LAYOUT).caption[-1].startswith("Device: ")


def test_caption_says_what_has_one_run():
    runs = [record(blocks, rate) for blocks in (1, 2) for rate in (0.001, 0.002)]
    assert make_table(runs, LAYOUT).caption[0] == "One run a row, seed 1."
    pivoted = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy",))
    assert make_table(runs, pivoted).caption[0] == "One run a cell, seed 1."
    assert caption(runs[:1], (), [runs[:1]], each="")[0] == "One run, seed 1."

"""The output of `jaxmatch data check`."""

import dataclasses

import pytest

from jaxmatch.data import catalog
from jaxmatch.data.data_check import check
from jaxmatch.data.encoding import DataSettings


def lines_of(text):
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def own(tmp_path):
    def write(task="classification", vectors="cat 1 2\ndog 3 4\nthe 5 6\nbroken\n", **splits):
        head = "text_a\ttext_b\tlabel" + ("\tgroup" if task == "ranking" else "")
        for name, rows in splits.items():
            (tmp_path / f"{name}.tsv").write_text("\n".join([head, *("\t".join(row) for row in rows)]) + "\n")
        if vectors:
            (tmp_path / "some.2d.txt").write_text(vectors)
        return DataSettings("own", str(tmp_path), task, vectors=str(tmp_path / "some.2d.txt") if vectors else "")

    return write


def test_classification_report_equals_hand_computed_counts(own):
    train = [("the cat", "the dog", "no"), ("the cat", "the dog", "yes"), ("The cat runs", "!", "yes")]
    settings = own(
        train=[*train, ("dog", "cat", "yes")],
        dev=[("Cat.", "dog", "yes"), ("the dog", "a cat", "yes")],
    )
    lines = lines_of(check(settings))
    assert lines[0] == "own: classification, labels no, yes (yes is positive)"
    assert "train 4 3 0" in lines and "dev 2 2 0" in lines
    assert "train 1 (25.0%) 3 (75.0%)" in lines and "dev 0 (0.0%) 2 (100.0%)" in lines
    assert "train a 2.0 2 3 3 3" in lines
    assert "words: 5 distinct, 20 in all texts" in lines  # a text without a token counts as a token, but not as a word
    assert "vectors some.2d: 4 words of 2 dimensions, 1 broken line" in lines
    assert "vocabulary: 3 words, 100.0% of them with a vector" in lines
    assert "85.0% of all tokens have a vector, 85.0% are in the vocabulary" in lines
    assert [line for line in lines if line.startswith("- ")] == [
        f"- {catalog.missing_split('own', None, 'test')}",
        "- dev has no pair labeled 'no'",
        "- dev: 100.0% of the pairs are labeled 'yes'",
        "- train b: 1 text has no token left",
        "- only 85.0% of all tokens have a vector",
        "- vectors some.2d: 1 broken line left out (line 4: 0 numbers instead of 2)",
        "- train: 1 pair repeats an earlier one, up to order, case and punctuation",
        "- train: 1 pair occurs there with different labels",
        "- dev: 1 pair occurs in the training split too, up to order, case and punctuation",
    ]


def test_ranking_report_equals_hand_computed_group_counts(own):
    settings = own(
        task="ranking",
        train=[("q one", "the cat", "1", "1"), ("q one", "the dog", "0", "1"), ("q two", "dog", "0", "2")],
        dev=[("q three", "cat", "0", "3")],
    )
    lines = lines_of(check(settings))
    assert "groups all right and wrong mean size largest" in lines
    assert "train 2 1 1.5 2" in lines and "dev 1 0 1.0 1" in lines
    assert "- dev: no group has both a right and a wrong candidate, so nothing can be ranked" in lines


def test_regression_report_lists_constant_scores_and_duplicates(own):
    rows = [("the cat", f"dog {number}", "2.5") for number in range(200)]
    settings = own(task="regression", train=rows, test=[("cat", " ".join(["dog"] * 40), "1"), *rows[:199]])
    lines = lines_of(check(settings))
    assert "train 2.500 2.500 2.500 0.000" in lines
    assert "- train: every pair has the score 2.5" in lines
    assert "- test: 199 pairs occur in the training split too, up to order, case and punctuation" in lines


def test_training_pairs_without_a_label_are_a_problem(own):
    settings = own(
        train=[("cat", "dog", "0"), ("dog", "cat", "1"), ("the", "cat", "-1"), ("the", "dog", "")],
        dev=[("cat cat", "dog", "0"), ("dog dog", "cat", "1"), ("dog", "the dog", "-1")],
    )
    problems = [line for line in lines_of(check(settings)) if "label" in line and line.startswith("- ")]
    assert problems == ["- train: 2 pairs are left out without a label; if -1 is a label, name it: --labels=-1=NAME"]


@pytest.mark.parametrize(
    ("labels", "task", "problems"),
    [
        (
            ["yes", "no", "NaN", "none", "<NA>", "NaN"],
            "",
            ["label '<NA>' of 1 training pair looks like a missing label", "label 'NaN' of 2", "label 'none' of 1"],
        ),
        (["0", "0.5", "1"], "", ["looks like a regression: 3 numeric labels; set data.task=regression, or"]),
        ([f"{number}" for number in range(11)], "", ["looks like a regression: 11 numeric labels"]),
        ([f"{number}" for number in range(11)] * 11, "classification", []),
        (list(map(str, range(11))), "classification", ["11 labels in 11 training pairs; are they classes?"]),
        ([f"id{number}" for number in range(101)] * 11, "", ["101 labels in 1,111 training pairs; are they classes?"]),
        (["2", "0", "1", "5"], "", []),
        (["nano", "0.5"], "", []),
    ],
)
def test_labels_that_are_probably_no_classes_are_problems(own, labels, task, problems):
    settings = own(task=task, vectors="", train=[(f"cat {n}", "dog", label) for n, label in enumerate(labels)])
    found = [line[2:] for line in lines_of(check(settings)) if "label" in line and line.startswith("- ")]
    assert len(found) == len(problems) and all(map(str.startswith, found, problems)), found


@pytest.mark.parametrize(
    ("text", "tokenizer", "mean"),
    [
        ("今天天气很好，我们去玩。", "word", "12.0"),
        ("今天天气很好，我们去玩。", "characters", ""),
        ("今天 天气 很好 ， 我们 去 玩 。", "word", ""),
        ("我们去公园玩吧 or the cat", "word", "7.0"),
        ("the cat and the dog " * 20 + "我们去公园玩吧", "word", ""),
    ],
)
def test_texts_without_spaces_are_a_problem(own, text, tokenizer, mean):
    settings = own(vectors="", train=[(f"{text}", f"{text}", label) for label in ("yes", "no")])
    lines = lines_of(check(dataclasses.replace(settings, tokenizer=tokenizer)))
    found = [line[2:] for line in lines if "space" in line]
    line = f"texts are written without spaces: a token has {mean} characters on average; split them with "
    assert found == [f"{line}data.tokenizer=characters"] * bool(mean)

"""The readers of data sets on small valid files, on generated texts, and on the official files."""

import codecs
import json
from decimal import Decimal

import pytest
from reader_formats import TREC, TREC_FIRST, UBUNTU, UBUNTU_CONTEXT, columns, every_format, placed, write
from refusals import refused

from jaxmatch.data import own, readers
from jaxmatch.data.pairs import number_of
from jaxmatch.errors import InputError

# --- the formats --------------------------------------------------------------------------------------------------


def test_snli_drops_and_counts_pairs_without_a_majority(tmp_path):
    read, path = placed(tmp_path, "snli")
    split = read(path)
    assert columns(split) == [("A dog.", "An animal.", "neutral"), ('A "big" dog.', "A dog.", "entailment")]
    assert split.dropped == {'label "-"': 1}
    assert split.source == path and split.groups is None


def test_wikiqa_reads_ids_from_the_ref_file(tmp_path):
    read, path = placed(tmp_path, "wikiqa")
    split = read(path)
    assert columns(split) == [("who ?", "me .", "1"), ("who ?", "you .", "0"), ("why ?", "so .", "0")]
    assert split.groups == ["q1", "q1", "q2"] and split.documents == ["d1", "d2", "d1"]


@pytest.mark.parametrize(
    "name, pairs",
    [
        ("sick", [("A dog.", "An animal.", "entailment"), ("A dog.", "No dog.", "contradiction")]),
        ("sick_relatedness", [("A dog.", "An animal.", 4.5), ("A dog.", "No dog.", 3.0)]),
        ("scitail", [("Rain falls.", "Rain is water.", "entails"), ("A b.", "C d.", "neutral")]),
        ("quora", [('Why "so ?', "How ?", "1"), ('Why "so ?', "How ?", "0")]),
        ("mrpc", [('He said "so.', "So, he said.", "1"), ("It fell.", "It rose.", "0")]),
        ("rte", [("Rain fell.", "It rained.", "entailment"), ("Rain fell.", "It snowed.", "not_entailment")]),
        ("stsb", [("A plane rises.", "An air plane rises.", 5.0), ('So "he said', "No.", 0.0)]),
    ],
)
def test_pairs_and_labels_are_read(tmp_path, name, pairs):
    read, path = placed(tmp_path, name)
    assert columns(read(path)) == pairs


def test_twitter_votes_become_labels(tmp_path):
    rows = "".join(f"head\ttweet {votes}\t({votes},6)\thttps://t.co/x\n" for votes in range(7))
    split = readers.read_twitter_url(write(tmp_path, "Twitter_URL_Corpus_test.txt", rows))
    assert split.labels == ["0", "0", "0", "1", "1", "1"] and split.dropped == {readers.UNDECIDED: 1}
    assert split.text_b == [f"tweet {votes}" for votes in (0, 1, 2, 4, 5, 6)]


def test_own_columns_may_be_in_any_order_with_extra_columns(tmp_path):
    # Excel writes empty names, where cells to the right were once used.
    path = write(
        tmp_path, "train.tsv", "id\tid\tlabel\ttext_b\ttext_a\t\t\n7\t7\t yes \tb\ta\t\t\n8\t8\tno\td\tc\t\t\n"
    )
    assert columns(own.read(path, "classification")) == [("a", "b", "yes"), ("c", "d", "no")]


def test_whole_numbers_of_json_are_labels_and_groups(tmp_path):
    rows = [("1", " 3"), (1.0, 3.0), (1, 3), (True, "3")]
    pairs = [{"text_a": "a", "text_b": "b", "label": label, "group": group} for label, group in rows]
    path = write(tmp_path, "c.jsonl", "\n".join(map(json.dumps, pairs)))
    split = own.read(path, "ranking")
    assert own.guess_task(path) == "ranking" and split.labels == ["1"] * 4 and split.groups == ["3"] * 4


# --- what is accepted in every format -----------------------------------------------------------------------------


@every_format
@pytest.mark.parametrize(
    "change",
    [
        lambda content: codecs.BOM_UTF8 + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.removesuffix(b"\n"),
        lambda content: content + b"\n\r\n  \n",
        lambda content: codecs.BOM_UTF8 + content.replace(b"\n", b"\r\n") + b"\r\n",
    ],
    ids=["byte-order mark", "windows", "no last line end", "blank lines at the end", "all"],
)
def test_bom_line_ends_and_trailing_blank_lines_change_nothing(tmp_path, name, change):
    read, path = placed(tmp_path, name)
    expected = read(path)
    read, path = placed(tmp_path, name, change)
    assert read(path) == expected


# --- properties ---------------------------------------------------------------------------------------------------


def test_marks_that_are_no_line_ends_are_kept_in_texts(tmp_path):
    rows = [(f"a{mark}b", "c", "neutral") for mark in '\0\r\x0b\x0c\x1c\x85\u2028\u2029"\ufeff']
    path = write(tmp_path, "x.tsv", "\n".join("\t".join(row) for row in rows))
    assert columns(readers.read_scitail(path)) == rows


@pytest.mark.parametrize(
    "text, number",
    [(" 4.5 ", 4.5), ("4.", 4.0), (".5", 0.5), ("-1E+2", -100.0), ("+007", 7.0), (Decimal("2.50"), 2.5), (0.1, 0.1)]
    + [(each, None) for each in ("", ".", "e5", "1_000", "nan", "-Infinity", "0x10", "1 2", "\u0663", "1e999", "--1")],
)
def test_numbers_are_parsed_strictly(text, number):
    if number is None:
        with pytest.raises(InputError, match="is not (a number|between)"):
            number_of(text, "x")
    else:
        assert number_of(text, "x") == number


def test_sentences_are_read_and_annotation_lines_are_ignored(tmp_path):
    split = readers.read_trecqa(write(tmp_path, "dev.xml", TREC))
    assert columns(split) == [
        ("Who is it ?", "Hugo & Young .", "1"),
        ("Who is it ?", "<num> of < b >", "0"),
        ("Where ?", "Here .", "0"),
    ]
    assert split.groups == ["1.4", "1.4", "2"] and split.documents is None and split.dropped == {}


def test_clean_drops_and_counts_questions_with_answers_of_one_kind(tmp_path):
    split = readers.read_trecqa_clean(write(tmp_path, "dev.xml", TREC))
    assert split.groups == ["1.4", "1.4"] and split.dropped == {readers.ONE_KIND: 1}
    assert readers.read_trecqa_clean(write(tmp_path, "dev.xml", TREC_FIRST)).dropped == {}
    only_wrong = TREC_FIRST.replace("positive", "negative")
    error = refused(readers.read_trecqa_clean, write(tmp_path, "dev.xml", only_wrong))
    assert "no question has both right and wrong answers" in str(error)


def test_a_truncated_file_is_refused_unless_it_ends_after_a_question(tmp_path):
    whole = columns(readers.read_trecqa(write(tmp_path, "whole.xml", TREC)))
    for lines in range(1, TREC.count("\n")):
        content = "".join(TREC.splitlines(keepends=True)[:lines])
        path = write(tmp_path, "dev.xml", content)
        if content.endswith("</QApairs>\n"):
            assert set(columns(readers.read_trecqa(path))) <= set(whole)
        else:
            assert "the file ends inside of" in str(refused(readers.read_trecqa, path))


def test_a_context_is_a_group_of_ten_labeled_candidates(tmp_path):
    split = readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU * 2 + UBUNTU.replace("full", "slow")))
    assert split.labels == (["1"] + ["0"] * 9) * 3 and split.groups == ["1"] * 10 + ["2"] * 10 + ["3"] * 10
    assert split.text_a[0] == UBUNTU_CONTEXT and split.text_a[29] == UBUNTU_CONTEXT.replace("full", "slow")
    assert split.text_b[:2] == ["answer 0", "answer 1"] and split.documents is None


def test_a_training_context_has_a_right_and_a_wrong_response(tmp_path):
    rows = "1\tc\tyes\n0\tc\tno\n1\td\tyes\n0\td\tno\n1\thi all\thow big ?\ttwo gigabytes\n"
    path = write(tmp_path, "train.txt", rows)
    split = readers.read_ubuntu_train(path)
    assert columns(split)[:2] == [("c", "yes", "1"), ("c", "no", "0")] and split.groups == ["1", "1", "2", "2", "3"]
    assert columns(split)[-1] == ("hi all __eot__ how big ?", "two gigabytes", "1")  # of utterances in own columns
    assert "context 1 has 2 of its 10" in str(refused(readers.read_ubuntu, path))

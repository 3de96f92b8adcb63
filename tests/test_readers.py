"""The readers of data sets on valid and on damaged files, and the dev split that is taken from a training file."""

import codecs
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_formats import (
    FORMATS,
    TREC,
    TREC_FIRST,
    UBUNTU,
    UBUNTU_CONTEXT,
    columns,
    every_format,
    placed,
    quick,
    write,
)
from refusals import refused

from jaxmatch.data import own, readers
from jaxmatch.data.pairs import HELD_OUT_SHARE, Split, hold_out, number_of
from jaxmatch.errors import InputError


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
    path = write(tmp_path, "train.tsv", "id\tlabel\ttext_b\ttext_a\t\t\n7\t yes \tb\ta\t\t\n8\tno\td\tc\t\t\n")
    assert columns(own.read(path, "classification")) == [("a", "b", "yes"), ("c", "d", "no")]


def test_whole_numbers_of_json_are_labels_and_groups(tmp_path):
    rows = [("1", " 3"), (1.0, 3.0), (1, 3), (True, "3")]
    pairs = [{"text_a": "a", "text_b": "b", "label": label, "group": group} for label, group in rows]
    path = write(tmp_path, "c.jsonl", "\n".join(map(json.dumps, pairs)))
    split = own.read(path, "ranking")
    assert own.guess_task(path) == "ranking" and split.labels == ["1"] * 4 and split.groups == ["3"] * 4


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
    refused(readers.read_ubuntu, path, match="context 1 has not 10 candidates")


@every_format
def test_bytes_that_are_not_utf8_are_reported_with_their_line_and_the_reason(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: content.removesuffix(b"\n") + b"\xe9\n")
    error = refused(read, path)
    count = path.read_bytes().count(b"\n")
    assert (error.path, error.line) == (path, count)
    assert str(error).startswith(f"{path}:{count}: it is not UTF-8 text ('utf-8' codec can't decode byte 0xe9 in")
    read, path = placed(tmp_path, name, lambda content: content.decode().encode("utf-16"))
    assert "byte 0xff in position 0: invalid start byte); save it as text in UTF-8" in str(refused(read, path))


@every_format
def test_a_file_without_pairs_is_refused(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: b"")
    error = refused(read, path)
    assert error.path.stem == path.stem
    assert re.search("no pairs|empty|its lines do not have the labels", str(error))
    if name in ("sick", "sick_relatedness", "mrpc", "rte", "own tsv"):
        read, path = placed(tmp_path, name, lambda content: content.split(b"\n")[0] + b"\n")
        assert "no pairs" in str(refused(read, path))


def test_missing_files_and_folders_are_refused(tmp_path):
    read, path = placed(tmp_path, "wikiqa")
    path.with_suffix(".ref").unlink()
    assert refused(read, path, match="cannot be read .No such file or directory.").path == path.with_suffix(".ref")
    path.with_suffix(".ref").mkdir()
    refused(read, path, match="cannot be read .Is a directory.")


# Format, how its good file is damaged (old text -> new, first occurrence), the line at fault, words of the message.
DAMAGE = [
    # An empty text.
    ("snli", '"A dog."', '""', 1, "the first text is empty"),
    ("trecqa", "Hugo\t&\tYoung\t.", "\t \t", 8, "the second text is empty"),
    # An unknown label.
    ("snli", '"entailment"', '"entails"', 3, "'entails' is not one of 'entailment', 'neutral', 'contradiction'"),
    ("sick", "CONTRADICTION", "UNKNOWN", 3, "label 'unknown' is not one of"),
    ("twitter_url", "(4,6)", "(4,5)", 1, "votes '(4,5)' are not of the form (n,6) with n from 0 to 6"),
    ("own tsv", "\t0\tq1", "\tno\tq1", 3, "label 'no' is not one of '0', '1'; a ranking's label is 1 (relevant) or 0"),
    # Numbers.
    ("sick_relatedness", "\t3\t", "\t0.9\t", 3, "relatedness_score '0.9' is not between 1 and 5"),
    ("stsb", "5.000", "5.001", 1, "score '5.001' is not between 0 and 5"),
    ("own jsonl", "2.5", "true", 1, "label True is not a number"),
    # JSON.
    ("snli", "}\n", "},\n", 1, "not valid JSON (Extra data at column"),
    ("snli", '"A dog.", "sentence2": "A cat."', "1" * 5000, 2, "not valid JSON ("),
    ("snli", '["neutral"]', "[" * 200_000, 1, "not valid JSON (maximum recursion depth exceeded"),
    ("snli", '"sentence1"', '"premise"', 1, "the object has no key 'sentence1'; it has 'gold_label', 'premise'"),
    ("snli", '"A dog."', '"A \\ud83d dog."', 1, "without its other half"),
    ("own jsonl", '{"text_a": "c", "text_b": "d", "label": "-1e1"}', "[1, 2]", 2, "not a JSON object but [1, 2]"),
    # Headers.
    ("sick", "entailment_judgment", "judgment", 1, "the header has no column 'entailment_judgment'"),
    ("own tsv", "text_b", "text_a", 1, "the header names column 'text_a' twice"),
    ("own tsv", "\t0\tq1", "\t0\t ", 3, "the group is empty"),
    # Columns; a tab inside a text is one too many.
    ("scitail", "C d.", "C\td.", 2, "4 columns where 3 are expected (premise, hypothesis, label, separated by tabs)"),
    ("stsb", "0001\t", "", 1, "6 columns where 7 are expected (genre, file, year, number, score, sentence, sentence"),
    # Groups and blocks.
    ("ubuntu", "0\thi all", "0\thello", None, "context 1 has not 10 candidates"),
    ("trecqa", "<question>\nWhere\t?\nWRB\t.\n</question>\n", "", 25, "the first text is empty"),
    ("own tsv", "you .", "you\t.", 3, "5 columns where the first line has 4"),
]


@pytest.mark.parametrize("name, old, new, line, words", DAMAGE)
def test_damage_is_reported_with_file_and_line(tmp_path, name, old, new, line, words):
    assert old in FORMATS[name][2]
    read, path = placed(tmp_path, name, lambda content: content.decode().replace(old, new, 1).encode())
    error = refused(read, path)
    assert (error.path, error.line) == (path, line)
    assert words in str(error)
    assert len(str(error)) < len(str(path)) + 300


@pytest.mark.parametrize("old, new", [("q1 0 d2 0", "q1 0 d2 1"), ("q1 0 d2 0", "q1 d2 0"), ("q2 0 d1 0\n", "")])
def test_wikiqa_ref_files_that_contradict_the_text_are_refused(tmp_path, old, new):
    read, path = placed(tmp_path, "wikiqa")
    reference = path.with_suffix(".ref")
    reference.write_text(reference.read_text().replace(old, new, 1))
    assert refused(read, path, match="its lines do not have the labels of WikiQA-dev.txt").path == reference


@every_format
@settings(quick, max_examples=25)
@given(data=st.data())
def test_any_damage_gives_pairs_or_one_clear_error(tmp_path, name, data):
    """For any change of a file's bytes, its reader returns complete columns or reports where the file is damaged."""
    content = FORMATS[name][2].encode()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 12)))
    marks = st.sampled_from([b"\t", b"\n", b"\r\n", b"\0", b'"', b"\xef\xbb\xbf", b"-"])
    pieces = st.one_of(st.binary(max_size=6), marks)
    read, path = placed(tmp_path, name, lambda content: content[:start] + data.draw(pieces) + content[stop:])
    try:
        split = read(path)
    except InputError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(str(path.with_suffix("")))
        assert error.line is None or 1 <= error.line <= path.read_bytes().count(b"\n") + 4
    else:
        assert 0 < len(split) == len(split.text_b) == len(split.labels)
        assert split.groups is None or len(split.groups) == len(split)
        for text in (*split.text_a, *split.text_b):
            assert text.strip() and text.encode()


def unsplit(first_texts):
    numbers = [str(number) for number in range(len(first_texts))]
    return Split(first_texts, numbers, ["0"] * len(numbers), source=Path("train.txt"), dropped={"reason": 3})


@quick
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=2), min_size=2, max_size=60))
def test_each_pair_is_in_one_split_and_pairs_of_a_text_stay_together(texts):
    whole = unsplit(texts)
    try:
        train, dev = hold_out(whole)
    except InputError as error:  # a few texts may leave no pair for train
        assert "a part without pairs" in str(error) and len(set(texts)) < 20
        return
    assert sorted(columns(train) + columns(dev)) == sorted(columns(whole))
    assert not set(train.text_a) & set(dev.text_a) and train.text_a and dev.text_a
    for part in (train, dev):
        assert list(map(int, part.text_b)) == sorted(map(int, part.text_b))
    # Dev has no more texts than its share needs.
    share, most = HELD_OUT_SHARE * len(texts), max(dev.text_a.count(text) for text in dev.text_a)
    assert share <= len(dev) < share + most


def test_split_is_determined_by_hashes_of_the_texts():
    # Of the ten digits, "9" has the lowest SHA-256. It begins with 19, and the next one, that of "8", with 2c.
    train, dev = hold_out(unsplit([str(number) for number in range(10)]))
    assert dev.text_a == ["9"] and train.text_a == list("012345678")
    assert train.dropped == {"reason": 3} and dev.dropped == {}
    assert train.source == dev.source == Path("train.txt") and train.groups is None

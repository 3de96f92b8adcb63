"""Damaged files: each reader reports the file and the line, or returns complete pairs."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_formats import FORMATS, every_format, placed, quick
from refusals import refused

from jaxmatch.errors import InputError


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
    assert re.search("no pairs|empty|3 lines where WikiQA-dev.txt has 0", str(error))
    if name in ("sick", "sick_relatedness", "mrpc", "rte", "own tsv"):
        read, path = placed(tmp_path, name, lambda content: content.split(b"\n")[0] + b"\n")
        assert "no pairs" in str(refused(read, path))


@every_format
def test_missing_files_and_folders_are_refused(tmp_path, name):
    read, path = placed(tmp_path, name)
    path.unlink()
    error = refused(read, path)
    assert error.path == path and "it cannot be read (No such file or directory)" in str(error)
    if name == "wikiqa":
        path.with_suffix(".ref").unlink()
        assert refused(read, path).path == path.with_suffix(".ref")
        return
    path.mkdir()
    assert "it cannot be read (Is a directory)" in str(refused(read, path))


# Format, how its good file is damaged (old text -> new, first occurrence), the line at fault, words of the message.
DAMAGE = [
    # An empty text.
    ("snli", '"A dog."', '""', 1, "the first text is empty"),
    ("snli", '"An animal."', '" \\n "', 1, "the second text is empty"),
    ("wikiqa", "why ?", "", 3, "the first text is empty"),
    ("trecqa", "Hugo\t&\tYoung\t.", "\t \t", 8, "the second text is empty"),
    # An unknown label.
    ("snli", '"entailment"', '"entails"', 3, "'entails' is not one of 'entailment', 'neutral', 'contradiction'"),
    ("scitail", "entails", "entailment", 1, "label 'entailment' is not one of 'neutral', 'entails'"),
    ("sick", "CONTRADICTION", "UNKNOWN", 3, "label 'unknown' is not one of"),
    ("twitter_url", "(4,6)", "(4,5)", 1, "votes '(4,5)' are not of the form (n,6) with n from 0 to 6"),
    ("twitter_url", "(2,6)", "2", 3, "votes '2' are not of the form"),
    ("own tsv", "\t0\tq1", "\tno\tq1", 3, "label 'no' is not one of '0', '1'; a ranking's label is 1 (relevant) or 0"),
    # Numbers.
    ("sick_relatedness", "\t3\t", "\t0.9\t", 3, "relatedness_score '0.9' is not between 1 and 5"),
    ("stsb", "5.000", "5.001", 1, "score '5.001' is not between 0 and 5"),
    ("stsb", "\t0\t", "\tsame\t", 2, "score 'same' is not a number"),
    ("own jsonl", "2.5", "true", 1, "label True is not a number"),
    ("own jsonl", "2.5", "1e39", 1, "is not between"),
    # JSON.
    ("snli", '"An animal."', "An animal.", 1, "not valid JSON"),
    ("snli", '"pairID": "1"}', '"pairID": ', 2, "not valid JSON"),
    ("snli", "}\n", "},\n", 1, "not valid JSON (Extra data at column"),
    ("snli", '"A dog.", "sentence2": "A cat."', "1" * 5000, 2, "not valid JSON ("),
    ("snli", '["neutral"]', "[" * 200_000, 1, "not valid JSON (maximum recursion depth exceeded"),
    ("snli", '"sentence1"', '"premise"', 1, "the object has no key 'sentence1'; it has 'gold_label', 'premise'"),
    ("snli", '"A dog."', "null", 1, "'sentence1' must be a string, not None"),
    ("snli", '"A dog."', '"A \\ud83d dog."', 1, "without its other half"),
    ("own jsonl", '{"text_a": "c", "text_b": "d", "label": "-1e1"}', "[1, 2]", 2, "not a JSON object but [1, 2]"),
    # Headers.
    ("snli", '"An animal."', '"\\udc3d"', 1, r"'\udc3d' without its other half"),
    ("sick", "entailment_judgment", "judgment", 1, "the header has no column 'entailment_judgment'"),
    ("own tsv", "text_b", "text_a", 1, "the header names column 'text_a' twice"),
    ("own tsv", "text_a\ttext_b\tlabel\tgroup\n", "", 1, "has no column 'text_a', 'text_b', 'label', 'group'"),
    ("own tsv", "\t0\tq1", "\t0\t ", 3, "the group is empty"),
    # Columns; a tab inside a text is one too many.
    ("scitail", "C d.", "C\td.", 2, "4 columns where 3 are expected (premise, hypothesis, label, separated by tabs)"),
    ("stsb", "0001\t", "", 1, "6 columns where 7 are expected (genre, file, year, number, score, sentence, sentence"),
    ("ubuntu", "\tanswer 2", "", 3, "2 columns where 3 are expected (label, context, response"),
    # Groups and blocks.
    ("ubuntu", "0\thi all", "0\thello", None, "context 1 has 1 of its 10 candidates"),
    ("trecqa", "<QApairs id='2'>", "<QApairs id=2>", 29, "the group is empty"),
    ("trecqa", "<question>\nWhere\t?\nWRB\t.\n</question>\n", "", 25, "the first text is empty"),
    ("own tsv", "you .", "you\t.", 3, "5 columns where the header names 4"),
]


@pytest.mark.parametrize("name, old, new, line, words", DAMAGE)
def test_damage_is_reported_with_file_and_line(tmp_path, name, old, new, line, words):
    assert old in FORMATS[name][2]
    read, path = placed(tmp_path, name, lambda content: content.decode().replace(old, new, 1).encode())
    error = refused(read, path)
    assert (error.path, error.line) == (path, line)
    assert words in str(error)
    assert len(str(error)) < len(str(path)) + 300


@pytest.mark.parametrize(
    "old, new, line, words",
    [
        ("q1 0 d2 0", "q1 0 d2 1", 2, "question id, 0, document id and 0 are expected, as in WikiQA-dev.txt"),
        ("q1 0 d2 0", "q1 d2 0", 2, "question id, 0, document id and 0 are expected"),
        ("q2 0 d1 0\n", "", None, "2 lines where WikiQA-dev.txt has 3"),
    ],
)
def test_wikiqa_ref_files_that_contradict_the_text_are_refused(tmp_path, old, new, line, words):
    read, path = placed(tmp_path, "wikiqa")
    reference = path.with_suffix(".ref")
    reference.write_text(reference.read_text().replace(old, new, 1))
    error = refused(read, path)
    assert (error.path, error.line) == (reference, line) and words in str(error)


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

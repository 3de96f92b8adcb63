"""The readers of data sets on small valid files, on generated texts, and on the official files."""

import codecs
import json
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reader_formats import (
    OWN,
    SNLI_HEADER,
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

from jaxmatch.data import own, readers, tables
from jaxmatch.data.pairs import number_of
from jaxmatch.errors import InputError

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n"), min_size=1, max_size=20).filter(
    lambda text: not text.isspace()
)
anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: not text.isspace()
)


# --- the formats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["snli jsonl", "snli txt"])
def test_snli_drops_and_counts_pairs_without_a_majority(tmp_path, name):
    read, path = placed(tmp_path, name)
    split = read(path)
    assert columns(split) == [("A dog.", "An animal.", "neutral"), ('A "big" dog.', "A dog.", "entailment")]
    assert split.dropped == {'label "-"': 1}
    assert split.source == path and split.groups is None


def test_snli_row_may_lack_only_annotators(tmp_path):
    assert len(readers.read_snli(write(tmp_path, "x.txt", SNLI_HEADER + "neutral" + "\tx" * 8 + "\n"))) == 1
    error = refused(readers.read_snli, write(tmp_path, "x.txt", SNLI_HEADER + "neutral" + "\tx" * 7 + "\n"))
    assert error.line == 2 and "8 columns where the header names 14" in str(error)


def test_scitail_pairs_and_labels_are_read(tmp_path):
    read, path = placed(tmp_path, "scitail")
    assert columns(read(path)) == [("Rain falls.", "Rain is water.", "entails"), ("A b.", "C d.", "neutral")]


def test_quora_keeps_quotation_marks(tmp_path):
    read, path = placed(tmp_path, "quora")
    assert columns(read(path)) == [('Why "so ?', "How ?", "1"), ('Why "so ?', "How ?", "0")]


def test_wikiqa_reads_ids_from_the_ref_file(tmp_path):
    read, path = placed(tmp_path, "wikiqa")
    split = read(path)
    assert columns(split) == [("who ?", "me .", "1"), ("who ?", "you .", "0"), ("why ?", "so .", "0")]
    assert split.groups == ["q1", "q1", "q2"] and split.documents == ["d1", "d2", "d1"]


def test_sick_is_read_as_entailment_and_as_relatedness(tmp_path):
    _, path = placed(tmp_path, "sick")
    assert columns(readers.read_sick(path)) == [
        ("A dog.", "An animal.", "entailment"),
        ("A dog.", "No dog.", "contradiction"),
    ]
    assert readers.read_sick_relatedness(path).labels == [4.5, 3.0]


@pytest.mark.parametrize(
    "name, pairs",
    [
        ("mrpc", [('He said "so.', "So, he said.", "1"), ("It fell.", "It rose.", "0")]),
        ("rte", [("Rain fell.", "It rained.", "entailment"), ("Rain fell.", "It snowed.", "not_entailment")]),
        ("stsb", [("A plane rises.", "An air plane rises.", 5.0), ('So "he said', "No.", 0.0)]),
    ],
)
def test_mrpc_rte_and_stsb_pairs_are_read(tmp_path, name, pairs):
    read, path = placed(tmp_path, name)
    assert columns(read(path)) == pairs


def test_twitter_votes_become_labels(tmp_path):
    rows = "".join(f"head\ttweet {votes}\t({votes},6)\thttps://t.co/x\n" for votes in range(7))
    split = readers.read_twitter_url(write(tmp_path, "Twitter_URL_Corpus_test.txt", rows))
    assert split.labels == ["0", "0", "0", "1", "1", "1"] and split.dropped == {readers.UNDECIDED: 1}
    assert split.text_b == [f"tweet {votes}" for votes in (0, 1, 2, 4, 5, 6)]


def test_own_file_is_read_as_ranking_regression_or_classification(tmp_path):
    path = write(tmp_path, "train.tsv", OWN)
    ranking, regression, classes = (own.read(path, task) for task in ("ranking", "regression", "classification"))
    assert ranking.labels == ["1", "0"] and ranking.groups == ["q1", "q1"]
    assert regression.labels == [1.0, 0.0] and regression.groups is None
    assert classes.labels == ["1", "0"] and classes.groups is None


def test_own_columns_may_be_in_any_order_with_extra_columns(tmp_path):
    path = write(tmp_path, "train.tsv", "id\tlabel\ttext_b\ttext_a\n7\t yes \tb\ta\n8\tno\td\tc\n")
    assert columns(own.read(path, "classification")) == [("a", "b", "yes"), ("c", "d", "no")]


def test_own_json_labels_and_groups_may_be_numbers_or_strings(tmp_path):
    rows = [
        {"text_a": "a", "text_b": "b", "label": label, "group": group}
        for label, group in [(1, 3), ("1", " 3"), (1.0, 3.0)]
    ]
    path = write(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)))
    split = own.read(path, "ranking")
    assert split.labels == ["1", "1", "1"] and split.groups == ["3", "3", "3"]


def test_task_is_guessed_from_the_presence_of_a_group(tmp_path):
    assert own.guess_task(write(tmp_path, "a.tsv", OWN)) == "ranking"
    assert own.guess_task(write(tmp_path, "b.tsv", "text_a\ttext_b\tlabel\n")) == "classification"
    assert own.guess_task(write(tmp_path, "a.jsonl", '{"group": 1}\nbroken')) == "ranking"
    assert own.guess_task(write(tmp_path, "b.jsonl", '{"label": 1}\n')) == "classification"
    late = '{"text_a": "a", "text_b": "b", "label": 1}\n{"text_a": "a", "text_b": "b", "label": 0, "group": "q1"}\n'
    path = write(tmp_path, "late.jsonl", late)
    assert own.read(path, "classification").labels == ["1", "0"]  # the task is given, so groups are ignored
    with pytest.raises(InputError, match="late.jsonl:2: there is a 'group', but none at the beginning"):
        own.read(path, "classification", guessed=True)


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


@pytest.mark.parametrize("inside", ["\0", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", '"', "\ufeff"])
def test_only_a_line_feed_ends_a_line(tmp_path, inside):
    text = f"a{inside}b"
    path = write(tmp_path, "x.tsv", f"{text}\t{text}\tneutral\nc\td\tentails\n")
    assert columns(readers.read_scitail(path)) == [(text, text, "neutral"), ("c", "d", "entails")]


# --- properties ---------------------------------------------------------------------------------------------------


@quick
@given(
    rows=st.lists(st.tuples(cells, cells, st.sampled_from(readers.SCITAIL)), min_size=1, max_size=8),
    mark=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    last_end=st.booleans(),
)
def test_table_round_trip_preserves_any_text(tmp_path, rows, mark, end, last_end):
    content = end.join("\t".join(row) for row in rows) + (end if last_end else "")
    # A text that begins with a byte-order mark needs another one before it.
    mark = mark or rows[0][0].startswith("\ufeff")
    path = write(tmp_path, "x.tsv", (codecs.BOM_UTF8 if mark else b"") + content.encode())
    assert columns(readers.read_scitail(path)) == rows


@quick
@given(
    rows=st.lists(st.tuples(anything, anything, st.sampled_from(readers.INFERENCE)), min_size=1, max_size=8),
    ascii=st.booleans(),
)
@example(rows=[("\U0001f600 a\nb\tc\u2028", "\0", "neutral")], ascii=True)
def test_json_round_trip_preserves_any_text(tmp_path, rows, ascii):
    records = [{"gold_label": label, "sentence1": a, "sentence2": b} for a, b, label in rows]
    path = write(tmp_path, "x.jsonl", "".join(json.dumps(record, ensure_ascii=ascii) + "\n" for record in records))
    assert columns(readers.read_snli(path)) == rows


@quick
@given(
    rows=st.lists(
        st.tuples(cells, cells, st.sampled_from("01"), st.from_regex(r"[a-z0-9]{1,3}", fullmatch=True)),
        min_size=1,
        max_size=8,
    ),
    order=st.permutations(["text_a", "text_b", "label", "group", "note"]),
)
def test_own_table_and_own_json_give_the_same_split(tmp_path, rows, order):
    records = [dict(zip(("text_a", "text_b", "label", "group"), row)) | {"note": "x"} for row in rows]
    # In the last column, a text that ends in \r would turn the line end into \r\n.
    while order[-1].startswith("text"):
        order = [*order[-1:], *order[:-1]]
    table = ["\t".join(order)] + ["\t".join(record[name] for name in order) for record in records]
    from_table = own.read(write(tmp_path, "x.tsv", "\n".join(table)), "ranking")
    from_json = own.read(write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, records))), "ranking")
    assert columns(from_table) == columns(from_json) == [row[:3] for row in rows]
    assert from_table.groups == from_json.groups == [row[3] for row in rows]


@quick
@given(st.floats(-3e38, 3e38))
def test_finite_numbers_are_parsed_exactly(number):
    assert number_of(repr(number), None, 1, what="x") == number == number_of(number, None, 1, what="x")


@pytest.mark.parametrize("text", ["", ".", "e5", "1_000", "nan", "-Infinity", "0x10", "1 2", "\u0663", "1e999", "--1"])
def test_invalid_numbers_are_errors(text):
    with pytest.raises(InputError, match="is not (a number|between)"):
        number_of(text, None, 1, what="x")


@pytest.mark.parametrize(
    "text, number", [(" 4.5 ", 4.5), ("4.", 4.0), (".5", 0.5), ("-1E+2", -100.0), ("+007", 7.0), (Decimal("2.50"), 2.5)]
)
def test_valid_numbers_are_parsed(text, number):
    assert number_of(text, None, 1, what="x") == number


def test_lines_are_read_one_at_a_time():
    def raw():
        yield b"first\n"
        pytest.fail("the second line was read before the first was used")

    assert next(tables.decode_lines(raw(), "x")) == (1, "first")


tokens = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=6).filter(
    lambda token: not token.isspace()
)
sentences = st.lists(tokens, min_size=1, max_size=5).filter(
    lambda words: not re.fullmatch("</?[A-Za-z]+( .*)?>", words[0])
)
answers = st.lists(st.tuples(st.sampled_from(["positive", "negative"]), sentences), max_size=4)


def block(kind, words, *below):
    return "\n".join([f"<{kind}>", "\t".join(words), *below, f"</{kind}>\n"])


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


@quick
@given(st.lists(st.tuples(sentences, answers), min_size=1, max_size=4).filter(lambda rows: any(a for _, a in rows)))
@example([(["<", "b"], [("positive", ["<num>"]), ("negative", ["&lt;", "</b>x"])])])
def test_round_trip_preserves_any_sentence(tmp_path, rows):
    content, expected, groups = "", [], []
    for number, (question, candidates) in enumerate(rows):
        content += f"<QApairs id='{number}'>\n" + block("question", question, "WP\t.", "1\t2")
        for kind, words in candidates:
            content += block(kind, words, "NN")
            expected.append((" ".join(question), " ".join(words), "1" if kind == "positive" else "0"))
            groups.append(str(number))
        content += "</QApairs>\n"
    split = readers.read_trecqa(write(tmp_path, "train.xml", content))
    assert columns(split) == expected and split.groups == groups


@pytest.mark.parametrize("lines", range(1, TREC.count("\n")))
def test_a_truncated_file_is_refused_unless_it_ends_after_a_question(tmp_path, lines):
    content = "".join(TREC.splitlines(keepends=True)[:lines])
    path = write(tmp_path, "dev.xml", content)
    if content.endswith("</QApairs>\n"):
        assert set(columns(readers.read_trecqa(path))) <= set(
            columns(readers.read_trecqa(write(tmp_path, "whole.xml", TREC)))
        )
    else:
        with pytest.raises(InputError, match="the file ends inside of"):
            readers.read_trecqa(path)


@pytest.mark.parametrize(
    "name, pairs, questions, clean_pairs, clean_questions",
    [("train", 4718, 93, 4619, 78), ("dev", 1148, 81, 1117, 65), ("test", 1517, 95, 1442, 68)],
)
def test_published_files_have_the_expected_counts(data_folder, name, pairs, questions, clean_pairs, clean_questions):
    path = data_folder / "jacana-qa-naacl2013-data-results" / f"{name}.xml"
    whole, clean = readers.read_trecqa(path), readers.read_trecqa_clean(path)
    assert (len(whole), len(set(whole.groups))) == (pairs, questions)
    assert (len(clean), len(set(clean.groups))) == (clean_pairs, clean_questions)
    assert clean.dropped == {readers.ONE_KIND: pairs - clean_pairs}


def test_a_context_is_a_group_of_ten_labeled_candidates(tmp_path):
    split = readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU + UBUNTU.replace("full", "slow")))
    assert split.labels == (["1"] + ["0"] * 9) * 2 and split.groups == ["1"] * 10 + ["2"] * 10
    assert split.text_a[0] == UBUNTU_CONTEXT and split.text_a[19] == UBUNTU_CONTEXT.replace("full", "slow")
    assert split.text_b[:2] == ["answer 0", "answer 1"] and split.documents is None


def test_repeated_context_gives_two_groups(tmp_path):
    assert readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU * 2)).groups == ["1"] * 10 + ["2"] * 10


@pytest.mark.parametrize("missing, context", [(2, 1), (12, 2), (20, 2)])
def test_missing_candidate_is_an_error_that_names_its_context(tmp_path, missing, context):
    rows = (UBUNTU + UBUNTU.replace("full", "slow")).splitlines(keepends=True)
    error = refused(readers.read_ubuntu, write(tmp_path, "test.txt", "".join(rows[: missing - 1] + rows[missing:])))
    assert f"context {context} has 9 of its 10 candidates" in str(error)


def test_a_training_context_has_a_right_and_a_wrong_response(tmp_path):
    path = write(tmp_path, "train.txt", "1\tc\tyes\n0\tc\tno\n1\td\tyes\n0\td\tno\n1\te\tyes\n")
    assert columns(readers.read_ubuntu_train(path))[:2] == [("c", "yes", "1"), ("c", "no", "0")]
    assert readers.read_ubuntu_train(path).groups == ["1", "1", "2", "2", "3"]
    assert "context 1 has 2 of its 10" in str(refused(readers.read_ubuntu, path))


def test_utterances_in_separate_columns_are_joined(tmp_path):
    path = write(tmp_path, "train.txt", "1\thi all\tmy disk is full\thow big ?\ttwo gigabytes\n")
    assert columns(readers.read_ubuntu_train(path)) == [
        ("hi all __eot__ my disk is full __eot__ how big ?", "two gigabytes", "1")
    ]


def test_real_wikiqa_groups_match_the_official_filtered_list(data_folder):
    split = readers.read_wikiqa(data_folder / "WikiQACorpus" / "WikiQA-test.txt")
    kinds = {}
    for group, label in zip(split.groups, split.labels):
        kinds.setdefault(group, set()).add(label)
    kept = [
        f"{group} 0 {document} {label}"
        for group, document, label in zip(split.groups, split.documents, split.labels)
        if len(kinds[group]) == 2
    ]
    # The release's own list of questions with right and wrong answers.
    assert len(kinds) == 633
    assert kept == (data_folder / "WikiQACorpus" / "WikiQA-test-filtered.ref").read_text().splitlines()


def test_real_sick_with_windows_line_ends_has_the_expected_labels(data_folder):
    path = data_folder / "SICK" / "SICK_test_annotated.txt"
    assert b"\r\n" in path.read_bytes()
    labels = readers.read_sick(path).labels
    assert [labels.count(name) for name in readers.INFERENCE] == [1414, 2793, 720]
    scores = readers.read_sick_relatedness(path).labels
    assert (min(scores), max(scores)) == (1.0, 5.0) and scores[:2] == [3.3, 3.7]


def test_real_mrpc_keeps_its_quotation_marks_but_not_the_byte_order_mark(data_folder):
    path = data_folder / "MRPC" / "msr_paraphrase_train.txt"
    assert path.read_bytes().startswith(codecs.BOM_UTF8) and b"\r\n" in path.read_bytes()
    assert columns(readers.read_mrpc(path))[0] == (
        'Amrozi accused his brother, whom he called "the witness", of deliberately distorting his evidence.',
        'Referring to him as only "the witness", Amrozi accused his brother of deliberately distorting his evidence.',
        "1",
    )

"""TrecQA's pseudo-XML: sentences, questions with only right or only wrong answers, and truncated files."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reader_formats import TREC, TREC_FIRST, columns, quick, write
from refusals import refused

from jaxmatch.data import readers
from jaxmatch.errors import InputError

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


def test_blank_lines_and_spaces_around_tags_do_not_matter(tmp_path):
    expected = columns(readers.read_trecqa(write(tmp_path, "dev.xml", TREC)))
    loose = TREC.replace("</question>", "\n</question> ").replace("</QApairs>", "\n</QApairs>\n ")
    assert columns(readers.read_trecqa(write(tmp_path, "dev.xml", loose))) == expected


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


def test_published_test_file_has_the_expected_first_pair(data_folder):
    split = readers.read_trecqa(data_folder / "jacana-qa-naacl2013-data-results" / "test.xml")
    question, answer, label = columns(split)[0]
    assert (question, label, split.groups[0]) == ("What do practitioners of Wicca worship ?", "1", "32.1")
    assert answer == "An estimated 50,000 Americans practice Wicca , a form of polytheistic nature worship ."
    assert split.labels.count("1") == 284

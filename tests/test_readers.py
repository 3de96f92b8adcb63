"""The readers: real files, made-up damaged ones, and texts of every kind."""

import codecs
import json
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jaxmatch.data.readers import lines, own, quora, scitail, sick, snli, wikiqa
from jaxmatch.data.readers.pairs import number_of
from jaxmatch.errors import InputError

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Any text that one cell of a tab-separated line can hold and that is not blank.
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n"), min_size=1, max_size=20).filter(
    lambda text: not text.isspace()
)
anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: not text.isspace()
)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def columns(split):
    return list(zip(split.text_a, split.text_b, split.labels))


def refused(read, path, *arguments):
    with pytest.raises(InputError) as caught:
        read(path, *arguments)
    assert "\n" not in str(caught.value)
    return caught.value


# A reader, its file's name and a whole file of three lines of pairs in its format.
SNLI_HEADER = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
    "\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\n"
)
SNLI_JSON = (
    '{"gold_label": "neutral", "sentence1": "A dog.", "sentence2": "An animal.", "annotator_labels": ["neutral"]}\n'
    '{"gold_label": "-", "sentence1": "A dog.", "sentence2": "A cat.", "pairID": "1"}\n'
    '{"gold_label": "entailment", "sentence1": "A \\"big\\" dog.", "sentence2": "A dog."}\n'
)
SNLI_TEXT = SNLI_HEADER + (
    "neutral\t( A dog )\t( An animal )\t(ROOT)\t(ROOT)\tA dog.\tAn animal.\t1.jpg\t1r1n\tneutral\t\t\t\t\n"
    "-\t( A dog )\t( A cat )\t(ROOT)\t(ROOT)\tA dog.\tA cat.\t1.jpg\t1r1n\tneutral\tneutral\tentailment\tentailment\t\n"
    'entailment\tx\tx\tx\tx\tA "big" dog.\tA dog.\t1.jpg\t1r1n\tentailment\n'
)
SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "1\tA dog.\tAn animal.\t4.5\tENTAILMENT\n"
    "2\tA dog.\tNo dog.\t3\tCONTRADICTION\n"
)
OWN = "text_a\ttext_b\tlabel\tgroup\nwho ?\tme .\t1\tq1\nwho ?\tyou .\t0\tq1\n"
FORMATS = {
    "snli jsonl": (snli.read, "snli_1.0_dev.jsonl", SNLI_JSON),
    "snli txt": (snli.read, "snli_1.0_dev.txt", SNLI_TEXT),
    "scitail": (scitail.read, "scitail_1.0_dev.tsv", "Rain falls.\tRain is water.\tentails\nA b.\tC d.\tneutral\n"),
    "quora": (quora.read, "dev.tsv", 'Why "so ?\tHow ?\t7\n'.join(["1\t", "0\t", ""])),
    "wikiqa": (wikiqa.read, "WikiQA-dev.txt", "who ?\tme .\t1\nwho ?\tyou .\t0\nwhy ?\tso .\t0\n"),
    "sick": (sick.read_entailment, "SICK_trial.txt", SICK),
    "sick_relatedness": (sick.read_relatedness, "SICK_trial.txt", SICK),
    "own tsv": (lambda path: own.read(path, "ranking"), "dev.tsv", OWN),
    "own jsonl": (
        lambda path: own.read(path, "regression"),
        "dev.jsonl",
        '{"text_a": "a", "text_b": "b", "label": 2.5}\n{"text_a": "c", "text_b": "d", "label": "-1e1"}\n',
    ),
}
every_format = pytest.mark.parametrize("name", FORMATS)


def placed(folder, name, change=lambda content: content):
    """Writes a format's whole file, changed; WikiQA's companion file stays as it is."""
    read, file_name, content = FORMATS[name]
    write(folder, "WikiQA-dev.ref", "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 0\n")
    return read, write(folder, file_name, change(content.encode()))


# --- the formats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["snli jsonl", "snli txt"])
def test_snli_drops_and_counts_pairs_without_a_majority(tmp_path, name):
    read, path = placed(tmp_path, name)
    split = read(path)
    assert columns(split) == [("A dog.", "An animal.", "neutral"), ('A "big" dog.', "A dog.", "entailment")]
    assert split.dropped == {'label "-"': 1}
    assert split.source == path and split.groups is None


def test_snli_finds_columns_by_their_names(tmp_path):
    path = write(tmp_path, "x.txt", "sentence2\tgold_label\tsentence1\nB.\tneutral\tA.\n")
    assert columns(snli.read(path)) == [("A.", "B.", "neutral")]


def test_snli_row_may_lack_only_annotators(tmp_path):
    assert len(snli.read(write(tmp_path, "x.txt", SNLI_HEADER + "neutral" + "\tx" * 8 + "\n"))) == 1
    error = refused(snli.read, write(tmp_path, "x.txt", SNLI_HEADER + "neutral" + "\tx" * 7 + "\n"))
    assert error.line == 2 and "8 columns where the header names 14" in str(error)


def test_scitail(tmp_path):
    read, path = placed(tmp_path, "scitail")
    assert columns(read(path)) == [("Rain falls.", "Rain is water.", "entails"), ("A b.", "C d.", "neutral")]


def test_quora_takes_quotation_marks_as_they_are(tmp_path):
    read, path = placed(tmp_path, "quora")
    assert columns(read(path)) == [('Why "so ?', "How ?", "1"), ('Why "so ?', "How ?", "0")]


def test_wikiqa_takes_ids_from_the_file_beside_it(tmp_path):
    read, path = placed(tmp_path, "wikiqa")
    split = read(path)
    assert columns(split) == [("who ?", "me .", "1"), ("who ?", "you .", "0"), ("why ?", "so .", "0")]
    assert split.groups == ["q1", "q1", "q2"] and split.documents == ["d1", "d2", "d1"]


def test_sick_carries_two_tasks(tmp_path):
    _, path = placed(tmp_path, "sick")
    assert columns(sick.read_entailment(path)) == [
        ("A dog.", "An animal.", "entailment"),
        ("A dog.", "No dog.", "contradiction"),
    ]
    assert sick.read_relatedness(path).labels == [4.5, 3.0]


def test_own_ranking_regression_and_classification_of_the_same_file(tmp_path):
    path = write(tmp_path, "train.tsv", OWN)
    ranking, regression, classes = (own.read(path, task) for task in ("ranking", "regression", "classification"))
    assert ranking.labels == ["1", "0"] and ranking.groups == ["q1", "q1"]
    assert regression.labels == [1.0, 0.0] and regression.groups is None
    assert classes.labels == ["1", "0"] and classes.groups is None


def test_own_columns_in_any_order_among_others(tmp_path):
    path = write(tmp_path, "train.tsv", "id\tlabel\ttext_b\ttext_a\n7\t yes \tb\ta\n8\tno\td\tc\n")
    assert columns(own.read(path, "classification")) == [("a", "b", "yes"), ("c", "d", "no")]


def test_own_json_numbers_and_texts_name_the_same_label_and_group(tmp_path):
    rows = [{"text_a": "a", "text_b": "b", "label": label, "group": group} for label, group in [(1, 3), ("1", " 3")]]
    path = write(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)))
    split = own.read(path, "ranking")
    assert split.labels == ["1", "1"] and split.groups == ["3", "3"]


def test_guessed_task_looks_for_a_group(tmp_path):
    assert own.guess_task(write(tmp_path, "a.tsv", OWN)) == "ranking"
    assert own.guess_task(write(tmp_path, "b.tsv", "text_a\ttext_b\tlabel\n")) == "classification"
    assert own.guess_task(write(tmp_path, "a.jsonl", '{"group": 1}\nbroken')) == "ranking"
    assert own.guess_task(write(tmp_path, "b.jsonl", '{"label": 1}\n')) == "classification"


# --- the real files -----------------------------------------------------------------------------------------------


def test_real_wikiqa_groups(data_folder):
    split = wikiqa.read(data_folder / "WikiQACorpus" / "WikiQA-test.txt")
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


def test_real_sick_with_windows_line_ends(data_folder):
    path = data_folder / "SICK" / "SICK_test_annotated.txt"
    assert b"\r\n" in path.read_bytes()
    labels = sick.read_entailment(path).labels
    assert [labels.count(name) for name in sick.LABELS] == [1414, 2793, 720]
    scores = sick.read_relatedness(path).labels
    assert (min(scores), max(scores)) == (1.0, 5.0) and scores[:2] == [3.3, 3.7]


def test_real_first_pairs(data_folder):
    first = columns(quora.read(data_folder / "Quora_question_pair_partition" / "test.tsv"))[0]
    assert first == (
        "What should I do to avoid sleeping in class ?",
        "How do I not sleep in a boring class ?",
        "1",
    )
    split = snli.read(data_folder / "snli_1.0" / "snli_1.0_dev.jsonl")
    assert columns(split)[1] == (
        "Two women are embracing while holding to go packages.",
        "Two woman are holding packages.",
        "entailment",
    )
    assert [split.labels.count(name) for name in snli.LABELS] == [3329, 3235, 3278]


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
def test_harmless_differences_change_nothing(tmp_path, name, change):
    read, path = placed(tmp_path, name)
    expected = read(path)
    read, path = placed(tmp_path, name, change)
    assert read(path) == expected


@pytest.mark.parametrize("inside", ["\0", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", '"', "\ufeff"])
def test_only_a_line_feed_ends_a_line(tmp_path, inside):
    text = f"a{inside}b"
    path = write(tmp_path, "x.tsv", f"{text}\t{text}\tneutral\nc\td\tentails\n")
    assert columns(scitail.read(path)) == [(text, text, "neutral"), ("c", "d", "entails")]


# --- what is refused in every format ------------------------------------------------------------------------------


@every_format
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: content.removesuffix(b"\n") + b"\xe9\n")
    error = refused(read, path)
    count = path.read_bytes().count(b"\n")
    assert (error.path, error.line) == (path, count)
    assert str(error).startswith(f"{path}:{count}: byte 0xE9 (byte ")


@every_format
def test_utf16_is_recognised(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: content.decode().encode("utf-16"))
    error = refused(read, path)
    assert error.line == 1 and "UTF-16" in str(error) and "save it as UTF-8" in str(error)


@every_format
def test_a_blank_line_between_pairs_is_refused(tmp_path, name):
    # Before the last line, whichever the format.
    read, path = placed(
        tmp_path, name, lambda content: b"\n\n".join(content.removesuffix(b"\n").rsplit(b"\n", 1)) + b"\n"
    )
    error = refused(read, path)
    assert error.line == path.read_bytes().count(b"\n") - 1 and "blank line" in str(error)


@every_format
def test_a_file_without_pairs_is_refused(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: b"")
    error = refused(read, path)
    assert error.path == path
    assert "no pairs" in str(error) or "empty" in str(error) or "ends before line 1" in str(error)


@pytest.mark.parametrize("name", ["snli txt", "sick", "sick_relatedness", "own tsv"])
def test_a_header_alone_is_refused(tmp_path, name):
    read, path = placed(tmp_path, name, lambda content: content.split(b"\n")[0] + b"\n")
    assert "no pairs" in str(refused(read, path))


@every_format
def test_a_file_that_is_not_there_or_a_folder(tmp_path, name):
    read, path = placed(tmp_path, name)
    path.unlink()
    error = refused(read, path)
    assert error.path == path and "there is no such file" in str(error)
    path.mkdir()
    assert "cannot be read" in str(refused(read, path))


@pytest.mark.parametrize("name", [name for name in FORMATS if "jsonl" not in name])
@pytest.mark.parametrize("change", [lambda line: line + b"\textra" * 9, lambda line: line.split(b"\t")[0]])
def test_a_wrong_column_count_is_named_with_its_line(tmp_path, name, change):
    def damage(content):
        *start, last = content.removesuffix(b"\n").split(b"\n")
        return b"\n".join([*start, change(last)])

    read, path = placed(tmp_path, name, damage)
    error = refused(read, path)
    assert error.line == path.read_bytes().count(b"\n") + 1
    assert re.search(r"\d+ columns? where (\d are expected|the header names \d+)", str(error))



# Format, how its good file is damaged (old text -> new, first occurrence), the line at fault, words of the message.
DAMAGE = [
    # An empty text.
    ("snli jsonl", '"A dog."', '""', 1, "the first text is empty"),
    ("snli jsonl", '"An animal."', '" \\n "', 1, "the second text is empty"),
    ("snli txt", "\tA dog.\tAn", "\t\tAn", 2, "the first text is empty"),
    ("snli txt", '"big" dog.\tA dog.', '"big" dog.\t', 4, "the second text is empty"),
    ("scitail", "A b.", "", 2, "the first text is empty"),
    ("scitail", "C d.", " \u00a0", 2, "the second text is empty"),
    ("quora", '0\tWhy "so ?', "0\t", 2, "the first text is empty"),
    ("quora", "How ?", " ", 1, "the second text is empty"),
    ("wikiqa", "why ?", "", 3, "the first text is empty"),
    ("wikiqa", "you .", "", 2, "the second text is empty"),
    ("sick", "2\tA dog.", "2\t", 3, "the first text is empty"),
    ("sick_relatedness", "An animal.", "", 2, "the second text is empty"),
    ("own tsv", "who ?", "", 2, "the first text is empty"),
    ("own jsonl", '"d"', '""', 2, "the second text is empty"),
    # An unknown label.
    ("snli jsonl", '"entailment"', '"entails"', 3, "label 'entails' is not one of 'entailment', 'neutral', 'contradiction'"),
    ("snli jsonl", '"entailment"', '""', 3, "label '' is not one of"),
    ("snli txt", "\nneutral", "\nNeutral", 2, "label 'Neutral' is not one of"),
    ("scitail", "entails", "entailment", 1, "label 'entailment' is not one of 'neutral', 'entails'"),
    ("quora", "0\tWhy", "00\tWhy", 2, "label '00' is not one of '0', '1'"),
    ("wikiqa", "so .\t0", "so .\t2", 3, "label '2' is not one of '0', '1'"),
    ("sick", "CONTRADICTION", "UNKNOWN", 3, "label 'unknown' is not one of"),
    ("own tsv", "\t0\tq1", "\tno\tq1", 3, "label 'no' is not one of '0', '1'; a ranking's label is 1 (relevant) or 0"),
    # Two pairs swapped: another line with the right number of columns.
    ("quora", "0\tWhy", "Why\t0", 2, "label 'Why' is not one of"),
    # Numbers.
    ("sick_relatedness", "\t3\t", "\tthree\t", 3, "relatedness_score 'three' is not a number"),
    ("sick_relatedness", "\t3\t", "\t3,0\t", 3, "relatedness_score '3,0' is not a number"),
    ("sick_relatedness", "\t3\t", "\t\t", 3, "relatedness_score '' is not a number"),
    ("sick_relatedness", "\t3\t", "\t0.9\t", 3, "relatedness_score '0.9' is not between 1 and 5"),
    ("sick_relatedness", "\t3\t", "\tnan\t", 3, "relatedness_score 'nan' is not a number"),
    ("own jsonl", "2.5", "NaN", 1, "label nan is not a number"),
    ("own jsonl", "2.5", "true", 1, "label True is not a number"),
    ("own jsonl", "2.5", "null", 1, "label None is not a number"),
    ("own jsonl", "2.5", "1" + "0" * 400, 1, "is not a number"),
    ("own jsonl", "2.5", "1e39", 1, "is not between"),
    ("own jsonl", '"-1e1"', '"-1e999"', 2, "is not a number"),
    # JSON.
    ("snli jsonl", '"An animal."', "An animal.", 1, "not valid JSON"),
    ("snli jsonl", '"pairID": "1"}', '"pairID": ', 2, "not valid JSON"),
    ("snli jsonl", "}\n", "},\n", 1, "not valid JSON (Extra data at column"),
    ("snli jsonl", '"A dog.", "sentence2": "A cat."', "1" * 5000, 2, "not valid JSON"),
    ("snli jsonl", '["neutral"]', "[" * 200_000, 1, "nested too deeply"),
    ("snli jsonl", '"sentence1"', '"premise"', 1, "the object has no key 'sentence1'; it has 'gold_label', 'premise'"),
    ("snli jsonl", '"A dog."', "null", 1, "'sentence1' holds None where a text is expected"),
    ("snli jsonl", '"neutral"', "1", 1, "'gold_label' holds 1 where a text is expected"),
    ("snli jsonl", '"A dog."', '"A \\ud83d dog."', 1, "without its other half"),
    ("own jsonl", '"label": "-1e1"', '"lable": "-1e1"', 2, "the object has no key 'label'"),
    ("own jsonl", '{"text_a": "c", "text_b": "d", "label": "-1e1"}', "[1, 2]", 2, "not a JSON object but [1, 2]"),
    ("own jsonl", '"label": 2.5', '"label": 2.5, "groups": 1', 1, "'groups' is not a known name; did you mean 'group'?"),
    # Headers.
    ("snli txt", "sentence1\t", "premise\t", 1, "the header has no column 'sentence1'"),
    ("snli txt", "captionID", "sentence1", 1, "the header names column 'sentence1' twice"),
    ("sick", "entailment_judgment", "judgment", 1, "the header has no column 'entailment_judgment'"),
    ("sick_relatedness", "relatedness_score", "score", 1, "the header has no column 'relatedness_score'"),
    ("own tsv", "text_b", "text_a", 1, "the header names column 'text_a' twice"),
    ("own tsv", "text_a\ttext_b\tlabel\tgroup\n", "", 1, "the header has no column 'text_a', 'text_b', 'label', 'group'"),
    ("own tsv", "\tgroup", "\tgroup_id", 1, "the header has no column 'group'"),
    ("own tsv", "\t0\tq1", "\t0\t ", 3, "the group is empty"),
    # Columns; a tab inside a text is one too many.
    ("scitail", "C d.", "C\td.", 2, "4 columns where 3 are expected (premise, hypothesis, label, separated by tabs)"),
    ("scitail", "A b.\tC d.\tneutral", "A b.", 2, "1 column where 3 are expected"),
    ("own tsv", "you .", "you\t.", 3, "5 columns where the header names 4"),
]


@pytest.mark.parametrize("name, old, new, line, words", DAMAGE)
def test_damage_is_named_with_file_and_line(tmp_path, name, old, new, line, words):
    assert old in FORMATS[name][2]
    read, path = placed(tmp_path, name, lambda content: content.decode().replace(old, new, 1).encode())
    error = refused(read, path)
    assert (error.path, error.line) == (path, line)
    assert words in str(error)
    assert len(str(error)) < len(str(path)) + 300


@pytest.mark.parametrize(
    "old, new, line, words",
    [
        ("q1 0 d2 0", "q1 0 d2 1", 2, "label '1' where WikiQA-dev.txt has '0'"),
        ("q1 0 d2 0", "q1 d2 0", 2, "3 fields where 4 are expected"),
        ("q1 0 d2 0", "q1 0 d1 0", 2, "document 'd1' of question 'q1' stands here twice"),
        ("q2 0 d1 0", "q1 0 d3 0", 3, "question 'q1' has another text in WikiQA-dev.txt than on line 1"),
        ("q2 0 d1 0\n", "", 3, "the file ends before line 3 of WikiQA-dev.txt"),
        ("q1 0 d2 0\n", "q1 0 d2 0\n\n", 3, "a blank line"),
    ],
)
def test_wikiqa_files_that_disagree(tmp_path, old, new, line, words):
    read, path = placed(tmp_path, "wikiqa")
    reference = path.with_suffix(".ref")
    reference.write_text(reference.read_text().replace(old, new, 1))
    error = refused(read, path)
    assert (error.path, error.line) == (reference, line) and words in str(error)


def test_wikiqa_text_shorter_than_its_ids(tmp_path):
    read, path = placed(tmp_path, "wikiqa", lambda content: content[: content.index(b"why")])
    error = refused(read, path)
    assert (error.path, error.line) == (path, 3) and "ends before line 3 of WikiQA-dev.ref" in str(error)


def test_wikiqa_without_its_ids(tmp_path):
    read, path = placed(tmp_path, "wikiqa")
    path.with_suffix(".ref").unlink()
    error = refused(read, path)
    assert error.path == path.with_suffix(".ref") and "no such file" in str(error)


@pytest.mark.parametrize(
    "label, words",
    [("0.5", "label 0.5 is neither a text nor a whole number"), ("true", "label True is"), ("null", "label None is")],
)
def test_own_json_label_that_names_no_class(tmp_path, label, words):
    path = write(tmp_path, "train.jsonl", f'{{"text_a": "a", "text_b": "b", "label": {label}}}')
    error = refused(own.read, path, "classification")
    assert error.line == 1 and words in str(error) and "'regression'" in str(error)


def test_own_empty_label(tmp_path):
    error = refused(own.read, write(tmp_path, "train.tsv", "text_a\ttext_b\tlabel\na\tb\t \n"), "classification")
    assert error.line == 2 and "the label is empty" in str(error)


@pytest.mark.parametrize("group", [None, 1.5, True, [1]])
def test_own_json_group_must_be_a_text_or_a_whole_number(tmp_path, group):
    good = {"text_a": "a", "text_b": "b", "label": 1, "group": "g"}
    rows = "\n".join(map(json.dumps, [good, good | {"group": group}]))
    error = refused(own.read, write(tmp_path, "train.jsonl", rows), "ranking")
    assert error.line == 2 and "'group' holds" in str(error)


def test_own_json_group_missing_in_one_pair(tmp_path):
    good = {"text_a": "a", "text_b": "b", "label": 1, "group": "g"}
    rows = "\n".join(json.dumps(row) for row in (good, {key: good[key] for key in ("text_a", "text_b", "label")}))
    error = refused(own.read, write(tmp_path, "train.jsonl", rows), "ranking")
    assert error.line == 2 and "the object has no key 'group'" in str(error)


# --- properties ---------------------------------------------------------------------------------------------------


@quick
@given(
    rows=st.lists(st.tuples(cells, cells, st.sampled_from(scitail.LABELS)), min_size=1, max_size=8),
    mark=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    last_end=st.booleans(),
)
def test_every_text_comes_back_from_a_table(tmp_path, rows, mark, end, last_end):
    content = end.join("\t".join(row) for row in rows) + (end if last_end else "")
    # A text that itself begins with the mark needs the mark before it.
    mark = mark or rows[0][0].startswith("\ufeff")
    path = write(tmp_path, "x.tsv", (codecs.BOM_UTF8 if mark else b"") + content.encode())
    assert columns(scitail.read(path)) == rows


@quick
@given(rows=st.lists(st.tuples(anything, anything, st.sampled_from(snli.LABELS)), min_size=1, max_size=8), ascii=st.booleans())
@example(rows=[("\U0001f600 a\nb\tc\u2028", "\0", "neutral")], ascii=True)
def test_every_text_comes_back_from_json(tmp_path, rows, ascii):
    records = [{"gold_label": label, "sentence1": a, "sentence2": b} for a, b, label in rows]
    path = write(tmp_path, "x.jsonl", "".join(json.dumps(record, ensure_ascii=ascii) + "\n" for record in records))
    assert columns(snli.read(path)) == rows


@quick
@given(
    rows=st.lists(
        st.tuples(cells, cells, st.sampled_from("01"), st.from_regex(r"[a-z0-9]{1,3}", fullmatch=True)),
        min_size=1,
        max_size=8,
    ),
    order=st.permutations(["text_a", "text_b", "label", "group", "note"]),
)
def test_own_table_and_own_json_say_the_same(tmp_path, rows, order):
    records = [dict(zip(("text_a", "text_b", "label", "group"), row)) | {"note": "x"} for row in rows]
    # A text in the last column would lend the line end its carriage return.
    if order[-1].startswith("text"):
        order = [*order[-1:], *order[:-1]]
    table = ["\t".join(order)] + ["\t".join(record[name] for name in order) for record in records]
    from_table = own.read(write(tmp_path, "x.tsv", "\n".join(table)), "ranking")
    from_json = own.read(write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, records))), "ranking")
    assert columns(from_table) == columns(from_json) == [row[:3] for row in rows]
    assert from_table.groups == from_json.groups == [row[3] for row in rows]


@every_format
@settings(quick, max_examples=25)
@given(data=st.data())
def test_any_damage_gives_pairs_or_one_clear_error(tmp_path, name, data):
    """Whatever happens to a file's bytes, its reader returns whole columns or says where the file is damaged."""
    content = FORMATS[name][2].encode()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 12)))
    pieces = st.one_of(st.binary(max_size=6), st.sampled_from([b"\t", b"\n", b"\r\n", b"\0", b'"', b"\xef\xbb\xbf", b"-"]))
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


@quick
@given(st.floats(-3e38, 3e38))
def test_every_finite_number_comes_back(number):
    assert number_of(repr(number), None, 1, what="x") == number == number_of(number, None, 1, what="x")


@pytest.mark.parametrize("text", ["", ".", "e5", "1_000", "nan", "inf", "-Infinity", "0x10", "1 2", "٣", "1e999", "--1"])
def test_what_is_not_a_number(text):
    with pytest.raises(InputError, match="is not a number"):
        number_of(text, None, 1, what="x")


@pytest.mark.parametrize("text, number", [(" 4.5 ", 4.5), ("4.", 4.0), (".5", 0.5), ("-1E+2", -100.0), ("+007", 7.0)])
def test_what_is_a_number(text, number):
    assert number_of(text, None, 1, what="x") == number


def test_shown_values_are_short_and_on_one_line():
    assert lines.shown("a\nb") == r"'a\nb'"
    assert lines.shown("x" * 100, 20) == "'" + "x" * 15 + "...'"


def test_lines_are_read_one_at_a_time():
    def raw():
        yield b"first\n"
        pytest.fail("the second line was read before the first was used")

    assert next(lines.decode_lines(raw(), "x")) == (1, "first")

"""Labels and groups of user data: valid labels, invalid labels, and pairs without a label."""

import json

import pytest
from reader_formats import write
from refusals import refused

from jaxmatch.data import own
from jaxmatch.data.own import Layout


@pytest.mark.parametrize(
    "label, words",
    [("0.5", "label 0.5 is neither a text nor a whole number"), ("[1]", "label [1] is")],
)
def test_json_label_that_is_no_class_name_is_an_error(tmp_path, label, words):
    path = write(tmp_path, "train.jsonl", f'{{"text_a": "a", "text_b": "b", "label": {label}}}')
    error = refused(own.read, path, "classification")
    assert error.line == 1 and words in str(error) and "'regression'" in str(error)


def test_unknown_numeric_labels_suggest_a_regression(tmp_path):
    path = write(tmp_path, "dev.tsv", "text_a\ttext_b\tlabel\na\tb\t4.8\n")
    assert "set the task to 'regression'" in str(refused(own.read, path, "classification", ["0.1", "3"]))
    assert "'regression'" not in str(refused(own.read, path, "classification", ["0.1", "yes"]))


@pytest.mark.parametrize(("name", "comma"), [("train.tsv", "\t"), ("train.csv", ",")])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_repeated_header_is_an_error(tmp_path, name, comma, start):
    rows = [f"{start}text_a,text_b, label", "label,text_b,label", "a,b,x"] * 2
    path = write(tmp_path, name, "\n".join(rows).replace(",", comma))
    error = refused(own.read, path, "classification")
    assert str(error).endswith(f"{name}:4: the row repeats the header; delete it; were files joined?")


@pytest.mark.parametrize("label", ["-1", "-1.0", " -1 ", "", " "])
def test_unlabeled_pairs_are_dropped_and_counted(tmp_path, label):
    path = write(tmp_path, "train.tsv", f"text_a\ttext_b\tlabel\na\tb\t1\nc\td\t{label}\ne\tf\t0\n")
    split = own.read(path, "classification")
    assert split.labels == ["1", "0"] and split.text_a == ["a", "e"] and split.dropped == {"no label": 1}
    if label.strip():
        assert own.read(path, "regression").labels == [1.0, -1.0, 0.0]
        # An existing model may have such a class.
        assert own.read(path, "classification", ["0", "1", label.strip()]).labels == ["1", label.strip(), "0"]
        named = Layout(labels={label.strip(): "neither"})
        assert own.read(path, "classification", layout=named).labels == ["1", "neither", "0"]
    else:
        assert own.read(path, "regression").dropped == {"no label": 1}


@pytest.mark.parametrize("label", ["-1", "-1.0", "null", "NaN", '""'])
def test_unlabeled_objects_are_dropped_and_counted(tmp_path, label):
    rows = f'{{"text_a": "a", "text_b": "b", "label": 1}}\n{{"text_a": "a", "text_b": "b", "label": {label}}}\n'
    path = write(tmp_path, "train.jsonl", rows)
    assert own.read(path, "classification").dropped == {"no label": 1}
    path = write(tmp_path, "train.jsonl", rows.splitlines()[1])
    error = str(refused(own.read, path, "classification"))
    assert error.endswith("the file holds no pairs (1 dropped: no label); remove the file, or add labels")


@pytest.mark.parametrize(("label", "name"), [("true", "True"), ("2.0", "2"), ('" a "', "a")])
def test_json_labels_of_other_types_are_converted_to_names(tmp_path, label, name):
    path = write(tmp_path, "train.jsonl", f'{{"text_a": "a", "text_b": "b", "label": {label}}}')
    assert own.read(path, "classification").labels == [name]


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\x1b", "\x85", "\u2028"])
def test_labels_with_line_ends_or_control_characters_are_errors(tmp_path, character):
    label = json.dumps(f"yes{character}no")
    rows = f'{{"text_a": "a", "text_b": "b", "label": "no"}}\n{{"text_a": "a", "text_b": "b", "label": {label}}}\n'
    error = refused(own.read, write(tmp_path, "train.jsonl", rows), "classification")
    assert error.line == 2 and "a line end or a control character" in str(error) and character not in str(error)


def test_labels_in_any_script_are_accepted(tmp_path):
    labels = [
        "ja\u00a0",
        "\u0645\u06cc\u200c\u0634\u0648\u062f",
        "\U0001f44d\U0001f3fd",
    ]  # the second contains an invisible non-joiner
    rows = "\n".join(json.dumps({"text_a": "a", "text_b": "b", "label": label}) for label in labels)
    assert own.read(write(tmp_path, "train.jsonl", rows), "classification").labels == [
        label.strip() for label in labels
    ]


@pytest.mark.parametrize("group", [None, 1.5, float("nan"), True, [1]])
def test_own_json_group_must_be_a_text_or_a_whole_number(tmp_path, group):
    good = {"text_a": "a", "text_b": "b", "label": 1, "group": "g"}
    rows = "\n".join(map(json.dumps, [good, good | {"group": group}]))
    error = refused(own.read, write(tmp_path, "train.jsonl", rows), "ranking")
    assert error.line == 2 and "'group' holds" in str(error)


def test_own_json_group_missing_in_one_pair_is_an_error(tmp_path):
    good = {"text_a": "a", "text_b": "b", "label": 1, "group": "g"}
    rows = "\n".join(json.dumps(row) for row in (good, {key: good[key] for key in ("text_a", "text_b", "label")}))
    error = refused(own.read, write(tmp_path, "train.jsonl", rows), "ranking")
    assert error.line == 2 and "the object has no key 'group'" in str(error)

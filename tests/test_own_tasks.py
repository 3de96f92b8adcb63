"""User-defined data: its task, its labels and its files."""

import json

import pytest
from reader_formats import columns, fill, write
from refusals import refused

from jaxmatch.data import catalog, own
from jaxmatch.data.own import Layout, layout_of

HEADER = "text_a\ttext_b\tlabel\n"


def test_own_classes_are_the_sorted_labels_of_train(tmp_path):
    fill(
        tmp_path,
        train_tsv=HEADER + "a\tb\tyes\nc\td\tno\ne\tf\tyes\n",
        test_jsonl=json.dumps({"text_a": "g", "text_b": "h", "label": "yes"}),
    )
    data = catalog.load("own", tmp_path)
    assert (data.name, data.task, data.labels) == ("own", "classification", ("no", "yes"))
    assert data.splits["train"].labels == ["yes", "no", "yes"] and data.splits["test"].labels == ["yes"]


def test_own_dev_label_missing_from_train_is_an_error_with_its_line(tmp_path):
    fill(tmp_path, train_tsv=HEADER + "a\tb\tyes\nc\td\tno\n", dev_tsv=HEADER + "a\tb\tyes\na\tb\tmaybe\n")
    error = refused(catalog.load, "own", tmp_path)
    assert (error.path, error.line) == (tmp_path / "dev.tsv", 3)
    assert "label 'maybe' is not one of 'no', 'yes'; the labels are those of the training file" in str(error)


def test_own_single_class_is_refused(tmp_path):
    fill(tmp_path, train_tsv=HEADER + "a\tb\tyes\nc\td\tyes\n")
    alone = "every pair has the label 'yes'; a classification needs two labels or more"
    assert str(refused(catalog.load, "own", tmp_path)).endswith(alone)
    fill(tmp_path, train_tsv=HEADER + "a\tb\t1\nc\td\t-1\ne\tf\t-1\n")
    message = str(refused(catalog.load, "own", tmp_path))
    assert "every pair has the label '1' (2 dropped: no label); a classification needs" in message
    assert message.endswith("if -1 is a label, name it: --labels=-1=NAME")
    assert catalog.load("own", tmp_path, layout=Layout(labels={"-1": "no"})).labels == ("no", "1")
    fill(tmp_path, train_tsv=HEADER + "a\tb\t1\nc\td\t1\n")
    assert catalog.load("own", tmp_path, task="regression").splits["train"].labels == [1.0, 1.0]


def test_own_data_with_groups_is_a_ranking_unless_a_task_is_given(tmp_path):
    fill(
        tmp_path,
        train_tsv="group\ttext_a\ttext_b\tlabel\nq\ta\tb\t1\nq\ta\tc\t0\n",
        dev_tsv="text_a\ttext_b\tlabel\na\tb\t1\n",
    )
    error = refused(catalog.load, "own", tmp_path)
    assert error.path == tmp_path / "dev.tsv" and "the header has no column 'group'" in str(error)
    data = catalog.load("own", tmp_path, task="classification")
    assert data.splits["train"].groups is None and data.labels == ("0", "1")
    (tmp_path / "dev.tsv").unlink()
    data = catalog.load("own", tmp_path)
    assert (data.task, data.labels, data.splits["train"].groups) == ("ranking", ("0", "1"), ["q", "q"])


@pytest.mark.parametrize(
    "dev",
    [
        {"dev_tsv": "text_a\ttext_b\tlabel\tgroup\na\tb\tx\tq\n"},
        {"dev_jsonl": '{"text_a": "a", "text_b": "b", "label": "x", "group": "q"}'},
    ],
)
def test_own_groups_missing_from_train_are_errors_unless_a_task_is_given(tmp_path, dev):
    problem = "there is a 'group', but none at the beginning of the training file"
    fill(tmp_path, train_tsv="text_a\ttext_b\tlabel\na\tb\tx\na\tc\ty\n", **dev)
    error = refused(catalog.load, "own", tmp_path)
    assert error.line == 1 and problem in str(error) and "set the task to 'classification' to ignore them" in str(error)
    assert catalog.load("own", tmp_path, task="classification").splits["dev"].groups is None


def test_own_ranking_needs_relevance_labels(tmp_path):
    fill(tmp_path, train_jsonl='{"text_a": "a", "text_b": "b", "label": "yes", "group": 1}')
    error = refused(catalog.load, "own", tmp_path)
    assert error.line == 1 and "set the task to 'classification' to ignore the groups" in str(error)


def test_own_regression_labels_must_be_numbers(tmp_path):
    fill(tmp_path, train_tsv=HEADER + "a\tb\t0.5\nc\td\t-2\n", dev_tsv=HEADER + "a\tb\tgood\n")
    error = refused(catalog.load, "own", tmp_path, task="regression")
    assert (error.path, error.line) == (tmp_path / "dev.tsv", 2) and "label 'good' is not a number" in str(error)
    (tmp_path / "dev.tsv").unlink()
    data = catalog.load("own", tmp_path, task="regression")
    assert data.labels == () and data.splits["train"].labels == [0.5, -2.0]


def test_own_file_in_both_formats_is_ambiguous(tmp_path):
    fill(tmp_path, train_tsv=HEADER, dev_tsv=HEADER, dev_jsonl="{}")
    assert "both dev.tsv and dev.jsonl are there; keep one of them" in str(refused(catalog.load, "own", tmp_path))


@pytest.mark.parametrize("name", ["validation.csv.gz", "val.jsonl", "valid.tsv"])
def test_a_dev_file_of_another_name_is_named(tmp_path, name):
    fill(tmp_path, train_tsv=HEADER + "a\tb\tyes\nc\td\tno\n")
    (tmp_path / name).write_text("")
    error = refused(catalog.load, "own", tmp_path)
    stem, _, ending = name.partition(".")
    assert str(error) == f"{tmp_path}: there is {name}, but no dev file; rename it to dev.{ending}"
    fill(tmp_path, dev_tsv=HEADER + "a\tb\tyes\n")
    assert len(catalog.load("own", tmp_path).splits["dev"]) == 1


@pytest.mark.parametrize(
    ("name", "separator", "remedy"),
    [
        ("a.tsv", ",", "commas separate its columns, not tabs: rename the file to .csv"),
        ("a.tsv", ";", "semicolons separate its columns, not tabs: save it as CSV"),
        ("a.csv", "\t", "tabs separate its columns, not commas: rename the file to .tsv"),
        ("a.csv", ";", "semicolons separate its columns, not commas: save it as CSV"),
    ],
)
def test_another_separator_is_named(tmp_path, name, separator, remedy):
    path = write(tmp_path, name, HEADER.replace("\t", separator))
    assert str(refused(own.read, path, "classification")).endswith(f"; {remedy}")


def test_only_columns_that_are_read_need_a_unique_name(tmp_path):
    # Excel writes empty names, where cells to the right were once used.
    path = write(tmp_path, "a.csv", "note,note,text_a,text_b,label,,\n1,2,a,b,yes,,\n")
    assert columns(own.read(path, "classification")) == [("a", "b", "yes")]
    path = write(tmp_path, "b.csv", "text_a,text_b,label,group,group\na,b,1,1,2\n")
    assert "the header names column 'group' twice" in str(refused(own.read, path, "ranking"))
    assert own.read(path, "classification").labels == ["1"]


@pytest.mark.parametrize(
    "content",
    [
        {"train_csv": "q1,q2,label\nwho,me,1\nwho,you,0\nwhy,so,0\n"},
        {"train_jsonl": "".join(f'{{"q1": "{a}", "q2": "{b}", "label": {label}}}\n'
                                for a, b, label in (("who", "me", 1), ("who", "you", 0), ("why", "so", 0)))},
    ],
)  # fmt: skip
def test_the_first_text_may_be_the_group(tmp_path, content):
    layout = layout_of({"columns": "text_a=q1,text_b=q2,group=q1"})
    data = catalog.load("own", fill(tmp_path, **content), layout=layout)
    assert data.task == "ranking" and data.splits["train"].groups == ["who", "who", "why"]
    assert columns(data.splits["train"]) == [("who", "me", "1"), ("who", "you", "0"), ("why", "so", "0")]
    other = layout_of({"columns": "text_a=Q1,text_b=q2,group=Q1"})
    error = refused(catalog.load, "own", tmp_path, task="ranking", layout=other)
    assert str(error).endswith("--columns text_a=NAME")


def test_integer_labels_written_as_floats_by_pandas_match_integer_labels(tmp_path):
    head = "text_a,text_b,label,group\n"
    gap = head + "a,b,0.0,1\na,c,1.0,1\na,d,,1\n"
    fill(tmp_path, train_csv=gap, dev_csv=head + "a,b,0,1\na,c,1,1\n", test_csv=gap)
    for task in ("classification", "ranking"):
        data = catalog.load("own", tmp_path, task=task)
        assert data.labels == ("0", "1")
        assert all(split.labels == ["0", "1"] for split in data.splits.values())
    named = catalog.load("own", tmp_path, task="classification", layout=Layout(labels={"0": "no", "1": "yes"}))
    assert named.labels == ("no", "yes") and named.splits["dev"].labels == ["no", "yes"]
    as_written = Layout(labels={"0.0": "no", "1.0": "yes"})
    assert own.read(tmp_path / "train.csv", "classification", layout=as_written).labels == ["no", "yes"]
    assert own.read(tmp_path / "test.csv", "classification", ["0.0", "1.0"]).labels == ["0.0", "1.0"]
    fill(tmp_path, train_csv=head + "a,b,1.5,1\na,c,v1.0,1\n")
    assert own.read(tmp_path / "train.csv", "classification").labels == ["1.5", "v1.0"]


def test_renaming_a_label_missing_from_train_is_an_error(tmp_path):
    head = "text_a,text_b,label,group\n"
    fill(tmp_path, train_csv=head + "a,b,0,1\na,c,1,1\na,d,,1\n", dev_csv=head + "a,b,0,1\n")
    named = Layout(labels={"0": "different", "1": "same"})
    assert catalog.load("own", tmp_path, task="classification", layout=named).labels == ("different", "same")
    for task in ("classification", "ranking"):
        error = refused(catalog.load, "own", tmp_path, task=task, layout=Layout(labels={"0": "0", "2": "1"}))
        assert error.path == tmp_path / "train.csv"
        assert "labels: no pair has the label '2'; its labels are '0', '1'" in str(error)
    assert len(catalog.load("own", tmp_path, task="regression", layout=named).splits["train"]) == 2
    assert own.read(tmp_path / "dev.csv", "classification", ("different", "same"), layout=named).labels == ["different"]


def test_a_missing_key_error_suggests_the_columns_option(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text_a": "a", "b": "b", "label": "x"}\n')
    problem = ":1: the object has no key 'text_b'; it has 'text_a', 'b', 'label'; rename it, or name the column: "
    assert str(refused(own.read, path, "classification")).endswith(problem + "--columns text_b=NAME")
    path = write(tmp_path, "array.jsonl", "[1, 2]\n")
    remedy = 'write it like {"NAME": "TEXT", ...}, or delete it'
    assert remedy in str(refused(own.read, path, "classification"))


def test_a_quoted_header_error_suggests_the_quoted_option(tmp_path):
    path = write(tmp_path, "a.tsv", '"text_a"\t"text_b"\t"label"\n"a"\t"b"\t"x"\n')
    error = refused(own.read, path, "classification")
    assert str(error).endswith("""'"label"'; if the file is quoted, give --quoted""")
    assert columns(own.read(path, "classification", layout=Layout(quoted=True))) == [("a", "b", "x")]

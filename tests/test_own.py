"""User-defined data: its task, its labels, its files in each format, and one file split by shares."""

import csv
import dataclasses
import gzip
import json
import re

import datasets
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from reader_formats import columns, fill, write
from refusals import refused

from jaxmatch.cli import main
from jaxmatch.data import catalog, encoding, own
from jaxmatch.data.encoding import DataSettings
from jaxmatch.data.own import Layout, layout_of
from jaxmatch.errors import InputError

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
    fill(tmp_path, dev_tsv=HEADER + "a\tb\tyes\na\tb\tmaybe\n")
    error = refused(catalog.load, "own", tmp_path)
    assert (error.path, error.line) == (tmp_path / "dev.tsv", 3)
    assert "label 'maybe' is not one of 'no', 'yes'; the labels are those of the training file" in str(error)
    fill(tmp_path, dev_jsonl="{}")
    assert "both dev.tsv and dev.jsonl are there; keep one of them" in str(refused(catalog.load, "own", tmp_path))


def test_own_single_class_is_refused(tmp_path):
    fill(tmp_path, train_tsv=HEADER + "a\tb\t1\nc\td\t-1\ne\tf\t-1\n")
    message = str(refused(catalog.load, "own", tmp_path))
    assert "every pair has the label '1' (2 dropped: no label); a classification needs" in message
    assert message.endswith("if -1 is a label, name it: --labels=-1=NAME")
    assert catalog.load("own", tmp_path, layout=Layout(labels={"-1": "no"})).labels == ("no", "1")


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


GOOD = '{"text_a": "a", "text_b": "b", "label": 1, "group": "g"}\n'
ROWS = "text_a,text_b,label\n"
# Suffix, task, content, place of the error, its words.
DAMAGED = [
    ("tsv", "classification", ROWS, ":1", "tabs separate the columns of .tsv, commas those of .csv"),
    ("tsv", "classification", "a\ttext_b\tlabel\n", ":1", "no column 'text_a'; it has 'a', 'text_b', 'label'"),
    ("tsv", "regression", HEADER + "a\tb\tgood\n", ":2", "label 'good' is not a number"),
    ("csv", "regression", ROWS + '"two\nlines",b,1\n\nc,d,2\n"e\n",,1\n', ":6", "the second text is empty"),
    ("csv", "regression", ROWS + 'a,b,1\nc,"d,x\n', ":3", "is a quotation mark not closed?"),
    ("csv", "regression", ROWS + 'a,b,1\nc,"d" e,x\n', ":3", "the row that begins here cannot be read"),
    ("jsonl", "ranking", GOOD + GOOD.replace("group", "grp"), ":2", "the object has no key 'group'"),
    ("jsonl", "classification", GOOD.replace("1", "-1"), "", "the file holds no pairs (1 dropped: no label)"),
    ("jsonl", "classification", GOOD.replace("1", "0.5"), ":1", "label 0.5 must be a string or a whole"),
    *(
        ("jsonl", "classification", GOOD.replace("1", json.dumps(f"a{mark}b")), ":1", "a line end or a control")
        for mark in ("\n", "\x1b", "\u2028")
    ),
    ("jsonl", "ranking", GOOD.replace('"g"', "NaN"), ":1", "must be a string or a whole number"),
    ("parquet", "classification", [("a", "b", "x"), ("", "b", "x")], ", row 1", "the first text is empty"),
    ("parquet", "classification", [(1, "b", "x")], ", row 0", "'text_a' must be a string, not 1"),
]


@pytest.mark.parametrize(("suffix", "task", "content", "place", "words"), DAMAGED)
def test_damage_is_an_error_that_names_the_place(tmp_path, suffix, task, content, place, words):
    name = f"a.{suffix}"
    path = saved(tmp_path, name, frame(content)) if isinstance(content, list) else write(tmp_path, name, content)
    error = refused(own.read, path, task)
    assert str(error).startswith(f"{path}{place}: ") and words in str(error) and error.path == path


def test_the_first_text_may_be_the_group(tmp_path):
    fill(tmp_path, train_csv="q1,q2,label\nwho,me,1\nwho,you,0\nwhy,so,0\n")
    layout = layout_of({"columns": "text_a=q1,text_b=q2,group=q1"})
    data = catalog.load("own", tmp_path, layout=layout)
    assert data.task == "ranking" and data.splits["train"].groups == ["who", "who", "why"]
    assert columns(data.splits["train"]) == [("who", "me", "1"), ("who", "you", "0"), ("why", "so", "0")]
    other = layout_of({"columns": "text_a=Q1,text_b=q2,group=Q1"})
    assert "the header has no column 'Q1'" in str(refused(catalog.load, "own", tmp_path, task="ranking", layout=other))


def test_integer_labels_written_as_floats_by_pandas_match_integer_labels(tmp_path):
    head = "text_a,text_b,label,group\n"
    gap = head + "a,b,0.0,1\na,c,1.0,1\na,d,,1\n"
    fill(tmp_path, train_csv=gap, dev_csv=head + "a,b,0,1\na,c,1,1\n", test_csv=gap)
    for task in ("classification", "ranking"):
        data = catalog.load("own", tmp_path, task=task)
        assert data.labels == ("0", "1")
        assert all(split.labels == ["0", "1"] for split in data.splits.values())
    as_written = Layout(labels={"0.0": "no", "1.0": "yes"})
    assert own.read(tmp_path / "train.csv", "classification", layout=as_written).labels == ["no", "yes"]
    assert own.read(tmp_path / "test.csv", "classification", ["0.0", "1.0"]).labels == ["0.0", "1.0"]
    fill(tmp_path, train_csv=head + "a,b,1.5,1\na,c,v1.0,1\n")
    assert own.read(tmp_path / "train.csv", "classification").labels == ["1.5", "v1.0"]


@pytest.mark.parametrize("name", ["validation.csv.gz", "val.jsonl"])
def test_a_dev_file_of_another_name_is_named(tmp_path, name):
    fill(tmp_path, train_tsv=HEADER + "a\tb\tyes\nc\td\tno\n")
    (tmp_path / name).write_text("")
    problem = f"{tmp_path}: there is {name}, but no dev file; rename it to dev.{name.partition('.')[2]}"
    assert str(refused(catalog.load, "own", tmp_path)) == problem


def test_ignored_columns_may_have_equal_names(tmp_path):
    path = write(tmp_path, "train.csv", "text_a,text_b,label,n,n,,\na,b,x,1,2,,\nc,d,y,3,4,,\n")
    assert own.read(path, "classification").labels == ["x", "y"]


@pytest.mark.parametrize(("name", "comma", "start"), [("train.tsv", "\t", ""), ("train.csv", ",", "\ufeff")])
def test_repeated_header_is_an_error(tmp_path, name, comma, start):
    rows = [f"{start}text_a,text_b, label", "label,text_b,label", "a,b,x"] * 2
    path = write(tmp_path, name, "\n".join(rows).replace(",", comma))
    error = refused(own.read, path, "classification")
    assert str(error).endswith(f"{name}:4: the row repeats the header; were files joined?")


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


PAIRS = [("A dog, a cat.", 'He said "so".', "yes"), ("Two\nlines", "a\ttab", "no"), ("é 猫", "x", "yes")]
NAMES = ["text_a", "text_b", "label"]


def frame(pairs=PAIRS, names=NAMES):
    return pandas.DataFrame(pairs, columns=names)


def saved(folder, name, table):
    """A table as pandas writes it."""
    path = folder / name
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        table.to_parquet(folder / "plain.parquet")
        content = (folder / "plain.parquet").read_bytes()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    elif kind == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    return path


@pytest.mark.parametrize("ending", own.SUFFIXES)
def test_files_written_by_pandas_are_read_in_every_format(tmp_path, ending):
    path = saved(tmp_path, f"train{ending}", frame())
    layout = Layout(quoted=True)
    assert columns(own.read(path, "classification", layout=layout)) == PAIRS
    assert own.guess_task(path, layout) == "classification"
    other = saved(tmp_path, f"dev{ending}", frame().rename(columns={"text_a": "premise", "label": "says"}))
    named = Layout({"text_a": "premise", "label": "says"}, {"no": "never"}, quoted=True)
    assert [pair[2] for pair in columns(own.read(other, "classification", layout=named))] == ["yes", "never", "yes"]
    ranked = saved(tmp_path, f"test{ending}", frame([("a", "b", 1, 7), ("a", "c", 0, 7)], [*NAMES, "question"]))
    groups = Layout({"group": "question"}, quoted=True)
    assert own.guess_task(ranked, groups) == "ranking" and own.guess_task(ranked, layout) == "classification"
    split = own.read(ranked, "ranking", layout=groups)
    assert split.groups == ["7", "7"] and split.labels == ["1", "0"]


@pytest.mark.parametrize("ending", own.SUFFIXES)
def test_missing_labels_of_pandas_are_dropped(tmp_path, ending):
    path = saved(tmp_path, f"a{ending}", frame([("a", "b", 1), ("c", "d", None), ("e", "f", 0), ("g", "h", -1)]))
    if ending.startswith(".parquet"):  # NaN, which is not null
        table = pyarrow.table(dict(zip(NAMES, (list("aceg"), list("bdfh"), [1.0, float("nan"), 0.0, -1.0]))))
        pyarrow.parquet.write_table(table, path := tmp_path / "a.parquet")
    split = own.read(path, "classification")
    assert split.labels == ["1", "0"]  # beside missing values, pandas turns 1 into 1.0
    assert split.dropped == {"no label": 2}
    assert own.read(path, "regression").labels == [1.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pyarrow.array([True, False, True]), ["True", "False", "True"]),
        (pandas.array([1, pandas.NA, 0], "Int64"), ["1", "0"]),
        (pandas.Categorical(["x", None, "y"]), ["x", "y"]),
        (pandas.Series([1.0, None, 0.0]), ["1", "0"]),
        (pyarrow.array(["x", None, "y"]).dictionary_encode(), ["x", "y"]),
    ],
)
def test_types_of_columns_are_converted_to_labels_and_groups(tmp_path, values, labels):
    table = {"text_a": list("abc"), "text_b": list("def"), "label": values, "group": [1.0, 2.0, 2.0]}
    written = pyarrow.table(table) if isinstance(values, pyarrow.Array) else pyarrow.table(pandas.DataFrame(table))
    pyarrow.parquet.write_table(written, tmp_path / "a.parquet")
    split = own.read(tmp_path / "a.parquet", "classification")
    assert split.labels == labels and split.dropped == ({"no label": 1} if len(labels) == 2 else {})
    if labels == ["1", "0"]:
        assert own.read(tmp_path / "a.parquet", "ranking").groups == ["1", "2"]


@pytest.mark.parametrize(("ending", "quoted"), [(".csv", False), (".tsv", False), (".tsv", True), (".jsonl", False)])
def test_texts_beyond_the_csv_field_limit_are_read_in_every_format(tmp_path, ending, quoted):
    before = csv.field_size_limit(131_072)  # Python's default
    try:
        path = saved(tmp_path, f"a{ending}", frame([("word " * 40_000 + "end", "b", "x")]))
        (text,) = own.read(path, "classification", layout=Layout(quoted=quoted)).text_a
    finally:
        csv.field_size_limit(before)
    assert text == "word " * 40_000 + "end"


def test_tsv_quotation_marks_are_literal_unless_quoted_is_set(tmp_path):
    path = write(tmp_path, "a.tsv", 'text_a\ttext_b\tlabel\n"so ""it"" is"\tb\tx\n')
    assert own.read(path, "classification").text_a == ['"so ""it"" is"']
    assert own.read(path, "classification", layout=Layout(quoted=True)).text_a == ['so "it" is']


@pytest.mark.parametrize("ending", [".parquet", ".parquet.gz", ".csv.gz"])
def test_damaged_file_is_an_error_naming_the_file(tmp_path, ending):
    whole = saved(tmp_path, f"a{ending}", frame(PAIRS * 50)).read_bytes()
    for content in (b"", b"PAR1 nothing PAR1", whole[: len(whole) // 2]):
        path = write(tmp_path, f"a{ending}", content)
        assert refused(own.read, path, "classification").path == path


def test_a_dataset_of_hugging_face_keeps_the_names_and_the_order_of_its_classes(tmp_path):
    features = {"text_a": datasets.Value("string"), "text_b": datasets.Value("string")}
    features = datasets.Features(features | {"label": datasets.ClassLabel(names=["not_entailment", "entailment"])})
    table = {"text_a": list("abcd"), "text_b": list("efgh"), "label": [0, 1, -1, 1]}
    datasets.Dataset.from_dict(table, features=features).to_parquet(tmp_path / "train.parquet")
    data = catalog.load("own", tmp_path)
    assert data.labels == ("not_entailment", "entailment") and data.splits["train"].dropped == {"no label": 1}
    assert data.splits["train"].labels == ["not_entailment", "entailment", "entailment"]
    layout = layout_of({"labels": "entailment=b,not_entailment=c"})
    assert catalog.load("own", tmp_path, layout=layout).labels == ("c", "b")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ("0", "1")),
        ("1=duplicate,0=not_duplicate", ("not_duplicate", "duplicate")),
        ("1=duplicate", ("0", "duplicate")),
        ("0=other", ("other", "1")),
    ],
)
def test_names_do_not_change_the_order_of_labels(tmp_path, names, expected):
    fill(tmp_path, train_tsv=HEADER + "a\tb\t1\nc\td\t0\n")
    assert catalog.load("own", tmp_path, layout=layout_of({"labels": names})).labels == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": "text_c=x"}, "'text_c' is not a part of a pair; did you mean \"text_b\"?"),
        ({"columns": "text_a=text_b"}, "column 'text_b' is named twice"),
        ({"labels": "0=a,0=b"}, "labels: '0' occurs twice"),
        ({"split": "0.8/0.1"}, "split is '0.8/0.1'; give the shares"),
        ({"split": "most"}, "give the shares"),
    ],
)
def test_invalid_layout_options_are_errors(settings, words):
    with pytest.raises(InputError, match=re.escape(words)):
        layout_of(settings)


def numbered(count, groups=0):
    rows = [(f"a{number}", f"b{number}", str(number % 2)) for number in range(count)]
    more = {"group": [f"g{number % groups}" for number in range(count)]} if groups else {}
    return frame(rows).assign(**more)


def splits_of(path, split="0.8/0.1/0.1", seed=0):
    return catalog.load("own", path, layout=layout_of({"split": split, "split_seed": seed})).splits


def test_split_of_one_file_does_not_depend_on_the_row_order(tmp_path):
    path = saved(tmp_path, "all.csv", numbered(100))
    splits = splits_of(path)
    assert {name: len(split) for name, split in splits.items()} == {"train": 80, "dev": 10, "test": 10}
    assert sorted(text for split in splits.values() for text in split.text_a) == sorted(numbered(100).text_a)
    saved(tmp_path, "all.csv", numbered(100).iloc[::-1])
    for name, split in splits_of(path).items():
        assert set(split.text_a) == set(splits[name].text_a)
    assert set(splits_of(path, seed=1)["dev"].text_a) != set(splits["dev"].text_a)
    # The same split was made on another machine, on another day.
    assert sorted(splits["test"].text_a)[:4] == ["a0", "a1", "a37", "a41"]
    assert list(splits_of(path, "0.5/0.5")) == ["train", "dev"]


@pytest.mark.parametrize("groups", [0, 100])
def test_pairs_that_are_alike_stay_together(tmp_path, groups):
    pairs = numbered(300, groups)
    swapped = pairs.assign(text_a=pairs.text_b.str.upper() + " !", text_b="«" + pairs.text_a + ".»")
    if groups:
        swapped = swapped.assign(group="z" + swapped.group)
    path = saved(tmp_path, "twice.jsonl", pandas.concat([pairs, swapped]))
    data = catalog.load("own", path, layout=layout_of({"split": "0.8/0.1/0.1"}))
    numbers = [{re.sub("[^0-9]", "", text) for text in split.text_a} for split in data.splits.values()]
    assert list(map(len, numbers)) == [240, 30, 30] and len(set.union(*numbers)) == 300
    assert data.in_train() == {"dev": 0, "test": 0}


def test_split_without_pairs_is_refused(tmp_path):
    path = saved(tmp_path, "all.jsonl", numbered(20, groups=2))
    with pytest.raises(InputError, match="a part without pairs: 20 pairs in 2 groups that stay together"):
        splits_of(path)
    # Two groups that share a pair stay together. In this chain, each pair is in two groups.
    chain = [(f"a{n // 2}", "b", n % 2, f"g{((n + 1) // 2 * 7 + 5) % 13}") for n in range(24)]
    with pytest.raises(InputError, match="a part without pairs: 24 pairs in 1 groups that stay together"):
        splits_of(saved(tmp_path, "chain.jsonl", frame(chain, [*NAMES, "group"])))


def test_split_option_is_required_for_one_file_and_refused_otherwise(tmp_path):
    path = saved(tmp_path, "train.csv", numbered(100))
    with pytest.raises(InputError, match="this is one file; split it, as with --split 0.8/0.1/0.1"):
        catalog.load("own", path)
    assert len(splits_of(tmp_path)["train"]) == 80  # the only file of a folder
    saved(tmp_path, "dev.csv", numbered(10))
    with pytest.raises(InputError, match="there are train.csv and dev.csv, and --split takes one file"):
        splits_of(tmp_path)
    with pytest.raises(InputError, match="its name ends in none of .tsv, .csv, .jsonl, .parquet"):
        splits_of(write(tmp_path, "all.txt", "x"))
    with pytest.raises(InputError, match="apply only to 'own', not to 'sick'"):
        catalog.load("sick", tmp_path, layout=layout_of({"split": "0.9/0.1"}))


def test_the_layout_is_part_of_the_cache_key(tmp_path):
    path = saved(tmp_path, "all.csv", numbered(100))
    vectors = write(tmp_path, "v.txt", "a 1 2\n")
    settings = DataSettings("own", str(path), vectors=str(vectors), split="0.8/0.1/0.1")
    variants = [{"split_seed": 1}, {"split": "0.9/0.1"}, {"labels": "0=no"}, {"quoted": True}]
    variants += [{"columns": "label=label"}]
    every = [settings, *(dataclasses.replace(settings, **changes) for changes in variants)]
    assert len({encoding.fingerprint_of(each, tmp_path / "c")[0] for each in every}) == 6


def test_the_command_takes_columns_labels_and_split(tmp_path, capsys):
    table = frame([(f"a {n}", f"b {n}", n % 3 - 1) for n in range(90)], ["question1", "question2", "is_duplicate"])
    path = saved(tmp_path, "all.csv", table)
    words = ["data", "check", "own", "--data-directory", str(path), "--labels", "0=different,1=same"]
    words += ["--columns", "text_a=question1,text_b=question2,label=is_duplicate"]
    assert main.main([*words, "--split", "0.8/0.1/0.1", "--split-seed", "3"]) == 0
    shown = capsys.readouterr().out
    assert "labels different, same" in shown and "30 (no label)" in shown and "48" in shown
    assert main.main([*words, "--split", "0.8/0.3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

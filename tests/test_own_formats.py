"""User data in each format, with renamed columns and labels, and split by shares."""

import csv
import gzip
import json
import re
from fractions import Fraction

import pandas
import pyarrow
import pyarrow.parquet
import pytest
from reader_formats import columns, write
from refusals import refused

from jaxmatch.cli import main
from jaxmatch.data import catalog, encoding, own
from jaxmatch.data.encoding import DataSettings
from jaxmatch.data.own import Layout, layout_of
from jaxmatch.errors import InputError

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


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_missing_column_error_lists_the_existing_columns(tmp_path, ending):
    path = saved(tmp_path, f"a{ending}", frame(names=["a", "text_b", "label"]))
    error = refused(own.read, path, "classification")
    assert "column 'text_a'" in str(error) and "'a', 'text_b', 'label'" in str(error) and error.path == path
    error = refused(own.read, path, "classification", layout=Layout({"text_a": "b"}))
    assert "column 'b'" in str(error) and str(error).endswith("; rename it, or name the column: --columns text_a=NAME")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".csv.gz"])
def test_misspelt_group_column_is_reported(tmp_path, ending):
    path = saved(tmp_path, f"a{ending}", frame([("a", "b", 1, 7)], [*NAMES, "Group"]))
    problem = str(refused(own.read, path, "classification", guessed=True))
    assert (
        "'Group' is not a known name; did you mean 'group'? For a ranking, rename it or give --columns group=NAME"
        in problem
    )
    assert len(own.read(path, "classification")) == 1


def test_csv_errors_name_the_first_line_of_the_row(tmp_path):
    path = write(tmp_path, "a.csv", 'text_a,text_b,label\n"two\nlines",b,x\n\nc,d,y\n"e\n",,x\n')
    error = refused(own.read, path, "classification")
    assert (error.line, str(error)) == (6, f"{path}:6: the second text is empty; fill it in, or remove the pair")
    path = write(tmp_path, "b.csv", "text_a,text_b,label\r\na,b\r\n")
    assert "b.csv:2: 2 columns where the header names 3" in str(refused(own.read, path, "classification"))
    path = write(tmp_path, "c.csv", 'text_a,text_b,label\na,b,x\nc,"d,x\n')
    error = refused(own.read, path, "classification")
    assert error.line == 3 and "is a quotation mark not closed, or" in str(error)
    path = write(tmp_path, "d.csv", 'text_a,text_b,label\na,b,x\nc,"d" e,x\n')
    assert refused(own.read, path, "classification").line == 3


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("quoted", [False, True])
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


def test_rows_of_parquet_are_counted_from_0(tmp_path):
    path = saved(tmp_path, "a.parquet", frame([("a", "b", "x"), ("", "b", "x")]))
    assert (
        str(refused(own.read, path, "classification"))
        == f"{path}, row 1: the first text is empty; fill it in, or remove the pair"
    )
    path = saved(tmp_path, "b.parquet", frame([(1, "b", "x")]))
    assert "row 0: 'text_a' holds 1 where a text is expected" in str(refused(own.read, path, "classification"))


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing PAR1", b"text_a\ttext_b\n"])
@pytest.mark.parametrize("ending", [".parquet", ".parquet.gz", ".csv.gz"])
def test_damaged_file_is_an_error_naming_the_file(tmp_path, content, ending):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    error = refused(own.read, path, "classification")
    assert error.path == path
    good = saved(tmp_path, f"good{ending}", frame(PAIRS * 50)).read_bytes()
    path.write_bytes(good[: len(good) // 2])
    assert refused(own.read, path, "classification").path == path


def test_parquet_without_pyarrow_is_an_error_with_the_install_command(tmp_path, monkeypatch):
    path = saved(tmp_path, "a.parquet", frame())
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install 'jaxmatch[tables]'" in str(refused(own.read, path, "classification"))


def test_class_names_in_parquet_are_kept(tmp_path):
    about = {"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}
    table = pyarrow.table({"text_a": ["a", "c", "e"], "text_b": ["b", "d", "f"], "label": [1, 0, -1]})
    pyarrow.parquet.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(about)}), tmp_path / "a.parquet"
    )
    split = own.read(tmp_path / "a.parquet", "classification")
    assert split.labels == ["yes", "no"] and split.dropped == {"no label": 1}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": "text_c=x"}, "'text_c' is not a part of a pair; did you mean \"text_b\"?"),
        ({"columns": "text_a"}, "columns: 'text_a' is not NAME=VALUE"),
        ({"columns": "text_a=x,text_b=x"}, "column 'x' is named twice"),
        ({"columns": "text_a=text_b"}, "column 'text_b' is named twice"),
        ({"columns": "group=text_b"}, "column 'text_b' is named twice"),
        ({"labels": "0=a,0=b"}, "labels: '0' occurs twice"),
        ({"split": "0.8/0.1"}, "split is '0.8/0.1'; give the shares"),
        ({"split": "1/0/0"}, "give the shares"),
        ({"split": "most"}, "give the shares"),
    ],
)
def test_invalid_layout_options_are_errors(settings, words):
    with pytest.raises(InputError, match=re.escape(words)):
        layout_of(settings)


# --- one file, split ----------------------------------------------------------------------------------------------


def numbered(count, groups=0):
    rows = [(f"a{number}", f"b{number}", str(number % 2)) for number in range(count)]
    return (
        frame([(*row, f"g{number % groups}") for number, row in enumerate(rows)], [*NAMES, "group"])
        if groups
        else frame(rows)
    )


def splits_of(path, split="0.8/0.1/0.1", seed=0):
    return catalog.load("own", path, layout=layout_of({"split": split, "split_seed": seed})).splits


def test_split_of_one_file_does_not_depend_on_the_row_order(tmp_path):
    path = saved(tmp_path, "all.csv", numbered(100))
    splits = splits_of(path)
    assert {name: len(split) for name, split in splits.items()} == {"train": 80, "dev": 10, "test": 10}
    assert sorted(text for split in splits.values() for text in split.text_a) == sorted(numbered(100).text_a)
    saved(tmp_path, "all.csv", numbered(100).iloc[::-1])
    again = splits_of(path)
    assert {name: set(split.text_a) for name, split in again.items()} == {
        name: set(split.text_a) for name, split in splits.items()
    }
    assert set(splits_of(path, seed=1)["dev"].text_a) != set(splits["dev"].text_a)
    # The same split was made on another machine, on another day.
    assert sorted(splits["test"].text_a)[:4] == ["a0", "a1", "a37", "a41"]
    assert list(splits_of(path, "0.5/0.5")) == ["train", "dev"]


def test_groups_and_repeated_pairs_stay_together(tmp_path):
    path = saved(tmp_path, "all.jsonl", numbered(100, groups=10))
    splits = splits_of(path)
    assert [len(split) for split in splits.values()] == [80, 10, 10]
    groups = [set(split.groups) for split in splits.values()]
    assert len(set.union(*groups)) == sum(map(len, groups)) == 10


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
    with pytest.raises(InputError, match="apply only to the data set 'own', not to 'sick'"):
        catalog.load("sick", tmp_path, layout=layout_of({"split": "0.9/0.1"}))


def test_the_layout_is_part_of_the_cache_key(tmp_path):
    path = saved(tmp_path, "all.csv", numbered(100))
    vectors = write(tmp_path, "v.txt", "a 1 2\n")
    variants = [
        {},
        {"split_seed": 1},
        {"split": "0.9/0.1"},
        {"labels": "0=no"},
        {"quoted": True},
        {"columns": "label=label"},
    ]
    keys = {
        encoding.fingerprint_of(
            DataSettings("own", str(path), vectors=str(vectors), **{"split": "0.8/0.1/0.1", **settings}), tmp_path / "c"
        )[0]
        for settings in variants
    }
    assert len(keys) == len(variants)


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


def test_split_shares_are_exact_fractions():
    assert layout_of({"split": "0.7/0.2/0.1"}).shares == (Fraction(7, 10), Fraction(1, 5), Fraction(1, 10))

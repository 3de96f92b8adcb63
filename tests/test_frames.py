"""Saving the pairs of a DataFrame, a Dataset or a DatasetDict as a folder of own data."""

import datasets
import numpy as np
import pandas
import pyarrow
import pytest

from jaxmatch.data import catalog
from jaxmatch.data.own import layout_of, save
from jaxmatch.errors import InputError

HALF = pandas.Series(["a"] * 19 + ["\ud800"], dtype=object)  # half a surrogate pair
COLUMNS = {"text_a": "question1", "text_b": "question2", "label": "same"}


def frame(count=20, **more):
    rows = range(count)
    return pandas.DataFrame(
        {
            "question1": [f"a {row}" for row in rows],
            "question2": [f"b {row}\n" for row in rows],
            "same": [row % 2 for row in rows],
            **more,
        }
    )


def test_data_frame_is_split_like_a_file_of_the_same_pairs(tmp_path):
    counts = save(frame(100), tmp_path / "own", columns=COLUMNS, labels={0: "no"}, split="0.8/0.1/0.1")
    assert counts == {name: {"pairs": n, "dropped": {}} for name, n in (("train", 80), ("dev", 10), ("test", 10))}
    data = catalog.load("own", tmp_path / "own")
    assert data.labels == ("no", "1") and data.splits["dev"].text_b[0].endswith("\n")
    frame(100).to_json(tmp_path / "all.jsonl", orient="records", lines=True)
    columns = ",".join(f"{name}={column}" for name, column in COLUMNS.items())
    layout = layout_of({"columns": columns, "split": "0.8/0.1/0.1"})
    file_splits = catalog.load("own", tmp_path / "all.jsonl", layout=layout).splits
    assert {name: split.text_a for name, split in data.splits.items()} == {
        name: split.text_a for name, split in file_splits.items()
    }
    parts = {"train": frame(), "dev": frame(1)}
    save(parts, tmp_path / "parts", columns=COLUMNS, labels={0: "no", 1: "yes"})  # dev need not have each label
    save(frame(100), tmp_path / "own", columns=COLUMNS, split="0.8/0.1/0.1", split_seed=1)  # replaces the first one
    assert set(catalog.load("own", tmp_path / "own").splits["dev"].text_a) != set(data.splits["dev"].text_a)


def test_types_of_tables_are_converted_to_labels(tmp_path):
    for values, labels, dropped in (
        ([True, False, True], ["True", "False", "True"], {}),
        ([1.0, None, 0.0], ["1", "0"], {"no label": 1}),
        (pandas.array([1, pandas.NA, 0], "Int64"), ["1", "0"], {"no label": 1}),
        (pandas.Categorical(["x", None, "y"]), ["x", "y"], {"no label": 1}),
        (pandas.Series([np.int64(1), np.nan, np.int64(0)], dtype=object), ["1", "0"], {"no label": 1}),
        (pyarrow.array([1, None, 0]), ["1", "0"], {"no label": 1}),
        (pyarrow.array(["x", None, "y"]).dictionary_encode(), ["x", "y"], {"no label": 1}),
    ):
        make = pyarrow.table if isinstance(values, pyarrow.Array) else pandas.DataFrame
        table = make({"text_a": list("abc"), "text_b": list("def"), "label": values})
        counts = save({"train": table, "dev": table}, tmp_path / "own")
        assert counts["train"] == {"pairs": len(labels), "dropped": dropped}
        assert catalog.load("own", tmp_path / "own").splits["dev"].labels == labels


def test_ranking_keeps_groups_together_and_regression_keeps_scores(tmp_path):
    groups = [f"q{row // 4}" for row in range(20)]
    save(
        frame(same=[row % 4 == 0 for row in range(20)], group=groups), tmp_path / "a", columns=COLUMNS, split="0.6/0.4"
    )
    data = catalog.load("own", tmp_path / "a")
    assert data.task == "ranking" and not set(data.splits["train"].groups) & set(data.splits["dev"].groups)
    # Numbers of questions become floats where one of them is missing in another part of the data.
    floats = frame(same=[row % 4 == 0 for row in range(20)], group=[float(row // 4) for row in range(20)])
    save(floats, tmp_path / "c", columns=COLUMNS, split="0.6/0.4")
    assert set(catalog.load("own", tmp_path / "c").splits["train"].groups) < set("01234")
    # The first text may be the group.
    texts = frame(question1=groups, same=[row % 4 == 0 for row in range(20)])
    save(texts, tmp_path / "d", columns=COLUMNS | {"group": "question1"}, split="0.6/0.4")
    train = catalog.load("own", tmp_path / "d").splits["train"]
    assert train.groups == train.text_a
    scores = [row / 2 - 1 for row in range(20)]
    save(frame(same=scores), tmp_path / "b", columns=COLUMNS, split="0.6/0.4", task="regression")
    splits = catalog.load("own", tmp_path / "b", task="regression").splits
    assert sorted(splits["train"].labels + splits["dev"].labels) == scores


def test_a_dataset_dict_keeps_the_names_of_its_classes(tmp_path):
    features = datasets.Features(
        {"idx": datasets.Value("int32"), "sentence1": datasets.Value("string"), "sentence2": datasets.Value("string"),
         "label": datasets.ClassLabel(names=["not_entailment", "entailment"])}
    )  # fmt: skip

    def dataset(labels):
        texts = [f"text {number}" for number in range(len(labels))]
        columns = {"idx": list(range(len(labels))), "sentence1": texts, "sentence2": texts, "label": labels}
        return datasets.Dataset.from_dict(columns, features=features)

    whole = datasets.DatasetDict(train=dataset([0, 1, -1, 1]), validation=dataset([1, 0]), test=dataset([-1, -1]))
    counts = save(whole, tmp_path / "own", columns={"text_a": "sentence1", "text_b": "sentence2"})
    assert counts["train"] == {"pairs": 3, "dropped": {"no label": 1}}
    assert counts["test"] == {"pairs": 0, "dropped": {"no label": 2}}
    data = catalog.load("own", tmp_path / "own")
    assert data.labels == ("not_entailment", "entailment") and list(data.splits) == ["train", "dev"]
    assert data.splits["train"].labels == ["not_entailment", "entailment", "entailment"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"text_a": "question"}}, "train: the header has no column 'question', 'text_b', 'label'; it has"),
        ({"columns": {"text_c": "question1"}}, "'text_c' is not a part of a pair"),
        ({"split": ""}, "tables and split do not fit together; give one table and split="),
        ({"task": "rank"}, "there is no task 'rank'"),
        ({"columns": COLUMNS | {"text_b": "question1"}}, "columns: column 'question1' is named twice"),
        ({"data": {"train": frame()}}, "tables and split do not fit together"),
        ({"data": {"train": frame(), "matched": frame()}, "split": ""}, "the tables are 'train', 'matched'; give"),
        ({"data": {"train": frame(1), "dev": frame()}, "split": ""}, "dev, row 1: label '1' is not one of '0'"),
        ({"data": frame(same=["0"] * 19 + [1])}, "train: the table cannot be converted"),
        ({"data": frame(question2=HALF)}, "train: the table cannot be converted"),
        ({"data": frame(Group=[1] * 20)}, "did you mean 'group'?"),
        ({"labels": {0: "no", 2: "yes"}}, "train: labels: no pair has the label '2'; its labels are '0', '1'"),
    ],
)
def test_invalid_input_is_refused_and_nothing_is_written(tmp_path, change, message):
    given = {"data": frame(), "columns": COLUMNS, "split": "0.8/0.2", **change}
    with pytest.raises(InputError) as caught:
        save(given.pop("data"), tmp_path / "own", **given)
    assert message in str(caught.value)
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "train.jsonl"])
def test_a_folder_with_files_of_the_user_is_not_replaced(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=f"the folder holds '{name}'; give a new folder"):
        save(frame(), tmp_path, columns=COLUMNS, split="0.8/0.2")
    assert (tmp_path / name).read_text() == "{}"

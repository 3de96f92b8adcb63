"""The order of the labels of own data, which decides the positive class."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from jaxmatch import InputError
from jaxmatch.data import catalog, own
from jaxmatch.data.encoding import DataSettings, fingerprint_of
from jaxmatch.data.own import layout_of

ROWS = "text_a\ttext_b\tlabel\n" + "".join(f"a{n}\tb{n}\t{n % 2}\n" for n in range(6))


def labels_of(folder, labels=""):
    return catalog.load("own", folder, layout=layout_of({"labels": labels})).labels


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ("0", "1")),
        ("0=different,1=same", ("different", "same")),
        ("0=not_duplicate,1=duplicate", ("not_duplicate", "duplicate")),
        ("1=duplicate,0=not_duplicate", ("not_duplicate", "duplicate")),
        ("1=duplicate", ("0", "duplicate")),
        ("0=other", ("other", "1")),
    ],
)
def test_names_do_not_change_the_order_of_labels(tmp_path, names, expected):
    (tmp_path / "train.tsv").write_text(ROWS)
    assert labels_of(tmp_path, names) == expected


ABOUT = {"info": {"features": {"label": {"names": ["not_equivalent", "equivalent"], "_type": "ClassLabel"}}}}
TABLE = pyarrow.table({"text_a": list("abcdef"), "text_b": list("ghijkl"), "label": [0, 1] * 3})
# A table with a `ClassLabel`, as Hugging Face's datasets writes it.
CLASSES = {"train": TABLE.replace_schema_metadata({"huggingface": json.dumps(ABOUT)})}


def test_saved_class_labels_keep_their_order(tmp_path):
    own.save(CLASSES, tmp_path / "own")
    assert labels_of(tmp_path / "own") == ("not_equivalent", "equivalent")
    assert labels_of(tmp_path / "own", "equivalent=b,not_equivalent=c") == ("c", "b")
    # Other names in the same order, which are sorted, need no entry.
    own.save(CLASSES, tmp_path / "sorted", labels={"not_equivalent": "different", "equivalent": "same"})
    assert labels_of(tmp_path / "sorted") == ("different", "same")
    assert (tmp_path / "sorted" / ".saved").read_text() == ""


def test_parquet_class_labels_keep_their_order(tmp_path):
    pyarrow.parquet.write_table(CLASSES["train"], tmp_path / "train.parquet")
    assert labels_of(tmp_path) == ("not_equivalent", "equivalent")


def test_damaged_order_of_a_saved_folder_is_an_error(tmp_path):
    own.save(CLASSES, tmp_path / "own")
    for text in ("{", '{"labels": 3}', "[]"):
        (tmp_path / "own" / ".saved").write_text(text)
        with pytest.raises(InputError, match=r"\.saved: the file is damaged .*save the data again"):
            labels_of(tmp_path / "own")


def test_another_order_of_saved_labels_has_another_fingerprint(tmp_path):
    own.save(CLASSES, tmp_path / "own")
    settings = DataSettings(name="own", directory=str(tmp_path / "own"), vectors="hashed")
    before = fingerprint_of(settings, tmp_path / "cache")[0]
    (tmp_path / "own" / ".saved").write_text('{"labels": ["equivalent", "not_equivalent"]}')
    assert fingerprint_of(settings, tmp_path / "cache")[0] != before

"""The order of the labels of own data, which decides the positive class."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from jaxmatch.data import catalog
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
CLASSES = TABLE.replace_schema_metadata({"huggingface": json.dumps(ABOUT)})


def test_parquet_class_labels_keep_their_order(tmp_path):
    pyarrow.parquet.write_table(CLASSES, tmp_path / "train.parquet")
    assert labels_of(tmp_path) == ("not_equivalent", "equivalent")
    assert labels_of(tmp_path, "equivalent=b,not_equivalent=c") == ("c", "b")

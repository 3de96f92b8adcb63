"""The order of the labels of own data, which is the order of a model's outputs. The second of two labels is positive.

The labels in the files decide the order, not their names: with 0=other,1=duplicate, "duplicate" is the second label.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxmatch.data.readers.own_layout import Layout
from jaxmatch.data.readers.parquet import class_names
from jaxmatch.errors import report_damage

# A file of this name marks a folder that `jaxmatch.data.save` wrote and may replace. It holds the order of the labels
# if they are not in the order of their names.
MARK = ".saved"


def in_order(labels: Iterable[str], classes: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """Returns the names of labels in the order of the labels in the files.

    Arguments:
      labels: the names.
      classes: the names that the writer of the files gave to the classes, in their order (`classes_of`). They come
        first. The others are in the order of their texts.
      layout: the layout, which may name labels.
    """
    in_files = {name: label for label, name in sorted(layout.labels.items(), reverse=True)}

    def place(name: str) -> tuple[int, str]:
        label = in_files.get(name, name)
        return classes.index(label) if label in classes else len(classes), label

    return tuple(sorted(labels, key=place))


def classes_of(path: Path, layout: Layout) -> list[str]:
    """Returns the names that the writer of a training file gave to the classes, in their order, or an empty list.

    Parquet has them if Hugging Face's datasets wrote a `ClassLabel`, and a folder has them if `jaxmatch.data.save`
    wrote it.

    Raises:
      InputError: the file cannot be read.
    """
    if path.name.removesuffix(".gz").endswith(".parquet"):
        return class_names(path, layout.column("label"))
    mark = path.with_name(MARK)
    if path.name != "train.jsonl" or not mark.is_file() or not (text := mark.read_text(encoding="utf-8")):
        return []
    with report_damage(mark, "save the data again"):
        names = json.loads(text)["labels"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the labels are not texts")
    return names

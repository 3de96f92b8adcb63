"""A small data set in the format of own data, for tests of encoding."""

import numpy as np

from jaxmatch.data.encoding import DataSettings

VECTORS = "cat 1 2\nDOG 3 4\nbroken 1\nunused 5 6\ncow 7 8\n"
TRAIN = (
    "text_a\ttext_b\tlabel\tgroup\nThe cat, the dog.\tdog\t1\tq1\nThe cat, the dog.\t?\t0\tq1\nthe end\tthe cow "
    "the\t0\tq2\n"
)
DEV = "text_a\ttext_b\tlabel\tgroup\na dog\tcat cat\t1\tq9\n"


def own_data(tmp_path) -> DataSettings:
    """Writes own data of two splits with vectors, and returns its settings."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.tsv").write_text(TRAIN)
    (folder / "dev.tsv").write_text(DEV)
    (tmp_path / "some.2d.txt").write_text(VECTORS)
    return DataSettings("own", directory=str(folder), task="ranking", vectors=str(tmp_path / "some.2d.txt"))


def words_of(data, split, side):
    """Returns the words of each sentence of one side."""
    encoded = data.splits[split]
    tokens, offsets = getattr(encoded, f"tokens_{side}"), getattr(encoded, f"offsets_{side}")
    return [[data.vocabulary.words[token] for token in part] for part in np.split(tokens, offsets[1:-1])]

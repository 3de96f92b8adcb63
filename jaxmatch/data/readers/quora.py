"""Quora question pairs in the split of Wang et al. (2017): label, question, question, id; no header.

The raw questions hold quotation marks, often unbalanced. They are read as ordinary characters.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_columns
from jaxmatch.data.readers.pairs import PairCollector

LABELS = ("0", "1")


def read(path: Path) -> Split:
    """Reads `{train,dev,test}.tsv` of the folder `Quora_question_pair_partition`.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    for line, (label, text_a, text_b, _) in read_columns(path, 4, "label, question, question, id"):
        pairs.add(line, text_a, text_b, label)
    return pairs.split()

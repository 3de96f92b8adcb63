"""SciTail 1.1 (Khot et al., 2018), the files of its folder `tsv_format`: premise, hypothesis, label; no header."""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_columns
from jaxmatch.data.readers.pairs import PairCollector

LABELS = ("neutral", "entails")


def read(path: Path) -> Split:
    """Reads `scitail_1.0_{train,dev,test}.tsv`.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    for line, (premise, hypothesis, label) in read_columns(path, 3, "premise, hypothesis, label"):
        pairs.add(line, premise, hypothesis, label)
    return pairs.split()

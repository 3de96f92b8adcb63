"""STS benchmark (Cer et al., 2017): genre, file, year, number, score, sentence, sentence; no header.

The files are named `.csv`, but tabs separate the columns, and quotation marks are ordinary characters. Up to two
columns with the sources of the sentences may follow.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_columns
from jaxmatch.data.readers.pairs import PairCollector, number_of

_LAYOUT = "genre, file, year, number, score, sentence, sentence"


def read(path: Path) -> Split:
    """Reads `sts-{train,dev,test}.csv`, whose scores are similarities from 0 to 5.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path)
    for line, (_, _, _, _, score, text_a, text_b, *_) in read_columns(path, 7, _LAYOUT, most=9):
        pairs.add(line, text_a, text_b, number_of(score, path, line, what="score", lowest=0, highest=5))
    return pairs.split()

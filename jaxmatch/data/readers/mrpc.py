"""MRPC, the Microsoft Research Paraphrase Corpus (Dolan and Brockett, 2005): the official files, with a header.

The files begin with a byte-order mark, have Windows line ends and never quote: quotation marks in the news text are
ordinary characters. There is no official dev file, so `held_out` takes a tenth of the training file.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.held_out import hold_out
from jaxmatch.data.readers.lines import read_table
from jaxmatch.data.readers.pairs import PairCollector

LABELS = ("0", "1")
_COLUMNS = ("Quality", "#1 String", "#2 String")


def read(path: Path) -> Split:
    """Reads all pairs of `msr_paraphrase_{train,test}.txt`.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    names, rows = read_table(path, _COLUMNS)
    label_at, a_at, b_at = (names.index(name) for name in _COLUMNS)
    for line, row in rows:
        pairs.add(line, row[a_at], row[b_at], row[label_at])
    return pairs.split()


def read_train(path: Path) -> Split:
    """Reads the training file without the pairs that `read_dev` returns; raises the errors of `read`."""
    return hold_out(read(path))[0]


def read_dev(path: Path) -> Split:
    """Reads the tenth of the training file that serves as dev; raises the errors of `read`."""
    return hold_out(read(path))[1]

"""SNLI (Bowman et al., 2015) and MultiNLI (Williams et al., 2018), which is distributed in the same formats: the
official JSON lines, or the official tab-separated text with a header.

A pair without a majority label carries the label "-". The authors of the corpora ask users to leave such pairs out, so
they are dropped and counted.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.json_lines import read_objects, text_of
from jaxmatch.data.readers.lines import read_table
from jaxmatch.data.readers.pairs import PairCollector

LABELS = ("entailment", "neutral", "contradiction")
_COLUMNS = ("gold_label", "sentence1", "sentence2")
# One column for each annotator; most pairs had only one annotator.
_ANNOTATORS = ("label1", "label2", "label3", "label4", "label5")


def read(path: Path) -> Split:
    """Reads a `.jsonl` or `.txt` file of either corpus; ignores all fields except the label and the sentences.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    if path.suffix == ".txt":
        names, rows = read_table(path, _COLUMNS, may_be_cut=_ANNOTATORS)
        label_at, a_at, b_at = (names.index(name) for name in _COLUMNS)
        for line, row in rows:
            _add(pairs, line, row[label_at], row[a_at], row[b_at])
    else:
        for line, record in read_objects(path, _COLUMNS):
            label, text_a, text_b = (text_of(record, name, path, line) for name in _COLUMNS)
            _add(pairs, line, label, text_a, text_b)
    return pairs.split()


def _add(pairs: PairCollector, line: int, label: str, text_a: str, text_b: str) -> None:
    if label == "-":
        pairs.drop('label "-"')
    else:
        pairs.add(line, text_a, text_b, label)

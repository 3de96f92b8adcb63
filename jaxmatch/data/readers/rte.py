"""RTE, recognizing textual entailment, in the layout of GLUE (Wang et al., 2019): index, sentence1, sentence2, label,
with a header. GLUE's test file has no labels, so no test split can be read.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_table
from jaxmatch.data.readers.pairs import PairCollector

LABELS = ("not_entailment", "entailment")
_COLUMNS = ("sentence1", "sentence2", "label")


def read(path: Path) -> Split:
    """Reads `{train,dev}.tsv`.

    Raises:
      InputError: the file or a line of it is damaged, or the file has no labels.
    """
    pairs = PairCollector(path, LABELS)
    names, rows = read_table(path, _COLUMNS)
    a_at, b_at, label_at = (names.index(name) for name in _COLUMNS)
    for line, row in rows:
        pairs.add(line, row[a_at], row[b_at], row[label_at])
    return pairs.split()

"""SICK (Marelli et al., 2014), the files of SemEval 2014 task 1, with a header.

The same pairs serve two tasks: each has a three-way judgment (written in capitals) and a relatedness from 1 to 5.
"""

from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_table
from jaxmatch.data.readers.pairs import PairCollector, number_of

LABELS = ("entailment", "neutral", "contradiction")
_JUDGMENT, _SCORE = "entailment_judgment", "relatedness_score"


def read_entailment(path: Path) -> Split:
    """Reads the judgments of `SICK_{train,trial,test_annotated}.txt` and converts them to lowercase.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    names, rows = read_table(path, ("sentence_A", "sentence_B", _JUDGMENT))
    a_at, b_at, label_at = (names.index(name) for name in ("sentence_A", "sentence_B", _JUDGMENT))
    for line, row in rows:
        pairs.add(line, row[a_at], row[b_at], row[label_at].lower())
    return pairs.split()


def read_relatedness(path: Path) -> Split:
    """Reads the relatedness scores of `SICK_{train,trial,test_annotated}.txt`.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path)
    names, rows = read_table(path, ("sentence_A", "sentence_B", _SCORE))
    a_at, b_at, score_at = (names.index(name) for name in ("sentence_A", "sentence_B", _SCORE))
    for line, row in rows:
        score = number_of(row[score_at], path, line, what=_SCORE, lowest=1, highest=5)
        pairs.add(line, row[a_at], row[b_at], score)
    return pairs.split()

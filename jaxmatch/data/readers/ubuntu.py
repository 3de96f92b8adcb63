"""Ubuntu dialogue corpus v1 (Lowe et al., 2015) as prepared by Xu et al. (2016): label, context, response; no header.

The utterances of a context are joined by the marks `__eou__` (end of an utterance) and `__eot__` (end of a turn), which
stay in the text. If a file gives each utterance a column of its own, the reader joins them by `__eot__`. In the dev and
test files, the ten candidate responses of a context are on consecutive lines. In the training file, a right and a wrong
response of a context are on consecutive lines.
"""

import math
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_columns
from jaxmatch.data.readers.pairs import PairCollector
from jaxmatch.errors import InputError

LABELS = ("0", "1")
CANDIDATES = 10
_TURN = " __eot__ "


def read(path: Path) -> Split:
    """Reads `{valid,test}.txt`; every context is a group of ten candidates, and groups are numbered from 1.

    Candidates have no official names, so a ranking puts the right candidate after wrong ones of equal score.

    Raises:
      InputError: the file or a line of it is damaged, or a context does not have ten candidates.
    """
    return _read(path, whole_groups=True)


def read_train(path: Path) -> Split:
    """Reads `train.txt`; consecutive lines with the same context form a group of at most ten lines.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    return _read(path, whole_groups=False)


def _read(path: Path, *, whole_groups: bool) -> Split:
    pairs = PairCollector(path, LABELS)
    context, group, size, start = "", 0, 0, 0
    for line, (label, *utterances, response) in read_columns(path, 3, "label, context, response", most=math.inf):
        text = _TURN.join(utterances)
        if text != context or size == CANDIDATES:
            if whole_groups and group:
                _check_size(size, path, start)
            # All lines of a group share one string, so that memory holds each of a million contexts only once.
            context, group, size, start = text, group + 1, 0, line
        pairs.add(line, context, response, label, str(group))
        size += 1
    if whole_groups and group:
        _check_size(size, path, start)
    return pairs.split()


def _check_size(size: int, path: Path, start: int) -> None:
    if size != CANDIDATES:
        raise InputError(
            f"the context that begins here has {size} of its {CANDIDATES} candidates",
            path=path,
            line=start,
            remedy="its lines are consecutive and have the same text in the context",
        )

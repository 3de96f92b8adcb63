"""Twitter-URL (Lan et al., 2017): headline or tweet, tweet, votes, address; no header.

The votes "(n,6)" give the number of annotators out of six who judged the pair a paraphrase. As the authors of the
corpus prescribe, a pair with 4 to 6 votes is a paraphrase and a pair with 0 to 2 votes is not. Pairs with 3 votes are
dropped and counted. There is no official dev file, so `held_out` takes a tenth of the training file.
"""

import re
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.held_out import hold_out
from jaxmatch.data.readers.lines import read_columns
from jaxmatch.data.readers.pairs import PairCollector
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

LABELS = ("0", "1")
UNDECIDED = "3 of 6 votes"
_VOTES = re.compile(r"\(([0-6]),6\)")


def read(path: Path) -> Split:
    """Reads all pairs of `Twitter_URL_Corpus_{train,test}.txt`.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    for line, (text_a, text_b, votes, _) in read_columns(path, 4, "sentence, sentence, votes, address"):
        found = _VOTES.fullmatch(votes.strip(" "))
        if not found:
            raise InputError(f"votes {shown(votes)} are not of the form (n,6) with n from 0 to 6", path=path, line=line)
        positive = int(found[1])
        if positive == 3:
            pairs.drop(UNDECIDED)
        else:
            pairs.add(line, text_a, text_b, "1" if positive > 3 else "0")
    return pairs.split()


def read_train(path: Path) -> Split:
    """Reads the training file without the pairs that `read_dev` returns; raises the errors of `read`."""
    return hold_out(read(path))[0]


def read_dev(path: Path) -> Split:
    """Reads the tenth of the training file that serves as dev; raises the errors of `read`."""
    return hold_out(read(path))[1]

"""A dev split for data that has none: a share of the training file, the same in every run and on every machine."""

import hashlib
from collections import Counter
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError

SHARE = 0.1


def hold_out(whole: Split) -> tuple[Split, Split]:
    """Splits a training file into train and dev.

    All pairs with the same first text stay together. In a corpus that pairs one headline with many tweets, a dev pair
    would otherwise have near copies in train. First texts are taken in the order of their SHA-256 until a tenth of the
    pairs is reached, so that the parts depend on the texts alone, not on their order. Pairs keep the order of the file.
    Dropped pairs are counted with train.

    Returns:
      Train and dev.

    Raises:
      InputError: all pairs have the same first text.
    """
    sizes = Counter(whole.text_a)
    order = sorted(sizes, key=lambda text: hashlib.sha256(text.encode()).digest())
    if len(order) < 2:
        raise InputError(
            "a dev split cannot be taken from the training file: all its pairs have the same first text",
            path=whole.source or Path(),
            remedy="use the complete official file",
        )
    dev, wanted = set(), SHARE * len(whole)
    for text in order[:-1]:
        if wanted <= 0:
            break
        dev.add(text)
        wanted -= sizes[text]
    rows: tuple[list[int], list[int]] = ([], [])
    for row, text in enumerate(whole.text_a):
        rows[text in dev].append(row)
    return whole.part(rows[False], whole.dropped), whole.part(rows[True], {})

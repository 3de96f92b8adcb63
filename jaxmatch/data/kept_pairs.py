"""Checks and filters of pairs before training.

A split without words is an error. Labels that are probably no classes, and texts that are not split into words, are
worth a warning. Training pairs with long texts are left out on request.
"""

import dataclasses
from collections import Counter

import numpy as np

from jaxmatch.data.pairs import DataSet, is_number
from jaxmatch.data.text import CHARACTER, UNKNOWN_WORD, Corpus, Preprocessing
from jaxmatch.errors import InputError, count_text, shown

# What pandas, R and SQL write for a missing value, in lower case.
_MISSING = ("nan", "<na>", "nat", "na", "n/a", "#n/a", "none", "null")
# A classification has no more labels than this if there are few pairs of each label, and no more than that otherwise.
_FEW, _MANY, _PAIRS_OF_A_LABEL = 10, 100, 10
# Words of Chinese, Japanese and Thai have two to four characters on average. A few names in English text do not matter.
_LONG_TOKEN, _SHARE_OF_TOKENS = 5, 0.01


def check_words(data: DataSet, corpus: Corpus, preprocessing: Preprocessing) -> None:
    """Checks that tokenization leaves a word in each split. Without words, nothing distinguishes the pairs of a split.

    Raises:
      InputError: tokenization leaves no word in a split.
    """
    unknown = corpus.words.get(UNKNOWN_WORD)
    if unknown is None:
        return
    for name, split in data.splits.items():
        if len(split) and all((corpus.column(name, side)[0] == unknown).all() for side in ("a", "b")):
            by = f"tokenizer {preprocessing.tokenizer!r}" + (
                " without punctuation" if preprocessing.remove_punctuation else ""
            )
            raise InputError(
                f"no text of the {name} split of data set {data.name!r} has a word left after {by}",
                path=split.source,
                remedy="keep punctuation (remove_punctuation), or use another tokenizer",
            )


def warnings_about(data: DataSet, corpus: Corpus, task: str) -> list[str]:
    """Returns lines about labels that are probably no classes, and about texts that are not split into words.

    Arguments:
      data: the data set.
      corpus: the texts of the data set.
      task: the task that the user named, or "".
    """
    return [*_label_warnings(data, task), *_script_warnings(corpus)]


def _script_warnings(corpus: Corpus) -> list[str]:
    characters = np.array([len(CHARACTER.findall(word)) for word in corpus.words])
    tokens = int(corpus.counts[characters > 0].sum())
    mean = int(corpus.counts @ characters) / max(tokens, 1)
    if mean < _LONG_TOKEN or tokens < _SHARE_OF_TOKENS * corpus.counts.sum():
        return []
    return [
        f"texts are written without spaces: a token has {mean:.1f} characters on average; split them with "
        "data.tokenizer=characters"
    ]


def _label_warnings(data: DataSet, task: str) -> list[str]:
    if data.task != "classification":
        return []
    counts = Counter(data.splits["train"].labels)
    missing = [label for label in data.labels if label.lower() in _MISSING]
    warnings = [
        f"label {shown(label)} of {count_text(counts[label], 'training pair')} looks like a missing label; "
        "if it is, leave it empty: such pairs are left out"
        for label in missing
    ]
    others = [label for label in data.labels if label not in missing]
    whole = all(label.removeprefix("-").isdecimal() for label in others)
    if not task and all(map(is_number, others)) and (len(others) > _FEW or not whole):
        warnings.append(
            f"looks like a regression: {len(others):,} numeric labels; set data.task=regression, or "
            "data.task=classification if they are classes"
        )
    elif len(others) > max(_FEW, min(_MANY, counts.total() / _PAIRS_OF_A_LABEL)):
        warnings.append(f"{len(others):,} labels in {counts.total():,} training pairs; are they classes?")
    return warnings


def check_drop_length(length: int, maximum_length: int) -> None:
    """Checks that texts can have `length` tokens after they are cut to the maximum length.

    Raises:
      InputError: the length is more than the maximum length.
    """
    if maximum_length and length > maximum_length:
        raise InputError(
            f"data.drop_from_length = {length} drops nothing: "
            f"data.maximum_length cuts texts to {maximum_length} tokens",
            remedy="give the maximum length or less",
        )


def without_long_pairs(data: DataSet, corpus: Corpus, length: int) -> DataSet:
    """Leaves out the training pairs that have a text of `length` tokens or more, and counts them as dropped.

    As in the code of RE2's authors, dev and test do not change. The words of the corpus and their counts do not change
    either.

    Arguments:
      data: the data set.
      corpus: the texts of the data set; the same pairs are removed from it.
      length: a number of tokens, which are counted as for the maximum length.

    Raises:
      InputError: no training pair is left.
    """
    train = data.splits["train"]
    short = np.maximum(corpus.lengths("train", "a"), corpus.lengths("train", "b")) < length
    rows = np.flatnonzero(short)
    if len(rows) == len(train):
        return data
    if not len(rows):
        raise InputError(
            f"every training pair of data set {data.name!r} has a text of {length} tokens or more",
            path=train.source,
            remedy="raise data.drop_from_length, or set it to 0",
        )
    corpus.keep("train", rows)
    dropped = {**train.dropped, f"a text of {length} tokens or more": len(train) - len(rows)}
    return dataclasses.replace(data, splits={**data.splits, "train": train.part(rows.tolist(), dropped)})

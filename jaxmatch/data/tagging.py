"""Parts of speech, by NLTK's averaged perceptron tagger for English."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data.tokens import Preprocessing
from jaxmatch.errors import InputError

MODEL = "averaged_perceptron_tagger_eng"
# Those of the Penn Treebank that the tagger gives. Their order is part of every model trained with them: never change
# it.
_TAGS = (
    "#",
    "$",
    "''",
    "(",
    ")",
    ",",
    ".",
    ":",
    "CC",
    "CD",
    "DT",
    "EX",
    "FW",
    "IN",
    "JJ",
    "JJR",
    "JJS",
    "LS",
    "MD",
    "NN",
    "NNP",
    "NNPS",
    "NNS",
    "PDT",
    "POS",
    "PRP",
    "PRP$",
    "RB",
    "RBR",
    "RBS",
    "RP",
    "SYM",
    "TO",
    "UH",
    "VB",
    "VBD",
    "VBG",
    "VBN",
    "VBP",
    "VBZ",
    "WDT",
    "WP",
    "WP$",
    "WRB",
    "``",
)
# 0 is padding; 1 is no tag: a text of which no token was left, or a tag that a later tagger may give.
NO_TAG = 1
NUMBERS = {tag: number for number, tag in enumerate(_TAGS, start=NO_TAG + 1)}
LEAST_KNOWN = len(_TAGS) + 2  # numbers, padding included


def _missing() -> InputError:
    return InputError(
        f"parts of speech need NLTK's model {MODEL!r}, which is not installed",
        remedy=f"python -m nltk.downloader {MODEL}, or name the folder of NLTK's models in NLTK_DATA",
    )


def model_files() -> tuple[Path, ...]:
    """The files of the tagger's model, sorted by name.

    Raises:
      InputError: it is not installed.
    """
    import nltk.data

    try:
        folder = Path(str(nltk.data.find(f"taggers/{MODEL}/")))
    except (LookupError, OSError) as error:
        raise _missing() from error
    files = tuple(sorted(path for path in folder.glob("*.json") if path.is_file()))
    if not files:
        raise _missing()
    return files


@functools.cache
def nltk_tagger() -> Any:
    from nltk.tag.perceptron import PerceptronTagger

    model_files()  # raises the error that explains it
    try:
        return PerceptronTagger(lang="eng")
    except (LookupError, OSError, ValueError) as error:
        raise InputError(
            f"NLTK's model {MODEL!r} cannot be read ({error})",
            remedy=f"install it again: python -m nltk.downloader {MODEL}",
        ) from error


def check_installed() -> None:
    """Raises an InputError that names the download if the tagger's model is not there or cannot be read."""
    nltk_tagger()


def tags(text: str, preprocessing: Preprocessing) -> list[int]:
    """One number from 1 on for each of the tokens that `preprocessing.tokens` gives for the text.

    The tagger sees the text as it is written: it uses capitals and punctuation that the tokens lack.

    Raises:
      InputError: the tagger's model is not installed.
    """
    pieces = preprocessing.pieces(text)
    tagged = nltk_tagger().tag(pieces)
    kept = [NUMBERS.get(tag, NO_TAG) for piece, tag in tagged if preprocessing.token(piece) is not None]
    return kept[preprocessing.window] or [NO_TAG]


def tags_of(texts: Iterable[str], preprocessing: Preprocessing) -> np.ndarray:
    """The tags of all texts end to end, <uint8>[tokens]; see `tags`."""
    return np.fromiter((tag for text in texts for tag in tags(text, preprocessing)), np.uint8)

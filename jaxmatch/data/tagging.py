"""Parts of speech from NLTK's averaged perceptron tagger for English."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data.tokens import Preprocessing
from jaxmatch.errors import InputError

MODEL = "averaged_perceptron_tagger_eng"
# The tags of the Penn Treebank that the tagger predicts. Their order is part of every model trained with tags: never
# change it.
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
# 0 is padding. 1 means no known tag: the text has no token left, or a later tagger predicted a new tag.
NO_TAG = 1
NUMBERS = {tag: number for number, tag in enumerate(_TAGS, start=NO_TAG + 1)}
LEAST_KNOWN = len(_TAGS) + 2  # the count of numbers, padding included


def _missing() -> InputError:
    return InputError(
        f"parts of speech need NLTK's model {MODEL!r}, which is not installed",
        remedy=f"python -m nltk.downloader {MODEL}, or name the folder of NLTK's models in NLTK_DATA",
    )


def model_files() -> tuple[Path, ...]:
    """Returns the files of the tagger's model, sorted by name.

    Raises:
      InputError: the model is not installed.
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

    model_files()  # raises an error that names the download
    try:
        return PerceptronTagger(lang="eng")
    except (LookupError, OSError, ValueError) as error:
        raise InputError(
            f"NLTK's model {MODEL!r} cannot be read ({error})",
            remedy=f"install it again: python -m nltk.downloader {MODEL}",
        ) from error


def check_installed() -> None:
    """Raises an InputError that names the download if the tagger's model is not installed or cannot be read."""
    nltk_tagger()


def tags(text: str, preprocessing: Preprocessing) -> list[int]:
    """Returns one number, 1 or more, for each of the tokens that `preprocessing.tokens` returns for the text.

    The tagger reads the text as it is written, because it uses capitals and punctuation that the tokens lack.

    Raises:
      InputError: the tagger's model is not installed or cannot be read.
    """
    pieces = preprocessing.pieces(text)
    tagged = nltk_tagger().tag(pieces)
    kept = [NUMBERS.get(tag, NO_TAG) for piece, tag in tagged if preprocessing.token(piece) is not None]
    return kept[preprocessing.window] or [NO_TAG]


def tags_of(texts: Iterable[str], preprocessing: Preprocessing) -> np.ndarray:
    """Returns the tags of all texts, concatenated, <uint8>[tokens]; see `tags`."""
    return np.fromiter((tag for text in texts for tag in tags(text, preprocessing)), np.uint8)

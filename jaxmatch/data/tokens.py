"""Text to tokens, with NLTK's rule-based tokenisers, which need no downloaded models."""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable

from jaxmatch.config import DataConfig
from jaxmatch.data.nltk_tokenizers import tokenizer
from jaxmatch.data.tokenizer_rules import SENTENCE_END, substitutions
from jaxmatch.data.vocabulary import UNKNOWN_WORD
from jaxmatch.errors import InputError

# Plain text, on which the word tokeniser's thirty rules come to a handful: nothing but ASCII words, marks that are
# always set apart, a comma before a space, single dashes and full stops, and the clitics of English. Most text is
# plain, and is split 28 times faster than rule by rule, which takes two minutes for SNLI (benchmarks/NOTES.md); the
# tests hold both ways to each other.
_PLAIN = re.compile(
    r"""(?:[A-Za-z0-9 ?!();&%$\#@]++
         |,(?=\ |$) | -(?!-) | \.(?!\.)
         |'(?:[sSmMdD]|ll|LL|re|RE|ve|VE|(?<=n')t|(?<=N')T)(?![A-Za-z0-9'])
       )*+""",
    re.VERBOSE,
)
_PLAIN_MARKS = str.maketrans({mark: f" {mark} " for mark in "?!();&%$#@,"})
_PLAIN_CLITIC = re.compile(r"(?<=[^' ])(?:'[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= )")
_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna")

# SciTail's preparation in RE2's released code: marks that become spaces, apostrophes that are no clitic's, clitics.
_MARKS = re.compile(r"[-.#\"/]")
_LONE_APOSTROPHE = re.compile(r"'(?!(?:s|m|ve|t|re|d|ll)(?: |$))")
_CLITIC = re.compile(r"'(?:s|m|ve|re|d|ll)|n't")


def _word(text: str) -> list[str]:
    tokens = _plain_words(SENTENCE_END.sub(" . ", text).strip(" "))
    if tokens is not None:
        return tokens
    for pattern, replacement in _word_rules():
        text = pattern.sub(replacement, text)
    return text.split()


@functools.cache
def _word_rules() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), replacement) for pattern, replacement in substitutions("word")]


def _plain_words(text: str) -> list[str] | None:
    """What the word tokeniser gives for plain text, or None if the text is not plain."""
    stem = text.removesuffix(".").rstrip(" ")
    # A full stop is set apart at the very end, which brackets may follow: an end that is clear is asked for.
    if not stem or not (stem[-1].isalnum() or stem[-1] in "?!,"):
        return None
    if text.endswith("..") or _has_contraction(stem):
        return None
    # Most of plain text is plainer still: words and commas.
    apart = stem.replace(", ", " , ")
    letters = apart.replace(" , ", "").replace(" ", "")
    if letters.isascii() and letters.isalnum():
        tokens = apart.split()
    elif _PLAIN.fullmatch(stem):
        tokens = _PLAIN_CLITIC.sub(r" \g<0>", f" {stem.translate(_PLAIN_MARKS)} ").split()
    else:
        return None
    return [*tokens, "."] if text.endswith(".") else tokens


def _has_contraction(text: str) -> bool:
    text = text.lower()
    return any(contraction in text for contraction in _CONTRACTED)


def _tweet(text: str) -> list[str]:
    return tokenizer("TweetTokenizer").tokenize(text)


def _tweet_split(text: str) -> list[str]:
    text = " ".join(_tweet(text))
    text = _LONE_APOSTROPHE.sub(" ", _MARKS.sub(" ", text))
    return _CLITIC.sub(lambda match: " " + match.group(), text).split()


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "word": _word,
    "tweet": _tweet,
    "tweet_split": _tweet_split,
}


@functools.lru_cache(maxsize=1 << 16)
def is_punctuation(token: str) -> bool:
    """Whether a token is nothing but punctuation and symbols (Unicode categories P and S)."""
    return all(unicodedata.category(character)[0] in "PS" for character in token)


TRUNCATION_SIDES = ("right", "left")


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How a text becomes tokens; a trained model carries it to read new text the same way.

    Attributes:
      tokenizer: a key of `TOKENIZERS`.
      lowercase: whether tokens are lower-cased.
      remove_punctuation: whether tokens that are nothing but punctuation are dropped.
      maximum_length: tokens kept of a text, 0 for all.
      truncation_side: where a longer text loses tokens: "right", at its end, or "left".

    Raises:
      InputError: no such tokeniser or side, or a negative length.
    """

    tokenizer: str = DataConfig.tokenizer
    lowercase: bool = DataConfig.lowercase
    remove_punctuation: bool = DataConfig.remove_punctuation
    maximum_length: int = DataConfig.maximum_length
    truncation_side: str = DataConfig.truncation_side

    def __post_init__(self):
        if self.tokenizer not in TOKENIZERS:
            raise InputError(f"there is no tokenizer {self.tokenizer!r}", remedy=f"use one of {', '.join(TOKENIZERS)}")
        if self.maximum_length < 0:
            raise InputError(f"a maximum length of {self.maximum_length} tokens", remedy="use 0 for no limit")
        if self.truncation_side not in TRUNCATION_SIDES:
            raise InputError(
                f"there is no side {self.truncation_side!r} to cut", remedy=f"use one of {', '.join(TRUNCATION_SIDES)}"
            )

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text; one '<unknown>' if nothing is left, so that no sentence is empty."""
        tokens = [token for piece in self.pieces(text) if (token := self.token(piece)) is not None]
        return tokens[self.window] or [UNKNOWN_WORD]

    @property
    def window(self) -> slice:
        """Which of a text's tokens are kept."""
        if not self.maximum_length:
            return slice(None)
        return slice(self.maximum_length) if self.truncation_side == "right" else slice(-self.maximum_length, None)

    def pieces(self, text: str) -> list[str]:
        """What the tokeniser makes of a text."""
        return TOKENIZERS[self.tokenizer](text)

    def token(self, piece: str) -> str | None:
        """The token that a piece of a text becomes, or None where it is dropped; the same for the same piece."""
        if self.remove_punctuation and is_punctuation(piece):
            return None
        return piece.lower() if self.lowercase else piece

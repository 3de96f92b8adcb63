"""Tokenization of text with NLTK's rule-based tokenizers, which need no downloaded models."""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable

from jaxmatch.config import DataConfig
from jaxmatch.data.nltk_tokenizers import tokenizer
from jaxmatch.data.tokenizer_rules import CHARACTER, SENTENCE_END, substitutions
from jaxmatch.data.vocabulary import UNKNOWN_WORD
from jaxmatch.errors import InputError

# Plain text, for which the thirty rules of the word tokenizer reduce to a handful. It has only ASCII words, marks that
# are always tokens of their own, commas before a space, single dashes and full stops, and the clitics of English. Most
# text is plain. It is split 28 times faster than rule by rule, which takes two minutes for SNLI (benchmarks/NOTES.md).
# The tests compare both ways.
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

# The preprocessing of SciTail in RE2's released code: marks that become spaces, apostrophes outside clitics, clitics.
_MARKS = re.compile(r"[-.#\"/]")
_LONE_APOSTROPHE = re.compile(r"'(?!(?:s|m|ve|t|re|d|ll)(?: |$))")
_CLITIC = re.compile(r"'(?:s|m|ve|re|d|ll)|n't")


def _word(text: str) -> list[str]:
    """Splits a text as NLTK's word tokenizer does (Penn Treebank rules): words, clitics such as n't, marks."""
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
    """Returns the tokens of the word tokenizer for plain text, or None if the text is not plain."""
    stem = text.removesuffix(".").rstrip(" ")
    # The last full stop is a token of its own, even if brackets follow it. Only texts with a clear end are plain.
    if not stem or not (stem[-1].isalnum() or stem[-1] in "?!,"):
        return None
    if text.endswith("..") or _has_contraction(stem):
        return None
    # Most plain text consists of words and commas alone.
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


def _characters(text: str) -> list[str]:
    """Splits scripts that are written without spaces into characters, and other text as `_word` does."""
    return _word(CHARACTER.sub(r" \g<0> ", text))


def _tweet(text: str) -> list[str]:
    """Splits a text as NLTK's TweetTokenizer does, which keeps emoticons, hashtags and addresses whole."""
    return tokenizer("TweetTokenizer").tokenize(text)


def _tweet_split(text: str) -> list[str]:
    """Splits a text as RE2's released code does for SciTail: `_tweet`, then at hyphens, slashes and clitics."""
    text = " ".join(_tweet(text))
    text = _LONE_APOSTROPHE.sub(" ", _MARKS.sub(" ", text))
    return _CLITIC.sub(lambda match: " " + match.group(), text).split()


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "word": _word,
    "characters": _characters,
    "tweet": _tweet,
    "tweet_split": _tweet_split,
}


@functools.lru_cache(maxsize=1 << 16)
def is_punctuation(token: str) -> bool:
    """Returns whether a token consists of punctuation and symbols alone (Unicode categories P and S)."""
    return all(unicodedata.category(character)[0] in "PS" for character in token)


TRUNCATION_SIDES = ("right", "left")


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """The settings by which a text becomes tokens. A trained model stores them, to tokenize new text in the same way.

    Attributes:
      tokenizer: a key of `TOKENIZERS`.
      lowercase: whether tokens are converted to lower case.
      remove_punctuation: whether tokens that consist of punctuation alone are dropped.
      maximum_length: the maximum number of tokens of a text; 0 for no limit.
      truncation_side: the side on which a longer text loses tokens: "right", its end, or "left", its beginning.

    Raises:
      InputError: the tokenizer or the side is unknown, or the maximum length is negative.
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
            raise InputError(f"the maximum length is {self.maximum_length} tokens", remedy="use 0 for no limit")
        if self.truncation_side not in TRUNCATION_SIDES:
            raise InputError(
                f"there is no side {self.truncation_side!r} to cut", remedy=f"use one of {', '.join(TRUNCATION_SIDES)}"
            )

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of a text, or one '<unknown>' if no token is left, so that no sentence is empty."""
        tokens = [token for piece in self.pieces(text) if (token := self.token(piece)) is not None]
        return tokens[self.window] or [UNKNOWN_WORD]

    @property
    def window(self) -> slice:
        """The slice of a text's tokens that is kept."""
        if not self.maximum_length:
            return slice(None)
        return slice(self.maximum_length) if self.truncation_side == "right" else slice(-self.maximum_length, None)

    def pieces(self, text: str) -> list[str]:
        """Splits a text into pieces with the tokenizer."""
        return TOKENIZERS[self.tokenizer](text)

    def token(self, piece: str) -> str | None:
        """Returns the token that a piece becomes, or None if it is dropped. The result depends on the piece alone."""
        if self.remove_punctuation and is_punctuation(piece):
            return None
        return piece.lower() if self.lowercase else piece

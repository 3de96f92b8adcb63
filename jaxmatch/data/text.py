"""From texts to words and their features: tokens, vocabulary, characters, exact matches, parts of speech, corpus.

Tokenizers and the tagger of English parts of speech are NLTK's. Only the tagger needs a downloaded model.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import itertools
import re
import sys
import threading
import unicodedata
from array import array
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxmatch.config.settings import DataConfig
from jaxmatch.data.pairs import DataSet
from jaxmatch.errors import InputError

# --- Words and their ids ---

PADDING = 0
UNKNOWN = 1
PADDING_WORD, UNKNOWN_WORD = "<padding>", "<unknown>"


class Vocabulary:
    """A fixed list of distinct `words`, the first two '<padding>' and '<unknown>'. The id of a word is its index."""

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        self._ids = {word: index for index, word in enumerate(self.words)}
        # A text that spells out '<padding>' must not be masked: the token is an unknown word.
        self._ids[PADDING_WORD] = UNKNOWN

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the id of each token: `UNKNOWN` for a token outside the vocabulary, never `PADDING`."""
        find = self._ids.get
        return [find(token, UNKNOWN) for token in tokens]


def build_vocabulary(counts: Mapping[str, int], has_vector: Container[str], minimum_count: int = 5) -> Vocabulary:
    """Builds a vocabulary of the words that have a vector or occur often enough, the most frequent first.

    As in RE2's released code, words of all splits are counted, and a rare word is kept only if it has a vector.
    """
    kept = {word for word, count in counts.items() if count >= minimum_count or word in has_vector}
    kept -= {PADDING_WORD, UNKNOWN_WORD}
    # Words of equal counts are ordered by the word itself, so that the order in which texts were read does not matter.
    return Vocabulary([PADDING_WORD, UNKNOWN_WORD, *sorted(kept, key=lambda word: (-counts[word], word))])


def coverage(counts: Mapping[str, int], words: Vocabulary, found: Container[str]) -> dict[str, float]:
    """Computes shares from 0 to 1: vocabulary words with a vector, tokens with a vector, tokens in the vocabulary."""
    kept = set(words.words[2:])
    occurrences = max(1, sum(counts.values()))
    return {
        "words_with_vector": sum(word in found for word in kept) / max(1, len(kept)),
        "tokens_with_vector": sum(count for word, count in counts.items() if word in found) / occurrences,
        "tokens_in_vocabulary": sum(count for word, count in counts.items() if word in kept) / occurrences,
    }


class WordTable(NamedTuple):
    """The vectors of a vocabulary's words, <float32>[words, dimensions], and their characters (`character_table`).

    Models accept a table in place of the vectors.
    """

    vectors: Any
    characters: Any


# --- Tokenizers ---


def nltk_file(*names: str) -> Path:
    """Returns a file of the installed NLTK, without importing it."""
    return Path(*importlib.util.find_spec("nltk").submodule_search_locations, *names)


_NLTK_MODULES = {"NLTKWordTokenizer": "nltk.tokenize.destructive", "TweetTokenizer": "nltk.tokenize.casual"}
_importing = threading.Lock()


@functools.cache
def nltk_tokenizer(name: str) -> Any:
    """Returns NLTK's tokenizer "NLTKWordTokenizer" or "TweetTokenizer".

    The rest of NLTK takes one to two seconds to import. Unless it is imported already, `nltk/__init__.py` and
    `nltk/tokenize/__init__.py` are not run during the import, and a later import imports all of it.
    """
    with _importing:
        alone = "nltk" not in sys.modules
        for package in ("nltk", "nltk.tokenize") if alone else ():
            sys.modules[package] = importlib.util.module_from_spec(importlib.util.find_spec(package))
        try:
            return getattr(importlib.import_module(_NLTK_MODULES[name]), name)()
        finally:
            for loaded in [each for each in list(sys.modules) if alone and each.partition(".")[0] == "nltk"]:
                del sys.modules[loaded]


# The end of a sentence inside a text: a lower-case word, a full stop, white space and a capital.
# The pattern begins with the full stop, because a text has few of them.
SENTENCE_END = re.compile(r"\.(?<=[a-z]{2}\.)(?=\s+[A-Z])")
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Myanmar, Khmer
    "\u3001-\u30ff\u31f0-\u31ff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"  # kana and punctuation
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u0f8d-\u0fbc\u102b-\u103e\u1056-\u1059"
    "\u17b4-\u17d3\u17dd\u302a-\u302f\u3099\u309a\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef"
)
# A character of a script that is written without spaces, or of East Asian punctuation, with the marks that belong to
# it. In Myanmar and Khmer, a letter after a virama is written below the letter before it.
CHARACTER = re.compile(f"[{_UNSPACED}](?:[\u1039\u17d2][\u1000-\u102a\u1780-\u17b3]|[{_MARKS}])*")


def substitutions(name: str) -> list[tuple[str, str]] | None:
    """Returns the rules of a tokenizer, for programs without NLTK: apply `re.sub(pattern, replacement, text)` for each,
    in order, then `text.split()`. Returns None for the tokenizers of tweets, which are not made of substitutions.

    The patterns are NLTK's, which compiles them with `regex` from version 3.10.4 on. Here they are applied with `re`,
    which takes other characters for letters.
    """
    if name == "whitespace":
        return []
    if name == "characters":
        return [(CHARACTER.pattern, r" \g<0> "), *substitutions("word")]
    if name != "word":
        return None
    found = nltk_tokenizer("NLTKWordTokenizer")
    # NLTK takes a full stop for the end of a sentence only at the end of the text, hence the first rule. The second
    # rule does not change the tokens. Without it, some rules would take time quadratic in the number of spaces.
    rules = [(SENTENCE_END, " . "), (" {2,}", " "), (r"\A | \Z", ""), *found.STARTING_QUOTES, *found.PUNCTUATION]
    rules += [found.PARENS_BRACKETS, found.DOUBLE_DASHES, (r"\A|\Z", " "), *found.ENDING_QUOTES]
    rules += [(pattern, r" \1 \2 ") for pattern in (*found.CONTRACTIONS2, *found.CONTRACTIONS3)]
    return [(getattr(pattern, "pattern", pattern), replacement) for pattern, replacement in rules]


_rules = functools.cache(substitutions)


# What the rules of the word tokenizer do not see in a piece between two spaces alone: quotes, other white space, and
# that nothing but closing brackets follows the last full stop.
_BEYOND_A_PIECE = re.compile("\"|''|[^\\S ]|(?:\\A| )[])}>'»”’]*\\Z")


def _word(text: str) -> list[str]:
    """Splits a text as NLTK's word tokenizer does (Penn Treebank rules): words, clitics such as n't, marks."""
    text = SENTENCE_END.sub(" . ", text).strip(" ")
    if _BEYOND_A_PIECE.search(text):
        return _by_rules(text)
    *pieces, last = text.split()
    return [*itertools.chain.from_iterable(map(_tokens_of_piece, pieces)), *_tokens_of_piece(last, "")]


@functools.lru_cache(maxsize=1 << 17)
def _tokens_of_piece(piece: str, after: str = " x") -> list[str]:
    """Splits a piece between two words, or the last one of a text. A text has few new pieces: the thirty rules would
    take two minutes for the texts of SNLI (benchmarks/NOTES.md).
    """
    plain = piece.isascii() and piece.isalnum() and piece.lower() not in _CONTRACTED
    return [piece] if plain else _by_rules(f"x {piece}{after}")[1 : -1 if after else None]


_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna")


def _by_rules(text: str) -> list[str]:
    for pattern, replacement in _rules("word"):
        text = re.sub(pattern, replacement, text)
    return text.split()


def _tweet(text: str) -> list[str]:
    """Splits a text as NLTK's TweetTokenizer does, which keeps emoticons, hashtags and addresses whole."""
    return nltk_tokenizer("TweetTokenizer").tokenize(text)


def _tweet_split(text: str) -> list[str]:
    """Splits a text as RE2's released code does for SciTail: `_tweet`, then at hyphens, slashes and clitics."""
    text = re.sub(r"[-.#\"/]", " ", " ".join(_tweet(text)))
    text = re.sub(r"'(?!(?:s|m|ve|t|re|d|ll)(?: |$))", " ", text)  # apostrophes outside clitics
    return re.sub(r"'(?:s|m|ve|re|d|ll)|n't", r" \g<0>", text).split()


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "word": _word,
    "characters": lambda text: _word(CHARACTER.sub(r" \g<0> ", text)),
    "tweet": _tweet,
    "tweet_split": _tweet_split,
}


@functools.lru_cache(maxsize=1 << 16)
def is_punctuation(token: str) -> bool:
    """Returns whether a token consists of punctuation and symbols alone (Unicode categories P and S)."""
    return all(unicodedata.category(character)[0] in "PS" for character in token)


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """The settings by which a text becomes tokens (`DataConfig`). A trained model stores them for new text."""

    tokenizer: str = DataConfig.tokenizer
    lowercase: bool = DataConfig.lowercase
    remove_punctuation: bool = DataConfig.remove_punctuation
    maximum_length: int = DataConfig.maximum_length
    truncation_side: str = DataConfig.truncation_side

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of a text, or one '<unknown>' if no token is left, so that no sentence is empty."""
        pieces = TOKENIZERS[self.tokenizer](text)
        tokens = [token for piece in pieces if (token := self.token(piece)) is not None]
        return tokens[self.window] or [UNKNOWN_WORD]

    @property
    def window(self) -> slice:
        """The slice of a text's tokens that is kept."""
        if not self.maximum_length:
            return slice(None)
        return slice(self.maximum_length) if self.truncation_side == "right" else slice(-self.maximum_length, None)

    def token(self, piece: str) -> str | None:
        """Returns the token that a piece becomes, or None if it is dropped. The result depends on the piece alone."""
        if self.remove_punctuation and is_punctuation(piece):
            return None
        return piece.lower() if self.lowercase else piece


# --- Features of words: characters, exact matches, parts of speech ---

LONGEST_WORD = 16  # ESAN, section 3: "cropping or padding to limit each token to have 16 characters"
# Padding is 0, and a character without a number of its own is 1. ASCII characters keep their code points, which are
# below the least size of the character vocabulary.
LEAST_CHARACTERS = 128
_OTHER = 1


def character_table(words: Sequence[str], known: int = LEAST_CHARACTERS) -> np.ndarray:
    """Builds a table of the first sixteen characters of each word, as in ESAN (section 3) and CSRAN's released code.

    CSRAN's code takes the characters before it converts a word to lower case. Here they are those of the vocabulary's
    words, which depend on the word alone, so that a saved model needs no list of characters. Words outside the
    vocabulary share one row. Characters beyond ASCII share the numbers from 128 to `known`, by their code points.

    Returns:
      <uint16>[words, 16], or <uint32>[words, 16] if `known` is more than 65,536; 0 is padding. The row of padding is
      all padding. The row of unknown words holds one character without a number of its own.
    """
    text = np.array([word[:LONGEST_WORD] for word in words], np.dtype(("U", LONGEST_WORD)))
    codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(words), LONGEST_WORD)
    in_word = np.arange(LONGEST_WORD) < np.fromiter(map(len, words), np.int64)[:, None]
    shared = known - LEAST_CHARACTERS
    beyond = LEAST_CHARACTERS + codes % shared if shared else _OTHER
    numbers = np.where(codes < LEAST_CHARACTERS, np.maximum(codes, _OTHER), beyond)
    numbers = np.where(in_word, numbers, PADDING).astype(np.uint16 if known <= 1 << 16 else np.uint32)
    numbers[PADDING : UNKNOWN + 1] = PADDING
    numbers[UNKNOWN, 0] = _OTHER
    return numbers


def exact_matches(words_a: Sequence[Hashable], words_b: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Marks with 1 the words of a pair that also occur in the other sentence (ESAN, section 2.1)."""
    known_a, known_b = set(words_a), set(words_b)
    return [int(word in known_b) for word in words_a], [int(word in known_a) for word in words_b]


TAGGER_MODEL = "averaged_perceptron_tagger_eng"
# The tags of the Penn Treebank that the tagger predicts. Their order is part of every model trained with tags: never
# change it.
_TAGS = (
    "# $ '' ( ) , . : CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB ``"
).split()
# 0 is padding. 1 means no known tag: the text has no token left, or a later tagger predicted a new tag.
NO_TAG = 1
TAG_NUMBERS = {tag: number for number, tag in enumerate(_TAGS, start=NO_TAG + 1)}
LEAST_TAGS = len(_TAGS) + 2  # the count of numbers, padding included


def tagger_files() -> tuple[Path, ...]:
    """Returns the files of the tagger's model, sorted by name. Raises an `InputError` if it is not installed."""
    import nltk.data

    with contextlib.suppress(LookupError):
        return tuple(sorted(Path(str(nltk.data.find(f"taggers/{TAGGER_MODEL}/"))).glob("*.json")))
    remedy = f"python -m nltk.downloader {TAGGER_MODEL}, or name the folder of NLTK's models in NLTK_DATA"
    raise InputError(f"parts of speech need NLTK's model {TAGGER_MODEL!r}, which is not installed", remedy=remedy)


@functools.cache
def nltk_tagger() -> Any:
    """Returns NLTK's tagger. The errors are those of `tagger_files`."""
    from nltk.tag.perceptron import PerceptronTagger

    tagger_files()
    return PerceptronTagger(lang="eng")


def tags(text: str, preprocessing: Preprocessing) -> list[int]:
    """Returns one number, 1 or more, for each of the tokens that `preprocessing.tokens` returns for the text.

    The tagger reads the text as it is written, because it uses capitals and punctuation that the tokens lack.
    """
    tagged = nltk_tagger().tag(TOKENIZERS[preprocessing.tokenizer](text))
    kept = [TAG_NUMBERS.get(tag, NO_TAG) for piece, tag in tagged if preprocessing.token(piece) is not None]
    return kept[preprocessing.window] or [NO_TAG]


# --- The texts and words of a data set ---


class Corpus:
    """The distinct texts of a data set, each tokenized once. Words have numbers, which are not ids in a vocabulary.

    Attributes:
      texts: the distinct texts.
      words: word -> number, in order of first appearance.
      tokens: <int32>[tokens], the word numbers of all distinct texts, concatenated.
      counts: <int64>[words], the occurrences in all splits; a text counts once for each time that a pair contains it.
      sentences: split -> side ('a', 'b') -> <int64>[pairs], indices in `texts`.
    """

    def __init__(self, data: DataSet, preprocessing: Preprocessing):
        texts: dict[str, int] = {}
        self.sentences: dict[str, dict[str, np.ndarray]] = {
            name: {"a": number_keys(split.text_a, texts), "b": number_keys(split.text_b, texts)}
            for name, split in data.splits.items()
        }
        self.texts = tuple(texts)
        self.words: dict[str, int] = {}
        flat, lengths = array("i"), array("q")
        for text in texts:
            tokens = preprocessing.tokens(text)
            lengths.append(len(tokens))
            flat.extend([self.words.setdefault(token, len(self.words)) for token in tokens])
        self.tokens = np.frombuffer(flat, np.int32)
        self._offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        columns = [column for sides in self.sentences.values() for column in sides.values()]
        repeats = np.bincount(np.concatenate(columns), minlength=len(texts))
        weights = np.repeat(repeats, lengths)
        self.counts = np.bincount(self.tokens, weights, minlength=len(self.words)).astype(np.int64)

    def column(self, split: str, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the texts of one column, concatenated: tokens <int32>[total], offsets <int64>[pairs + 1]."""
        positions, offsets = self.positions(split, side)
        return self.tokens[positions], offsets

    def positions(self, split: str, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions in `tokens` of the texts of one column <int64>[total], and offsets as in `column`."""
        sentences = self.sentences[split][side]
        starts = self._offsets[sentences]
        lengths = self._offsets[sentences + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


def number_keys(keys: Iterable[str], numbers: dict[str, int]) -> np.ndarray:
    """Returns <int64>[keys], numbers in order of first appearance. New keys are added to `numbers`."""
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

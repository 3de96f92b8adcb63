"""The tokenizers as plain rules, which a program without NLTK and without this package can follow."""

import re
from typing import Any

from jaxmatch.data.nltk_tokenizers import tokenizer

Rules = list[tuple[str, str]]

# The end of a sentence inside a text: a lower-case word, a full stop, white space and a capital.
# The pattern begins with the full stop, because a text has few of them.
SENTENCE_END = re.compile(r"\.(?<=[a-z]{2}\.)(?=\s+[A-Z])")
# A character of a script that is written without spaces, or of East Asian punctuation, with the marks that belong to it.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Myanmar, Khmer
    "\u3001-\u30ff\u31f0-\u31ff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"  # kana and punctuation
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u0f8d-\u0fbc\u102b-\u103e\u1056-\u1059"
    "\u17b4-\u17d3\u17dd\u302a-\u302f\u3099\u309a\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef"
)
# In Myanmar and Khmer, a letter after a virama is written below the letter before it.
CHARACTER = re.compile(f"[{_UNSPACED}](?:[\u1039\u17d2][\u1000-\u102a\u1780-\u17b3]|[{_MARKS}])*")


def substitutions(name: str) -> Rules | None:
    """Returns the rules of a tokenizer: apply `re.sub(pattern, replacement, text)` for each, then `text.split()`.

    The patterns are NLTK's. NLTK itself compiles them with the module `re` or, from version 3.10.4 on, with `regex`.
    The two modules differ in the characters that they take for letters: "¹" is a letter for `re` alone. Here the
    patterns are always applied with `re`, so that tokens do not depend on the version.

    Arguments:
      name: a key of `jaxmatch.data.tokens.TOKENIZERS`.

    Returns:
      (pattern, replacement) for Python's module `re`, in order; None for the tokenizers of tweets, which are not made
      of substitutions.
    """
    if name == "whitespace":
        return []
    if name == "characters":
        return [(CHARACTER.pattern, r" \g<0> "), *substitutions("word")]
    if name != "word":
        return None
    found = tokenizer("NLTKWordTokenizer")
    # NLTK takes a full stop for the end of a sentence only at the end of the text, hence the first rule. The second
    # rule does not change the tokens. Without it, some rules would take time quadratic in the number of spaces.
    rules = [(SENTENCE_END, " . "), (" {2,}", " "), (r"\A | \Z", ""), *found.STARTING_QUOTES, *found.PUNCTUATION]
    rules += [found.PARENS_BRACKETS, found.DOUBLE_DASHES, (r"\A|\Z", " "), *found.ENDING_QUOTES]
    rules += [(pattern, r" \1 \2 ") for pattern in (*found.CONTRACTIONS2, *found.CONTRACTIONS3)]
    return [(_text_of(pattern), replacement) for pattern, replacement in rules]


def _text_of(pattern: Any) -> str:
    """Returns a pattern as text. The flag `re.IGNORECASE` becomes part of the text."""
    text = getattr(pattern, "pattern", pattern)
    either_case = getattr(pattern, "flags", 0) & re.IGNORECASE
    return f"(?i){text}" if either_case and not text.startswith("(?i)") else text

"""The tokenisers as plain rules, which a program without NLTK and without this package can follow."""

import re
from typing import Any

from jaxmatch.data.nltk_tokenizers import tokenizer
from jaxmatch.data.tokens import SENTENCE_END

Rules = list[tuple[str, str]]


def substitutions(name: str) -> Rules | None:
    """What makes tokens of a text: apply `re.sub(pattern, replacement, text)` for each rule, then `text.split()`.

    Arguments:
      name: a key of `jaxmatch.data.tokens.TOKENIZERS`.

    Returns:
      (pattern, replacement) for Python's module `re`; None for the tokenisers of tweets, which are no substitutions.
    """
    if name == "whitespace":
        return []
    if name != "word":
        return None
    found = tokenizer("NLTKWordTokenizer")
    rules = [(SENTENCE_END, " . "), (r"\A +| +\Z", ""), *found.STARTING_QUOTES, *found.PUNCTUATION]
    rules += [found.PARENS_BRACKETS, found.DOUBLE_DASHES, (r"\A|\Z", " "), *found.ENDING_QUOTES]
    rules += [(pattern, r" \1 \2 ") for pattern in (*found.CONTRACTIONS2, *found.CONTRACTIONS3)]
    return [(_text_of(pattern), replacement) for pattern, replacement in rules]


def _text_of(pattern: Any) -> str:
    """A pattern as text, with its flag for either case inside."""
    text = getattr(pattern, "pattern", pattern)
    either_case = getattr(pattern, "flags", 0) & re.IGNORECASE
    return f"(?i){text}" if either_case and not text.startswith("(?i)") else text

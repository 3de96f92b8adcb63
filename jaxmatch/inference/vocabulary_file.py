"""The words of a vocabulary as lines of text."""

import json
from collections.abc import Sequence
from pathlib import Path

from jaxmatch.errors import InputError


def encode_words(words: Sequence[str]) -> bytes:
    """One word a line, in UTF-8. A word that a line would not keep unchanged is written as JSON, in quotes."""
    return "".join(f"{_escaped(word)}\n" for word in words).encode()


def _escaped(word: str) -> str:
    # Line ends, blanks of other scripts and lone surrogates would not come back as they went in.
    return word if word and word.isprintable() and not word.startswith('"') else json.dumps(word)


def decode_words(content: bytes, path: Path) -> tuple[str, ...]:
    """The words that `encode_words` was given; `path` is named in errors.

    Raises:
      InputError: a line is not a word.
    """
    *lines, rest = content.split(b"\n")
    if rest:
        raise InputError("ends within a line", path=path, line=len(lines) + 1)
    words = []
    for number, line in enumerate(lines, start=1):
        try:
            words.append(json.loads(line) if line.startswith(b'"') else line.decode())
        except ValueError as error:
            raise InputError(f"is not a word ({error})", path=path, line=number) from error
    return tuple(words)

"""The file format of a vocabulary: words as lines of text."""

import json
from collections.abc import Sequence
from pathlib import Path

from jaxmatch.errors import InputError


def encode_words(words: Sequence[str]) -> bytes:
    """Encodes words in UTF-8, one per line. A word that a line cannot store unchanged is written as JSON, in quotes."""
    return "".join(f"{_escaped(word)}\n" for word in words).encode()


def _escaped(word: str) -> str:
    # Line ends, blanks of other scripts and lone surrogates would not be read as they were written.
    return word if word and word.isprintable() and not word.startswith('"') else json.dumps(word)


def decode_words(content: bytes, path: Path) -> tuple[str, ...]:
    """Decodes the words that `encode_words` encoded; `path` is for error messages.

    Raises:
      InputError: a line is not a word, or the last line is incomplete.
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

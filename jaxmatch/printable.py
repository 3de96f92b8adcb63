"""Text that is safe to print: characters that a terminal would obey, or draw out of order, are shown as escapes."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

# C0, DEL and C1; marks that change the direction of what follows; line and paragraph separators; lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def count_text(number: int, singular: str, plural: str = "") -> str:
    """Returns a number with its noun: "1 run" or "2,000 runs".

    Arguments:
      number: the number.
      singular: the singular of the noun.
      plural: the plural of the noun; empty: `singular` with an s.
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def printable(text: str, keep: str = "") -> str:
    r"""Returns `text` with its control characters written as `\n`, `\x1b` or `\u202e`; all other characters stay.

    A byte of a file name that is not UTF-8 reaches Python as a surrogate. It is written as that byte.

    Arguments:
      text: the text to print.
      keep: control characters that stay, such as "\n".
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def shown(value: Any, limit: int = 60) -> str:
    """Returns the repr of `value` for an error message, cut to at most `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 4]}...{text[-1]}"


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Joins the first `most` names with commas, for an error message."""
    names = list(names)
    return ", ".join([shown(name, 30) for name in names[:most]] + ["..."] * (len(names) > most))


def without_nan(value: Any) -> Any:
    """Returns `value` with None for every NaN and infinity, which JSON cannot represent.

    Arguments:
      value: plain values, also nested. Mappings become dicts with string keys; lists and tuples become lists.
    """
    if isinstance(value, Mapping):
        return {str(key): without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printable_json(value: Any, **options: Any) -> str:
    """Returns `value` as JSON that any program reads back unchanged and that is safe to print.

    Arguments:
      value: a value that JSON can represent.
      options: options of `json.dumps`.

    Raises:
      TypeError, ValueError: as in `json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)

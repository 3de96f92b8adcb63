"""Files with one JSON object a line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.data.readers.lines import listed, read_lines, rename_remedy
from jaxmatch.errors import InputError
from jaxmatch.printable import shown


def read_objects(path: Path, keys: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) for each line of a file with one JSON object a line.

    Arguments:
      path: the file to read.
      keys: as in `object_of`.

    Raises:
      InputError: as in `object_of` and in `read_lines`.
    """
    for number, line in read_lines(path):
        yield number, object_of(line, path, number, keys)


def object_of(line: str, path: Path | str, number: int, keys: Iterable[str]) -> dict[str, Any]:
    """Parses a line that holds one JSON object.

    Arguments:
      line: the text of the line.
      path: the file that the line comes from, for error messages.
      number: the number of the line, for error messages.
      keys: the keys of the example object in an error message.

    Raises:
      InputError: the line is not a JSON object, or names a key twice. The error names `path` and line `number`.
    """
    try:
        value = json.loads(line)
        # A colon follows each key. A line with as many colons as distinct keys therefore repeats no key. To check the
        # keys of every line would double the time.
        if isinstance(value, dict) and line.count(":") > len(value):
            value = json.loads(line, object_pairs_hook=_dict_of_unique_keys)
    except RecursionError:
        raise InputError("the JSON is nested too deeply", path=path, line=number) from None
    except ValueError as error:
        # A number of thousands of digits raises a plain ValueError, which has no `msg`.
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        remedy = "each line holds one object; correct or delete this one"
        raise InputError(f"not valid JSON ({detail})", path=path, line=number, remedy=remedy) from None
    if not isinstance(value, dict):
        example = ", ".join(f'"{key}": "..."' for key in keys)
        remedy = f"write it like {{{example}}}, or delete it"
        raise InputError(f"the line is not a JSON object but {shown(value)}", path=path, line=number, remedy=remedy)
    return value


def _dict_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object as a dict. Raises ValueError if a key occurs twice; Python alone would keep the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"the key {shown(twice)} occurs twice")
    return found


def text_of(
    record: Mapping[str, Any], key: str, path: Path | str, line: int, parts: Mapping[str, str] | None = None
) -> str:
    """Returns the text that a JSON object holds under `key`.

    Arguments:
      record: the object.
      key: the key to look up.
      path: the file that the object comes from, for error messages.
      line: the line of the object, for error messages.
      parts: as in `read_table`.

    Raises:
      InputError: the key is missing, or its value is not a text.
    """
    try:
        value = record[key]
    except KeyError:
        near = f"; it has {listed(record)}" if record else ""
        remedy = None if parts is None else rename_remedy([key], parts)
        raise InputError(f"the object has no key {shown(key)}{near}", path=path, line=line, remedy=remedy) from None
    if not isinstance(value, str):
        raise InputError(f"{shown(key)} holds {shown(value)} where a text is expected", path=path, line=line)
    return value

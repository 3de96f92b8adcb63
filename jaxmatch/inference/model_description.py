"""The description in a model folder, model.json."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.data.pairs import TASKS
from jaxmatch.data.text import Preprocessing
from jaxmatch.errors import InputError
from jaxmatch.inference.checked_files import COPY_AGAIN, read_bytes
from jaxmatch.printable import shown

FILE = "model.json"
FORMAT = 2
_KEYS = {
    "format": int,
    "jaxmatch": str,
    "task": str,
    "labels": list,
    "model": dict,
    "preprocessing": dict,
    "config": dict,
    "sha256": dict,
}
_MOST_BYTES = 1 << 24


def read_description(path: Path) -> dict[str, Any]:
    """Reads model.json, and checks the type of each value and the checksum.

    Raises:
      InputError: the file cannot be read, is damaged or was written by a newer version.
    """
    try:
        description = json.loads(read_bytes(path, _MOST_BYTES))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"cannot be read ({error})", path=path, remedy=COPY_AGAIN) from error
    if not isinstance(description, dict) or type(description.get("format")) is not int or description["format"] < 1:
        raise InputError("is not the description of a jaxmatch model", path=path)
    if description["format"] > FORMAT:
        raise InputError(
            f"has format {description['format']}, and this version reads up to {FORMAT}",
            path=path,
            remedy=f"use jaxmatch {description.get('jaxmatch', 'in a newer version')}",
        )
    missing = sorted(set(_KEYS) - set(description))
    if missing:
        raise InputError(f"lacks {', '.join(missing)}", path=path, remedy=COPY_AGAIN)
    for key, kind in _KEYS.items():
        if not isinstance(description[key], kind):
            raise InputError(f"{key!r} is not a {kind.__name__}", path=path, remedy=COPY_AGAIN)
    if description["format"] > 1 and description["sha256"].get(FILE) != description_checksum(description):
        raise InputError("is damaged: its checksum is not the one in it", path=path, remedy=COPY_AGAIN)
    check_task(description["task"], description["labels"], path)
    _check_data(description["config"].get("data", {}), path)
    return description


def description_checksum(description: Mapping[str, Any]) -> str:
    """Computes the checksum of model.json, which depends on its content and not on its layout."""
    digests = {name: digest for name, digest in description["sha256"].items() if name != FILE}
    return hashlib.sha256(json.dumps({**description, "sha256": digests}, sort_keys=True).encode()).hexdigest()


def check_task(task: str, labels: Sequence[str], path: Path) -> None:
    """Checks the task and its labels.

    Raises:
      InputError: the task is unknown, a label is not a single line of text, two labels are equal, or the task needs
        another number of labels.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {shown(task)}", path=path, remedy=f"use one of {', '.join(TASKS)}")
    for label in labels:
        if not isinstance(label, str) or not label or any(mark in label for mark in "\r\n") or not _is_encodable(label):
            raise InputError(f"{shown(label)} is not a label", path=path, remedy="a label is a text in one line")
    fitting = not labels if task == "regression" else len(labels) == 2 if task == "ranking" else len(labels) > 0
    if not fitting or len(set(labels)) != len(labels):
        raise InputError(f"labels {shown(list(labels))} do not fit the task {task}", path=path)


def _is_encodable(text: str) -> bool:
    """Returns whether a text can be encoded in UTF-8: JSON may contain halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_data(data: Any, path: Path) -> None:
    """Checks the types of the settings in a run's config that the package uses. The other settings are only shown."""
    kinds = {
        "name": str,
        "directory": str,
        "minimum_count": int,
        "columns": str,
        "labels": str,
        "split": str,
        "split_seed": int,
    }
    if not isinstance(data, dict) or any(not isinstance(data[key], kind) for key, kind in kinds.items() if key in data):
        raise InputError("'config' does not say what data the model was trained on", path=path, remedy=COPY_AGAIN)


def preprocessing_of(description: Mapping[str, Any]) -> Preprocessing:
    """Returns how the model's texts become tokens.

    Raises:
      InputError: a setting of the preprocessing is unknown or has another type.
    """
    values = description["preprocessing"]
    known = {field.name: field.type for field in dataclasses.fields(Preprocessing)}
    for name, value in values.items():
        if type(value) is not known.get(name):
            problem = f"preprocessing has {shown(name)}: {shown(value)}, which this version does not know"
            raise InputError(problem, remedy=COPY_AGAIN)
    return Preprocessing(**values)

"""The results as JSON, one file for each item and device, and the tables and figures that are made from them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.item import Column
from jaxmatch.errors import InputError
from jaxmatch.files import read_json, write_json
from jaxmatch.reporting.records import short_commit
from jaxmatch.sweep.provenance import commit, device_name, versions

RESULTS = Path(__file__).with_name("results")
NOT_MEASURED = "not measured"
# The digits of a commit in the tables.
DIGITS = 7
_NAMES = {
    "--data-directory": "DATA",
    "--vectors": "VECTORS",
    "--peer": "PEER",
    "--before": "BEFORE",
    "--peer-python": "PEER_PYTHON",
    "--results": "RESULTS",
    "--workdir": "WORKDIR",
}


def folder_of(device: str) -> str:
    """Returns the name of the folder that holds a device's results, such as "1-x-nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def commit_of_code() -> str:
    """Returns the commit of the package and of the benchmarks, with a "+" if either was changed since."""
    return commit("benchmarks/*.py")


def result_of(name: str, title: str, rows: list[dict], notes: list[str], command: str, **more: Any) -> dict[str, Any]:
    """Returns the result of an item, with everything that is needed to measure it again.

    Arguments:
      name, title: the name and the title of the item.
      rows, notes: what it measured.
      command: the whole command line.
      more: other values to store, such as the seconds that the item took.
    """
    about = {"device": device_name(jax.devices()), "versions": versions(), "commit": commit_of_code()}
    return {"item": name, "title": title, "command": command, **about, **more, "rows": rows, "notes": notes}


def write_result(folder: Path, result: Mapping[str, Any]) -> Path:
    """Writes a result to the folder of this device, inside the folder of all results, and returns the path."""
    path = folder / folder_of(result["device"]) / f"{result['item']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    return path


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return NOT_MEASURED
    if isinstance(value, Mapping):  # a spread
        written = [format(value[part], column.style) for part in ("median", "lower", "upper")]
        return f"{written[0]} ({written[1]}–{written[2]})"
    return format(value, column.style) if column.style and not isinstance(value, str) else str(value)


def markdown(result: Mapping[str, Any], columns: Sequence[Column]) -> str:
    """Returns the table of one result as Markdown: medians, with quartiles in brackets."""
    about = f"{result['device']}; jax {result['versions']['jax']}"
    if result["commit"]:
        about += f"; commit {short_commit(result['commit'], DIGITS)}"
    if "load_before" in result:
        about += f"; load before the run {result['load_before']:g}"
    if "huge_pages" in result:
        about += f"; huge pages {'for all' if result['huge_pages'] else 'for none'}"
    parts = [f"**{result['title']}** {about}.", "", *table_lines(result["rows"], columns)]
    parts += ["", *(f"- {note}" for note in result["notes"])]
    return "\n".join(parts).rstrip() + f"\n\n    {result['command']}\n"


def table_lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    lines = ["| " + " | ".join(column.heading for column in columns) + " |"]
    lines.append("|" + "|".join(" ---: " if column.style else " --- " for column in columns) + "|")
    for row in rows:
        lines.append("| " + " | ".join(_cell(row.get(column.key), column) for column in columns) + " |")
    return lines


def read_result(path: Path) -> dict[str, Any]:
    """Reads a JSON file of results.

    Raises:
      InputError: the file is damaged.
    """
    try:
        if isinstance(result := read_json(path), dict):
            return result
        raise ValueError("no JSON object")
    except ValueError as error:
        raise InputError(f"the file is damaged ({error})", path=path, remedy="remove it, or restore it") from None


def read_results(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns device folder -> item -> its result. Files of other commands are skipped.

    Raises:
      InputError: a file is damaged.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        result = read_result(path)
        if "item" in result:
            found.setdefault(path.parent.name, {})[path.stem] = result
    return found


def with_placeholders(words: list[str], shown: Mapping[str, Callable[[Path], str]] | None = None) -> list[str]:
    """Returns the words of a command with a placeholder for each folder or file.

    Arguments:
      words: the words of the command.
      shown: option -> a function of its file that returns what to show instead of the placeholder.
    """
    names = {option: (lambda _, name=name: name) for option, name in _NAMES.items()} | dict(shown or {})
    found = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if before in names:
            found.append(names[before](Path(word)))
        else:
            found.append(f"{option}={names[option](Path(value))}" if equals and option in names else word)
    return found

"""Groups of runs: the runs of a setting, which differ in the seed alone, and the runs that were scored on the same
pairs.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from jaxmatch.config.sections import OWN_LAYOUT

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Groups items by a key. Keys are in the order of their first items, and the items of a group keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def setting_of_run(run: str) -> str:
    """Returns the name of a run without its seed: a hash of its settings and data."""
    return run.rpartition("-seed")[0]


def by_setting(records: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], ...]]:
    """Groups the finished runs by setting.

    Arguments:
      records: the records of the runs, in any order. Runs that did not finish are left out.

    Returns:
      One tuple per setting, in the order of the seeds. The settings are in the order of their variants and grid values.
    """
    finished = (record for record in records if record["status"] == "finished")
    settings = grouped(finished, lambda record: setting_of_run(record["run"]))
    groups = (tuple(sorted(members, key=lambda record: record["seed"])) for members in settings.values())
    return sorted(groups, key=lambda members: _rank(members[0]))


def by_pairs(items: Iterable[Item], record_of: Callable[[Item], Mapping[str, Any]]) -> dict[str, list[Item]]:
    """Groups items whose runs were scored on the same dev and test pairs. Items of different groups cannot be compared.

    Arguments:
      items: the items, such as records.
      record_of: a function that returns a record of an item.

    Returns:
      The name of the data set -> its items. If data sets of the same name have different files, the directory or a
      number is added to the name.
    """
    groups = list(grouped(items, lambda item: _pairs(record_of(item))).values())
    firsts = [record_of(members[0]) for members in groups]
    names = [first["data"]["name"] for first in firsts]
    found: dict[str, list[Item]] = {}
    for name, first, members in zip(names, firsts, groups, strict=True):
        if names.count(name) > 1:
            directory = first["config"].get("data", {}).get("directory")
            name = f"{name} in {directory}" if directory else name
        number = 2
        label = name
        while label in found:
            label, number = f"{name} ({number})", number + 1
        found[label] = members
    return found


def _pairs(record: Mapping[str, Any]) -> Hashable:
    """Returns a key of the scored pairs: the data set, its files except those of training, and how the files are read.
    Records of older versions have no files.
    """
    files = record["data"].get("files") or {}
    scored = tuple(sorted((file, digest) for file, digest in files.items() if file.partition(".")[0] != "train"))
    settings = record["config"].get("data", {})
    return record["data"]["name"], scored, tuple(settings.get(key) or None for key in OWN_LAYOUT)


def setting_name(record: Mapping[str, Any]) -> str:
    """Describes a setting in words, by its differences from the sweep's config."""
    parts = [record["variant"]] if record["variant"] else []
    parts += [f"{key}={value}" for key, value in record["overrides"].items()]
    return ", ".join(parts) or "as configured"


def _rank(record: Mapping[str, Any]) -> tuple:
    """Returns the sorting key of a setting. Grid values that are numbers come first, sorted by size."""
    values = record["overrides"].values()
    ranks = [(0, value) if isinstance(value, (int, float)) else (1, str(value)) for value in values]
    return record["variant"], ranks, record["run"]

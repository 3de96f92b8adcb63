"""The runs of a sweep, setting by setting: all that differ in the seed alone. And those scored on the same pairs."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from jaxmatch.config.sections import OWN_LAYOUT

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items of one key together; keys in the order of their first item, items in their own."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def setting_of_run(run: str) -> str:
    """The name of a run without its seed: a hash of settings and data."""
    return run.rpartition("-seed")[0]


def by_setting(records: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], ...]]:
    """Groups the finished runs.

    Arguments:
      records: as the runs left them, in any order; those that did not finish are left out.

    Returns:
      One tuple a setting, in the order of the seeds; the settings in the order of their variants and grid values.
    """
    finished = (record for record in records if record["status"] == "finished")
    settings = grouped(finished, lambda record: setting_of_run(record["run"]))
    groups = (tuple(sorted(members, key=lambda record: record["seed"])) for members in settings.values())
    return sorted(groups, key=lambda members: _rank(members[0]))


def by_pairs(items: Iterable[Item], record_of: Callable[[Item], Mapping[str, Any]]) -> dict[str, list[Item]]:
    """Items whose runs were scored on the same dev and test pairs together: others cannot be compared.

    Arguments:
      items: such as records.
      record_of: a record of an item.

    Returns:
      The name of the data set -> its items; where files of one name differ, with the directory or a number.
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
    """The data set, its files but those of training, and how they are read. Records of older versions have no files."""
    files = record["data"].get("files") or {}
    scored = tuple(sorted((file, digest) for file, digest in files.items() if file.partition(".")[0] != "train"))
    settings = record["config"].get("data", {})
    return record["data"]["name"], scored, tuple(settings.get(key) or None for key in OWN_LAYOUT)


def setting_name(record: Mapping[str, Any]) -> str:
    """A setting in words: how it differs from the sweep's config."""
    parts = [record["variant"]] if record["variant"] else []
    parts += [f"{key}={value}" for key, value in record["overrides"].items()]
    return ", ".join(parts) or "as configured"


def _rank(record: Mapping[str, Any]) -> tuple:
    """Numbers by their size, before all else."""
    values = record["overrides"].values()
    ranks = [(0, value) if isinstance(value, (int, float)) else (1, str(value)) for value in values]
    return record["variant"], ranks, record["run"]

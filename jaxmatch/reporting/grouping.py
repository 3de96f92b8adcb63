"""The runs of a sweep, setting by setting: all that differ in the seed alone."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

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
      records: as the runs left them, in any order; those that diverged are left out.

    Returns:
      One tuple a setting, in the order of the seeds; the settings in the order of their variants and grid values.
    """
    finished = (record for record in records if record["status"] == "finished")
    settings = grouped(finished, lambda record: setting_of_run(record["run"]))
    groups = (tuple(sorted(members, key=lambda record: record["seed"])) for members in settings.values())
    return sorted(groups, key=lambda members: _rank(members[0]))


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

"""The table of a campaign, and its values."""

import dataclasses
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from jaxmatch import __version__

PACKAGES = ("jax", "jaxlib", "flax", "numpy")
HEADER = """# Attacks on jaxmatch

A damaged or broken input must be refused with status 2 and one line that names the file, leave nothing \
half-written, or give
the undamaged answer. A sweep that was killed must end with the same records and arrays, bit for bit.

    {command}

Seed {seed}; {versions}; {cores} cores, as {user} user.

| group | attacks | passed | failed | seconds |
| --- | ---: | ---: | ---: | ---: |
"""
FAILURES = """
## Failures

Each is made again by `python tests/torture --seed {seed} --only NAME`.

| name | what went wrong |
| --- | --- |
"""


@dataclasses.dataclass
class Group:
    """The results of a group of attacks: their number, how many failed, name -> what went wrong, and the seconds."""

    attacks: int = 0
    failed: int = 0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


def values(groups: Mapping[str, Group], seed: int, command: str) -> dict[str, Any]:
    """The campaign as JSON holds it."""
    versions = {"python": platform.python_version(), "jaxmatch": __version__}
    user = "root" if os.geteuid() == 0 else "plain"
    machine = {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count(), "user": user}
    return {
        "command": command,
        "seed": seed,
        "versions": versions | {name: metadata.version(name) for name in PACKAGES},
        "machine": machine,
        "groups": {name: dataclasses.asdict(group) for name, group in groups.items()},
    }


def markdown(record: Mapping[str, Any]) -> str:
    """The campaign as a page."""
    groups = record["groups"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    text = HEADER.format(**{**record, **record["machine"], "versions": versions})
    sums = {name: sum(group[name] for group in groups.values()) for name in ("attacks", "failed", "seconds")}
    for name, group in [*groups.items(), ("**all**", sums)]:
        passed = group["attacks"] - group["failed"]
        text += f"| {name} | {group['attacks']} | {passed} | {group['failed']} | {group['seconds']:.0f} |\n"
    failures = [item for group in groups.values() for item in sorted(group["failures"].items())]
    if failures:
        text += FAILURES.format(**record)
    for item in failures:
        name, problem = (part.replace("|", "\\|").replace("<", "&lt;") for part in item)
        text += f"| `{name}` | {problem} |\n"
    return text


def write(record: Mapping[str, Any], output: Path) -> None:
    """Writes README.md and torture.json into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "torture.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (output / "README.md").write_text(markdown(record))

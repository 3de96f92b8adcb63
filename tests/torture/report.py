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


@dataclasses.dataclass
class Group:
    """The results of a group of attacks.

    Attributes:
      attacks: the number of attacks.
      failed: the number of attacks that failed.
      failures: name of the attack -> what went wrong.
      seconds: the duration of the attacks.
    """

    attacks: int = 0
    failed: int = 0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


def values(groups: Mapping[str, Group], seed: int, command: str) -> dict[str, Any]:
    """The campaign as JSON holds it."""
    versions = {"python": platform.python_version(), "jaxmatch": __version__} | {
        name: metadata.version(name) for name in PACKAGES
    }
    machine = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "user": "root" if os.geteuid() == 0 else "plain",
    }
    return {
        "command": command,
        "seed": seed,
        "versions": versions,
        "machine": machine,
        "groups": {name: dataclasses.asdict(group) for name, group in groups.items()},
    }


def markdown(record: Mapping[str, Any]) -> str:
    """The campaign as a page."""
    groups = record["groups"]
    sums = {name: sum(group[name] for group in groups.values()) for name in ("attacks", "failed", "seconds")}
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    lines = [
        "# Attacks on jaxmatch",
        "",
        "A damaged or broken input must be refused with status 2 and one line that names the file, leave nothing "
        "half-written, or give",
        "the undamaged answer. A sweep that was killed must end with the same records and arrays, bit for bit.",
        "",
        f"    {record['command']}",
        "",
        f"Seed {record['seed']}; {versions}; {record['machine']['cores']} cores, as {record['machine']['user']} user.",
        "",
        "| group | attacks | passed | failed | seconds |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, group in [*groups.items(), ("**all**", sums)]:
        lines.append(
            f"| {name} | {group['attacks']} | {group['attacks'] - group['failed']} | {group['failed']} | "
            f"{group['seconds']:.0f} |"
        )
    failures = [item for group in groups.values() for item in sorted(group["failures"].items())]
    if failures:
        lines += [
            "",
            "## Failures",
            "",
            f"Each is made again by `python tests/torture --seed {record['seed']} --only NAME`.",
            "",
            "| name | what went wrong |",
            "| --- | --- |",
        ]
        lines += [f"| `{_cell(name)}` | {_cell(problem)} |" for name, problem in failures]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def write(record: Mapping[str, Any], output: Path) -> None:
    """Writes README.md and torture.json into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "torture.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (output / "README.md").write_text(markdown(record))

"""Settings and durations in words."""

from collections.abc import Mapping, Sequence
from typing import Any


def setting_text(overrides: dict, variant: str = "") -> str:
    """Describes a place in the grid: "blocks=2 learning_rate=0.001"."""
    parts = [variant] if variant else []
    return " ".join(parts + [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in overrides.items()])


def shared_text(places: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Describes the settings that places in the grid, (overrides, variant), have in common, or returns "" if they share
    no setting.
    """
    (first, variant), *others = places
    same = {key: value for key, value in first.items() if all(overrides.get(key) == value for overrides, _ in others)}
    return setting_text(same, variant if all(other == variant for _, other in others) else "")


def duration_text(seconds: float) -> str:
    """Formats seconds for people: "45 s", "12 min", "3.4 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

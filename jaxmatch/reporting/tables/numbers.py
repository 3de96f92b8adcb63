"""The printed form of scores, settings and their names in a table."""

from collections.abc import Iterable, Sequence
from typing import Any

from jaxmatch.config.scores import SCORES

PARTS = ("dev", "test", "best_on_test", "times")
SELECTED_ON_TEST = "best on test (selected on test)"


def plain_score_name(score: str) -> str:
    """Returns a score's name in running text: "dev.mrr" -> "dev MRR"."""
    part, _, name = score.partition(".")
    printed = SCORES[name].title if name in SCORES else name.replace("_", " ")
    if part == "times":
        return printed
    return f"{SELECTED_ON_TEST}: {printed}" if part == "best_on_test" else f"{part} {printed}"


def score_heading(score: str) -> str:
    """Returns a score's name above its column: "test.accuracy" -> "test accuracy (%)"."""
    return plain_score_name(score) + (" (%)" if is_percent(score) else "")


def higher_is_better(score: str) -> bool | None:
    """Returns whether a larger value of a score such as "test.accuracy" is better, or None if it has no direction."""
    known = SCORES.get(score.partition(".")[2])
    return known and known.higher_is_better


def is_percent(score: str) -> bool:
    """Returns whether tables show a score in percent."""
    known = SCORES.get(score.partition(".")[2])
    return known is not None and known.percent


def format_number(score: str, value: float) -> str:
    """Formats a score: accuracy and its like in percent with one decimal, times with one, everything else with four."""
    percent = is_percent(score)
    decimals = 1 if percent or score.startswith("times.") else 4
    # Adding zero turns a rounded "-0.0" into "0.0".
    return f"{round(100.0 * value if percent else value, decimals) + 0.0:.{decimals}f}"


def setting_headings(keys: Sequence[str]) -> dict[str, str]:
    """Returns key -> heading: the last part of the dotted key, or the whole key if two have the same last part."""
    short = [key.rpartition(".")[2] for key in keys]
    return {
        key: (last if short.count(last) == 1 else key.replace(".", " ")).replace("_", " ")
        for key, last in zip(keys, short, strict=True)
    }


def format_setting(key: str, value: Any) -> str:
    """Formats a setting's value as a row label."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_setting(key, each) for each in value)
    return "as configured" if key == "variant" and value == "" else str(value)


def format_whole_numbers(values: Iterable[int]) -> str:
    """Formats the distinct values in their order, with thousands separators: "5" or "81,003 / 120,450"."""
    return " / ".join(dict.fromkeys(f"{value:,}" for value in values))


def format_ranges(numbers: Iterable[int]) -> str:
    """Formats whole numbers in ascending order, with three or more consecutive numbers as a range: "1–5, 8"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)

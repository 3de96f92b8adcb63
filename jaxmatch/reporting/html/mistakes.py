"""The mistakes of a sweep's best run on dev."""

from typing import Any

from jaxmatch.reporting.html.grid import grid
from jaxmatch.reporting.records import SweepFolder, read_mistakes
from jaxmatch.reporting.verdict import run_to_use

_TEXTS = {"text_a": "first text", "text_b": "second text"}
# Task -> heading, and the columns: field -> its heading.
_WORST = {
    "classification": (
        "Most confident mistakes",
        {**_TEXTS, "label": "label", "answer": "answer", "probability": "probability"},
    ),
    "regression": ("Largest errors", {**_TEXTS, "label": "label", "answer": "answer"}),
    "ranking": (
        "Questions with the lowest reciprocal rank",
        {
            "text_a": "question",
            "text_b": "best right candidate",
            "rank": "its rank",
            "candidates": "of",
            "preferred": "ranked first",
        },
    ),
}


def mistakes(folder: SweepFolder) -> dict[str, Any] | None:
    """Returns the mistakes on dev of the run that the verdict names, or None if there is no such run or training saved
    no mistakes.
    """
    run = run_to_use(folder)
    found = run and read_mistakes(folder.path, run["run"])
    if not found:
        return None
    about = (
        f"Run {run['run']} (seed {run['seed']}) on the {found['pairs']:,} pairs of {found['split']}, with the chosen "
        "checkpoint. "
    )
    tables = []
    if found["task"] == "classification":
        names, counts = found["labels"], found["confusion"]
        rows = [(name, *map(str, row), str(sum(row))) for name, row in zip(names, counts, strict=True)]
        headings = ("label", *(f"answered {name}" for name in names), "pairs")
        tables.append(("Confusion matrix", grid(headings, rows, (False, *(True for _ in headings[1:])))))
    heading, columns = _WORST[found["task"]]
    rows = [[_shown(row[field]) for field in columns] for row in found["worst"]]
    numeric = [bool(rows) and not isinstance(found["worst"][0][field], str) for field in columns]
    tables.append((heading, grid(tuple(columns.values()), rows, numeric)))
    return {"about": about + "Texts are as the model reads them.", "tables": tables}


def _shown(value: str | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)

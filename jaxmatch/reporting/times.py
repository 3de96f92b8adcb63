"""The table of a timing: a pure function of its record (sweep/timing.py)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import printable_json, report_damage
from jaxmatch.files import read_json
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text, latex, markdown
from jaxmatch.reporting.records import OrNull, check_form
from jaxmatch.reporting.statistics import mean_and_deviation

_NUMBER = (int, float)
_FORM = {
    "kind": ("timing",),
    "format": (1,),
    "title": str,
    "command": str,
    "device": str,
    "versions": {"jax": str},
    "batch_size": int,
    "length": int,
    "batches": int,
    "rows": [
        {
            "model": str,
            "parameters": int,
            "batch_seconds": [_NUMBER],
            "split": OrNull({"data": str, "pairs": int, "seconds": [_NUMBER]}),
        }
    ],
    "published": [{"model": str, "source": str, "parameters": OrNull(str), "seconds": OrNull(str)}],
    "notes": [str],
}


def times(record: Mapping[str, Any], format: str) -> str:
    """Returns the table as "markdown", "latex", "csv" or "json"."""
    if format == "json":
        return printable_json(record, indent=1) + "\n"
    return as_csv(record) if format == "csv" else {"markdown": markdown, "latex": latex}[format](sheet(record))


def read_times(file: Path) -> dict[str, Any]:
    """Reads the record of a timing from its file.

    Raises:
      InputError: the file cannot be read or is not the record of a timing.
    """
    with report_damage(file, "run jaxmatch timing again", "the record"):
        record = read_json(file)
        check_form(record, _FORM)
    return record


def sheet(record: Mapping[str, Any]) -> Sheet:
    """Returns a table with one line per model, with measured and published times. Models that were not measured come
    last.
    """
    published = {row["model"]: row for row in record["published"]}
    ours = {row["model"] for row in record["rows"]}
    only = tuple(_line(name, None, row) for name, row in published.items() if name not in ours)
    lines = tuple(_line(row["model"], row, published.get(row["model"])) for row in record["rows"])
    measured = any(row["split"] for row in record["rows"])
    printed = bool(published)
    keep = (True, True, True, measured, printed, printed)

    def kept(cells: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(cell for cell, keeping in zip(cells, keep, strict=True) if keeping)

    return Sheet(
        title=record["title"],
        caption=_caption(record),
        notes=(*record["notes"], *(f"Command: {record['command']}" for _ in range(bool(record["command"])))),
        headings=kept(("model", "parameters", "time (s/batch)", "pairs/s", "parameters", "time (s/batch)")),
        numeric=kept((False, True, True, True, True, True)),
        spans=(("", 1), ("measured", 2 + measured), ("published", 2)) if printed else (),
        sections=tuple(tuple(map(kept, section)) for section in (lines, only) if section),
    )


def as_csv(record: Mapping[str, Any]) -> str:
    """Returns one line per measured model. Measured numbers are unrounded, and published numbers are as printed."""
    published = {row["model"]: row for row in record["published"]}
    rows: list[tuple[Any, ...]] = [
        (
            "model",
            "parameters",
            "batch_seconds.mean",
            "batch_seconds.std",
            "batches",
            "split",
            "pairs",
            "pairs_per_second.mean",
            "pairs_per_second.std",
            "published.parameters",
            "published.batch_seconds",
            "published.source",
        )
    ]
    for row in record["rows"]:
        split, printed = row["split"], published.get(row["model"], {})
        throughput = (split["data"], split["pairs"], *mean_and_deviation(_rates(split))) if split else (None,) * 4
        rows.append(
            (
                row["model"],
                row["parameters"],
                *mean_and_deviation(row["batch_seconds"]),
                len(row["batch_seconds"]),
                *throughput,
                *(printed.get(key) for key in ("parameters", "seconds", "source")),
            )
        )
    return csv_text(rows)


def _line(name: str, measured: Mapping[str, Any] | None, printed: Mapping[str, Any] | None) -> tuple[Text, ...]:
    own = [NO_VALUE] * 3
    if measured:
        mean, deviation = mean_and_deviation(measured["batch_seconds"])
        own = [f"{measured['parameters']:,}", f"{mean:.4f} ± {deviation:.4f}", NO_VALUE]
        if measured["split"]:
            mean, deviation = mean_and_deviation(_rates(measured["split"]))
            own[2] = f"{mean:,.0f}" + ("" if deviation is None else f" ± {deviation:,.0f}")
    theirs = [(printed or {}).get(key) or NO_VALUE for key in ("parameters", "seconds")]
    return tuple(map(Text, (name, *own, *theirs)))


def _caption(record: Mapping[str, Any]) -> tuple[str, ...]:
    seeds = record.get("seeds", 1)
    starts = f", of each of {seeds} random starts" if seeds > 1 else ""
    sentences = [
        f"Mean ± sample standard deviation of {record['batches']:,} batches of {record['batch_size']} pairs of "
        f"{record['length']} tokens a sentence, from word ids to probabilities, weights as they are before "
        f"training{starts}."
    ]
    if trained := [row["model"] for row in record["rows"] if row.get("trained")]:
        sentences.append(f"Trained: {', '.join(trained)}.")
    splits = {
        (row["split"]["data"], row["split"]["pairs"], len(row["split"]["seconds"]))
        for row in record["rows"]
        if row["split"]
    }
    for data, pairs, passes in sorted(splits):
        several = f"mean ± sample standard deviation of {passes} passes" if passes > 1 else "one pass"
        sentences.append(f"Pairs a second: the {pairs:,} of {data}, texts in and labels out, {several}.")
    if sources := dict.fromkeys(row["source"] for row in record["published"]):
        sentences.append(f"Published: {'; '.join(sources)}.")
    load = f"; load before the run {record['load_before']:g}" if "load_before" in record else ""
    sentences.append(f"Device: {record['device']}; jax {record['versions']['jax']}{load}.")
    return tuple(sentences)


def _rates(split: Mapping[str, Any]) -> list[float]:
    return [split["pairs"] / seconds for seconds in split["seconds"]]

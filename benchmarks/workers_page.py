"""Puts the newest result of `items/workers.py` into docs/how_to/clusters.md.

python -m benchmarks.workers_page
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import fresh_process, reports
from jaxmatch.files import write_atomically

PAGE = fresh_process.ROOT / "docs" / "how_to" / "clusters.md"
BEGIN, END = "<!-- benchmarks/workers_page.py writes what follows -->", "<!-- until here -->"


def for_page(result: Mapping[str, Any]) -> str:
    """Returns the tables of docs/how_to/clusters.md: those figures of a result that are easy to read."""
    rows = result["rows"]
    starts = [
        "| way | seconds to the first step | extra seconds for each further cohort, besides its training |",
        "|---|---:|---:|",
    ]
    for row in rows:
        if isinstance(row["first_step"], Mapping):
            beyond = "" if row["beyond"] == "" else f"{row['beyond']:.1f}" if row["beyond"] >= 0.05 else "less than 0.1"
            workers = "" if row["workers"] == 1 else f", {row['workers']} at once"
            starts.append(f"| {_code(row['way'])}{workers} | {row['first_step']['median']:.1f} | {beyond} |")
    scaling = ["| way | workers | cores | times as fast as one worker |", "|---|---:|---|---:|"]
    for row in rows:
        if row["times"] is not None and row["workers"] > 1:
            way = "launchers on one folder" if row["way"] == "one process" else row["way"]
            scaling.append(f"| {_code(way)} | {row['workers']} | {row['cores']} | {row['times']:.2f} |")
    return "\n".join([f"On {result['device'].removeprefix('1 x ')}:", "", *starts, "", *scaling])


def _code(way: str) -> str:
    return f"`{way}`" if way.startswith("--") else way


def newest(results: Path = reports.RESULTS) -> dict[str, Any] | None:
    """Returns the result with the newest file, or None if nothing was measured."""
    files = sorted(results.glob("*/workers.json"), key=lambda file: file.stat().st_mtime)
    return json.loads(files[-1].read_text()) if files else None


def main() -> None:
    """Puts the newest result into the page."""
    result, text = newest(), PAGE.read_text(encoding="utf-8")
    if result is None:
        raise SystemExit("nothing was measured: python -m benchmarks workers")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    write_atomically(PAGE, f"{before}{BEGIN}\n\n{for_page(result)}\n\n{END}{after}".encode())


if __name__ == "__main__":
    main()

"""Measures some points of the benchmark `replicas` in a process of its own, so that a crash loses no other points."""

import tempfile
from pathlib import Path

from benchmarks import fresh_process
from benchmarks.item import Settings
from benchmarks.items import replicas
from jaxmatch.cli.huge_pages import restart_with_huge_pages


def main() -> None:
    request = fresh_process.request()
    with tempfile.TemporaryDirectory(prefix="jaxmatch-device-") as scratch:
        settings = Settings(**request["settings"], scratch=Path(scratch))
        with replicas.measuring(settings) as (series, notes):
            rows = series(request["batch"], request["replicas"], **request["changes"])
    fresh_process.answer({"rows": rows, "notes": notes})


if __name__ == "__main__":
    restart_with_huge_pages()  # as the command `jaxmatch` does
    main()

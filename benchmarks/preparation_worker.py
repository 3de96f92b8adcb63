"""Prepares data, or reads a vector file, in a fresh process. `items/preparation.py` starts it."""

import time

from benchmarks import fresh_process
from benchmarks.call_times import Watch, unattributed
from jaxmatch.data import cache, catalog, encoding, vectors
from jaxmatch.sweep import files

PARTS = ("hash", "read", "tokenise", "vectors", "vocabulary", "write", "load", "other")


def prepare(config: dict) -> dict:
    """Prepares the arrays of a config, from files or from the cache, as a launcher does before it plans."""
    watch = Watch()
    for owner, function, part in (
        (cache, "file_digest", "hash"),
        (catalog, "load", "read"),
        (encoding, "Corpus", "tokenise"),
        (encoding, "read_word_vectors", "vectors"),
        (encoding, "build_vocabulary", "vocabulary"),
        (cache, "store", "write"),
        (cache, "load", "load"),
    ):
        watch.on(owner, function, part)
    start = time.perf_counter()
    data = files.prepare(config)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "parts": {**watch.seconds, "other": unattributed(seconds, watch.seconds)},
        "pairs": {name: split.pairs for name, split in data.splits.items()},
        "words": len(data.vocabulary),
    }


def read(path: str, words_file: str) -> dict:
    """Reads the vectors of the words in a file, one a line, and measures the memory beyond the vectors themselves."""
    with open(words_file, encoding="utf-8") as lines:
        words = dict.fromkeys(lines.read().split())
    before = fresh_process.resident("VmRSS")
    start = time.perf_counter()
    found, report = vectors.read_vectors(path, words)
    seconds = time.perf_counter() - start
    peak = fresh_process.resident("VmHWM")
    beyond = None if peak is None or before is None else peak - before - found.matrix.nbytes
    return {
        "seconds": seconds,
        "lines": report.lines,
        "kept": report.kept,
        "kept_bytes": found.matrix.nbytes,
        "beyond_bytes": beyond,
    }


def main() -> None:
    request = fresh_process.request()
    done = prepare(request["config"]) if "config" in request else read(request["path"], request["words_file"])
    fresh_process.answer({**done, "import_seconds": request["import_seconds"]})


if __name__ == "__main__":
    main()

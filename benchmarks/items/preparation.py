"""The time to prepare encoded arrays, from the raw files and from the cache."""

import itertools
import shutil
from pathlib import Path
from typing import Any

from benchmarks import fresh_process, generated_text, vector_file
from benchmarks.item import Column, Item, Settings
from benchmarks.preparation_worker import PARTS
from benchmarks.stopwatch import in_turn, spread
from jaxmatch.data import catalog
from jaxmatch.errors import InputError

WORKER = "benchmarks.preparation_worker"
# As many pairs as SNLI has, and a vector file of 2 GB.
SIZES, QUICK_SIZES = {"train": 550_000, "dev": 10_000, "test": 10_000}, {"train": 600, "dev": 100, "test": 100}
VECTOR_BYTES, QUICK_VECTOR_BYTES = 2 * 10**9, 3 * 10**6
# A cold start takes so long that the machine's noise matters little.
MOST_COLD_ROUNDS = 3
GOALS = {"cold": 60.0, "warm": 2.0, "vectors": 60.0}
GOAL_MEGABYTES = 500.0
# The value of a column that does not apply to a row.
NONE = ""


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    given, source = _given(settings)
    sizes, vector_bytes = (QUICK_SIZES, QUICK_VECTOR_BYTES) if settings.quick else (SIZES, VECTOR_BYTES)
    folder = settings.scratch / "preparation"
    bytes_of = generated_text.write_snli(folder, given, sizes)
    words = generated_text.words_of(given)
    words_file = folder / "words.txt"
    words_file.write_text("\n".join(words), encoding="utf-8")
    files = vector_file.write(folder, words, vector_bytes)
    rounds = min(settings.rounds, MOST_COLD_ROUNDS)
    try:
        rows, counts = _data_rows(settings, folder, files[0] if settings.quick else None, rounds)
        rows += _vector_rows(files, words_file, rounds)
    finally:
        shutil.rmtree(folder)
    pairs, megabytes = sum(sizes.values()), sum(bytes_of.values()) / 1e6
    notes = [
        f"{pairs:,} pairs, {megabytes:,.0f} MB of jsonl with all official fields, made from {source} by exchanging "
        f"words: {2 * pairs:,} sentences, no two equal; {counts['words']:,} words in the vocabulary.",
        f"Their word vectors: {Path(settings.vectors).name or 'made up'}; a larger file takes longer, as the rows of "
        "vectors alone say (a .zip there is of as much text).",
        "Every time is that of a fresh process; the files lie in the system's file cache, our own cache is empty for a "
        "cold start.",
        "Memory is the peak of the resident set over that before reading, without the rows that are kept.",
    ]
    return rows, notes


def _given(settings: Settings) -> tuple[list[generated_text.Pair], str]:
    if settings.data_directory:
        return generated_text.pairs_of(
            catalog.load("snli", settings.data_directory).splits.values()
        ), "the SNLI text given"
    if settings.quick:
        return generated_text.pairs_of(catalog.load("embedded_inference").splits.values()), "the embedded text"
    raise InputError("it needs --data-directory", remedy="give it, or leave this item out")


def _data_rows(settings: Settings, folder: Path, own_vectors: Path | None, rounds: int) -> tuple[list[dict], dict]:
    """Returns the rows of a cold and a warm start, and the first cold answer. `own_vectors` is used if the user gave no
    vectors.
    """
    caches = (folder / f"cache{number}" for number in itertools.count())
    vectors = (
        settings.vectors
        if settings.vectors and settings.data_directory
        else str(own_vectors or folder / "vectors.300d.txt")
    )
    config = settings.config("re2_snli", data__directory=str(folder), data__vectors=_below(settings, vectors)).to_dict()
    answers: dict[str, list[dict]] = {"cold": [], "warm": []}

    def start(kind: str, cache: Path) -> None:
        config["execution"]["cache_directory"] = str(cache)
        answers[kind].append(fresh_process.run(WORKER, {"config": config}))

    in_turn({"cold": lambda: start("cold", next(caches))}, rounds, warm=0)
    in_turn({"warm": lambda: start("warm", folder / "cache0")}, settings.rounds, warm=0)
    rows = [
        _row("text to arrays, cold, whole process", answers["cold"], "process_seconds", GOALS["cold"], PARTS),
        _row("from the cache, whole process", answers["warm"], "process_seconds", GOALS["warm"], PARTS),
        _row("from the cache, without interpreter and imports", answers["warm"], "seconds", GOALS["warm"], PARTS),
    ]
    return rows, answers["cold"][0]


def _below(settings: Settings, name: str) -> str:
    """Returns the path of a vector file, whose name may be relative to the data directory."""
    inside = Path(settings.data_directory) / name
    return str((inside if settings.data_directory and inside.exists() else Path(name)).absolute())


def _vector_rows(files: tuple[Path, Path], words_file: Path, rounds: int) -> list[dict[str, Any]]:
    answers: dict[str, list[dict]] = {}

    def read(path: Path) -> float:
        done = fresh_process.run(WORKER, {"path": str(path), "words_file": str(words_file)})
        answers.setdefault(path.suffix, []).append(done)
        return done["process_seconds"]

    in_turn({path.suffix: lambda path=path: read(path) for path in files}, rounds, warm=0)
    gigabytes = files[0].stat().st_size / 1e9
    rows = []
    for suffix, all_done in answers.items():
        row = _row(
            f"{gigabytes:.3g} GB of vectors, {suffix}, whole process", all_done, "process_seconds", GOALS["vectors"], ()
        )
        beyond = [done["beyond_bytes"] for done in all_done]
        if None not in beyond:
            row["megabytes"] = max(beyond) / 1e6
            row["met"] = "yes" if row["met"] == "yes" and row["megabytes"] < GOAL_MEGABYTES else "no"
        rows.append(
            {**row, "megabytes_goal": GOAL_MEGABYTES, "kept": all_done[0]["kept"], "lines": all_done[0]["lines"]}
        )
    return rows


def _row(what: str, answers: list[dict], of: str, goal: float, parts: tuple[str, ...]) -> dict[str, Any]:
    """Returns a row of the table: the field `of` of some answers with its goal, and the medians of the parts."""
    seconds = spread([done[of] for done in answers])
    row = {
        "what": what,
        "seconds": seconds,
        "goal": goal,
        "met": "yes" if seconds["median"] < goal else "no",
        "megabytes": NONE,
        "megabytes_goal": NONE,
    }
    row["cpu"] = NONE if of == "seconds" else spread([done["cpu_seconds"] for done in answers])["median"]
    for part in (*parts, "import"):
        measured = [done["import_seconds"] if part == "import" else done["parts"].get(part, 0.0) for done in answers]
        row[part] = spread(measured)["median"] if part != "import" or of == "process_seconds" else NONE
    return {**dict.fromkeys(PARTS, NONE), **row}


ITEM = Item(
    title="Preparation: raw files to encoded arrays, in fresh processes.",
    needs=(),
    columns=(
        Column("what", "what"),
        Column("seconds", "seconds", ".2f"),
        Column("goal", "goal, under", ".0f"),
        Column("cpu", "CPU seconds", ".2f"),
        Column("megabytes", "MB beyond the kept rows", ".0f"),
        Column("megabytes_goal", "goal, under", ".0f"),
        Column("met", "met"),
        Column("import", "start and import", ".2f"),
        *(Column(part, part, ".2f") for part in PARTS),
    ),
    run=run,
)

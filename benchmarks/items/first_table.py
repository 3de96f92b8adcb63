"""The seconds from a command to its table, and the programs that it compiles: with nothing compiled before (cold), with
everything compiled before (warm), and with another seed.

Every launch is a process of its own, so that the interpreter and the imports count. The compilation cache is a
temporary folder.
"""

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.item import Column, Item, Settings
from benchmarks.stopwatch import verdict
from jaxmatch.data.catalog import CATALOG
from jaxmatch.data.generated import generate

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ("sweep", "quickstart")
NINE_PROGRAMS = (
    *("sweep", "grid", "--seeds", "2", "--grid.model.blocks=1,2,3", "--grid.model.encoder_layers=1,2,3"),
    "--grid.optimizer.learning_rate=0.0005,0.001",
)
# Own pairs: two seeds and two learning rates of a small model.
OWN = (
    *("sweep", "grid", "--dataset", "own", "--vectors", "hashed", "--seeds", "2"),
    *("--grid.model.blocks=", "--grid.model.encoder_layers=", "--grid.optimizer.learning_rate=0.001,0.002"),
    *("--config.model.hidden_size=48", "--config.training.epochs=6"),
)
OWN_PAIRS = {"train": 2000, "dev": 200, "test": 200}
# The data sets whose official files give the own pairs, the first that is there; otherwise they are generated.
OWN_SOURCES = ("mrpc", "quora")
# What `--quick` changes: a tiny model, one epoch, one length.
QUICK = (
    *("--config.model.hidden_size=8", "--config.training.epochs=1", "--config.training.maximum_buckets=1"),
    *("--config.model.encoder_layers=1", "--config.model.blocks=1", "--config.training.batch_size=64"),
)
QUICK_PAIRS = 64
# Stands for the folder of one checkout in the words of a command.
FOLDER = "FOLDER"
# The functions whose programs grow with the model; all others are compiled in milliseconds.
PROGRAMS = ("train_step", "evaluate")


@dataclasses.dataclass(frozen=True)
class Launch:
    """What a command took.

    Attributes:
      seconds: from before the start of its process to after its end, when its table is printed.
      programs: the training and evaluation programs that it compiled.
      loaded: those that it read from the compilation cache.
      others: the other programs that it compiled, such as those that put arrays on the device.
      compile_seconds: the seconds in which all of these were compiled or read; those of several threads add up.
    """

    seconds: float
    programs: int
    loaded: int
    others: int
    compile_seconds: float


def launch(words: Sequence[str], folder: Path, checkout: Path = ROOT, seconds: float | None = None) -> Launch:
    """Runs `jaxmatch` with the words of a command in a new process.

    Arguments:
      words: the words after `jaxmatch`.
      folder: the folder for all caches. What was compiled there before is read.
      checkout: the checkout of jaxmatch that runs.
      seconds: the time after which the process is killed; None: never.

    Raises:
      RuntimeError: the command failed. The message ends with what it printed.
      subprocess.TimeoutExpired: the process was killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = folder / "counts.json"
    counts.unlink(missing_ok=True)
    paths = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(folder), "JAX_COMPILATION_CACHE_DIR": str(folder / "jax")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", str(ROOT / "benchmarks" / "count_compilations.py"), str(counts), *words],
        env={**os.environ, **variables, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"},
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    taken = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"jaxmatch {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    events = json.loads(counts.read_text())
    large = [each for each in events if any(name in each["function"] for name in PROGRAMS)]
    return Launch(
        seconds=taken,
        programs=sum(not each["is_read"] for each in large),
        loaded=sum(each["is_read"] for each in large),
        others=sum(not each["is_read"] for each in events) - sum(not each["is_read"] for each in large),
        compile_seconds=sum(each["seconds"] for each in events),
    )


def write_own_pairs(folder: Path, data_directory: str, sizes: dict[str, int]) -> str:
    """Writes `train.tsv`, `dev.tsv` and `test.tsv` with the first pairs of an official file. Returns where they are
    from.
    """
    pairs, origin = _pairs(data_directory)
    folder.mkdir(parents=True)
    for name, size in sizes.items():
        lines = ["text_a\ttext_b\tlabel"]
        lines += ["\t".join(" ".join(part.split()) for part in pair) for pair in itertools.islice(pairs, size)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return origin


def _pairs(data_directory: str) -> tuple[Iterator[tuple[str, str, str]], str]:
    """Returns an iterator over (text_a, text_b, label), and a description of the data."""
    split, origin = None, "generated paraphrases"
    for name in OWN_SOURCES:
        source = CATALOG[name]
        file = Path(data_directory) / source.folder / source.files["train"][0]
        if split is None and data_directory and file.is_file():
            split, origin = source.read(file), f"the first of {name}'s training file"
    split = generate("embedded_paraphrase").splits["train"] if split is None else split
    return zip(split.text_a, split.text_b, split.labels, strict=True), origin


def _in_folder(words: Sequence[str], folder: Path) -> list[str]:
    return [word.replace(FOLDER, str(folder)) for word in words]


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each launch, and notes."""
    scratch, quick = settings.scratch / "first_table", QUICK if settings.quick else ()
    rows: list[dict[str, Any]] = []

    def measure(what: str, words: Sequence[str], cache: str, goal: int | None = None) -> None:
        row: dict[str, Any] = {"what": what, "before_seconds": None, "before_programs": None, "ratio": None}
        if settings.before:
            before = launch(_in_folder(words, scratch / "before"), scratch / "before" / cache, Path(settings.before))
            row |= {"before_seconds": before.seconds, "before_programs": before.programs}
        found = launch(_in_folder(words, scratch / "now"), scratch / "now" / cache)
        if settings.before:
            row["ratio"] = found.seconds / before.seconds
        more = "" if goal is None else verdict(f"{goal} programs compiled", found.programs <= goal)
        rows.append({**row, **dataclasses.asdict(found), "goal": more})

    def workdir(name: str) -> tuple[str, str]:
        return "--workdir", f"{FOLDER}/runs/{name}"

    quickstart = (*QUICKSTART, *quick, *(("--grid.model.blocks=",) if settings.quick else ()))
    seeds = 1 if settings.quick else 3
    measure("quickstart, cold", (*quickstart, *workdir("cold"), "--seeds", str(seeds)), "quickstart")
    again = (*quickstart, *workdir("warm"), "--seeds", str(seeds))
    measure("quickstart, warm", again, "quickstart", goal=0)
    more = (*quickstart, *workdir("cold"), "--seeds", str(seeds + 1))
    measure("quickstart, a seed more", more, "quickstart", goal=0)
    sizes = dict.fromkeys(OWN_PAIRS, QUICK_PAIRS) if settings.quick else OWN_PAIRS
    origin = write_own_pairs(scratch / "own", settings.data_directory, sizes)
    own = (*OWN, "--data-directory", str(scratch / "own"), *quick)
    measure("own pairs, 4 runs, cold", (*own, *workdir("own")), "own")
    if not settings.quick:
        measure("own pairs, 4 runs, warm", (*own, *workdir("own-warm")), "own", goal=0)
        measure("9 programs, 36 runs, cold", (*NINE_PROGRAMS, *workdir("nine")), "nine")
        measure("9 programs, 36 runs, warm", (*NINE_PROGRAMS, *workdir("nine-warm")), "nine", goal=0)
    earlier = []
    if settings.before:
        head = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(head, cwd=settings.before, capture_output=True, text=True, check=True).stdout.strip()
        earlier = [f"Before: commit {commit}; each command runs before and now, in turn."]
    return rows, [
        *earlier,
        "Seconds from the start of a command to its end, after its table. Cold: the caches are empty; warm: another "
        "launch has filled them. Programs are those of training steps and evaluations; the others take milliseconds "
        "each. Seconds of threads that compile side by side add up.",
        f"Quickstart: sweeps/quickstart.py with {seeds} seeds. Own pairs: {sizes['train']:,} pairs to train on, "
        f"{origin}; 2 seeds, 2 learning rates, hidden size 48, 6 epochs. 9 programs: sweeps/grid.py, 1 to 3 blocks x 1 "
        "to 3 encoder layers, 2 seeds, 2 learning rates.",
    ]


ITEM = Item(
    title="From a command to its table, with nothing and with everything compiled before.",
    needs=(),
    columns=(
        Column("what", "launch"),
        Column("before_seconds", "before: seconds", ".1f"),
        Column("before_programs", "before: programs compiled", "d"),
        Column("seconds", "seconds to the table", ".1f"),
        Column("ratio", "of before", ".2f"),
        Column("programs", "programs compiled", "d"),
        Column("loaded", "programs read from the cache", "d"),
        Column("others", "other compilations", "d"),
        Column("compile_seconds", "compiling and reading, s", ".1f"),
        Column("goal", "goal"),
    ),
    run=run,
)

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


class Launches:
    """The launches of a table: each command, and if an earlier checkout is given, the same command there first."""

    def __init__(self, settings: Settings):
        self.rows: list[dict[str, Any]] = []
        self.folder = settings.scratch / "first_table"
        self._before = Path(settings.before) if settings.before else None

    def add(self, what: str, words: Sequence[str], cache: str, goal: int | None = None) -> None:
        """Launches a command and adds its row.

        Arguments:
          what: the name of the row.
          words: the words after `jaxmatch`; `FOLDER` stands for the folder of a checkout's files.
          cache: the name of the cache. Launches that share one find what the earlier ones compiled.
          goal: at most so many programs are to be compiled; None: there is no goal.
        """
        row: dict[str, Any] = {"what": what, "before_seconds": None, "before_programs": None, "ratio": None}
        if self._before:
            before = launch(_in_folder(words, self.folder / "before"), self.folder / "before" / cache, self._before)
            row |= {"before_seconds": before.seconds, "before_programs": before.programs}
        found = launch(_in_folder(words, self.folder / "now"), self.folder / "now" / cache)
        if self._before:
            row["ratio"] = found.seconds / row["before_seconds"]
        more = "" if goal is None else verdict(f"{goal} programs compiled", found.programs <= goal)
        self.rows.append({**row, **dataclasses.asdict(found), "goal": more})

    def notes(self) -> list[str]:
        """Returns the notes that all tables of launches have."""
        found = [
            "Seconds from the start of a command to its end, after its table. Cold: the caches are empty; warm: "
            "another launch has filled them. Programs are those of training steps and evaluations; the others take "
            "milliseconds each. Seconds of threads that compile side by side add up."
        ]
        if self._before:
            head = ["git", "rev-parse", "--short", "HEAD"]
            commit = subprocess.run(head, cwd=self._before, capture_output=True, text=True).stdout.strip()
            found.append(f"Before: commit {commit or 'unknown'}; each command runs before and now, in turn.")
        return found


def _workdir(name: str) -> tuple[str, str]:
    return "--workdir", f"{FOLDER}/runs/{name}"


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each launch of the quickstart and of own pairs, and notes."""
    launches, quick = Launches(settings), QUICK if settings.quick else ()
    quickstart = (*QUICKSTART, *quick, *(("--grid.model.blocks=",) if settings.quick else ()))
    seeds = 1 if settings.quick else 3
    launches.add("quickstart, cold", (*quickstart, *_workdir("cold"), "--seeds", str(seeds)), "quickstart")
    again = (*quickstart, *_workdir("warm"), "--seeds", str(seeds))
    launches.add("quickstart, warm", again, "quickstart", goal=0)
    more = (*quickstart, *_workdir("cold"), "--seeds", str(seeds + 1))
    launches.add("quickstart, a seed more", more, "quickstart", goal=0)
    sizes = dict.fromkeys(OWN_PAIRS, QUICK_PAIRS) if settings.quick else OWN_PAIRS
    origin = write_own_pairs(launches.folder / "own", settings.data_directory, sizes)
    own = (*OWN, "--data-directory", str(launches.folder / "own"), *quick)
    launches.add("own pairs, 4 runs, cold", (*own, *_workdir("own")), "own")
    if not settings.quick:
        launches.add("own pairs, 4 runs, warm", (*own, *_workdir("own-warm")), "own", goal=0)
    return launches.rows, [
        *launches.notes(),
        f"Quickstart: sweeps/quickstart.py with {seeds} seeds. Own pairs: {sizes['train']:,} pairs to train on, "
        f"{origin}; 2 seeds, 2 learning rates, hidden size 48, 6 epochs.",
    ]


def run_nine_programs(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each launch of a grid of nine programs, and notes."""
    launches, words = Launches(settings), NINE_PROGRAMS
    if settings.quick:
        words = (*NINE_PROGRAMS, *QUICK, "--grid.model.blocks=", "--grid.model.encoder_layers=", "--seeds", "1")
    launches.add("9 programs, 36 runs, cold", (*words, *_workdir("nine")), "nine")
    launches.add("9 programs, 36 runs, warm", (*words, *_workdir("nine-warm")), "nine", goal=0)
    return launches.rows, [
        *launches.notes(),
        "sweeps/grid.py, 1 to 3 blocks x 1 to 3 encoder layers, 2 seeds, 2 learning rates.",
    ]


COLUMNS = (
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
)
ITEM = Item(
    title="From a command to its table, with nothing and with everything compiled before.",
    needs=(),
    columns=COLUMNS,
    run=run,
)
NINE_PROGRAMS_ITEM = Item(
    title="From a command to the table of nine programs, with nothing and with everything compiled before.",
    needs=(),
    columns=COLUMNS,
    run=run_nine_programs,
)

"""Commands in fresh processes, at a first and at a later start: interpreter, imports, compilation and work."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fresh_process, stopwatch
from benchmarks.item import CONFIGS, Column, Item, Settings
from benchmarks.items.inference import CLASSES, DIMENSIONS, WORDS
from jaxmatch.analysis.timing import random_model
from jaxmatch.inference import model_folder
from jaxmatch.sweep.files import load_config

DATA, PAIRS, TOKENS = "sick", 1000, (4, 20)  # the pairs to evaluate, and the bounds of a text's tokens
SWEEP = fresh_process.ROOT / "results" / "sick_ablation"
LABELS = ("entailment", "neutral", "contradiction")
# The maximum seconds of a later start, on two cores.
GOALS = {"--help": 0.7, "table": 0.7, "predict": 2.5, "evaluate": 4.0}


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for every command, and a note."""
    model = write_run(settings.scratch)
    pairs, one = _files(settings.scratch)
    titles = {
        "--help": ("jaxmatch --help", ["--help"]),
        "table": (f"table of {SWEEP.name}", ["table", SWEEP]),
        "predict": ("predict, 1 pair", ["predict", model, "--input", one]),
        "evaluate": (f"evaluate, {PAIRS:,} pairs", ["evaluate", model, "--input", pairs]),
    }
    rows = []
    for name, (title, words) in titles.items():
        cache = settings.scratch / f"cache of {name}"
        first, *later = (run_command(words, cache) for _ in range(1 + settings.rounds))
        seconds, busy = ([each[part] for each in later] for part in (0, 1))
        row = {"what": title, "first": first[0], "first_cpu": first[1]}
        row |= {"later": stopwatch.spread(seconds), "later_cpu": stopwatch.spread(busy)}
        rows.append(row | {"goal": stopwatch.verdict(f"≤ {GOALS[name]} s", row["later"]["median"] <= GOALS[name])})
    return rows, [
        f"RE2 with the paper's setting for {DATA}, {WORDS:,} words; {TOKENS[0]} to {TOKENS[1]} tokens a text. The "
        "first start begins without compiled programs, a later one finds them. CPU: seconds of all cores. The goals "
        "are for a quiet machine; where the load before was not near 0, other work shared it."
    ]


def _words() -> list[str]:
    return ["<padding>", "<unknown>", *(f"word{number}" for number in range(WORDS - 2))]


def write_run(scratch: Path, small: bool = False) -> Path:
    """Writes the folder of a run of RE2 with random weights into `scratch`, and returns it. If `small`, its hidden size
    is 8.
    """
    draw, words = np.random.default_rng(0), _words()
    vectors = draw.normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
    settings_of_model = load_config(CONFIGS / "re2.py", dataset=DATA).model.to_dict()
    settings_of_model |= {"hidden_size": 8} if small else {}
    model = random_model(settings_of_model, vectors=vectors, outputs=CLASSES)
    folder = scratch / "run"
    folder.mkdir(parents=True)
    fields = {"vocabulary_words": words, "vectors": vectors, "labels": LABELS, "task": "classification"}
    rules = {"tokenizer": "word", "lowercase": True, "remove_punctuation": True, "maximum_length": 0}
    config = {"data": {"name": "own"}}
    model_folder.save(
        folder / "model",
        model_settings=settings_of_model,
        params=model.params,
        preprocessing=rules,
        config=config,
        **fields,
    )
    return folder


def _files(scratch: Path) -> tuple[Path, Path]:
    """Writes a file of many pairs and a file of one pair."""
    draw, words = np.random.default_rng(1), _words()
    texts = [" ".join(draw.choice(words[2:], draw.integers(*TOKENS, endpoint=True))) for _ in range(2 * PAIRS)]
    texts[0] = f'He said: "{texts[0]}"'  # a text that needs all rules of the tokenizer
    lines = [f"{a}\t{b}\t{LABELS[0]}" for a, b in zip(texts[::2], texts[1::2], strict=True)]
    for name, count in (("pairs.tsv", PAIRS), ("one.tsv", 1)):
        (scratch / name).write_text("\n".join(["text_a\ttext_b\tlabel", *lines[:count], ""]))
    return scratch / "pairs.tsv", scratch / "one.tsv"


def run_command(words: list[Any], cache: Path) -> tuple[float, float]:
    """Runs a command. Returns its seconds from before its start to after its end, and the CPU seconds of all cores."""
    variables = {
        name: value for name, value in fresh_process.with_this_checkout().items() if not name.startswith("JAX_COMP")
    }
    began, before = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "jaxmatch", *map(str, words)]
    subprocess.run(command, env={**variables, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - began, os.times()
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


ITEM = Item(
    title="Starts: commands in processes of their own.",
    needs=(),
    columns=(
        Column("what", "command"),
        Column("first", "first, s", ".1f"),
        Column("first_cpu", "first, CPU s", ".1f"),
        Column("later", "later, s", ".2f"),
        Column("later_cpu", "later, CPU s", ".2f"),
        Column("goal", "goal"),
    ),
    run=run,
)

"""Takes the measurements that need a device, the most important first, in at most nine minutes.

    make device
    python -m benchmarks.device              # the same with a JAX that sees the device, where pip cannot install one
    python -m benchmarks.device --quick      # on any machine: only whether it runs

Stages, in their order:

    parity   the losses of a few steps on the device and on a CPU, and of a run among ten and alone
    steps    training steps of RE2, CSRAN, ESAN and CAFE: memory, kernels, bytes, and time, with the bound
    sweep    the quickstart: seconds to its table, and its scores

Each result is stored as soon as it is known. A stage that the time does not suffice for is left out, and
`python -m benchmarks.device steps` measures it alone. `python -m benchmarks replicas` compares with the public PyTorch
RE2.
"""

import argparse
import dataclasses
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import reports, stopwatch
from benchmarks.accelerators.__main__ import read_program
from benchmarks.accelerators.targets import target_of
from benchmarks.item import Column, Settings
from benchmarks.items import first_table
from benchmarks.steps import SMALL, Steps, operations_of_a_step
from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.text import LONGEST_WORD, Preprocessing, Vocabulary
from jaxmatch.errors import InputError
from jaxmatch.models import build
from jaxmatch.reporting.records import short_commit
from jaxmatch.training.chunks import Chunks

MINUTES = 9.0
# A step begins only if this many seconds are left: a program compiles in up to half a minute.
SECONDS_OF_A_CASE = 45.0
LENGTH, WORDS, DIMENSIONS, CLASSES = 40, 40_000, 300, 3
# Model, runs, batch, precision of the stage `steps`.
CASES = (
    ("re2", 10, 512, "float32"),
    ("re2", 10, 64, "bfloat16"),
    ("re2", 10, 64, "float32"),
    ("re2", 1, 64, "float32"),
    ("re2", 10, 512, "bfloat16"),
    ("csran", 10, 64, "float32"),
    ("esan", 10, 64, "float32"),
    ("cafe", 10, 64, "float32"),
)
QUICK_CASES = (("re2", 2, 16, "float32"),)
# The steps of the stage `parity`, and the largest relative difference of losses. Products are in full float32 there.
STEPS_TO_COMPARE, LARGEST_DIFFERENCE = 5, 1e-4
WAITED_STEPS = 20


def random_data(model: Mapping[str, Any], pairs: int, length: int, words: int, dimensions: int) -> EncodedData:
    """Returns random pairs that all have `length` tokens, with the features of a word that the model takes.

    The words follow Zipf's law: the frequency of the n-th word is proportional to 1 / n.
    """
    module, draw, first = build(model, outputs=CLASSES), np.random.default_rng(0), length // 2
    columns: dict[str, Any] = {"labels": draw.integers(0, CLASSES, pairs).astype(np.int32)}
    for side, size in (("a", first), ("b", length - first)):
        ids = (2 * (words / 2) ** draw.random(pairs * size)).astype(np.int32)
        columns |= {f"tokens_{side}": ids, f"offsets_{side}": np.arange(pairs + 1, dtype=np.int64) * size}
        for name, kind, many in (("tags", np.uint8, 40), ("exact_match", np.int8, 2)):
            if name in module.token_features:
                columns[f"{name}_{side}"] = draw.integers(0, many, len(ids)).astype(kind)
    characters = draw.integers(1, 128, (words, LONGEST_WORD)).astype(np.uint16) if module.takes_characters else None
    return EncodedData(
        name="random",
        task="classification",
        labels=tuple(map(str, range(CLASSES))),
        splits={"train": EncodedSplit(**columns)},
        vocabulary=Vocabulary(["<padding>", "<unknown>", *(f"w{number}" for number in range(2, words))]),
        vectors=draw.normal(size=(words, dimensions)).astype(np.float32),
        preprocessing=Preprocessing(),
        report={},
        fingerprint="random",
        characters=characters,
    )


def _losses(config: Any, data: EncodedData, seeds: list[int], device: jax.Device) -> np.ndarray:
    """Returns the mean loss of each run over its first steps on a device."""
    chunks = Chunks(
        model=config.model.to_dict(),
        data=data,
        training=config.training.to_dict() | {"maximum_buckets": 1, "mix_lengths": False},
        seeds=seeds,
        optimizer=[config.optimizer.to_dict()] * len(seeds),
        devices=(device,),
    )
    with jax.default_device(device):
        chunks.initialize()
        chunks.activate(np.ones(len(seeds), bool))
        epoch = chunks.epoch(0)
        for index in range(STEPS_TO_COMPARE):
            chunks.step(epoch, index)
        _, states = chunks.states()
    return states.loss_sum / states.loss_weight


def parity(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yields the rows of the stage `parity`."""
    changes = {**SMALL, "model__precision": "highest"} if settings.quick else {"model__precision": "highest"}
    config = settings.config("re2_snli", **{**changes, "training__batch_size": 16 if settings.quick else 64})
    words, dimensions = (50, 8) if settings.quick else (WORDS, DIMENSIONS)
    pairs = STEPS_TO_COMPARE * config.training.batch_size
    data = random_data(config.model.to_dict(), pairs, 8 if settings.quick else LENGTH, words, dimensions)
    device, cpu = jax.devices()[0], jax.devices("cpu")[0]
    alone = _losses(config, data, [0], device)
    among = _losses(config, data, list(range(2 if settings.quick else 10)), device)
    for what, found, expected in (
        (f"{device.device_kind} and CPU", alone, _losses(config, data, [0], cpu)),
        ("a run among others and alone", among[:1], alone),
    ):
        difference = float(np.max(np.abs(found - expected) / np.abs(expected)))
        met = stopwatch.verdict(f"≤ {LARGEST_DIFFERENCE:g}", difference <= LARGEST_DIFFERENCE)
        yield {
            "what": what,
            "loss": float(found[0]),
            "other": float(expected[0]),
            "difference": difference,
            "goal": met,
        }


def steps(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yields the rows of the stage `steps`."""
    for model, runs, batch, precision in QUICK_CASES if settings.quick else CASES:
        changes = {"training__batch_size": batch, "model__precision": precision}
        config = settings.config(f"{model}_snli", **({**SMALL, **changes} if settings.quick else changes))
        words, dimensions = (50, 8) if settings.quick else (WORDS, DIMENSIONS)
        data = random_data(config.model.to_dict(), 2 * batch, LENGTH, words, dimensions)
        row = {"model": model, "replicas": runs, "batch": batch, "precision": precision}
        try:
            made = Steps(config, data, replicas=runs, length=LENGTH)
            operations = runs * operations_of_a_step(config, data, LENGTH)
            yield row | _step(made, precision, operations, settings.rounds)
        except jax.errors.JaxRuntimeError as error:  # of memory that runs out: the other cases may still fit
            yield row | {"remark": str(error).splitlines()[0][:200]}


def _step(made: Steps, precision: str, operations: float, rounds: int) -> dict[str, Any]:
    (executable, *_) = made.chunks.programs.train.executables.values()
    device = jax.devices()[0]
    found, target = read_program(executable, device), target_of(device.device_kind)
    if target:
        found["least_ms"] = 1e3 * target.least_seconds(precision, found["moved"], operations, found["kernels"])
    waited = [1e3 * made.mean_step_seconds(1) for _ in range(WAITED_STEPS)]
    return {
        **{f"{name}_gb": found[name] / 1e9 for name in ("temporaries", "moved")},
        "used": ", ".join(found["products"]),
        "kernels": found["kernels"],
        "least_ms": found.get("least_ms"),
        "step_ms": float(np.median(waited)),
        "row_ms": stopwatch.spread([1e3 * made.seconds() for _ in range(rounds)])["median"],
        "compile_seconds": made.compile_seconds,
        "at": short_commit(reports.commit_of_code(), reports.DIGITS),
        "remark": "",
    }


def sweep(settings: Settings, seconds: float) -> Iterator[dict[str, Any]]:
    """Yields the row of the stage `sweep`, within some seconds."""
    words = (*first_table.QUICKSTART, *(first_table.QUICK if settings.quick else ()))
    words = (*words, *(("--grid.model.blocks=", "--seeds", "1") if settings.quick else ()))
    workdir = settings.scratch / "sweep"
    try:
        found = first_table.launch((*words, "--workdir", str(workdir)), settings.scratch / "cache", seconds)
        lines = [line for line in (workdir / "table.md").read_text().splitlines() if line.startswith("|")]
        yield {"what": "quickstart, cold", **dataclasses.asdict(found), "scores": lines[-1].strip("| ")}
    except subprocess.TimeoutExpired:
        yield {"what": "quickstart, cold", "scores": f"not done in {seconds:.0f} s"}


STAGES = {
    "parity": (
        "Losses of five training steps of RE2 with products in full float32: the device against a CPU.",
        (
            Column("what", "compared"),
            Column("loss", "loss", ".6f"),
            Column("other", "of the other", ".6f"),
            Column("difference", "relative difference", ".1e"),
            Column("goal", "goal"),
        ),
    ),
    "steps": (
        "Training steps on rows of 40 tokens, the settings of configs/*_snli.py.",
        (
            Column("model", "model"),
            Column("replicas", "runs", "d"),
            Column("batch", "batch", "d"),
            Column("precision", "precision"),
            Column("used", "products in"),
            Column("temporaries_gb", "temporaries (GB)", ".2f"),
            Column("moved_gb", "moved (GB)", ".1f"),
            Column("kernels", "kernels", "d"),
            Column("least_ms", "least (ms)", ".2f"),
            Column("step_ms", "a step (ms)", ".2f"),
            Column("row_ms", "in a row (ms)", ".2f"),
            Column("compile_seconds", "compiled in (s)", ".0f"),
            Column("at", "commit"),
            Column("remark", "remark"),
        ),
    ),
    "sweep": (
        "The quickstart, from the command to its table.",
        (*(column for column in first_table.ITEM.columns if column.key != "goal"), Column("scores", "last row")),
    ),
}
NOTES = {
    "parity": ["A run among others has the random numbers of the run alone; only rounding differs."],
    "steps": [
        "Moved: the bytes that a step reads and writes, from the text of the program. Least: the larger of moved bytes "
        "by bandwidth and operations by peak, both as published, and 4 microseconds a kernel on a GPU. A step: the "
        "host waits for each; in a row: it does not, as in training."
    ],
    "sweep": ["Nothing was compiled before."],
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.device", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no longer than this; default: %(default)g")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, also on a CPU; stores no results")
    parser.add_argument("--results", type=Path, default=reports.RESULTS, help="default: benchmarks/results")
    return parser


def measure(names: list[str], minutes: float, quick: bool, results: Path, command: str) -> None:
    """Measures the stages that the time suffices for, prints their tables, and stores them unless they are quick."""
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="jaxmatch-device-") as scratch:
        settings = Settings("", "", "", "", 1 if quick else 9, quick, Path(scratch))
        for name in names:
            title, columns = STAGES[name]
            rows: list[dict[str, Any]] = []
            left = until - time.monotonic()
            makers = {"parity": lambda: parity(settings), "steps": lambda: steps(settings)}
            made = sweep(settings, left) if name == "sweep" else makers[name]()
            while quick or until - time.monotonic() > SECONDS_OF_A_CASE:
                if (row := next(made, None)) is None:
                    break
                rows.append(row)
                result = reports.result_of(f"device-{name}", title, rows, NOTES[name], command)
                if not quick:
                    reports.write_result(results, result)
            print(reports.markdown(result, columns) if rows else f"{name}: left out, the time is over", flush=True)


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    arguments = _parser().parse_args(words)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the sweep's process needs the same GPU
    try:
        if unknown := [name for name in arguments.stages if name not in STAGES]:
            raise InputError(f"there is no stage {unknown[0]!r}", remedy=f"known: {', '.join(STAGES)}")
        if jax.default_backend() == "cpu" and not arguments.quick:
            raise InputError("JAX finds no accelerator here", remedy="--quick tries the measurements on a CPU")
        command = shlex.join(["python", "-m", "benchmarks.device", *reports.with_placeholders(words)])
        measure(arguments.stages or list(STAGES), arguments.minutes, arguments.quick, arguments.results, command)
        print("python -m benchmarks --tables puts the results into the page", file=sys.stderr)
    except InputError as error:
        print(f"benchmarks.device: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

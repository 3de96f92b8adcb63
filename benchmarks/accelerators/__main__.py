"""Compiles the training and evaluation programs of all models for accelerators that need not be there, and tabulates
the figures.

    make accelerators                                          # all; hours on two cores, resumed where it was interrupted
    make accelerators ARGUMENTS="--target h100 --model re2"    # a part of it
    make accelerators ARGUMENTS=--tables                       # compiles nothing, makes the tables again

A program is compiled by a process of its own, one at a time, and its figures are kept as soon as they are known. One
that was compiled at the same commit is not compiled again. Figures are of the compiled program; the least time of a
step follows from the published figures of the device (targets.py) and is a bound, not a measurement.
"""

import argparse
import collections
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accelerators import tables
from benchmarks.accelerators.targets import TARGETS
from benchmarks.accelerators.worker import CONFIGS
from jaxmatch.files import read_json, write_json
from jaxmatch.sweep.recording import commit

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "accelerators"
AXES: dict[str, tuple] = {
    "target": tuple(TARGETS),
    "model": tuple(CONFIGS),
    "program": ("train", "evaluate"),
    "batch": (64, 512),
    "replicas": (10, 1, 32),
    "precision": ("float32", "bfloat16"),
}
SECONDS_TO_COMPILE = 1800


def specs(chosen: Mapping[str, Sequence]) -> Iterator[dict[str, Any]]:
    """The programs to compile: every combination of the axes. Kernels of our own train, on GPUs."""
    for values in itertools.product(*(chosen[axis] for axis in AXES)):
        spec = dict(zip(AXES, values, strict=True))
        if spec["model"] != "re2-kernels" or (TARGETS[spec["target"]].platform, spec["program"]) == ("cuda", "train"):
            yield spec


def programs() -> dict[str, int]:
    """Target -> how many programs there are."""
    return collections.Counter(spec["target"] for spec in specs(AXES))


def name_of(spec: Mapping[str, Any]) -> str:
    return " ".join(str(spec[axis]) for axis in AXES)


def compiled(spec: Mapping[str, Any], python: Path) -> dict[str, Any]:
    """The figures of a program, or {"problem": why it does not compile}."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "benchmarks.accelerators.worker", json.dumps(spec)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_TO_COMPILE
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"not compiled after {SECONDS_TO_COMPILE} s"}
    if done.returncode:
        return {"problem": problem_of(done.stderr) or f"exit status {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def problem_of(text: str) -> str:
    """The line of a traceback that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for sign in ("RESOURCE_EXHAUSTED", "Error", "error"):
        for line in lines:
            if sign in line:
                return line[:300]
    return lines[-1][:300] if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.accelerators", description=__doc__.split("\n")[0])
    for axis, values in AXES.items():
        parser.add_argument(f"--{axis}", nargs="+", type=type(values[0]), choices=values, default=values)
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".cache" / "accelerators", help="holds the folders tpu and cuda"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: benchmarks/results/accelerators")
    parser.add_argument("--tables", action="store_true", help="only make the tables again")
    arguments = parser.parse_args()
    file = arguments.results / "figures.json"
    known = read_json(file) if file.exists() else {}
    if not arguments.tables:
        wanted = [spec for spec in specs(vars(arguments)) if known.get(name_of(spec), {}).get("commit") != commit()]
        start = time.monotonic()
        for number, spec in enumerate(wanted):
            left = (
                f", {(time.monotonic() - start) / number * (len(wanted) - number) / 60:.0f} min left" if number else ""
            )
            print(f"[{number + 1}/{len(wanted)}{left}] {name_of(spec)}", flush=True)
            python = arguments.environments / TARGETS[spec["target"]].platform / "bin" / "python"
            if not python.exists():
                print(f"benchmarks.accelerators: there is no {python}; use make accelerators", file=sys.stderr)
                return 2
            known[name_of(spec)] = {**spec, **compiled(spec, python), "commit": commit()}
            write_json(file, known)
    tables.write(arguments.results / "README.md", list(known.values()), programs())
    return 0


if __name__ == "__main__":
    sys.exit(main())

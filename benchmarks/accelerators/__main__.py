"""Compiles the training and evaluation programs of all models for accelerators that need not be present.

    make accelerators                                        # all; hours on two cores, resumed after an interrupt
    make accelerators ARGUMENTS="--target h100 --model re2"  # a part of it
    make accelerators ARGUMENTS=--tables                     # compiles nothing, makes the tables again

The figures of the programs are stored as JSON and as tables. Each program is compiled by a process of its own, one at a
time, and its figures are stored as soon as they are known. Several such commands may run at once, for different targets
or models; each keeps the others' figures. If neither the compiler nor the code that a program depends on has changed
(sources.py), nothing is done. If the code has changed, a program for one device is lowered, and compiled only if it
differs from the earlier one; a program for several devices is compiled again. The figures are those of the compiled
program. The least time of a step follows from the published figures of the device (targets.py) and is a bound, not a
measurement.
"""

import argparse
import collections
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchmarks.accelerators import before_and_after, sources, tables
from benchmarks.accelerators.targets import TARGETS
from benchmarks.accelerators.worker import CONFIGS
from benchmarks.reports import commit_of_code, read_result
from jaxmatch.errors import InputError
from jaxmatch.files import write_atomically, write_json

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
# The programs for several devices: ten runs on each.
DEVICES = 4
ON_SEVERAL = {"batch": 64, "replicas": 10 * DEVICES, "precision": "float32", "devices": DEVICES}
SECONDS_TO_COMPILE = 1800


def specs(chosen: Mapping[str, Sequence]) -> Iterator[dict[str, Any]]:
    """Yields the programs to compile for one device: all combinations of the axes."""
    for values in itertools.product(*(chosen[axis] for axis in AXES)):
        yield dict(zip(AXES, values, strict=True))


def specs_on_several(chosen: Mapping[str, Sequence]) -> Iterator[dict[str, Any]]:
    """Yields the programs to compile for several devices, of the chosen targets and models."""
    for target, model, program in itertools.product(chosen["target"], chosen["model"], tables.PROGRAMS_ON_SEVERAL):
        yield {"target": target, "model": model, "program": program, **ON_SEVERAL}


def programs() -> dict[str, int]:
    """Returns target -> the number of its programs."""
    return collections.Counter(spec["target"] for spec in specs(AXES))


def name_of(spec: Mapping[str, Any]) -> str:
    devices = f" {spec['devices']} devices" if "devices" in spec else ""
    return " ".join(str(spec[axis]) for axis in AXES) + devices


def compiled(spec: Mapping[str, Any], python: Path, known: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Returns the figures of a program, {"problem": reason}, or {"same": True} if it is the known program. None if the
    process was killed.

    Raises:
      KeyboardInterrupt: the process was stopped.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "benchmarks.accelerators.worker", json.dumps({**spec, "known": known})]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_TO_COMPILE
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"not compiled after {SECONDS_TO_COMPILE} s"}
    if done.returncode in (-signal.SIGINT, -signal.SIGTERM):  # it was stopped, which says nothing about the program
        raise KeyboardInterrupt
    if done.returncode == -signal.SIGKILL:  # the system does so if memory runs out
        return None
    if done.returncode:
        return {"problem": problem_of(done.stderr) or f"exit status {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def problem_of(text: str) -> str:
    """Returns the line of a process's output that says why it failed: that of a lack of memory, or the last exception
    of its tracebacks, or the last line that mentions an error, or the last line.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for sign in (r"RESOURCE_EXHAUSTED", r"^[\w.]*(Error|Exception)(:|$)", r"[Ee]rror", ""):
        for line in reversed(lines):
            if re.search(sign, line):
                return line[:300]
    return ""


def figures(file: Path) -> dict[str, Any]:
    """Returns the rows of a file, by their names."""
    return read_result(file) if file.exists() else {}


def keep(file: Path, lock: Path, name: str, row: Mapping[str, Any]) -> None:
    """Writes one row. The other rows stay as another command may have written them in the meantime."""
    with FileLock(lock):
        write_json(file, {**figures(file), name: row})


def bring_up_to_date(chosen: Sequence[dict[str, Any]], environments: Path, file: Path) -> None:
    """Makes the figures of the chosen programs that are missing or no longer those of this code, and stores each in the
    file at once.

    Raises:
      InputError: an environment is missing, or processes were killed. Their programs have no figures then, the others
        do.
      KeyboardInterrupt: it was interrupted.
    """
    wanted, killed, known = [], [], figures(file)
    for spec in chosen:
        environment = environments / TARGETS[spec["target"]].platform
        python, digests = environment / "bin" / "python", sources.digests(spec)
        if not python.exists():
            raise InputError("there is no such Python", path=python, remedy="make accelerators creates it")
        versions = sources.compilers(TARGETS[spec["target"]].platform, environment)
        if not sources.is_current(known.get(name_of(spec), {}), digests, versions):
            wanted.append((spec, python, digests, versions))
    start = time.monotonic()
    for number, (spec, python, digests, versions) in enumerate(wanted):
        left = f", {(time.monotonic() - start) / number * (len(wanted) - number) / 60:.0f} min left" if number else ""
        print(f"[{number + 1}/{len(wanted)}{left}] {name_of(spec)}", flush=True)
        row = figures(file).get(name_of(spec), {})
        if sources.is_current(row, digests, versions):  # another command has made it since this one began
            continue
        found = compiled(spec, python, sources.known_program(row, digests))
        if found is None:
            killed.append(name_of(spec))
            continue
        # A program that does not compile is tried again with another version of the compiler.
        made = row if found.get("same") else {**spec, "versions": versions, **found, "commit": commit_of_code()}
        keep(file, environments / "figures.lock", name_of(spec), {**made, **digests})
    if killed:
        problem = f"the compiler was killed, perhaps for lack of memory: {', '.join(killed)}"
        raise InputError(problem, remedy="run the same command again")


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.accelerators", description=__doc__.split("\n")[0])
    for axis, values in AXES.items():
        parser.add_argument(f"--{axis}", nargs="+", type=type(values[0]), choices=values, default=values)
    parser.add_argument(
        "--devices", nargs="+", type=int, choices=(1, DEVICES), default=(1, DEVICES), help="devices of a program"
    )
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".cache" / "accelerators", help="holds the folders tpu and cuda"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: benchmarks/results/accelerators")
    parser.add_argument("--tables", action="store_true", help="only make the tables again")
    arguments = parser.parse_args()
    wanted = [*specs(vars(arguments))] * (1 in arguments.devices)
    wanted += [*specs_on_several(vars(arguments))] * (DEVICES in arguments.devices)
    try:
        try:
            if not arguments.tables:
                bring_up_to_date(wanted, arguments.environments, arguments.results / "figures.json")
        finally:
            write_tables(arguments.results)
    except InputError as error:
        print(f"benchmarks.accelerators: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks.accelerators: interrupted; run the same command to resume", file=sys.stderr)
        return 130
    return 0


def page(found: Mapping[str, Any]) -> str:
    """Returns the page of all figures."""
    return tables.markdown(found.values(), programs(), len([*specs_on_several(AXES)]))


def write_tables(results: Path) -> None:
    """Writes the pages of the figures in a folder."""
    found, before = figures(results / "figures.json"), figures(results / "before.json")
    write_atomically(results / "README.md", page(found))
    if before:
        write_atomically(results / "before_and_after.md", before_and_after.markdown(before, found))


if __name__ == "__main__":
    sys.exit(main())

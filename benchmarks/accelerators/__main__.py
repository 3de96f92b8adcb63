"""Compiles the training and evaluation programs of the models for accelerators that need not be present.

    make accelerators                                        # all; hours on two cores, resumed after an interrupt
    make accelerators ARGUMENTS="--target h100 --model re2"  # a part of it
    make accelerators ARGUMENTS=--tables                     # compiles nothing, makes the tables again

The figures of the programs are stored as JSON and as tables. Each program is compiled by a process of its own, one at a
time, and its figures are stored as soon as they are known. A program whose figures are of this commit already is not
compiled again. The least time of a step follows from the published figures of the device (targets.py) and is a bound,
not a measurement.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import reports
from benchmarks.accelerators import hlo
from benchmarks.accelerators.products import products
from benchmarks.accelerators.targets import TARGETS, Target
from benchmarks.item import CONFIGS, Column
from jaxmatch.errors import InputError
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.reporting.records import short_commit

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "accelerators"
AXES: dict[str, tuple] = {
    "target": tuple(TARGETS),
    "model": ("re2", "esan", "csran", "cafe"),
    "program": ("train", "evaluate"),
    "batch": (64, 512),
    "replicas": (10, 1),
    "precision": ("float32", "bfloat16"),
}
# The sizes of SNLI's training set, with rows cut to 40 of 96 tokens, and of a vocabulary.
SIZES, LENGTH, DIMENSIONS, CLASSES = (549_367, 96, 40_000), 40, 300, 3
# Pairs of a batch -> its most distinct words (jaxmatch/data/batches.py), for models that take characters. With
# 41 tokens in a row, batches of 64 pairs of SNLI had at most 682 distinct words, and batches of 383 pairs 2,038. A
# quarter is added.
MOST_WORDS = {64: 896, 512: 3072}
ENVIRONMENT = {
    # Several processes may compile at once, because none uses the device.
    "tpu": {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"},
    # Without a device, XLA can neither try kernels out nor choose among its own Triton kernels.
    "cuda": {"XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"},
}
SECONDS_TO_COMPILE = 1800
INTRODUCTION = """# Programs compiled for accelerators

`make accelerators` compiles these programs for one device, and does not run them. Rows have 40 tokens, and word vectors
have 300 dimensions. A run has the settings of `configs/*_snli.py`. Models with characters encode the characters of 896
words for 64 pairs and of 3,072 words for 512 pairs.

- temporaries, arguments: from XLA's `memory_analysis()`.
- moved: the bytes that a program reads and writes. On a GPU, these are the operands and results of all kernels, without
  the workspaces of cuBLAS. A kernel in a loop counts once for each iteration, and an operand counts as at most 8 times
  the result. On a TPU, the number is from XLA's `cost_analysis()`, which counts the body of a loop once.
- TFLOP: from `cost_analysis()`. Of the loop of an LSTM, it counts one time step.
- kernels: on a GPU, a kernel in a loop counts once for each iteration. On a TPU, it counts once.
- least time: a lower bound for the time of a step. It is the larger of two quotients: moved bytes by bandwidth, and
  operations by peak performance, both as published. On a GPU, 4 microseconds are added for each kernel. For a model
  with LSTMs on a TPU, the true bound is higher, because one iteration of each loop is counted.
- commit: the version of jaxmatch that made the program. A program of today's version may differ."""
COLUMNS = (
    Column("model", "model"),
    Column("program", "program"),
    Column("replicas", "runs", "d"),
    Column("batch", "batch", "d"),
    Column("precision", "precision"),
    Column("used", "products in"),
    Column("temporaries_gb", "temporaries (GB)", ".2f"),
    Column("arguments_gb", "arguments (GB)", ".2f"),
    Column("moved_gb", "moved (GB)", ".1f"),
    Column("tflop", "TFLOP", ".3g"),
    Column("kernels", "kernels", "d"),
    Column("compile_seconds", "compiled in (s)", ".0f"),
    Column("least_ms", "least time (ms)", ".2f"),
    Column("at", "commit"),
)


def name_of(spec: Mapping[str, Any]) -> str:
    """Returns the name under which the figures of a program are stored."""
    return " ".join(str(spec[axis]) for axis in AXES)


def device_of(target: Target) -> Any:
    """Returns a device of a target that need not be present."""
    from jax.experimental import topologies

    if target.platform == "tpu":
        return topologies.get_topology_desc(target.topology, platform="tpu").devices[0]
    description = (Path(__file__).parent / target.topology).read_text()
    return topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=description).devices[0]


def figures(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles the program of a spec in this process, and returns its figures in bytes, operations and seconds."""
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from benchmarks import steps
    from jaxmatch.config.settings import with_overrides
    from jaxmatch.sweep.files import load_config

    target = TARGETS[spec["target"]]
    device = device_of(target)
    settings = {"model.precision": spec["precision"], "training.batch_size": spec["batch"], **spec.get("overrides", {})}
    config = with_overrides(load_config(CONFIGS / f"{spec['model']}_snli.py"), settings)
    shape = {"task": "classification", "outputs": CLASSES, "dimensions": DIMENSIONS, "length": LENGTH, "sizes": SIZES}
    shape |= {"runs": spec["replicas"], "program": spec["program"]}
    shape |= {"most_words": None if spec["model"] == "re2" else MOST_WORDS.get(spec["batch"])}
    sharding = NamedSharding(Mesh(np.array([device]), ("replica",)), PartitionSpec())
    program = steps.lowered(config, **shape, platform=target.platform, sharding=sharding)
    started = time.perf_counter()
    compiled = program.compile()
    found = {"compile_seconds": round(time.perf_counter() - started, 1), "versions": _versions()}
    # The compiler for CUDA does not count operations, so they are those of the program before compilation.
    operations = (compiled.cost_analysis() or {}).get("flops") or steps.lowered(config, **shape).cost_analysis()[
        "flops"
    ]
    found |= read_program(compiled, device) | {"operations": operations}
    least = target.least_seconds(spec["precision"], found["moved"], operations, found["kernels"])
    return found | {"least_seconds": least}


def _versions() -> dict[str, str]:
    """Returns the versions of JAX and of the compilers that this Python has."""
    found = {each.name: each.version for each in metadata.distributions()}
    return {name: found[name] for name in ("jax", "libtpu", "jax-cuda12-plugin") if name in found}


def read_program(compiled: Any, device: Any) -> dict[str, Any]:
    """Returns what a compiled program holds and moves, in bytes, its kernels, and the precisions of its products."""
    held, text = compiled.memory_analysis(), compiled.as_text()
    work = hlo.work(text)
    # A TPU's compiler counts the bytes itself. The compiler for CUDA does not.
    counted = (compiled.cost_analysis() or {}).get("bytes accessed") if device.platform == "tpu" else None
    return {
        "temporaries": held.temp_size_in_bytes,
        "arguments": held.argument_size_in_bytes,
        "moved": counted or work.moved,
        "kernels": work.kernels,
        "products": sorted({product.uses(device) for product in products(text)}),
    }


def compiled(spec: Mapping[str, Any], python: Path) -> dict[str, Any]:
    """Returns the figures of a program, compiled by another Python, or {"problem": the reason why there are none}."""
    variables = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "0", "PYTHONPATH": str(ROOT)}
    variables |= ENVIRONMENT[TARGETS[spec["target"]].platform]
    command = [str(python), "-m", "benchmarks.accelerators", "--spec", json.dumps(spec)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=SECONDS_TO_COMPILE
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"not compiled after {SECONDS_TO_COMPILE} s"}
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        out_of_memory = [line for line in lines if "RESOURCE_EXHAUSTED" in line]
        return {"problem": [f"exit status {done.returncode}", *lines, *out_of_memory][-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def bring_up_to_date(specs: Iterable[Mapping[str, Any]], environments: Path, file: Path) -> None:
    """Compiles the programs whose figures are missing or of another commit, and stores the figures of each at once.

    Raises:
      InputError: an environment is missing.
    """
    commit = reports.commit_of_code()
    known = read_json(file) if file.exists() else {}
    wanted = [spec for spec in specs if known.get(name_of(spec), {}).get("commit") != commit or commit.endswith("+")]
    for number, spec in enumerate(wanted, 1):
        python = environments / TARGETS[spec["target"]].platform / "bin" / "python"
        if not python.exists():
            raise InputError("there is no such Python", path=python, remedy="make accelerators creates it")
        print(f"[{number}/{len(wanted)}] {name_of(spec)}", flush=True)
        known[name_of(spec)] = {**spec, **compiled(spec, python), "commit": commit}
        write_json(file, known)


def page(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns all figures as Markdown, with one section for each device."""
    sections = [INTRODUCTION]
    for name, target in TARGETS.items():
        own = [row for row in rows if row["target"] == name]
        own.sort(key=lambda row: [AXES[axis].index(row[axis]) for axis in AXES])
        made = [_in_units(row) for row in own if "problem" not in row]
        sections.append(f"## {name}: {target.memory / 1e9:.0f} GB, {target.bandwidth / 1e12:.2f} TB/s")
        sections.append("\n".join(reports.table_lines(made, COLUMNS)))
        if problems := [f"- {name_of(row)}: {row['problem']}" for row in own if "problem" in row]:
            sections.append("Does not compile:\n\n" + "\n".join(problems))
        large = [name_of(row) for row in own if row.get("temporaries", 0) + row.get("arguments", 0) > target.memory]
        if large:
            sections.append(f"Compiles, and needs more than the memory of the device: {'; '.join(large)}.")
    return "\n\n".join(sections) + "\n"


def _in_units(row: Mapping[str, Any]) -> dict[str, Any]:
    gigabytes = {f"{name}_gb": row[name] / 1e9 for name in ("temporaries", "arguments", "moved")}
    other = {"tflop": row["operations"] / 1e12, "least_ms": 1e3 * row["least_seconds"]}
    used, at = ", ".join(row["products"]), short_commit(row["commit"], reports.DIGITS)
    return {**row, **gigabytes, **other, "used": used, "at": at}


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.accelerators", description=__doc__.split("\n")[0])
    for axis, values in AXES.items():
        parser.add_argument(f"--{axis}", nargs="+", type=type(values[0]), choices=values, default=values)
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".cache" / "accelerators", help="holds the folders tpu and cuda"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: benchmarks/results/accelerators")
    parser.add_argument("--tables", action="store_true", help="only make the tables again")
    parser.add_argument("--spec", help="compile one program with this Python, and print its figures as JSON")
    arguments = parser.parse_args()
    if arguments.spec:
        print(json.dumps(figures(json.loads(arguments.spec))), flush=True)
        return 0
    file = arguments.results / "figures.json"
    specs = [dict(zip(AXES, values)) for values in itertools.product(*(getattr(arguments, axis) for axis in AXES))]
    try:
        if not arguments.tables:
            bring_up_to_date(specs, arguments.environments, file)
    except InputError as error:
        print(f"benchmarks.accelerators: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks.accelerators: interrupted; run the same command to resume", file=sys.stderr)
        return 130
    finally:
        if file.exists():
            write_atomically(arguments.results / "README.md", page(read_json(file).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

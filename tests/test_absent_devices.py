"""Small programs compiled for devices that this machine lacks, where their compilers are installed: in the environment
of the tests or, after `make accelerators`, in its environments.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_products import STATED

from benchmarks.accelerators.targets import TARGETS
from benchmarks.accelerators.worker import ENVIRONMENT

ROOT = Path(__file__).parent.parent
MODULES = {"tpu": "libtpu", "cuda": "jax_cuda12_plugin"}
# The column of each target in STATED.
COLUMNS = {"v5e": 1, "a100": 3, "h100": 4}
# Prints what the products of each precision use, and what `products_of` states.
PROGRAM = """
import json, sys
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from benchmarks.accelerators import products, worker
from benchmarks.accelerators.targets import TARGETS
from jaxmatch.layers.core import PRECISIONS, matmul
from jaxmatch.products import products_of
(device,) = worker.devices_of(TARGETS[sys.argv[1]], 1)
sharding = NamedSharding(Mesh(np.array([device]), ("replica",)), PartitionSpec())
array = jax.ShapeDtypeStruct((256, 256), "float32", sharding=sharding)
for precision in PRECISIONS:
    function = jax.grad(lambda a, b: jax.numpy.tanh(matmul(a, b, precision)).sum(), (0, 1))
    found = products.products(jax.jit(function).lower(array, array).compile().as_text())
    print(json.dumps([precision, sorted({one.uses(device) for one in found}), products_of(precision, device)]))
"""


def lines_of(target: str, *words: str) -> list:
    """Returns the lines of JSON that a Python command prints. Its Python is this one if it has the compiler of the
    target, and otherwise that of `make accelerators`. If neither has it, the test is skipped.
    """
    platform = TARGETS[target].platform
    python = Path(sys.executable)
    if importlib.util.find_spec(MODULES[platform]) is None:
        python = ROOT / ".cache" / "accelerators" / platform / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{MODULES[platform]} is not installed (make accelerators installs it)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""} | ENVIRONMENT[platform]
    done = subprocess.run([python, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


@pytest.mark.slow
@pytest.mark.parametrize("target", COLUMNS)
def test_programs_use_the_stated_products(target):
    lines = lines_of(target, "-c", PROGRAM, target)
    stated = {precision: columns[COLUMNS[target]] for precision, columns in STATED.items()}
    assert {precision: rest for precision, *rest in lines} == {one: [[uses], uses] for one, uses in stated.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "program", "devices"),
    [("v5e", "evaluate", 1), ("v5e", "evaluate", 4), ("h100", "train", 1), ("h100", "train_many", 4)],
)
def test_a_small_program_is_compiled(target, program, devices):
    spec = {"target": target, "model": "re2", "program": program, "batch": 8, "precision": "float32"}
    spec |= {"devices": devices, "replicas": devices}
    (found,) = lines_of(target, "-m", "benchmarks.accelerators.worker", json.dumps(spec))
    assert found["collectives"] == 0 and found["temporaries"] > 0 and found["kernels"] > 0

"""Which kernels of a compiled step work on several numbers at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kernels import Kernel, kernels, report, vectorised

ROOT = Path(__file__).resolve().parent.parent
TEXT = """
define noalias ptr @"add.1"(ptr %0) local_unnamed_addr #0 {
  %1 = fadd <8 x float> %a, %b
  ret ptr null
}

define noalias ptr @scale_fusion(ptr %0) {
  %1 = fmul float %a, %b
  ret ptr null
}

declare float @llvm.sqrt.f32(float) #1
"""


def test_functions_with_and_without_vectors():
    assert vectorised([TEXT, "; nothing"]) == {"add.1": True, "scale_fusion": False}


def test_times_are_those_of_a_step():
    events = [
        {"ph": "X", "name": "scale_fusion", "dur": 3000},
        {"ph": "X", "name": "scale_fusion", "dur": 1000},
        {"ph": "X", "name": "add.1", "dur": 8000},
        {"ph": "X", "name": "ynn_fusion.7", "dur": 6000},
        {"ph": "X", "name": "something else", "dur": 9000},
        {"ph": "M", "name": "add.1"},
    ]
    found, products = kernels({"add.1": True, "scale_fusion": False}, events, steps=2)
    assert found == [Kernel("add.1", 4.0, 0.5, True), Kernel("scale_fusion", 2.0, 1.0, False)] and products == 3.0
    lines = report(found, products, rows=20)
    assert (
        lines[0]
        == "a step, all cores together: products 3 ms, kernels 6 ms, of which 2 ms in 1 that are not vectorised"
    )
    assert lines[1].split() == ["2.00", "ms", "1.0", "x", "scale_fusion"] and len(lines) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux")
def test_the_command_runs():
    arguments = "--batch 16 --length 8 --steps 1 --config.model.hidden_size=8 --config.model.stacked_layers=1 --config.model.head_size=8"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "csran_embedded_inference", *arguments.split()],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("csran_embedded_inference, batch 16, 8 tokens") and "that are not vectorised" in second

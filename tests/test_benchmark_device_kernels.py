"""Kernel times of a step, read from a profiler trace."""

from types import SimpleNamespace

import pytest

from benchmarks.device import kernels


def event(name, begin, nanoseconds, op):
    return SimpleNamespace(name=name, start_ns=begin, duration_ns=nanoseconds, stats=[("hlo_op", op), ("other", 1)])


def plane(name, **lines):
    return SimpleNamespace(
        name=name, lines=[SimpleNamespace(name=line.replace("_", " "), events=found) for line, found in lines.items()]
    )


def test_kernel_times_of_the_first_device_are_averaged_per_step():
    steps = [
        event("sm90_xmma_gemm_f32", 0, 600, "custom-call.1"),
        event("loop_add_fusion", 700, 100, "loop_add_fusion"),
        event("sm90_xmma_gemm_f32", 1000, 800, "custom-call.1"),
        event("loop_add_fusion", 1900, 100, "loop_add_fusion"),
    ]
    stream = SimpleNamespace(name="Stream #13(Compute)", events=steps)
    ops = SimpleNamespace(name="XLA Modules", events=[event("jit_step", 0, 2000, "")])
    planes = [
        plane("/host:CPU", python=[event("call", 0, 9000, "")]),
        SimpleNamespace(name="/device:GPU:0 (H200)", lines=[stream, ops]),
        SimpleNamespace(name="/device:GPU:1 (H200)", lines=[stream]),
    ]
    found = kernels.summary(kernels.events_of(planes), 2)
    assert found["busy_seconds"] == pytest.approx(800e-9) and found["span_seconds"] == pytest.approx(1000e-9)
    assert found["product_seconds"] == pytest.approx(700e-9)
    assert [(row["op"], row["count"]) for row in found["slowest"]] == [("custom-call.1", 1), ("loop_add_fusion", 1)]


def test_kernels_of_two_streams_that_overlap_count_once():
    both = [("a", "", 0.0, 600.0), ("b", "", 100.0, 300.0), ("c", "", 500.0, 700.0), ("d", "", 900.0, 1000.0)]
    assert kernels.summary(both, 1)["busy_seconds"] == pytest.approx(800e-9)


def test_a_cpu_has_no_kernels():
    made = []
    assert kernels.trace_steps(lambda: made.append(1), 1) == {} and made == [1]

"""Compiled programs: kept while memory mappings suffice, and compiled side by side on accelerators."""

import concurrent.futures
import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmatch import devices
from jaxmatch.devices import compiler_options
from jaxmatch.training import chunks

ON_ONE_DEVICE = {"by_slot": 0, "devices": (jax.devices()[0],)}


@pytest.fixture
def program(monkeypatch):
    """A program that doubles the sine of its argument. It is the only live program."""
    monkeypatch.setattr(chunks, "alive", weakref.WeakSet())
    monkeypatch.setattr(chunks, "warn_once", lambda: None)
    return chunks.Program(lambda x: jnp.sin(x) * 2, name="double_sine", **ON_ONE_DEVICE)


def kept(program):
    """Returns the lengths for which the program has executables."""
    return sorted(shape[0] for _, ((shape, _),), _ in program.executables)


def called(program, *lengths):
    for length in lengths:
        np.testing.assert_allclose(program((), np.arange(length, dtype="f4")), 2 * np.sin(np.arange(length)), atol=1e-6)


def test_executables_of_all_programs_are_dropped_if_mappings_are_scarce(program, monkeypatch):
    other = chunks.Program(lambda x: jnp.sin(x) * 2, name="other", **ON_ONE_DEVICE)
    monkeypatch.setattr(chunks, "mappings_are_scarce", lambda: False)
    called(program, 1, 2, 1)
    called(other, 1)
    monkeypatch.setattr(chunks, "mappings_are_scarce", lambda: True)
    called(program, 1, 2)  # these are kept: nothing is compiled or dropped
    assert (kept(program), kept(other)) == ([1, 2], [1])
    called(other, 3)
    assert (kept(program), kept(other)) == ([], [3])
    called(program, 1)  # compiled again


def calls(*lengths):
    return [((), (np.arange(length, dtype=np.float32),)) for length in lengths]


@pytest.fixture
def make_program(monkeypatch):
    """Makes a program that calls a function during tracing, and is compiled ahead."""
    monkeypatch.setattr(chunks, "mappings_are_scarce", lambda: False)

    def made(while_traced):
        return chunks.Program(lambda x: (while_traced(), jnp.sin(x) * 2)[1], name="traced", **ON_ONE_DEVICE)

    return made


def test_new_shapes_are_compiled_concurrently_and_ahead(make_program, monkeypatch):
    waits, reported = [lambda: None], []
    program = make_program(lambda: waits[-1]())
    called(program, 2)
    monkeypatch.setattr(chunks, "threads", concurrent.futures.ThreadPoolExecutor(3))
    waits.append(threading.Barrier(3, timeout=60).wait)  # three are traced at the same time
    before = program.compile_seconds
    program.compile_ahead(calls(1, 2, 3, 3, 4))
    with chunks.compilation_callback(lambda _, seconds: reported.append(seconds)):
        start = time.perf_counter()
        called(program, 1, 2, 3, 4)
        passed = time.perf_counter() - start
    assert kept(program) == [1, 2, 3, 4] and not program.ahead
    assert reported[::2] == [None] * 3 and sum(reported[1::2]) == pytest.approx(program.compile_seconds - before)
    assert program.compile_seconds - before <= passed, "overlapping seconds are counted once"


def test_programs_of_several_processes_are_compiled_on_first_use(monkeypatch):
    monkeypatch.setattr(chunks.hosts, "is_multiprocess", lambda: True)
    program = chunks.Program(jnp.sin, name="sine", **ON_ONE_DEVICE)
    program.compile_ahead(calls(1, 2, 3))
    assert not program.ahead


def test_concurrent_compilation_uses_the_precision_of_the_calling_thread(make_program):
    seen = []
    program = make_program(lambda: seen.append(jax.config.jax_default_matmul_precision))
    with jax.default_matmul_precision("bfloat16"):
        program.compile_ahead(calls(3, 4))
        called(program, 3, 4)
    assert seen == ["bfloat16"] * 2


@pytest.mark.parametrize("refusal", ["too little memory", "cancelled"])
def test_a_program_that_could_not_be_compiled_ahead_is_compiled_alone(make_program, refusal):
    """Autotuning of several programs at the same time may need more memory than a device has."""
    refused, begun, go_on = [], threading.Event(), threading.Event()

    def traced():
        if not refused:
            refused.append(1)
            begun.set()
            go_on.wait(60)
            if refusal == "too little memory":
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no room")

    program = make_program(traced)
    program.compile_ahead(calls(1))
    assert begun.wait(60)
    program.compile_ahead(calls(*range(2, 12)))
    if refusal == "cancelled":
        chunks.cancel_ahead()
    go_on.set()
    called(program, *range(1, 12))
    assert kept(program) == list(range(1, 12))


def test_mappings_are_scarce_above_three_quarters_of_the_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "LIMIT_FILE", tmp_path / "max_map_count")
    monkeypatch.setattr(devices, "MAPPINGS_FILE", tmp_path / "maps")
    assert not devices.mappings_are_scarce()  # the system reports no limit
    (tmp_path / "max_map_count").write_text("10\n")
    assert not devices.mappings_are_scarce()
    (tmp_path / "maps").write_text("a mapping\n" * 7)
    assert not devices.mappings_are_scarce()
    (tmp_path / "maps").write_text("a mapping\n" * 8)
    assert devices.mappings_are_scarce()


def test_changing_the_default_precision_recompiles_the_program():
    """A record states the precision of its products by that default."""
    program = chunks.Program(lambda x: x @ x, name="square", **ON_ONE_DEVICE)
    square = np.ones((2, 2), np.float32)
    program((), square)
    with jax.default_matmul_precision("highest"):
        program((), square)
        assert "operand_precision={highest,highest}" in program.compiled((), (square,)).as_text()
    program((), square)
    assert len(program.executables) == 2


@pytest.mark.parametrize(
    ("platform", "runs_once", "flags", "options"),
    [
        ("cpu", False, "", {}),
        ("cpu", True, "", {"xla_backend_optimization_level": 0}),
        ("gpu", True, "--xla_gpu_autotune_level=0", {"xla_gpu_enable_triton_gemm": False}),
        ("gpu", False, "--xla_gpu_enable_triton_gemm=true", {}),
        ("tpu", False, "", {}),
    ],
)
def test_compiler_options_depend_on_the_platform_and_respect_xla_flags(
    monkeypatch, platform, runs_once, flags, options
):
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert compiler_options(platform, runs_once) == options

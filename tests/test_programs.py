"""Compiled programs: kept while memory mappings suffice, evicted in least-recently-used order when they do not."""

import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmatch import devices
from jaxmatch.devices import compiler_options
from jaxmatch.training import programs


@pytest.fixture
def program(monkeypatch):
    """A program that doubles the sine of its argument. It is the only live program."""
    monkeypatch.setattr(programs, "alive", weakref.WeakSet())
    monkeypatch.setattr(programs, "warn_once", lambda: None)
    mesh = programs.replica_mesh((jax.devices()[0],))
    return programs.Program(lambda x: jnp.sin(x) * 2, name="double_sine", by_replica=(False,), mesh=mesh)


def kept(program):
    """Returns the lengths for which the program has executables."""
    return sorted(shape[0] for _, ((shape, _),), _ in program.executables)


def called(program, *lengths):
    for length in lengths:
        np.testing.assert_allclose(
            program((), np.arange(length, dtype=np.float32)), 2 * np.sin(np.arange(length)), atol=1e-6
        )


def test_least_recently_used_executable_is_evicted_first(program, monkeypatch):
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: False)
    called(program, 1, 2, 3, 4, 2, 1)
    assert kept(program) == [1, 2, 3, 4]
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: True)
    called(program, 1, 4)  # both are cached: nothing is compiled or evicted
    assert kept(program) == [1, 2, 3, 4]
    called(program, 5)
    assert kept(program) == [1, 2, 4, 5]
    called(program, 3)  # compiled again
    assert kept(program) == [1, 3, 4, 5]
    assert program.compilations == 6


def test_eviction_considers_all_live_programs(program, monkeypatch):
    mesh = programs.replica_mesh((jax.devices()[0],))
    other = programs.Program(lambda x: jnp.sin(x) * 2, name="other", by_replica=(False,), mesh=mesh)
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: False)
    called(program, 1, 2)
    called(other, 1, 2)
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: True)
    called(other, 3)
    assert (kept(program), kept(other)) == ([2], [1, 2, 3])


def calls(*lengths):
    return [((), (np.arange(length, dtype=np.float32),)) for length in lengths]


@pytest.fixture
def make_program(monkeypatch):
    """Makes a program that calls a function during tracing, and of which three lengths are compiled concurrently."""
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: False)
    monkeypatch.setattr(programs, "cores", lambda: 3)

    def made(while_traced):
        mesh = programs.replica_mesh((jax.devices()[0],))
        traced = programs.Program(
            lambda x: (while_traced(), jnp.sin(x) * 2)[1], name="traced", by_replica=(False,), mesh=mesh
        )
        traced.compiles_in_parallel = True
        return traced

    return made


def test_new_shapes_are_compiled_concurrently(make_program):
    waits, reported = [lambda: None], []
    program = make_program(lambda: waits[-1]())
    called(program, 2)
    waits.append(threading.Barrier(3, timeout=60).wait)  # three are traced at the same time
    before = program.compile_seconds
    with programs.compilation_callback(lambda _, seconds: reported.append(seconds)):
        start = time.perf_counter()
        program.compile_in_parallel(calls(1, 2, 3, 3, 4))
        passed = time.perf_counter() - start
    assert kept(program) == [1, 2, 3, 4] and program.compilations == 4
    assert reported[::2] == [None] * 3 and sum(reported[1::2]) == pytest.approx(program.compile_seconds - before)
    assert program.compile_seconds - before <= passed, "overlapping seconds are counted once"
    with programs.compilation_callback(lambda *arguments: pytest.fail("all were compiled")):
        called(program, 1, 2, 3, 4)


def test_cpu_and_multi_process_programs_are_compiled_on_first_use(program, make_program, monkeypatch):
    program.compile_in_parallel(calls(1, 2, 3))
    monkeypatch.setattr(programs.hosts, "is_multiprocess", lambda: True)
    of_several = make_program(lambda: None)
    of_several.compile_in_parallel(calls(1, 2, 3))
    assert not program.executables and not of_several.executables


def test_concurrent_compilation_uses_the_precision_of_the_calling_thread(make_program):
    seen = []
    program = make_program(lambda: seen.append(jax.config.jax_default_matmul_precision))
    with jax.default_matmul_precision("bfloat16"):
        program.compile_in_parallel(calls(3, 4))
        with programs.compilation_callback(lambda *arguments: pytest.fail("both were compiled")):
            called(program, 3, 4)
    assert seen == ["bfloat16"] * 2


def test_no_more_compilations_start_after_an_error(make_program):
    started = []

    def fails():
        started.append(1)
        time.sleep(0.05)
        raise TypeError("a fault of the program")

    program = make_program(fails)
    with pytest.raises(TypeError, match="a fault of the program"):
        program.compile_in_parallel(calls(*range(1, 40)))
    assert len(started) < 20 and not program.executables


def test_a_program_refused_in_concurrent_compilation_is_compiled_alone(make_program):
    """Autotuning of several programs at the same time may need more memory than a device has."""
    refused, reported = [], []

    def refuses_once():
        if not refused:
            refused.append(1)
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no room")

    program = make_program(refuses_once)
    with programs.compilation_callback(lambda _, seconds: reported.append(seconds)):
        program.compile_in_parallel(calls(1, 2, 3))
        assert len(kept(program)) == 2 and program.compilations == 2
        called(program, 1, 2, 3)
    assert program.compilations == 3 and reported[::2] == [None] * 4 and None not in reported[1::2]


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
    mesh = programs.replica_mesh((jax.devices()[0],))
    program = programs.Program(lambda x: x @ x, name="square", by_replica=(False,), mesh=mesh)
    square = np.ones((2, 2), np.float32)
    program((), square)
    with jax.default_matmul_precision("highest"):
        program((), square)
        assert "operand_precision={highest,highest}" in program.compiled((), (square,)).as_text()
    program((), square)
    assert program.compilations == 2


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

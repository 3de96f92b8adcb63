"""Numbers read from the text of compiled programs."""

import json

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accelerators import __main__ as main
from benchmarks.accelerators import hlo, tables
from benchmarks.accelerators.__main__ import AXES, problem_of, specs

TEXT = """HloModule m, is_scheduled=true

%fused (p.1: f32[4,8]) -> f32[4,8] {
  %p.1 = f32[4,8]{1,0} parameter(0)
  ROOT %n = f32[4,8]{1,0} negate(%p.1)
}

%fused_rows (p.2: bf16[1000,8], p.3: f32[4,8]) -> bf16[4,8] {
  %p.2 = bf16[1000,8]{1,0} parameter(0)
  %p.3 = f32[4,8]{1,0} parameter(1)
  ROOT %g.1 = bf16[4,8]{1,0} gather(%p.2, %p.3)
}

%body (t: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %t = (s32[], f32[4,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[4,8]{1,0} get-tuple-element(%t), index=1
  %y = f32[4,8]{1,0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %r = (s32[], f32[4,8]{1,0}) tuple(%i, %y)
}

ENTRY %main (a: f32[4,8], b: bf16[1000,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  %b = bf16[1000,8]{1,0} parameter(1)
  %rows = bf16[4,8]{1,0} fusion(%b, %a), kind=kLoop, calls=%fused_rows
  %g = (f32[4,8]{1,0}, s8[4096]{0}) custom-call(%a, %rows), custom_call_target="__cublas$gemm"
  %h = f32[4,8]{1,0} get-tuple-element(%g), index=0
  %s = f32[4,8]{1,0} all-reduce(%h), to_apply=%fused
  %w = (s32[], f32[4,8]{1,0}) while(%s), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %o = f32[4,8]{1,0} get-tuple-element(%w), index=1
}
"""


def test_kernels_bytes_and_collectives_are_counted():
    found = hlo.work(TEXT)
    assert (found.kernels, found.in_loops, found.collectives) == (3 + 5, 5, 1)
    rows = 64 + 8 * 64 + 128  # an operand of 16,000 bytes counts eight times the result
    product = 128 + 128 + 64  # without the workspace of the product
    assert found.moved == rows + product + 2 * 128 + 5 * 2 * 128


IN_PLACE = """HloModule m, is_scheduled=true

%fused (p.0: f32[40,8], p.1: s32[], p.2: f32[40,8]) -> f32[40,8] {
  %p.0 = f32[40,8]{1,0} parameter(0)
  %p.2 = f32[40,8]{1,0} parameter(2)
  %p.1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %row = f32[1,8]{1,0} dynamic-slice(%p.2, %p.1, %zero), dynamic_slice_sizes={1,8}
  %n = f32[1,8]{1,0} negate(%row)
  ROOT %u = f32[40,8]{1,0} dynamic-update-slice(%p.0, %n, %p.1, %zero)
}

ENTRY %main (a: f32[40,8], i: s32[], b: f32[40,8]) -> f32[40,8] {
  %a = f32[40,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %b = f32[40,8]{1,0} parameter(2)
  ROOT %o = f32[40,8]{1,0} fusion(%a, %i, %b), kind=kLoop, calls=%fused
}
"""


def test_in_place_slices_and_updates_count_only_the_slice_bytes():
    assert hlo.work(IN_PLACE).moved == 32 + 4 + 32
    read_whole = IN_PLACE.replace("negate(%row)", "subtract(%row, %p.2)")
    assert hlo.work(read_whole).moved == 32 + 4 + 8 * 32  # at most eight times the bytes written
    not_in_place = IN_PLACE.replace("dynamic-update-slice(%p.0", "dynamic-update-slice(%n")
    assert hlo.work(not_in_place).moved == 40 * 32 + 4 + 32
    # XLA of JAX 0.11 writes an asynchronous kernel in this form.
    kernel = "%o = f32[40,8]{1,0} fusion(%a, %i, %b), kind=kLoop, calls=%fused"
    types = "((f32[40,8]{1,0}, s32[], f32[40,8]{1,0}), f32[40,8]{1,0}, u32[])"
    start = kernel.replace("%o = f32[40,8]{1,0} fusion", f"%s = {types} fusion-start")
    asynchronous = IN_PLACE.replace(f"ROOT {kernel}", f"{start}\n  ROOT %o = f32[40,8]{{1,0}} fusion-done(%s)")
    assert hlo.work(asynchronous) == hlo.work(IN_PLACE)


CHOICE = """HloModule m, is_scheduled=true

%small (p.0: f32[4,8]) -> f32[4,8] {
  %p.0 = f32[4,8]{1,0} parameter(0)
  ROOT %n = f32[4,8]{1,0} negate(%p.0)
}

%large (p.1: f32[4,8]) -> f32[4,8] {
  %p.1 = f32[4,8]{1,0} parameter(0)
  %m = f32[4,8]{1,0} negate(%p.1)
  ROOT %k = f32[4,8]{1,0} negate(%m)
}

ENTRY %main (i: s32[], a: f32[4,8]) -> f32[4,8] {
  %i = s32[] parameter(0)
  %a = f32[4,8]{1,0} parameter(1)
  ROOT %o = f32[4,8]{1,0} conditional(%i, %a, %a), BRANCHES
}
"""


@pytest.mark.parametrize(
    "branches",
    [
        "branch_computations={%small, %large}",
        "branch_computations={%large, %small}",
        "true_computation=%small, false_computation=%large",
    ],
)
def test_conditional_counts_the_branch_that_moves_most_bytes(branches):
    found = hlo.work(CHOICE.replace("BRANCHES", branches))
    assert (found.kernels, found.moved) == (2, 2 * 2 * 128)


def test_worst_padding_is_read_from_the_tiled_layout():
    text = (
        "%a = f32[600000,2]{1,0:T(8,128)} add(%b)\n%c = f32[2,600000]{1,0:T(2,128)} add(%b)\n%d = "
        "f32[1,2]{1,0:T(8,128)} add(%b)"
    )
    times, which = hlo.worst_padding(text)
    assert times == 64 and which.startswith("f32[600000,2]")


def test_specs_contain_each_combination_once():
    found = list(specs(AXES))
    assert len(found) == 5 * 4 * 2 * 2 * 3 * 2 == len({json.dumps(spec) for spec in found})


def test_failure_reason_is_one_line_and_untried_programs_are_counted():
    text = (
        "Traceback\n  File x\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space "
        "hbm.\n more"
    )
    assert problem_of(text).endswith("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.")
    quoted = (
        "Traceback\n    raise InputError(missing, path=path)\njaxmatch.errors.InputError: x: there is no such file\n"
    )
    assert problem_of(quoted) == "jaxmatch.errors.InputError: x: there is no such file"
    assert (problem_of("an error\nlast"), problem_of("first\nlast\n\n"), problem_of("")) == ("an error", "last", "")
    row = {"target": "v5e", "model": "re2", "program": "train", "replicas": 10, "batch": 512, "precision": "float32"}
    text = tables.markdown([{**row, "problem": "no room", "commit": "1234567"}], {"v5e": 2}, 0)
    assert (
        "- re2 train, 10 x 512, float32: no room" in text and "1 of 2 programs; the others were not tried yet." in text
    )


def test_killed_compiler_raises_interrupt_and_failed_one_returns_the_problem(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -TERM $$\n")
    python.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        main.compiled({"target": "v5e"}, python)
    python.write_text("#!/bin/sh\nkill -KILL $$\n")
    assert main.compiled({"target": "v5e"}, python) is None
    python.write_text("#!/bin/sh\necho 'RESOURCE_EXHAUSTED: no memory' >&2\nexit 1\n")
    assert main.compiled({"target": "v5e"}, python) == {"problem": "RESOURCE_EXHAUSTED: no memory"}


def test_program_compiled_on_this_machine_is_parsed():
    text = jax.jit(lambda a: jnp.tanh(a @ a)).lower(jnp.ones((64, 64))).compile().as_text()
    found = hlo.work(text)
    assert found.kernels >= 1 and found.collectives == 0 and found.moved >= 2 * 64 * 64 * 4

"""Numbers read from the text of compiled programs, and programs compiled for devices that this machine lacks."""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from filelock import FileLock

from benchmarks.accelerators import __main__ as main
from benchmarks.accelerators import hlo, sources, tables
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


def test_of_what_is_sliced_or_updated_in_place_the_slice_counts():
    assert hlo.work(IN_PLACE).moved == 32 + 4 + 32
    read_whole = IN_PLACE.replace("negate(%row)", "subtract(%row, %p.2)")
    assert hlo.work(read_whole).moved == 32 + 4 + 8 * 32  # at most eight times the bytes written
    made_anew = IN_PLACE.replace("dynamic-update-slice(%p.0", "dynamic-update-slice(%n")
    assert hlo.work(made_anew).moved == 40 * 32 + 4 + 32
    # The form in which XLA of JAX 0.11 writes a kernel that runs beside others.
    kernel = "%o = f32[40,8]{1,0} fusion(%a, %i, %b), kind=kLoop, calls=%fused"
    types = "((f32[40,8]{1,0}, s32[], f32[40,8]{1,0}), f32[40,8]{1,0}, u32[])"
    start = kernel.replace("%o = f32[40,8]{1,0} fusion", f"%s = {types} fusion-start")
    apart = IN_PLACE.replace(f"ROOT {kernel}", f"{start}\n  ROOT %o = f32[40,8]{{1,0}} fusion-done(%s)")
    assert hlo.work(apart) == hlo.work(IN_PLACE)


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
def test_of_branches_the_one_that_moves_most_counts(branches):
    found = hlo.work(CHOICE.replace("BRANCHES", branches))
    assert (found.kernels, found.moved) == (2, 2 * 2 * 128)


def test_padding_is_that_of_the_last_axes_of_the_layout():
    text = (
        "%a = f32[600000,2]{1,0:T(8,128)} add(%b)\n%c = f32[2,600000]{1,0:T(2,128)} add(%b)\n%d = "
        "f32[1,2]{1,0:T(8,128)} add(%b)"
    )
    times, which = hlo.worst_padding(text)
    assert times == 64 and which.startswith("f32[600000,2]")


def test_every_combination_is_compiled_once():
    found = list(specs(AXES))
    assert len(found) == 5 * 4 * 2 * 2 * 3 * 2 == len({json.dumps(spec) for spec in found})


def test_a_reason_is_one_line():
    text = (
        "Traceback\n  File x\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space "
        "hbm.\n more"
    )
    assert problem_of(text).endswith("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.")
    row = {"target": "v5e", "model": "re2", "program": "train", "replicas": 10, "batch": 512, "precision": "float32"}
    text = tables.markdown([{**row, "problem": "no room", "commit": "1234567"}], {"v5e": 2})
    assert (
        "- re2 train, 10 x 512, float32: no room" in text and "1 of 2 programs; the others were not tried yet." in text
    )


def test_a_compilation_that_was_stopped_says_nothing_of_its_program(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -TERM $$\n")
    python.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        main.compiled({"target": "v5e"}, python)
    python.write_text("#!/bin/sh\necho 'RESOURCE_EXHAUSTED: no memory' >&2\nexit 1\n")
    assert main.compiled({"target": "v5e"}, python) == {"problem": "RESOURCE_EXHAUSTED: no memory"}


def test_a_program_of_this_machine_is_read_too():
    text = jax.jit(lambda a: jnp.tanh(a @ a)).lower(jnp.ones((64, 64))).compile().as_text()
    found = hlo.work(text)
    assert found.kernels >= 1 and found.collectives == 0 and found.moved >= 2 * 64 * 64 * 4


FIGURES = {
    "temporaries": 1e9,
    "arguments": 2e9,
    "moved": 1,
    "operations": 1,
    "kernels": 80,
    "kernels_in_loops": 80,
    "collectives": 0,
    "compile_seconds": 1,
    "least_seconds": 1,
    "commit": "1234567890",
}


def row_of(**changes):
    row = {"target": "v5e", "model": "re2", "program": "train", "replicas": 32, "batch": 512, "precision": "float32"}
    return {**row, **FIGURES, **changes}


def test_what_does_not_fit_is_named():
    sentence = (
        "does not fit the memory of the device, 16 GB, with temporaries and arguments: re2 train, 32 x 512, float32."
    )
    large = row_of(temporaries=14.5e9)
    text = tables.markdown([large], {"v5e": 1})
    assert sentence in text and "that XLA has" not in text
    assert sentence not in tables.markdown([row_of()], {"v5e": 1})
    # XLA states another memory size than the manufacturers publish.
    refused = {**row_of(replicas=64), "problem": "of temporaries (20.00G) exceeds available HBM (15.75G)."}
    for name in ("temporaries", "arguments"):
        del refused[name]
    inside = tables.markdown([large, refused], {"v5e": 2})
    assert f"{sentence} Within the 15.75 GiB that XLA has: re2 train, 32 x 512, float32." in inside
    assert "that XLA has" not in tables.markdown([row_of(temporaries=15e9), refused], {"v5e": 2})


def test_the_least_time_of_lstms_on_a_tpu_says_that_it_leaves_turns_out():
    """XLA counts one turn of a loop. Only the text of a program for GPUs states the number of turns."""
    assert "| ≥ 1000.00 |" in tables.markdown([row_of(model="esan")], {"v5e": 1})
    for other in (row_of(), row_of(model="esan", target="h100")):
        text = tables.markdown([other], {other["target"]: 1})
        assert "| 1000.00 |" in text and "| ≥ 1000.00" not in text


def test_what_the_compiler_counts_of_a_loop_is_one_turn():
    """The tables state this."""

    def turns(count):
        program = jax.jit(lambda a: jax.lax.scan(lambda carry, _: (carry @ a, None), a, None, length=count)[0])
        lowered = program.lower(jnp.ones((64, 64)))
        return lowered.cost_analysis()["flops"], lowered.compile().cost_analysis()["flops"]

    assert turns(40) == pytest.approx(turns(2), rel=0.01)


def test_rows_of_the_code_that_encoded_each_token_have_a_sign():
    commit = "efe718db89b21a0b0dcadb909040799398fe6654"
    older, refused = row_of(model="cafe", commit=commit), {**row_of(model="csran", commit=commit), "problem": "no room"}
    text = tables.markdown([older, refused, row_of(commit=commit)], {"v5e": 3})
    assert "| efe718d † |" in text and "- csran train, 32 x 512, float32 †: no room" in text
    assert "† 2 of 3 programs are of the code before commit 44ba4c9" in text
    assert "| efe718d |" in text  # RE2 takes no characters
    again = tables.markdown([{**older, "commit": "1234567"}], {"v5e": 1})
    assert "before commit 44ba4c9" not in again and "1234567 †" not in again


SPEC = {"target": "h100", "model": "re2", "program": "train", "batch": 64, "replicas": 10, "precision": "float32"}


def tree_in(folder):
    """Puts the code that figures depend on and an environment without a compiler into a folder."""
    for file in (*main.ROOT.glob("jaxmatch/layers/*.py"), *main.ROOT.glob("benchmarks/accelerators/*")):
        if file.is_file():
            copy = folder / file.relative_to(main.ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    (folder / "jaxmatch" / "products.py").write_text("")
    (folder / "cuda" / "bin").mkdir(parents=True)
    (folder / "cuda" / "bin" / "python").touch()
    return folder


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """A folder with the code that figures depend on, the program of a fake compiler that counts its calls, and a
    function that brings figures up to date.
    """
    told, program = [], {"text": "a"}

    def compiled(spec, python, known):
        told.append(known)
        made = {"text": program["text"], "versions": {}}
        return {"same": True} if known == made else {**made, "kernels": len(told)}

    digests = functools.partial(sources.digests, root=tree_in(tmp_path))
    monkeypatch.setattr(main, "compiled", compiled)
    monkeypatch.setattr(sources, "digests", digests)

    def bring_up_to_date():
        before = len(told)
        assert not main.bring_up_to_date([SPEC], tmp_path, tmp_path / "figures.json")
        return told[before:], main.figures(tmp_path / "figures.json")[main.name_of(SPEC)]["kernels"]

    return tmp_path, program, bring_up_to_date


def edit(file, *, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_a_program_is_compiled_again_only_if_it_is_another(compilations):
    root, program, bring_up_to_date = compilations
    assert bring_up_to_date() == ([None], 1)
    assert bring_up_to_date() == ([], 1)
    layer, reader = root / "jaxmatch" / "layers" / "masking.py", root / "benchmarks" / "accelerators" / "hlo.py"
    edit(layer, old='"""', new='"""Of docstrings ')
    edit(layer, old="import jax", new="# and comments it is independent\nimport jax")
    assert bring_up_to_date() == ([], 1)
    edit(layer, old="import jax.numpy as jnp", new="import jax\nimport jax.numpy as jnp")
    known = {"text": "a", "versions": {}}
    assert bring_up_to_date() == ([known], 1)  # lowered, but not compiled
    assert bring_up_to_date() == ([], 1)
    edit(layer, old="import jax\n", new="")
    program["text"] = "b"
    assert bring_up_to_date() == ([known], 3)
    edit(reader, old="MOST_READ = 8", new="MOST_READ = 9")
    assert bring_up_to_date() == ([None], 4)  # the same program, read by other code


def test_two_commands_at_once_keep_each_others_figures(compilations, monkeypatch):
    root, _, bring_up_to_date = compilations
    file, other = root / "figures.json", {**SPEC, "batch": 512}
    alone, asked = main.compiled, []

    def compiled(spec, python, known):
        asked.append(spec)
        if spec == SPEC:  # meanwhile another command compiles the other program
            monkeypatch.setattr(main, "compiled", alone)
            assert not main.bring_up_to_date([other], root, file)
            monkeypatch.setattr(main, "compiled", compiled)
        return alone(spec, python, known)

    monkeypatch.setattr(main, "compiled", compiled)
    assert not main.bring_up_to_date([SPEC, other], root, file)
    assert main.figures(file).keys() == {main.name_of(SPEC), main.name_of(other)}
    assert asked == [SPEC]  # the program of the other command is not compiled again


def test_a_row_is_written_while_no_other_command_writes(tmp_path):
    file, lock = tmp_path / "figures.json", tmp_path / "figures.lock"
    with FileLock(lock):
        writer = threading.Thread(target=main.keep, args=(file, lock, "a", {"kernels": 1}))
        writer.start()
        time.sleep(0.3)
        assert not file.exists()
        file.write_text('{"b": {}}')
    writer.join()
    assert main.figures(file) == {"a": {"kernels": 1}, "b": {}}


def test_what_does_not_compile_is_tried_again_by_another_compiler(compilations, monkeypatch):
    root, _, _ = compilations
    file, asked = root / "figures.json", []
    monkeypatch.setattr(main, "compiled", lambda *_: asked.append(1) or {"problem": "no room"})
    for version, times in (("0.10.2", 1), ("0.10.2", 1), ("0.10.3", 2)):
        monkeypatch.setattr(sources, "compilers", lambda *_, version=version: {"jax": version})
        assert not main.bring_up_to_date([SPEC], root, file)
        assert len(asked) == times
        assert main.figures(file)[main.name_of(SPEC)]["versions"] == {"jax": version}


def test_a_row_of_other_versions_is_not_current():
    digests = {"made_by": "1", "read_by": "2"}
    row = {**digests, "text": "a", "versions": {"jax": "0.10.2"}}
    assert sources.is_current(row, digests, {"jax": "0.10.2"})
    assert not sources.is_current(row, digests, {"jax": "0.10.3"})
    assert not sources.is_current({**row, "made_by": "3"}, digests, {"jax": "0.10.2"})
    # Older rows of programs that do not compile have no versions.
    assert sources.is_current({**digests, "problem": "no room"}, digests, {"jax": "0.10.3"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "compiler", "model", "program"),
    [
        ("v5e", "libtpu", "re2", "evaluate"),
        ("h100", "jax_cuda12_plugin", "re2", "train"),
    ],
)
def test_a_small_program_is_compiled_for_a_device(target, compiler, model, program):
    if importlib.util.find_spec(compiler) is None:
        pytest.skip(f"{compiler} is not installed (pip install 'jax[tpu]' or 'jax[cuda12]')")
    spec = {"target": target, "model": model, "program": program, "replicas": 1, "batch": 8, "precision": "float32"}
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root), "XLA_FLAGS": ""}
    words = [sys.executable, "-m", "benchmarks.accelerators.worker", json.dumps(spec)]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["collectives"] == 0 and found["temporaries"] > 0 and found["least_seconds"] > 0

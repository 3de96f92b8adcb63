"""What was compiled for accelerators: tables, and which programs are compiled again."""

import functools
import shutil
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from filelock import FileLock

from benchmarks.accelerators import __main__ as main
from benchmarks.accelerators import sources, tables

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

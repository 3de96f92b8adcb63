"""Tables of programs compiled for accelerators, and which programs are recompiled."""

import functools
import shutil
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from filelock import FileLock

from benchmarks.accelerators import __main__ as main
from benchmarks.accelerators import before_and_after, sources, tables
from jaxmatch.errors import InputError

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


def test_programs_that_exceed_device_memory_are_listed():
    sentence = (
        "does not fit the memory of the device, 16 GB, with temporaries and arguments: re2 train, 32 x 512, float32."
    )
    large = row_of(temporaries=14.5e9)
    text = tables.markdown([large], {"v5e": 1}, 1)
    assert sentence in text and "that XLA has" not in text
    assert sentence not in tables.markdown([row_of()], {"v5e": 1}, 1)
    # XLA states another memory size than the manufacturers publish.
    refused = {**row_of(replicas=64), "problem": "of temporaries (20.00G) exceeds available HBM (15.75G)."}
    for name in ("temporaries", "arguments"):
        del refused[name]
    inside = tables.markdown([large, refused], {"v5e": 2}, 1)
    assert f"{sentence} Within the 15.75 GiB that XLA has: re2 train, 32 x 512, float32." in inside
    assert "that XLA has" not in tables.markdown([row_of(temporaries=15e9), refused], {"v5e": 2}, 1)


def test_least_time_of_lstm_models_on_tpu_is_marked_as_a_lower_bound():
    """XLA counts one iteration of a loop. Only the text of a program for GPUs states the number of iterations."""
    assert "| ≥ 1000.00 |" in tables.markdown([row_of(model="esan")], {"v5e": 1}, 1)
    for other in (row_of(), row_of(model="esan", target="h100")):
        text = tables.markdown([other], {other["target"]: 1}, 1)
        assert "| 1000.00 |" in text and "| ≥ 1000.00" not in text


def test_programs_for_several_devices_have_a_table_with_collectives():
    several = row_of(program="train_many", devices=4, collectives=3)
    text = tables.markdown([row_of(), several], {"v5e": 1}, 1)
    assert "| v5e | re2 | train_many | 3 | 1.00 | 0.0 | 80 | 1234567 |" in text
    assert "Collectives (operations that devices do together): none." in text  # of the programs for one device
    assert "not tried yet" not in text and text.count("train_many |") == 1
    assert "Several devices" not in tables.markdown([row_of()], {"v5e": 1}, 1)
    assert "1 of 15 programs; the others were not tried yet." in tables.markdown([several], {}, 15)
    assert "| v5e | re2 | train_many | does not compile |" in tables.markdown(
        [{**several, "problem": "no room"}], {"v5e": 0}, 1
    )


def test_cost_analysis_counts_one_iteration_of_a_loop():
    """The tables state this."""

    def flops_with(count):
        program = jax.jit(lambda a: jax.lax.scan(lambda carry, _: (carry @ a, None), a, None, length=count)[0])
        lowered = program.lower(jnp.ones((64, 64)))
        return lowered.cost_analysis()["flops"], lowered.compile().cost_analysis()["flops"]

    assert flops_with(40) == pytest.approx(flops_with(2), rel=0.01)


SPEC = {"target": "h100", "model": "re2", "program": "train", "batch": 64, "replicas": 10, "precision": "float32"}


SHAPES = "def _array(): ...\ndef _state(): ...\ndef step_shapes(): ...\ndef needs(): ...\n"


def tree_in(folder):
    """Puts the code that figures depend on and an environment without a compiler into a folder."""
    for file in (*main.ROOT.glob("jaxmatch/layers/*.py"), *main.ROOT.glob("benchmarks/accelerators/*")):
        if file.is_file():
            copy = folder / file.relative_to(main.ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    for name, text in {"products.py": "", "sweep/memory.py": SHAPES}.items():
        (folder / "jaxmatch" / name).parent.mkdir(exist_ok=True)
        (folder / "jaxmatch" / name).write_text(text)
    (folder / "cuda" / "bin").mkdir(parents=True)
    (folder / "cuda" / "bin" / "python").touch()
    return folder


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """A folder with the code that figures depend on, the program of a fake compiler that counts its calls, and a
    function that brings figures up to date.
    """
    calls, program = [], {"text": "a"}

    def compiled(spec, python, known):
        calls.append(known)
        made = {"text": program["text"], "versions": {}}
        return {"same": True} if known == made else {**made, "kernels": len(calls)}

    digests = functools.partial(sources.digests, root=tree_in(tmp_path))
    monkeypatch.setattr(main, "compiled", compiled)
    monkeypatch.setattr(sources, "digests", digests)

    def bring_up_to_date():
        before = len(calls)
        main.bring_up_to_date([SPEC], tmp_path, tmp_path / "figures.json")
        return calls[before:], main.figures(tmp_path / "figures.json")[main.name_of(SPEC)]["kernels"]

    return tmp_path, program, bring_up_to_date


def edit(file, *, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_a_program_is_recompiled_only_if_its_text_or_its_reader_changes(compilations):
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
    shapes = root / "jaxmatch" / "sweep" / "memory.py"
    edit(shapes, old="needs()", new="needs(module)")  # no program depends on it
    assert bring_up_to_date() == ([], 1)
    edit(shapes, old="step_shapes()", new="step_shapes(module)")
    assert bring_up_to_date() == ([known], 1)
    edit(layer, old="import jax\n", new="")
    program["text"] = "b"
    assert bring_up_to_date() == ([known], 4)
    edit(reader, old="MOST_READ = 8", new="MOST_READ = 9")
    assert bring_up_to_date() == ([None], 5)  # the same program, read by other code


def test_two_concurrent_commands_keep_each_others_figures(compilations, monkeypatch):
    root, _, bring_up_to_date = compilations
    file, other = root / "figures.json", {**SPEC, "batch": 512}
    original, attempts = main.compiled, []

    def compiled(spec, python, known):
        attempts.append(spec)
        if spec == SPEC:  # meanwhile another command compiles the other program
            monkeypatch.setattr(main, "compiled", original)
            main.bring_up_to_date([other], root, file)
            monkeypatch.setattr(main, "compiled", compiled)
        return original(spec, python, known)

    monkeypatch.setattr(main, "compiled", compiled)
    main.bring_up_to_date([SPEC, other], root, file)
    assert main.figures(file).keys() == {main.name_of(SPEC), main.name_of(other)}
    assert attempts == [SPEC]  # the other command's program is not recompiled


def test_a_row_is_written_only_after_the_lock_is_released(tmp_path):
    file, lock = tmp_path / "figures.json", tmp_path / "figures.lock"
    with FileLock(lock):
        writer = threading.Thread(target=main.keep, args=(file, lock, "a", {"kernels": 1}))
        writer.start()
        time.sleep(0.3)
        assert not file.exists()
        file.write_text('{"b": {}}')
    writer.join()
    assert main.figures(file) == {"a": {"kernels": 1}, "b": {}}


def test_a_failed_compilation_is_retried_only_with_another_compiler_version(compilations, monkeypatch):
    root, _, _ = compilations
    file, attempts = root / "figures.json", []
    monkeypatch.setattr(main, "compiled", lambda *_: attempts.append(1) or {"problem": "no room"})
    for version, times in (("0.10.2", 1), ("0.10.2", 1), ("0.10.3", 2)):
        monkeypatch.setattr(sources, "compilers", lambda *_, version=version: {"jax": version})
        main.bring_up_to_date([SPEC], root, file)
        assert len(attempts) == times
        assert main.figures(file)[main.name_of(SPEC)]["versions"] == {"jax": version}


def test_a_program_whose_compiler_was_killed_is_retried_and_does_not_stop_the_others(compilations, monkeypatch):
    root, _, _ = compilations
    file, other = root / "figures.json", {**SPEC, "batch": 512}
    monkeypatch.setattr(main, "compiled", lambda spec, *_: None if spec == SPEC else {"problem": "no room"})
    with pytest.raises(InputError, match=f"killed, perhaps for lack of memory: {main.name_of(SPEC)};"):
        main.bring_up_to_date([SPEC, other], root, file)
    assert main.figures(file).keys() == {main.name_of(other)}


def test_an_interrupt_writes_the_pages(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "bring_up_to_date", interrupt)
    monkeypatch.setattr("sys.argv", ["accelerators", "--results", str(tmp_path)])
    assert main.main() == 130 and (tmp_path / "README.md").exists()
    assert capsys.readouterr().err == "benchmarks.accelerators: interrupted; run the same command to resume\n"


def test_a_row_of_other_versions_is_not_current():
    digests = {"made_by": "1", "read_by": "2"}
    row = {**digests, "text": "a", "versions": {"jax": "0.10.2"}}
    assert sources.is_current(row, digests, {"jax": "0.10.2"})
    assert not sources.is_current(row, digests, {"jax": "0.10.3"})
    assert not sources.is_current({**row, "made_by": "3"}, digests, {"jax": "0.10.2"})
    # Older rows of programs that do not compile have no versions.
    assert sources.is_current({**digests, "problem": "no room"}, digests, {"jax": "0.10.3"})


def test_the_page_of_both_times_shows_each_program_of_before_beside_its_figures_now():
    before = {
        "b": row_of(target="h100", moved=3.35e9, operations=0, kernels=250, temporaries=2e9, batch=512),
        "a": row_of(target="h100", moved=3.35e12, operations=0, kernels=0, temporaries=1e9, batch=64),
        "c": {"problem": "no room", **{key: row_of()[key] for key in ("target", *before_and_after.HEADINGS)}},
    }
    now = {"a": before["a"] | {"moved": 6.7e12}, "b": before["b"] | {"kernels": 500}, "c": row_of(), "d": row_of()}
    page = before_and_after.markdown(before, now)
    rows = [line for line in page.splitlines() if line.startswith("| re2")]
    assert [row.split(" | ")[3] for row in rows[:2]] == ["64", "512"]
    assert rows[0].endswith("| 1.00 | 1.00 | 3350.0 | 6700.0 | 0 | 0 | 1000.00 | 2000.00 |")
    assert rows[1].endswith("| 2.00 | 2.00 | 3.4 | 3.4 | 250 | 500 | 2.00 | 3.00 |")
    assert "| does not compile |" in rows[2] and len(rows) == 3
    assert page.endswith("Did not compile before:\n\n- re2 train, 32 x 512, float32: no room\n")

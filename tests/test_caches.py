"""The folders of encoded data and compiled programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import saved_model

from jaxmatch.devices import cache_folder
from jaxmatch.errors import InputError


def test_cache_folder_is_the_given_one_else_in_xdg_cache_home_else_in_the_home(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch")
    assert cache_folder("/fast") == Path("/fast")
    assert cache_folder() == Path("/scratch/jaxmatch")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path("/home/ada/.cache/jaxmatch")

    def home():  # for example in `docker run --user 12345` without HOME
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(InputError, match="no home folder.*config.execution.cache_directory=FOLDER, or the variable"):
        cache_folder()


COUNTED = """
import collections, sys
import jax
from jaxmatch.cli.main import main
events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))
status = main(sys.argv[1:])
print(events["cache_hits"], events["cache_misses"], events["compile_requests_use_cache"], file=sys.stderr)
sys.exit(status)
"""


def counted(*words, **variables: str) -> tuple[str, list[int]]:
    """Runs a command in its own process. Returns its output and how many programs it found, compiled, and requested."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1]), **variables}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *map(str, words)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (counts,) = done.stderr.splitlines()  # no warning
    return done.stdout, [int(count) for count in counts.split()]


def test_a_program_compiled_by_one_process_is_a_cache_hit_in_the_next(run, tmp_path):
    labeled = [(*pair, saved_model.LABELS[0]) for pair in saved_model.TEXTS]
    source = saved_model.write_tsv(tmp_path / "in.tsv", labeled, "text_a\ttext_b\tlabel")
    words = ("evaluate", run, "--input", source)
    output, (found, compiled, _) = counted(*words, XDG_CACHE_HOME=str(tmp_path))
    assert compiled > 0 and found == 0
    assert counted(*words, XDG_CACHE_HOME=str(tmp_path)) == (output, [compiled, 0, compiled])
    assert any((tmp_path / "jaxmatch" / "programs").iterdir())


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"])
def test_an_unwritable_cache_folder_does_not_warn_or_fail(run, tmp_path, variable):
    (tmp_path / "file").touch()
    source = saved_model.write_tsv(tmp_path / "in.tsv", saved_model.TEXTS)
    output, (found, *_) = counted("predict", run, "--input", source, **{variable: str(tmp_path / "file" / "cache")})
    assert found == 0 and len(output.splitlines()) == len(saved_model.TEXTS)


def test_environment_variables_disable_or_move_the_compilation_cache(run, tmp_path):
    source = saved_model.write_tsv(tmp_path / "in.tsv", saved_model.TEXTS)
    words, home = ("predict", run, "--input", source), {"XDG_CACHE_HOME": str(tmp_path / "home")}
    output, counts = counted(*words, JAX_ENABLE_COMPILATION_CACHE="0", **home)
    assert counts == [0, 0, 0] and not (tmp_path / "home").exists()
    named = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "named")}
    assert counted(*words, **named, **home)[0] == output
    assert any((tmp_path / "named").iterdir()) and not (tmp_path / "home").exists()

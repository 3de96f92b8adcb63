"""The notebooks run from top to bottom, and their stored outputs are what their code printed."""

import importlib.metadata
import os
import re
import subprocess
import sys

import matplotlib
import nbformat
import pytest

from jaxmatch.cli.main import SUBCOMMANDS
from notebooks import build

# Matches paths of a machine (/home/name, C:\Users\name), but not the paths of web addresses.
ABSOLUTE = re.compile(r"""(?<![\w:/.<\\])(?:/[\w.-]+/[\w./-]+|[A-Z]:\\\w+|~/\w+)""")


def text_of(output) -> str:
    """Returns all text of an output, without its images."""
    parts = [
        output.get("text", ""),
        *(value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")),
    ]
    return "\n".join(parts)


@pytest.mark.parametrize("name", build.NAMES)
class TestCommitted:
    def test_stored_outputs_belong_to_the_current_code(self, name):
        notebook = build.read(name)
        nbformat.validate(notebook)
        assert notebook.metadata.executed == build.digest(notebook), f"run: python -m notebooks.build {name}"
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        for cell in cells:
            assert all(output.output_type != "error" for output in cell.outputs), cell.id
            if "\n%jaxmatch" in f"\n{cell.source}":  # without a condition
                assert any(output.output_type == "stream" and output.text for output in cell.outputs), cell.id
            if "Image(" in cell.source:
                assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.id
        assert any("Image(" in cell.source for cell in cells)
        tables = [output.data["text/markdown"] for output in cells[-1].outputs if "data" in output]
        assert tables and "| ---" in tables[0]  # "Run all" ends with a table

    def test_notebook_equals_its_cleaned_version(self, name):
        """The notebook has no traces of an editor, a clock or a machine."""
        notebook = build.read(name)
        assert build.cleaned(build.with_address(notebook, name, build.repository())) == notebook
        assert (build.FOLDER / f"{name}.ipynb").read_text() == nbformat.writes(notebook) + "\n"
        for cell in notebook.cells:
            for text in (cell.source, *map(text_of, cell.get("outputs", []))):
                assert not ABSOLUTE.search(text), (cell.id, ABSOLUTE.search(text)[0])
                assert "\x1b" not in text, cell.id

    def test_files_links_and_commands_in_the_text_exist(self, name):
        notebook = build.read(name)
        text = "\n".join(cell.source for cell in notebook.cells)
        for path in re.findall(r"\b(?:sweeps|configs)/\w+\.py", text):
            assert (build.ROOT / path).is_file(), path
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            assert "://" in link or (build.FOLDER / link).is_file(), link
        commands = re.findall(r"^%jaxmatch (\w+)|`%?jaxmatch (\w+)", text, re.MULTILINE)
        assert commands and {word for words in commands for word in words if word} <= set(SUBCOMMANDS)


@pytest.mark.parametrize("address", ["", "https://github.com/a/b-c"])
def test_badge_and_install_cell_follow_from_the_repository_address(tmp_path, address):
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "x"\n' + f'[project.urls]\nRepository = "{address}.git"' * bool(address))
    assert build.repository(project) == address
    for name in build.NAMES:
        notebook = build.read(name)
        # The address is set only in pyproject.toml; the addresses in the notebooks follow from it.
        assert build.with_address(notebook, name, build.repository()) == notebook, (
            "run .venv/bin/python -m notebooks.build --address"
        )
        made = build.with_address(build.with_address(notebook, name, ""), name, address)
        assert build.digest(made) == notebook.metadata.executed
        cells = {cell.id: cell.source for cell in made.cells}
        assert f'\nSOURCE = "{address}"  #' in cells["install"]
        opens = f"{build.COLAB}/github/a/b-c/blob/main/notebooks/{name}.ipynb"
        assert (f"]({opens})\n\n" in cells["title"]) == bool(address)


# Runs the first cell where jaxmatch seems not to be installed, with a pip that only prints its arguments, and as on
# Colab if there is an argument: the file of that name is uploaded.
BARE = """
import importlib.util, sys, types, unittest.mock
from IPython.core.interactiveshell import InteractiveShell
original = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "jaxmatch" else original(name)
shell = InteractiveShell()
shell.history_manager.enabled = False
shell.register_magic_function(lambda line: print("pip", line), magic_name="pip")
for name in sys.argv[1:]:
    colab = unittest.mock.MagicMock()
    colab.files.upload = open(name, "x").close
    sys.modules |= {"google": types.ModuleType("google"), "google.colab": colab}
sys.exit(not shell.run_cell(sys.stdin.read()).success)
"""


@pytest.mark.parametrize(
    ("address", "uploaded", "clone", "place"),
    [
        ("https://github.com/a/b", (), False, "git+https://github.com/a/b"),
        ("", (), True, "file://{folder}"),
        ("", ("jaxmatch (1).zip",), False, "file://{folder}/notebooks/jaxmatch%20%281%29.zip"),
        ("", (), False, None),
    ],
    ids=["repository", "clone", "upload", "nothing"],
)
def test_install_cell_installs_the_package_and_keeps_the_installed_jax(tmp_path, address, uploaded, clone, place):
    cells = [build.with_address(build.read(name), name, address).cells for name in build.NAMES]
    (source,) = {cell.source for each in cells for cell in each if cell.id == "install"}  # the same in all
    environment = {**os.environ, "PYTHONPATH": str(build.ROOT), "IPYTHONDIR": str(tmp_path / "ipython")}
    folder = tmp_path / "notebooks"
    folder.mkdir()
    if clone:
        (tmp_path / "jaxmatch").mkdir()
        (tmp_path / "jaxmatch" / "__init__.py").touch()
    words = [sys.executable, "-c", BARE, *uploaded]
    done = subprocess.run(words, input=source, cwd=folder, env=environment, capture_output=True, text=True)
    if place is None:
        assert done.returncode == 1 and "No module named 'google" in done.stdout
        return
    assert done.returncode == 0, done.stdout + done.stderr
    *_, pip_line, device = done.stdout.splitlines()
    place = place.format(folder=tmp_path)
    assert pip_line == f'pip install --quiet --constraint jax.txt "jaxmatch[figures,tables] @ {place}"'
    kept = (folder / "jax.txt").read_text().split()
    assert {f"{name}=={importlib.metadata.version(name)}" for name in ("jax", "jaxlib")} <= set(kept)
    assert re.fullmatch(r"JAX \S+ on \d+ x \S.*", device)


@pytest.mark.slow
def test_small_notebooks_run_from_top_to_bottom(tmp_path):
    """The notebooks run one after the other, so that they share encoded data and compiled programs."""
    # Without MPLCONFIGDIR, matplotlib looks for its fonts again.
    caches = {"XDG_CACHE_HOME": str(tmp_path), "MPLCONFIGDIR": matplotlib.get_cachedir()}
    done = subprocess.run(
        [sys.executable, "-m", "notebooks.build", "--small"],
        cwd=build.ROOT,
        env={**os.environ, **caches},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name}: ran" for name in build.NAMES]

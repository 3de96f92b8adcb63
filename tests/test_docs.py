"""The documentation is true: links resolve, examples run, commands parse, generated pages follow from the code."""

import ast
import contextlib
import importlib.util
import inspect
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import pytest
import saved_model

import jaxmatch
from jaxmatch.cli import main, train
from jaxmatch.sweep import launch
from jaxmatch.sweep.files import CONFIGS, SWEEPS, find, load_module

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LAUNCHERS = [file for folder in ("configs", "sweeps") for file in sorted((ROOT / folder).glob("[!_]*.py"))]
GENERATED = ("settings.md", "command_line.md")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The options that DATA abbreviates in tables of commands.
DATA = "--data-directory data --vectors glove.840B.300d.zip"


def fenced(page, language):
    return [code for name, code in FENCE.findall(page.read_text()) if name == language]


def prose(text):
    return FENCE.sub("", text)


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub and MyST name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_links_and_anchors_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if "://" in target:
            continue
        name, _, anchor = unquote(target).partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.is_file(), f"{target} is no file"
        assert not anchor or anchor in anchors(file), f"{target}: {file.name} has no such heading"


@every_page
def test_files_and_make_targets_that_are_named_exist(page):
    text = page.read_text()
    folders = "benchmarks|configs|docs|jaxmatch|notebooks|results|sweeps|tests"
    for name in re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./-]*[\w/]", re.sub(r"\S*\{\S*", "", text)):
        if not re.search(r"NAME|DATASET", name):
            assert (ROOT / name).exists(), name
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"(?:^    |`)make ([a-z]+)", text, re.MULTILINE):
        assert target in targets, f"make {target}"


def test_every_page_of_the_manual_is_in_its_table_of_contents():
    index = (ROOT / "docs" / "index.md").read_text()
    trees = [tree for _, tree in FENCE.findall(index)]
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    existing = [page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed + ["index"]) == sorted(map(str, existing))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if fenced(page, "python")], ids=lambda page: page.stem)
def test_python_examples_run(page, tmp_path, monkeypatch, restored_registries, few_pairs):
    for name in ("configs", "sweeps", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    saved_model.save(tmp_path / "runs" / "quickstart" / "runs" / "RUN")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("tensorboardX", "wandb", "mlflow"):  # tests/test_follow_page.py tests their calls
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    names = {}
    for number, example in enumerate(fenced(page, "python")):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(example, f"{page.name}, example {number}", "exec"), names)
    if "get_sweep" in names:
        assert names["get_sweep"]().runs()


def commands(page):
    """Yields the words of every `jaxmatch ...` command of a page, or of the docstring of a launcher: in shell examples,
    indented lines and tables.
    """
    is_launcher = page.suffix == ".py"
    text = ast.get_docstring(ast.parse(page.read_text())) if is_launcher else page.read_text()
    text = text.replace("\\\n", " ")
    lines = [line for name, code in FENCE.findall(text) if name == "sh" for line in code.splitlines()]
    lines += re.findall(r"^    (jaxmatch [^\n]*)", text, re.MULTILINE)
    inline = re.findall(r"`(jaxmatch [^`]*)`", text)
    # Leaves out text that is only the name of a command.
    lines += [line for line in inline if len(line.split()) > 2 and not re.fullmatch("jaxmatch data [a-z]+", line)]
    for line in lines:
        for piece in (line if is_launcher else re.sub(r"\bDATA\b", DATA, line)).split(" | "):
            words = shlex.split(piece, comments=True)
            if words and words[0] == "jaxmatch" and not words[1].isupper() and "..." not in piece:
                yield words[1:]


@pytest.mark.parametrize("page", [*PAGES, *LAUNCHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page, monkeypatch, restored_registries, tmp_path):
    monkeypatch.chdir(ROOT)
    mine = tmp_path / "my_extensions.py"
    mine.touch()  # the file that --import names on the page
    for words in commands(page):
        parsed = main.parse([str(mine) if word == mine.name else word for word in words])
        if parsed.imports:  # the page shows the file
            exec("\n".join(fenced(page, "python")), {})
        options = parsed.options
        kinds = {"timing": (SWEEPS,), "train": (CONFIGS,)}.get(parsed.subcommand, (SWEEPS, CONFIGS))
        file = find(parsed.file, kinds) if hasattr(parsed, "file") and "my" not in str(parsed.file) else None
        if parsed.subcommand == "timing":
            known = inspect.signature(load_module(file).get_timing).parameters
            assert set(options) <= set(known), words
        elif file is not None and parsed.subcommand in ("sweep", "train", "tune"):
            overrides = {"overrides": train.settings_of(parsed), "grid_overrides": parsed.dotted["grid"]}
            launch.resolve(file, **overrides, options=options, smoke=parsed.smoke).runs()
        elif parsed.subcommand in ("sweep", "train", "tune"):
            assert "my" in str(parsed.file), words


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_up_to_date(name):
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert sorted(generate.PAGES) == sorted(GENERATED)
    assert (ROOT / "docs" / "reference" / name).read_text() == generate.PAGES[name](), (
        "run .venv/bin/python docs/generate.py"
    )


def test_python_reference_describes_every_exported_name():
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    listed = re.findall(r"^\| `([a-zA-Z_]+)[^`]*` \| \S", page, re.MULTILINE)
    assert set(listed) == set(jaxmatch.__all__)


def test_exported_names_exist_and_are_imported_for_type_checkers():
    for name in jaxmatch.__all__:
        found = getattr(jaxmatch, name)
        assert getattr(found, "__name__", name).rpartition(".")[2] == name
    tree = ast.parse((ROOT / "jaxmatch" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert {alias.name: node.module for node in block.body for alias in node.names} == jaxmatch.MODULES


def test_importing_the_package_does_not_import_jax():
    program = "import sys, jaxmatch; jaxmatch.default_config(), dir(jaxmatch); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0

"""The requirements are in two files, which must agree; the shell scripts must report problems in one line."""

import importlib.metadata
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import jaxmatch

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_requirements_match_pyproject_and_have_both_bounds():
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    assert lines == declared
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_-]+>=[0-9.]+,<[0-9.]+", line), line


@pytest.mark.parametrize("extra", ["cuda12", "cuda13", "tpu"])
def test_device_extras_require_the_same_jax_version(extra):
    (jax,) = (line for line in PROJECT["dependencies"] if line.startswith("jax>"))
    assert PROJECT["optional-dependencies"][extra] == [jax.replace("jax", f"jax[{extra}]", 1)]
    assert f'; extra == "{extra}"' in "".join(importlib.metadata.requires("jax"))


def test_extras_are_included_in_the_test_extra_with_the_same_bounds():
    extras = PROJECT["optional-dependencies"]
    tested = extras.keys() - {"test", "cuda12", "cuda13", "tpu", "docs", "torch", "vectors"}
    assert {line for name in tested for line in extras[name]} <= set(extras["test"])


def test_console_script_and_version_are_declared():
    module, _, function = PROJECT["scripts"]["jaxmatch"].partition(":")
    assert getattr(__import__(module, fromlist=[function]), function).__module__ == module
    assert re.fullmatch(r"\d+\.\d+\.\d+", jaxmatch.__version__)
    assert f"## {jaxmatch.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {jaxmatch.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(("answer", "message"), [("exit 1", "does not run"), ("echo 3.9", "is Python 3.9, and 3.11")])
def test_unusable_python_is_reported_in_one_line(tmp_path, answer, message):
    python, folder = tmp_path / "python3", tmp_path / "environment"
    python.write_text(f'#!/bin/sh\ncase "$2" in *print*) {answer};; *) exit 1;; esac\n')
    python.chmod(0o755)
    done = subprocess.run([ROOT / ".ci" / "environment", python, folder], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not folder.exists()


def test_continuous_integration_runs_the_tests_on_the_data_beside_the_project(tmp_path):
    """`make` is replaced by a program that records how it was called."""
    ours, note = tmp_path / "project", tmp_path / "note"
    (ours / ".ci").mkdir(parents=True)
    (ours / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (ours / ".ci" / "run").chmod(0o755)
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(f'#!/bin/sh\necho "$PWD $* ${{JAXMATCH_DATA:-none}} ${{NLTK_DATA:-none}}" > {note}\n')
    make.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key not in ("JAXMATCH_DATA", "NLTK_DATA")}
    environment["PATH"] = f"{make.parent}:{environment['PATH']}"
    data = tmp_path / "shared" / "data"
    (data / "nltk_data").mkdir(parents=True)
    # Variables that are set stay.
    for set_before, given in (({}, f"{data} {data}/nltk_data"), ({"JAXMATCH_DATA": "/d", "NLTK_DATA": "/n"}, "/d /n")):
        subprocess.run([ours / ".ci" / "run"], env=environment | set_before, cwd="/", check=True)
        assert note.read_text() == f"{ours} test {given}\n"


def test_the_hosted_workflow_calls_the_command_of_the_readme_on_supported_pythons():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = re.findall(r"- run: make (\S+)$", workflow, re.MULTILINE)
    assert "test" in called and set(called) <= set(targets)
    assert len(called) == workflow.count("- run:")
    for version in re.findall(r'"(3\.\d+)"', workflow):
        assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_all_data_files_of_the_package_are_installed():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {
        path
        for package, names in patterns.items()
        for name in names
        for path in ROOT.joinpath(*package.split(".")).glob(name)
    }
    files = {path for path in (ROOT / "jaxmatch").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py"} == installed
    assert ROOT / "jaxmatch" / "py.typed" in installed

"""The structure of the package: imports go one way, and code for tables needs no JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxmatch"
# Component (a folder or file of the package) -> the components that it may import. FILES belong to no component.
FILES = {"errors", "files"}
MAY_IMPORT = {
    "config": set(),
    "data": {"config"},
    "layers": {"config", "data"},
    "models": {"config", "data", "layers"},
    "training": {"config", "data", "layers", "models", "devices"},
    "workdir": set(),
    "baselines": {"data", "training"},
    "reporting": {"config", "training", "workdir"},
    "papers": {
        "config",
        "reporting",
        "data",
        "models",
        "training",
        "workdir",
        "devices",
        "inference",
        "analysis",
        "sweep",
    },
    "devices": {"layers"},
    "inference": {"config", "data", "layers", "models", "devices", "reporting", "__init__"},
    "analysis": {"devices", "data", "models", "training", "reporting", "inference"},
    "sweep": {
        "config",
        "data",
        "layers",
        "models",
        "training",
        "reporting",
        "workdir",
        "devices",
        "inference",
        "analysis",
        "baselines",
        "__init__",
    },
    "extend": {"config", "data", "models", "training", "sweep"},
    "results": {"config", "data", "reporting", "inference", "analysis"},
    "cli": {
        "config",
        "settings",
        "extend",
        "data",
        "reporting",
        "sweep",
        "papers",
        "analysis",
        "workdir",
        "inference",
        "devices",
        "__init__",
    },
    "__init__": {"config", "data", "extend", "results", "reporting", "inference", "analysis", "sweep", "cli"},
    "__main__": {"cli"},
}


def component(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """Yields the top-level name in the package for each of its modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "jaxmatch":
                first = rest.partition(".")[0]
                known = bool(first) and ((PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").exists())
                yield first if known else "__init__"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = component(path)
    if own in FILES:
        assert set(imported(path)) <= FILES
    else:
        assert set(imported(path)) <= MAY_IMPORT[own] | FILES | {own}


def test_allowed_imports_have_no_cycle():
    left = {name: needs - {"__init__"} for name, needs in MAY_IMPORT.items() if not name.startswith("__")}
    while left:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        assert free, f"these import each other: {sorted(left)}"
        left = {name: needs for name, needs in left.items() if name not in free}


@pytest.mark.parametrize("folder", ["reporting", "papers"])
def test_tables_need_neither_jax_nor_flax(folder):
    modules = [
        ".".join(("jaxmatch", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in (PACKAGE / folder).rglob("*.py")
        if path.stem != "timing"
    ]
    code = (
        "import importlib, sys\n"
        "for name in ('jax', 'jaxlib', 'flax', 'optax', 'orbax'): sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr

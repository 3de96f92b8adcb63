"""The code that a program's figures depend on. As long as it stays the same, the figures need not be made again."""

import ast
import hashlib
import itertools
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.accelerators.targets import TARGETS
from benchmarks.accelerators.worker import COMPILERS, CONFIGS

ROOT = Path(__file__).parents[2]
# The code that makes the program of a spec, besides its config.
_PROGRAM = (
    "jaxmatch/layers/*.py",
    "jaxmatch/models/*.py",
    "jaxmatch/config/*.py",
    *(
        f"jaxmatch/training/{name}.py"
        for name in ("evaluation", "hyperparameters", "keys", "layouts", "losses", "replicas", "schedule", "step")
    ),
    "benchmarks/accelerators/worker.py",
)
# The names in these modules that do so. No program depends on the rest of them.
_SHAPES, _NAMES = "jaxmatch/sweep/memory.py", ("_array", "_state", "step_shapes")
_TEXT, _WORDS = "jaxmatch/data/text.py", ("PADDING", "UNKNOWN", "LONGEST_WORD", "WordTable")
# What the programs for several devices depend on, too.
_ON_SEVERAL = ("jaxmatch/training/programs.py", "jaxmatch/training/signature_programs.py")
# The code that compiles the program and reads its figures, and the parts of the worker that do so.
_READING = ("jaxmatch/products.py", *(f"benchmarks/accelerators/{name}.py" for name in ("hlo", "products", "targets")))
_WORKER, _PARTS = "benchmarks/accelerators/worker.py", ("COMPILERS", "ENVIRONMENT", "counts", "devices_of", "figures")


def digests(spec: Mapping[str, Any], root: Path = ROOT) -> dict[str, str]:
    """Returns a digest of the code that makes the program of a spec, and a digest of the code that compiles and reads
    it. Comments, docstrings and layout do not count.
    """
    target = TARGETS[spec["target"]]
    files = [*_PROGRAM, *_ON_SEVERAL * ("devices" in spec), f"configs/{CONFIGS[spec['model']].partition('_')[0]}.py"]
    making = [ast.dump(_code(file)) for file in itertools.chain(*(sorted(root.glob(pattern)) for pattern in files))]
    making += [*_parts(root / _SHAPES, _NAMES), *_parts(root / _TEXT, _WORDS)]
    reading = [ast.dump(_code(root / file)) for file in _READING] + _parts(root / _WORKER, _PARTS)
    described = root / "benchmarks" / "accelerators" / target.topology
    reading.append(described.read_text() if described.is_file() else target.topology)
    return {"made_by": _digest(making), "read_by": _digest(reading)}


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _code(file: Path) -> ast.Module:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree


def _parts(file: Path, names: Iterable[str]) -> list[str]:
    """Returns the code of the given definitions of a module.

    Raises:
      KeyError: the module does not define one of them.
    """
    found = {_name(node): ast.dump(node) for node in _code(file).body}
    return sorted((found[name] for name in names), key=list(found.values()).index)


def _name(node: ast.stmt) -> str:
    """Returns the name that a statement of a module defines, or ""."""
    if isinstance(node, ast.Assign):
        return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
    return getattr(node, "name", "")


def compilers(platform: str, environment: Path) -> dict[str, str]:
    """Returns the versions of JAX and of a platform's compiler in a virtual environment."""
    packages = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    found = {each.metadata["Name"]: each.version for each in metadata.distributions(path=packages)}
    return {name: found[name] for name in ("jax", COMPILERS[platform]) if name in found}


def is_current(row: Mapping[str, Any], digests: Mapping[str, str], versions: Mapping[str, str]) -> bool:
    """Returns whether a row's figures would be the same now, judging by the code and the compiler alone."""
    return (
        all(row.get(name) == digest for name, digest in digests.items()) and row.get("versions", versions) == versions
    )


def known_program(row: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns what identifies the program of a row, so that `worker` can tell whether changed code still makes the same
    program. None means that there is no row, or that its figures would be read differently now.
    """
    # Rows without this digest were read in the same way as now.
    if "text" not in row or row.get("read_by", digests["read_by"]) != digests["read_by"]:
        return None
    return {"text": row["text"], "versions": row["versions"]}

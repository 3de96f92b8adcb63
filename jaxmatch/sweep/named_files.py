"""Config and sweep files by name: `re2` for configs/re2.py, `quickstart` for sweeps/quickstart.py.

The folders configs/ and sweeps/ are at the top of the source tree. An installed package has copies of them in
jaxmatch/launchers/. A file in configs/ or sweeps/ of the current folder takes precedence, so that edited copies count.
"""

import ast
from collections.abc import Sequence
from pathlib import Path

import jaxmatch
from jaxmatch.errors import InputError, did_you_mean

CONFIGS, SWEEPS = "configs", "sweeps"


def _folders(kind: str) -> list[Path]:
    """Returns the folders that are searched for files of a kind, in this order."""
    package = Path(jaxmatch.__file__).parent
    return [Path(kind), package / "launchers" / kind, package.parent / kind]


def files(kind: str) -> dict[str, Path]:
    """Returns name -> file, for all files of a kind."""
    found: dict[str, Path] = {}
    for folder in _folders(kind):
        for file in sorted(folder.glob("[!_.]*.py")):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def configs() -> dict[str, str]:
    """Returns name -> title of the configs that `load_config` finds. `jaxmatch configs` also lists the sweeps."""
    return {name: title(file) for name, file in files(CONFIGS).items()}


def data_sets(file: Path) -> list[str]:
    """Reads the names of the data sets in a config's `DATA_SETS`. Nothing is executed."""
    for node in _parsed(file).body:
        if isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == ["DATA_SETS"]:
            constants = [key.value for key in getattr(node.value, "keys", ()) if isinstance(key, ast.Constant)]
            return [name for name in constants if isinstance(name, str)]
    return []


def closest(name: str, kinds: Sequence[str]) -> str:
    """Returns `did you mean "…"?` with the closest name of a file, or "" if no name is close."""
    known = [each for kind in kinds for each in files(kind)]
    if CONFIGS in kinds:
        stems = [(stem, file) for stem, file in files(CONFIGS).items() if name.startswith(f"{stem}_")]
        known += [f"{stem}_{each}" for stem, file in stems for each in data_sets(file)]
    return did_you_mean(name, known)


def find(path: str | Path, kinds: Sequence[str]) -> Path:
    """Finds the file of a path or a name.

    Arguments:
      path: a path, or the name of a file. A config's name may end in the name of a data set: `re2_snli`. A path as in
        the source tree, such as configs/re2_snli.py, is looked up by its name if there is no file at the path.
      kinds: `CONFIGS`, `SWEEPS`, or both, in the order in which they are searched.

    Returns:
      The file. Any other path is returned unchanged, whether or not a file exists there.

    Raises:
      InputError: no file has this name.
    """
    path = Path(path)
    name = str(path)
    if path.suffix == ".py" and path.parts[:-1] in ((CONFIGS,), (SWEEPS,)) and not path.exists():
        return _named(path.stem, path.parts[:1]) or path
    if path.suffix or path.name != name or path.is_file():
        return path
    if file := _named(name, kinds):
        return file
    remedy = closest(name, kinds) or "jaxmatch configs lists the names"
    for kind, command in ((CONFIGS, "train"), (SWEEPS, "sweep")):
        if kind not in kinds and name in files(kind):
            remedy = f"it is a {kind[:-1]}: jaxmatch {command} {name}"
    raise InputError(f"there is no file and no {' or '.join(kind[:-1] for kind in kinds)} {name!r}", remedy=remedy)


def _named(name: str, kinds: Sequence[str]) -> Path | None:
    """Finds the file of a name, or None. A name that ends in a data set (re2_snli) gives a path that may not exist."""
    for kind in kinds:
        known = files(kind)
        if name in known:
            return known[name]
        for end in (place for place, letter in enumerate(name) if letter == "_" and kind == CONFIGS):
            file = known.get(name[:end])
            if file and name[end + 1 :] in (data_sets(file) or [name[end + 1 :]]):
                return file.with_name(f"{name}.py")
    return None


def title(file: Path) -> str:
    """Reads the first paragraph of a file's docstring, as one line. Nothing is executed."""
    return " ".join((ast.get_docstring(_parsed(file)) or "").partition("\n\n")[0].split())


def _parsed(file: Path) -> ast.Module:
    """Parses a file. The result is empty if the file cannot be read or parsed."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])

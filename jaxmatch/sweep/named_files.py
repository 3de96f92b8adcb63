"""Config and sweep files by name: `re2` for configs/re2.py, `quickstart` for sweeps/quickstart.py.

The folders configs/ and sweeps/ stand at the top of the source tree. An installed package has copies of them in
jaxmatch/launchers/. A file in configs/ or sweeps/ of the current folder goes before both, so that an edited one counts.
"""

import ast
from collections.abc import Sequence
from pathlib import Path

import jaxmatch
from jaxmatch.errors import InputError, nearest

CONFIGS, SWEEPS = "configs", "sweeps"


def _folders(kind: str) -> list[Path]:
    """Where files of a kind are looked for, in this order."""
    package = Path(jaxmatch.__file__).parent
    return [Path(kind), package / "launchers" / kind, package.parent / kind]


def files(kind: str) -> dict[str, Path]:
    """Name -> file, of all files of a kind."""
    found: dict[str, Path] = {}
    for folder in _folders(kind):
        for file in sorted(folder.glob("[!_.]*.py")):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def configs() -> dict[str, str]:
    """Name -> title of the configs that `load_config` finds by name. `jaxmatch configs` lists them, and the sweeps."""
    return {name: title(file) for name, file in files(CONFIGS).items()}


def find(path: str | Path, kinds: Sequence[str]) -> Path:
    """The file that a path or a name stands for.

    Arguments:
      path: a path, or the name of a file. A config's name may end in that of a data set: `re2_snli`.
      kinds: `CONFIGS`, `SWEEPS`, or both in the order in which they are looked in.

    Returns:
      The file; a path is returned as it is, whether or not there is a file.

    Raises:
      InputError: there is no file of this name.
    """
    path = Path(path)
    name = str(path)
    if path.suffix or path.name != name or path.is_file():
        return path
    known: dict[str, Path] = {}
    for kind in kinds:
        there = files(kind)
        if name in there:
            return there[name]
        if kind == CONFIGS:
            for end in (place for place, letter in enumerate(name) if letter == "_"):
                if name[:end] in there:
                    return there[name[:end]].with_name(f"{name}.py")
        known |= there
    raise InputError(
        f"there is no file and no {' or '.join(kind[:-1] for kind in kinds)} {name!r}", remedy=nearest(name, known)
    )


def title(file: Path) -> str:
    """The first line of a file's docstring; nothing is executed."""
    try:
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        return ""
    return text.partition("\n")[0]

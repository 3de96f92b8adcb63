"""Executes the notebooks, and stores them with their outputs.

    python -m notebooks.build                       # all of them: each takes up to three minutes on two cores
    python -m notebooks.build first_sweep
    python -m notebooks.build first_sweep --small   # tries it in seconds, and keeps nothing
    python -m notebooks.build --address             # runs nothing, and writes the repository's address into all

A notebook runs in an empty folder, in a new process. Times, and metadata of the program that ran the notebook, are
removed from the outputs, so that a diff shows only real changes.

Where pyproject.toml has [project.urls] with Repository = "https://github.com/OWNER/NAME", each notebook and the README
get a badge that opens the notebook on Colab (`badge`), and the first cell can install from that address. Nothing else
names it.
"""

import argparse
import hashlib
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
NAMES = ("first_sweep", "ablation_on_your_data", "papers_table", "look_inside")
COLAB = "https://colab.research.google.com"
IN_README = "first_sweep"  # the notebook that the README's badge opens
_SOURCE = re.compile(r'(?m)^SOURCE = ".*?"')
# The metadata of a cell that are kept. "small" is the source that replaces the cell's own in a small run.
KEPT = ("tags", "small")
# Lines of the progress that tell a time.
_TIMES = re.compile(r"^.*(?:estimated \w+ time|sweep: elapsed).*\n", re.MULTILINE)


def read(name: str) -> NotebookNode:
    """The notebook of that name, as it stands in the tree."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_of(notebook: NotebookNode) -> list[str]:
    """The sources of its code cells."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def repository(project: Path = ROOT / "pyproject.toml") -> str:
    """Returns the repository's address in pyproject.toml, or "" if there is none or if it is not on GitHub."""
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("urls", {})
    address = urls.get("Repository", "").removesuffix("/").removesuffix(".git")
    return address if re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", address) else ""


def badge(name: str, address: str) -> str:
    """Markdown that opens a notebook of the repository's main branch on Colab."""
    place = address.removeprefix("https://github.com/")
    return (
        f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({COLAB}/github/{place}/blob/main/notebooks/{name}.ipynb)"
    )


def with_badge(text: str, name: str, address: str) -> str:
    """Returns a page with the badge below its heading, in place of an earlier one; without an address, with none."""
    lines = [line for line in text.split("\n") if not line.startswith("[![Open in Colab]")]
    if lines[1:3] == ["", ""]:  # the two blank lines around a removed badge
        del lines[1]
    return "\n".join([lines[0], *(["", badge(name, address)] if address else []), *lines[1:]])


def with_address(notebook: NotebookNode, name: str, address: str) -> NotebookNode:
    """A copy with the badge, whose first cell installs from the address if there is one."""
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        if cell.id == "title":
            cell.source = with_badge(cell.source, name, address)
        elif cell.id == "install":
            cell.source = _SOURCE.sub(f'SOURCE = "{address}"', cell.source)
    return notebook


def digest(notebook: NotebookNode) -> str:
    """Returns a digest of a notebook's code, except for the address. It is stored with the outputs, so that a test can
    detect outputs of other code.
    """
    code = _SOURCE.sub('SOURCE = ""', "\0".join(code_of(notebook)))
    return hashlib.sha256(code.encode()).hexdigest()


def with_small_parameters(notebook: NotebookNode) -> NotebookNode:
    """A copy whose parameters are those of a small run."""
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        cell.source = cell.metadata.get("small", cell.source)
    return notebook


def executed(notebook: NotebookNode) -> NotebookNode:
    """A copy with the outputs of a run in a new process and an empty folder.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed.
    """
    from nbclient import NotebookClient

    notebook = nbformat.from_dict(notebook)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=900,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
        )
        # The tree's own package, and none of the user's settings of IPython.
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        client.execute(env={**os.environ, "PYTHONPATH": path, "IPYTHONDIR": os.path.join(folder, ".ipython")})
    return notebook


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """A copy without what differs from run to run, and with the digest of its code."""
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in KEPT if key in cell.metadata})
        if cell.cell_type != "code":
            continue
        # The order of the two streams is random. Progress (stderr) is put before the results (stdout).
        cell.outputs.sort(key=lambda output: ("stderr", "stdout", None).index(output.get("name")))
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = _TIMES.sub("", output.text)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "executed": digest(notebook),
        }
    )
    return notebook


def build(name: str, small: bool = False) -> None:
    """Runs a notebook, and writes it with its outputs, and the README's badge, unless the run is small.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed; the notebook stays as it was.
    """
    notebook = read(name)
    if small:
        executed(with_small_parameters(notebook))
        return
    _write(name, cleaned(executed(with_address(notebook, name, repository()))))


def write_address(name: str) -> None:
    """Writes the address of the repository into a notebook and the README, and keeps the outputs."""
    _write(name, with_address(read(name), name, repository()))


def _write(name: str, notebook: NotebookNode) -> None:
    from jaxmatch.files import write_atomically

    nbformat.validate(notebook)
    write_atomically(FOLDER / f"{name}.ipynb", nbformat.writes(notebook) + "\n")
    readme = ROOT / "README.md"
    write_atomically(readme, with_badge(readme.read_text(encoding="utf-8"), IN_README, repository()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the notebooks that are named, or all; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--small", action="store_true", help="the parameters of a small run; no notebook is written")
    parser.add_argument("--address", action="store_true", help="run nothing, write the repository's address into them")
    parsed = parser.parse_args(arguments)
    from nbclient.exceptions import CellExecutionError

    for name in parsed.names or NAMES:
        if name not in NAMES:
            parser.error(f"there is no notebook {name!r}: {', '.join(NAMES)}")
        try:
            write_address(name) if parsed.address else build(name, parsed.small)
        except CellExecutionError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(f"{name}: {'ran' if parsed.small else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

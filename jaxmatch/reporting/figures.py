"""Figures of the results of analyses. Each is a pure function of plain values, which are saved as JSON next to it.

drawings.py makes the drawings; this module writes them to files. The same values give the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.plain_file import require_plain_file
from jaxmatch.reporting.drawings import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The files contain no dates and no random names.
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}
_LARGEST_NUMBER = 1e15
_STYLE = {"svg.hashsalt": "jaxmatch", "text.parse_math": False, "savefig.dpi": 150, "font.size": 9}


def write(data: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Saves values as JSON, and draws them next to it as PNG and SVG.

    Arguments:
      data: plain values. "kind" names the kind of figure.
      folder: the folder of the files. It is created if it does not exist.
      name: the name of the files, without their extension.

    Returns:
      The files.

    Raises:
      InputError: matplotlib is not installed, or the values are not those of a figure. The JSON file exists by then.
    """
    values = Path(folder) / f"{name}.json"
    write_json(values, data)
    return [values, *draw(data, folder, name, source=values)]


def draw(data: Mapping[str, Any], folder: Path, name: str, source: Path | None = None) -> list[Path]:
    """Draws values as PNG and SVG.

    Arguments:
      data: plain values. "kind" names the kind of figure.
      folder: the folder of the files. It is created if it does not exist.
      name: the name of the files, without their extension.
      source: the file of the values, for error messages.

    Raises:
      InputError: matplotlib is not installed, or the values are not those of a figure.
    """
    with style_of(source):
        try:
            _check_numbers(data)
            figure = KINDS[data["kind"]](data)
            drawn = {ending: _drawn(figure, ending) for ending in _METADATA}
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            problem = f"does not hold the values of a figure ({type(error).__name__}: {error})"
            raise InputError(problem, path=source, remedy="run the command that wrote it again") from error
    files = {Path(folder) / f"{name}.{ending}": content for ending, content in drawn.items()}
    for file, content in files.items():
        write_atomically(file, content)
    return list(files)


def _drawn(figure: Figure, ending: str) -> bytes:
    content = io.BytesIO()
    with warnings.catch_warnings():
        # Long texts may leave no room for the layout. The figure is then drawn without it.
        warnings.filterwarnings("ignore", "constrained_layout not applied")
        figure.savefig(content, format=ending, metadata=_METADATA[ending])
    return content.getvalue()


def _check_numbers(value: Any) -> None:
    """Checks that no number is so large that matplotlib would search for ticks of its axis without end.

    Raises:
      ValueError: a number is infinite, or larger than any number that an analysis finds.
    """
    if isinstance(value, int | float) and abs(value) > _LARGEST_NUMBER:
        raise ValueError("a number is too large to be drawn")
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_numbers(each)


def redraw(source: Path, folder: Path) -> list[Path]:
    """Draws a figure again from the JSON file that stores its values.

    Raises:
      InputError: the file cannot be read or does not hold the values of a figure, or matplotlib is not installed.
    """
    require_plain_file(source, remedy="give the JSON file of a figure, or the --workdir of a sweep")
    try:
        data = read_json(source)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path=source, remedy="give the JSON file of a figure") from error
    if not isinstance(data, dict) or data.get("kind") not in list(KINDS):
        raise InputError("does not hold the values of a figure", path=source, remedy="give the JSON file of a figure")
    return draw(data, folder, Path(source).stem, source=source)


@contextlib.contextmanager
def style_of(source: Path | None) -> Iterator[None]:
    """Applies matplotlib's default style with the changes in `_STYLE` inside a block, whatever the user's own settings
    are.

    Arguments:
      source: the file of the values, for the error message.

    Raises:
      InputError: matplotlib is not installed.
    """
    try:
        import matplotlib.style
    except ModuleNotFoundError:
        again = f"then jaxmatch figure {source}" if source else ""
        raise NotInstalled("a figure", "matplotlib", "figures", again) from None
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box, so a warning is not needed.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield

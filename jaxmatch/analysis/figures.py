"""Figures of what the analyses found, each a pure function of the plain values that are kept beside it.

What is drawn is in drawings.py; here it becomes files. The same values give the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.analysis.drawings import KINDS
from jaxmatch.errors import InputError
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.plain_file import check_plain_file

# No clock and no random names in the files.
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}
_STYLE = {"svg.hashsalt": "jaxmatch", "text.parse_math": False, "savefig.dpi": 150, "font.size": 9}


def write(data: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Keeps values as JSON, and draws them beside it as PNG and SVG.

    Arguments:
      data: plain values; "kind" says what they are of.
      folder: is made where it is not there.
      name: of the files, without their ending.

    Returns:
      The files.

    Raises:
      InputError: matplotlib is not installed; the JSON has been written by then.
    """
    values = Path(folder) / f"{name}.json"
    write_json(values, data)
    return [values, *draw(data, folder, name, source=values)]


def draw(data: Mapping[str, Any], folder: Path, name: str, source: Path | None = None) -> list[Path]:
    """Draws values as PNG and SVG.

    Arguments:
      data: plain values; "kind" says what they are of.
      folder: is made where it is not there.
      name: of the files, without their ending.
      source: the file the values stand in, for errors.

    Raises:
      InputError: matplotlib is not installed, or the values are not those of a figure.
    """
    with _style(source):
        try:
            figure = KINDS[data["kind"]](data)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            problem = f"does not hold the values of a figure ({type(error).__name__}: {error})"
            raise InputError(problem, path=source, remedy="let the command that wrote it write it again") from error
        drawn = []
        for ending, metadata in _METADATA.items():
            content = io.BytesIO()
            figure.savefig(content, format=ending, metadata=metadata)
            drawn.append(Path(folder) / f"{name}.{ending}")
            write_atomically(drawn[-1], content.getvalue())
    return drawn


def redraw(source: Path, folder: Path) -> list[Path]:
    """Draws again the figure whose values a JSON file keeps.

    Raises:
      InputError: the file cannot be read or holds something else, or matplotlib is not installed.
    """
    check_plain_file(source, "give a JSON file written beside a figure")
    try:
        data = read_json(source)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path=source, remedy="give a JSON file written beside a figure") from error
    if not isinstance(data, dict) or data.get("kind") not in list(KINDS):
        raise InputError("does not hold the values of a figure", path=source, remedy="give a JSON file written beside a figure")
    return draw(data, folder, Path(source).stem, source=source)


@contextlib.contextmanager
def _style(source: Path | None) -> Iterator[None]:
    """Matplotlib as it is delivered, whatever the user's own settings, with ours on top."""
    try:
        import matplotlib.style
    except ModuleNotFoundError:
        again = f", then jaxmatch figure {source}" if source else ""
        raise InputError("figures need matplotlib", remedy=f"pip install 'jaxmatch[figures]'{again}") from None
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box, which says enough.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield

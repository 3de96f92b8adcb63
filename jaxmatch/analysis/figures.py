"""Figures of what the analyses found, each a pure function of the plain values that are kept beside it.

They can be told apart in print and by colour-blind readers: colour maps are viridis and cividis, whose lightness rises steadily,
lines differ in their markers too, and cells of a heat map have their numbers in them. The same values give the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmatch.errors import InputError
from jaxmatch.files import write_atomically, write_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# No clock and no random names in the files.
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}
_STYLE = {"svg.hashsalt": "jaxmatch", "text.parse_math": False, "savefig.dpi": 150, "font.size": 9}
_MARKERS = "osD^v<>Pp*Xh"
_LONGEST_LABEL = 24
_LARGEST = 60


def attention(data: Mapping[str, Any]) -> Figure:
    """Attention weights of a pair (RE2's Figure 3): a row a block, a column a direction; see `PairAttention.as_json`."""
    rows, columns = len(data["tokens_a"]), len(data["tokens_b"])
    directions = {"over_b": "first over second\n(rows sum to 1)", "over_a": "second over first\n(columns sum to 1)"}
    strongest = max(np.max(block[key]) for block in data["blocks"] for key in ("over_b", "over_a"))
    width, height = 1.2 + 0.33 * columns, 1.3 + 0.27 * rows
    figure = _figure(max(6.4, 2 * width + 1), height * len(data["blocks"]) + 0.8)
    places = figure.subplots(len(data["blocks"]), 2, squeeze=False)
    for place, block in zip(places, data["blocks"], strict=True):
        for axes, (key, title) in zip(place, directions.items(), strict=True):
            weights = np.array(block[key], float).reshape(rows, columns)
            drawn = axes.imshow(weights, cmap="cividis_r", vmin=0, vmax=strongest, aspect="auto")
            axes.set_title(f"{block['name']}, {title}")
            _name_ticks(axes, data["tokens_a"], data["tokens_b"])
    figure.colorbar(drawn, ax=places, label="attention weight", shrink=0.8)
    answer = data["label"] if data["score"] is None else f"{data['score']:.3f}"
    figure.suptitle(f"answer: {_printable(answer)}")
    return figure


def occlusion(data: Mapping[str, Any]) -> Figure:
    """Changes of accuracy without a feature (RE2's Figure 2): a panel a class; see `Occlusion.as_json`."""
    # <float>[blocks, features, classes] in percentage points; NaN where there is nothing
    change = 100 * np.array(data["change"], float)
    blocks, features, classes = change.shape
    known = change[np.isfinite(change)]
    lower, upper = min(known.min(initial=0), -1e-3), max(known.max(initial=0), 1e-3)
    figure = _figure(1.6 + classes * (0.9 + 0.6 * blocks), 1.3 + 0.45 * features)
    places = figure.subplots(1, classes, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(places, data["labels"], strict=True)):
        values = change[:, :, number].T
        drawn = axes.imshow(np.ma.masked_invalid(values), cmap="cividis", vmin=lower, vmax=upper, aspect="auto")
        for (feature, block), value in np.ndenumerate(values):
            if math.isfinite(value):
                light = (value - lower) / (upper - lower) > 0.5
                color = "black" if light else "white"
                axes.text(block, feature, f"{value:+z.1f}".replace("-", "−"), ha="center", va="center", color=color)
        _name_ticks(axes, data["features"] if number == 0 else [""] * features, range(1, blocks + 1), upright=False)
        axes.set_title(_printable(label))
        axes.set_xlabel("block")
    figure.colorbar(drawn, ax=places, label="change of accuracy\n(points)")
    return figure


def curves(data: Mapping[str, Any]) -> Figure:
    """Learning curves: the mean over the seeds, and a band of one sample standard deviation; see `curves.curves`."""
    import matplotlib

    settings = data["settings"]
    if not settings:
        raise ValueError("no setting to draw a curve of")
    figure = _figure(6.4, 3.8 + 0.2 * len(settings))
    axes = figure.subplots()
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, max(2, len(settings))))
    for number, setting in enumerate(settings):
        samples, mean = (np.array([point[key] for point in setting["points"]], float) for key in ("samples", "mean"))
        deviation = np.array([point["deviation"] or 0.0 for point in setting["points"]], float)
        seeds = len(setting["seeds"])
        axes.plot(
            samples,
            mean,
            color=colours[number],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            linestyle=("-", "--", ":", "-.")[number // len(_MARKERS) % 4],
            label=f"{_printable(setting['name'], 100)} ({seeds} seed{'s' * (seeds != 1)})",
        )
        axes.fill_between(samples, mean - deviation, mean + deviation, color=colours[number], alpha=0.2, linewidth=0)
    axes.set_xlabel("samples seen")
    axes.set_ylabel(_printable(data["score"].replace(".", " ").replace("_", " ")))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower left", frameon=False)
    return figure


KINDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {"attention": attention, "occlusion": occlusion, "curves": curves}


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
    try:
        data = json.loads(Path(source).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
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


def _figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, cut to what can be drawn however long the texts are."""
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, _LARGEST), min(height, _LARGEST)), layout="constrained")


def _name_ticks(axes: Axes, rows: Sequence[Any], columns: Sequence[Any], upright: bool = True) -> None:
    axes.set_yticks(range(len(rows)), [_printable(name) for name in rows])
    axes.set_xticks(range(len(columns)), [_printable(name) for name in columns], rotation=90 if upright else 0)


def _printable(text: Any, longest: int = _LONGEST_LABEL) -> str:
    """Text that can stand in a figure: control characters would make an SVG file that no program reads."""
    text = "".join(character if character.isprintable() else "\ufffd" for character in str(text))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"

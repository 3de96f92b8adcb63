"""Figures of the results of sweeps and analyses.

The values of a figure are saved as JSON next to it, and the same values give the same bytes. The figures can be read in
print and by color-blind readers: in every heat map, zero is white, values above zero are blue and values below zero are
red; lines differ in their markers, too.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmatch.errors import WAIT_OR_RESUME, InputError, NotInstalled, count_text, report_damage, require_plain_file
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.reporting.layout import is_percent, score_heading, setting_headings
from jaxmatch.reporting.records import Record, by_pairs, by_setting, score_of, scores_of, setting_name
from jaxmatch.reporting.statistics import mean_and_deviation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# The files contain no dates and no random names.
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}
_STYLE = {"svg.hashsalt": "jaxmatch", "text.parse_math": False, "savefig.dpi": 150, "font.size": 9}
_DARK = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#0d1117")  # GitHub's
_MARKERS = "osD^v<"
_LARGEST = 60  # inches: the side of a figure that can be drawn, however long its texts are


# Values from records


def curves(records: Iterable[Record]) -> dict[str, Any]:
    """Computes the values of a figure of learning curves: for each setting whose runs finished, at each evaluation that
    all its seeds have, the mean of the score that chose the checkpoints and its sample standard deviation (None for one
    seed). The mean of those that still train would fall when a good one stops.

    Raises:
      InputError: no run has finished, or the checkpoints of the runs were chosen by different scores.
    """
    settings, score = _finished(records, "", "draw them separately")
    drawn = []
    for members in settings:
        found: dict[int, list[float]] = {}
        for entry in (entry for record in members for entry in record["curve"]):
            value = entry["dev"].get(score.removeprefix("dev."))
            if value is not None and math.isfinite(value):
                found.setdefault(entry["samples"], []).append(value)
        seeds = [record["seed"] for record in members]
        points = [
            {"value": samples, **_mean(values), "seeds": seeds}
            for samples, values in sorted(found.items())
            if len(values) == len(members)
        ]
        drawn += [{"name": setting_name(members[0]), "points": points}] if points else []
    if not drawn:
        raise InputError("no run has been evaluated, so there is nothing to draw", remedy=WAIT_OR_RESUME)
    return {"kind": "curves", "axis": "samples", "score": score, "curves": drawn}


def scores_against(records: Iterable[Record], axis: str, score: str = "") -> dict[str, Any]:
    """Computes the values of a figure of a score against a setting, with a curve for each combination of the other
    settings: for each value of the axis, the mean of the finished runs' scores, their sample standard deviation (None
    for one seed) and the seeds.

    Arguments:
      records: the records of the runs, of one sweep or of several data sets.
      axis: a setting of the grid whose values are numbers, such as "model.stacked_layers", or its last part alone.
      score: "dev." or "test." and the name of a score. The default is the dev score that chose the checkpoints.

    Raises:
      InputError: no run has finished, the grid has no such axis, a value of the axis is not a number, a run does not
        have the score, two runs have the same place and seed, or no score is given and several chose the checkpoints.
    """
    settings, score = _finished(records, score, "say which with --score")
    axes = sorted({key for members in settings for key in members[0]["overrides"]})
    found = [key for key in axes if axis in (key, key.rpartition(".")[2])]
    if len(found) != 1:
        problem = f"{axis!r} is {'more than one axis' if found else 'not an axis'} of this sweep's grid"
        remedy = f"its axes are {', '.join(axes)}" if axes else "draw its learning curves: leave --against out"
        raise InputError(problem, remedy=remedy)
    (axis,) = found
    of_data = by_pairs(settings, lambda members: members[0])
    curves: dict[str, dict[float, dict[str, Any]]] = {}
    for data, members in ((data, members) for data, group in of_data.items() for members in group):
        overrides, run = dict(members[0]["overrides"]), members[0]["run"]
        value, values = overrides.pop(axis, None), [score_of(record, score) for record in members]
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            problem = f"{axis} is {value!r} in run {run}, which is not a number"
            raise InputError(problem, remedy="draw against another setting")
        if None in values:
            known = [f"{part}.{name}" for part in ("dev", "test") for name in scores_of(members[0], part)]
            problem = f"the score {score!r} of run {run} or of another seed is missing or undefined"
            raise InputError(problem, remedy=f"its scores are {', '.join(sorted(known))}")
        name = f"{data}: " * (len(of_data) > 1) + setting_name({**members[0], "overrides": overrides})
        points, seeds = curves.setdefault(name, {}), [record["seed"] for record in members]
        if value in points or len(set(seeds)) < len(seeds):
            problem = f"runs of two folders or settings have {axis}={value}, one of them {run}"
            raise InputError(problem, remedy="leave one of the two out")
        points[value] = {"value": value, **_mean(values), "seeds": seeds}
    drawn = [{"name": name, "points": [points[value] for value in sorted(points)]} for name, points in curves.items()]
    return {"kind": "scores", "axis": axis, "score": score, "curves": drawn}


def _finished(records: Iterable[Record], score: str, remedy: str) -> tuple[list[tuple[Record, ...]], str]:
    """Returns the finished runs of each setting, and `score`, or if it is "" the one that chose their checkpoints."""
    settings = by_setting(records)
    selections = sorted({record["selected_on"] for members in settings for record in members})
    if not settings:
        raise InputError("no run has finished, so there is nothing to draw", remedy=WAIT_OR_RESUME)
    if not score and len(selections) > 1:
        raise InputError(f"the runs were chosen by different scores: {', '.join(selections)}", remedy=remedy)
    return settings, score or selections[0]


def _mean(values: Collection[float]) -> dict[str, float | None]:
    return dict(zip(("mean", "deviation"), mean_and_deviation(values), strict=True))


# Files


def write(data: Mapping[str, Any], folder: Path, name: str, dark: bool = False) -> list[Path]:
    """Saves the values of a figure in `folder` as NAME.json, and draws them next to it as PNG and SVG: NAME.png or, for
    a dark background, NAME-dark.png. Returns the files.

    Raises:
      InputError: matplotlib is not installed. The JSON file exists by then.
    """
    values = Path(folder) / f"{name}.json"
    write_json(values, data)
    return [values, *_draw(data, values.with_suffix(""), dark)]


def redraw(source: Path, folder: Path, dark: bool = False) -> list[Path]:
    """Draws a figure again from the JSON file that stores its values. The names are those of `write`.

    Raises:
      InputError: the file cannot be read or does not hold the values of a figure, or matplotlib is not installed.
    """
    remedy = "give the JSON file of a figure, or the --workdir of a sweep"
    require_plain_file(source, remedy=remedy)
    with report_damage(source, remedy):
        data = read_json(source)
        if data.get("kind") not in list(KINDS):
            raise InputError("does not hold the values of a figure", path=source, remedy=remedy)
        return _draw(data, Path(folder) / Path(source).stem, dark)


def _draw(data: Mapping[str, Any], stem: Path, dark: bool) -> list[Path]:
    files = {Path(f"{stem}{'-dark' * dark}.{ending}"): content for ending, content in images(data, dark).items()}
    for file, content in files.items():
        write_atomically(file, content)
    return list(files)


def images(data: Mapping[str, Any], dark: bool = False) -> dict[str, bytes]:
    """Draws the values of a figure, for a light or a dark background: "svg" and "png" -> the content of the file.

    Raises:
      InputError: matplotlib is not installed.
    """
    found = {}
    with style_of(dark):
        figure = KINDS[data["kind"]](data)
        for ending, metadata in _METADATA.items():
            content = io.BytesIO()
            figure.savefig(content, format=ending, metadata=metadata)
            found[ending] = content.getvalue()
    return found


@contextlib.contextmanager
def style_of(dark: bool = False) -> Iterator[None]:
    """Applies matplotlib's default style with the changes in `_STYLE` inside a block, whatever the user's own are."""
    style = ["default", *(["dark_background", _DARK] if dark else []), _STYLE]
    try:
        import matplotlib.style
    except ModuleNotFoundError:
        raise NotInstalled("a figure", "matplotlib", "figures", "and draw it again: jaxmatch figure FILE") from None
    with matplotlib.style.context(style), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box. Long texts may leave no room for the layout.
        warnings.filterwarnings("ignore", "Glyph .* missing from|constrained_layout not applied", UserWarning)
        yield


# Drawings


def _draw_attention(data: Mapping[str, Any]) -> Figure:
    """Draws the attention weights of a pair (RE2's Figure 3), with one row per block and one column per direction. See
    `PairAttention.as_json`.
    """
    rows, columns = len(data["tokens_a"]), len(data["tokens_b"])
    directions = {"over_b": "first over second\n(rows sum to 1)", "over_a": "second over first\n(columns sum to 1)"}
    weights = [np.array(block[key], float).reshape(rows, columns) for block in data["blocks"] for key in directions]
    strongest = max(np.abs(each).max() for each in weights)
    weakest = -strongest if min(each.min() for each in weights) < 0 else 0.0  # weights of BiMPM may be negative
    width, height = 1.2 + 0.33 * columns, 1.3 + 0.27 * rows
    figure = _figure(max(6.4, 2 * width + 1), height * len(data["blocks"]) + 0.8)
    places = figure.subplots(len(data["blocks"]), 2, squeeze=False)
    names = [f"{block['name']}, {title}" for block in data["blocks"] for title in directions.values()]
    for axes, name, each in zip(places.flat, names, weights, strict=True):
        drawn = axes.imshow(each, cmap=_white_at_zero(weakest < 0), vmin=weakest, vmax=strongest, aspect="auto")
        axes.set_title(name)
        _name_ticks(axes, data["tokens_a"], data["tokens_b"])
    figure.colorbar(drawn, ax=places, label="attention weight", shrink=0.8)
    if data["score"] is not None:
        answer = f"{data['score']:.3f}"
    else:
        probability = data["probabilities"].get(data["label"])
        answer = data["label"] + ("" if probability is None else f" (probability {probability:.2f})")
    across = int(13 * figure.get_figwidth())  # characters
    lines = [f"first: {data['text_a']}", f"second: {data['text_b']}", f"answer: {answer}"]
    figure.suptitle("\n".join(_wrapped(line, across) for line in lines), fontsize=9)
    return figure


def _draw_occlusion(data: Mapping[str, Any]) -> Figure:
    """Draws the changes of accuracy without a feature (RE2's Figure 2), with one panel per class (`Occlusion.as_json`).
    Over several seeds, the colors show the mean, and the deviation is printed below the mean.
    """
    # <float>[blocks, features, classes] in percentage points; NaN where there is no value
    change = 100 * np.array(data["change"], float)
    deviation = 100 * np.array(data.get("change_deviation", np.full(change.shape, np.nan)), float).reshape(change.shape)
    blocks, features, classes = change.shape
    limit = max(np.abs(change[np.isfinite(change)]).max(initial=0), 1e-3)
    any_deviation = bool(np.isfinite(deviation).any())
    figure = _figure(1.6 + classes * (0.9 + 0.6 * blocks), 1.3 + (0.6 if any_deviation else 0.45) * features)
    places = figure.subplots(1, classes, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(places, data["labels"], strict=True)):
        values = change[:, :, number].T
        axes.set_facecolor("#d9d9d9")  # where there is no value
        shown = dict(cmap=_white_at_zero(signed=True), vmin=-limit, vmax=limit, aspect="auto")
        drawn = axes.imshow(np.ma.masked_invalid(values), **shown)
        for (feature, block), value in np.ndenumerate(values):
            if math.isfinite(value):
                color = "black" if abs(value) < 0.6 * limit else "white"
                text, spread = f"{value:+z.1f}".replace("-", "−"), deviation[block, feature, number]
                text += f"\n±{spread:.1f}" if math.isfinite(spread) else ""
                axes.text(block, feature, text, ha="center", va="center", color=color)
        _name_ticks(axes, data["features"] if number == 0 else [""] * features, range(1, blocks + 1), upright=False)
        axes.set_title(_printable(label))
        axes.set_xlabel("block")
    figure.colorbar(drawn, ax=places, label="change of accuracy\n(points)")
    if any_deviation:
        figure.suptitle(f"mean ± sample standard deviation over {len(data['seeds'])} seeds")
    return figure


def _draw_lines(data: Mapping[str, Any]) -> Figure:
    """Draws learning curves (`curves`) or a score against a setting (`scores_against`; CSRAN's Figures 2 and 3): the
    mean over the seeds, with a band of one sample standard deviation. More than six lines get a panel each, with the
    others in gray behind. The axis has the name and the unit that the score has in tables.
    """
    lines, score, learning = data["curves"], data["score"], data["axis"] == "samples"
    apart = len(lines) > len(_MARKERS)
    rows, columns = (math.ceil(len(lines) / 3), 3) if apart else (1, 1)
    figure = _figure(128 / 15, 0.4 + 2.1 * rows if apart else 64 / 15)  # inches: 1280 x 640 pixels
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
    panels[0].locator_params("x", nbins=4 if apart else "auto")  # of all panels: they share the axis
    colors, unit = _colors(max(2, len(lines))), 100.0 if is_percent(score) else 1.0
    for number, line in enumerate(lines):
        seeds = {len(point["seeds"]) for point in line["points"]}
        counts = count_text(*seeds, "seed") if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} seeds"
        places, mean, deviation = (
            np.array([point[key] or 0.0 for point in line["points"]], float) * (1.0 if key == "value" else unit)
            for key in ("value", "mean", "deviation")
        )
        axes, label = panels[number if apart else 0], f"{_printable(line['name'], 100)} ({counts})"
        color, marker = (_colors(3)[1], "o") if apart else (colors[number], _MARKERS[number])
        axes.grid(alpha=0.3)
        axes.plot(places, mean, color=color, marker=marker, markersize=4 - apart, label=label, zorder=3)
        axes.fill_between(places, mean - deviation, mean + deviation, color=color, alpha=0.2, linewidth=0)
        if apart:
            axes.set_title(_wrapped(label, 40), fontsize=7)
            axes.tick_params(labelsize=7, labelbottom=number >= len(lines) - columns)  # the lowest of each column
            for behind in (each for each in panels[: len(lines)] if each is not axes):
                behind.plot(places, mean, color="gray", alpha=0.5, linewidth=0.8)
    for axes in panels[len(lines) :] if apart else ():
        axes.remove()
    panels[0].xaxis.set_major_formatter("{x:,.0f}" if learning else "{x:g}")
    if not learning:
        panels[0].set_xticks(sorted({float(point["value"]) for line in lines for point in line["points"]}))
    across = "training pairs seen" if learning else setting_headings([data["axis"]])[data["axis"]]
    figure.supylabel(_printable(score_heading(score), 100), fontsize=9)
    if apart:
        figure.supxlabel(_printable(across, 100), fontsize=9)
    else:
        panels[0].set_xlabel(_printable(across, 100))
        figure.legend(loc="outside lower left", frameon=False, ncols=1 + all(len(line["name"]) <= 50 for line in lines))
    return figure


def _draw_timing(data: Mapping[str, Any]) -> Figure:
    """Draws the parameters of models (ESAN's Figure 2) and the time that they take for a batch, next to the numbers
    that papers printed (papers/timing.py).
    """
    from matplotlib.ticker import EngFormatter, NullFormatter

    # Each row: (model, parameters, seconds, deviation of the seconds), with None for what is not known.
    measured = [(row["model"], row["parameters"], *mean_and_deviation(row["batch_seconds"])) for row in data["rows"]]
    published = []
    for row in data["published"]:
        size = re.fullmatch(r"([\d.]+)M", row["parameters"] or "")  # "> 10M" is no number
        mean, _, deviation = (row["seconds"] or "").partition(" ± ")
        published.append(
            (row["model"], 1e6 * float(size[1]) if size else None, float(mean) if mean else None, float(deviation or 0))
        )
    names = list(dict.fromkeys(row[0] for row in (*measured, *published)))
    figure = _figure(8, 1.5 + 0.42 * len(names))
    left, right = figure.subplots(1, 2, sharey=True)
    seconds = f"time for {data['batch_size']} pairs of {data['length']} tokens a sentence"
    for axes, label, unit, value in ((left, "parameters", "", 1), (right, seconds, "s", 2)):
        # A published number is written with the digits it was printed with.
        for rows, places, offset, look in (
            (measured, 1, 5, dict(label="measured here", marker="o", color=_colors(3)[1])),
            (published, None, -12, dict(label="as published", marker="D", color=_colors(3)[0], markerfacecolor="none")),
        ):
            known = [row for row in rows if row[value] is not None]
            heights, values = [names.index(row[0]) for row in known], [row[value] for row in known]
            spreads = [row[3] for row in known] if axes is right else None
            axes.errorbar(values, heights, xerr=spreads, linestyle="none", capsize=2, **look)
            for place in zip(values, heights, strict=True):
                text = EngFormatter(unit, places=places)(place[0])
                where = dict(xytext=(0, offset), textcoords="offset points", ha="center")
                axes.annotate(text, place, fontsize=7, color=look["color"], **where)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(unit))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
        axes.margins(0.15)
    left.set_yticks(range(len(names)), [_printable(name, 40) for name in names])
    left.invert_yaxis()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", frameon=False, ncols=2)
    return figure


def _colors(count: int) -> np.ndarray:
    """Returns colors of lines that differ from each other and from the background."""
    import matplotlib

    dark = matplotlib.rcParams["text.color"] == "white"
    return matplotlib.colormaps["viridis"](np.linspace(*((0.35, 1) if dark else (0, 0.85)), count))


def _figure(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches, limited to what can be drawn."""
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, _LARGEST), min(height, _LARGEST)), layout="constrained")


def _white_at_zero(signed: bool) -> Colormap:
    """Returns a colormap from white to blue. For signed values, whose limits must be symmetric, it goes from red
    through white to blue.
    """
    from matplotlib.colors import LinearSegmentedColormap

    colors = ["white", "#2166ac", "#053061"]
    # In an odd number of colors, the middle one is the color of zero.
    return LinearSegmentedColormap.from_list("", ["#67001f", "#b2182b", *colors] if signed else colors, N=257)


def _wrapped(text: str, width: int) -> str:
    """Wraps text to at most two lines."""
    return textwrap.fill(_printable(text, 2 * width), width, max_lines=2, placeholder=" …")


def _name_ticks(axes: Axes, rows: Sequence[Any], columns: Sequence[Any], upright: bool = True) -> None:
    axes.set_yticks(range(len(rows)), [_printable(name) for name in rows])
    axes.set_xticks(range(len(columns)), [_printable(name) for name in columns], rotation=90 if upright else 0)


def _printable(text: Any, longest: int = 24) -> str:
    """Returns text that a figure can contain. It is shortened, and control characters are replaced, because no program
    could read an SVG file with them.
    """
    text = "".join(character if character.isprintable() else "\ufffd" for character in str(text))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


KINDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "attention": _draw_attention,
    "occlusion": _draw_occlusion,
    "curves": _draw_lines,
    "scores": _draw_lines,
    "timing": _draw_timing,
}

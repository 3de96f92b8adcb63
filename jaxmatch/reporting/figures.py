"""Figures of the results of sweeps and analyses.

The values of a figure are plain values, which are saved as JSON next to it. A figure is a pure function of them: the
same values give the same bytes. The figures can be read in print and by color-blind readers. In every heat map, zero is
white, values above zero are blue and values below zero are red. Lines differ in their markers, too, and cells of signed
values show their numbers.
"""

from __future__ import annotations

import collections
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

from jaxmatch.errors import InputError, NotInstalled, count_text, require_plain_file
from jaxmatch.files import read_json, write_atomically, write_json
from jaxmatch.reporting.records import by_pairs, by_setting, setting_name
from jaxmatch.reporting.statistics import mean_and_deviation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# The files contain no dates and no random names.
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}
_STYLE = {"svg.hashsalt": "jaxmatch", "text.parse_math": False, "savefig.dpi": 150, "font.size": 9}
_MARKERS = "osD^v<"
_LONGEST_LABEL = 24
_LARGEST = 60
_BELOW_ZERO, _ABOVE_ZERO, _NO_VALUE_COLOR = "#b2182b", "#2166ac", "#d9d9d9"
# If there are more lines than this, each line gets its own panel.
_LINES_TOGETHER, _PANELS_ACROSS = 6, 3
_TITLE_SIZE, _CHARACTERS_AN_INCH = 9, 13


# Values from records


def curves(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Computes the learning curves of the score that chose each run's checkpoint.

    Arguments:
      records: the records of the runs. Runs that did not finish are left out.

    Returns:
      Plain values, from which `KINDS` draws the figure. Each setting has its seeds and its evaluations. An
      evaluation has the samples seen, the mean over the seeds that were still training, their sample standard deviation
      (None for one seed) and their number.

    Raises:
      InputError: no run has finished, or the checkpoints of the runs were chosen by different scores.
    """
    settings = by_setting(records)
    if not settings:
        raise InputError(
            "no run has finished, so there is no learning curve", remedy="run the sweep again to resume it"
        )
    selections = sorted({record["selected_on"] for members in settings for record in members})
    if len(selections) > 1:
        raise InputError(
            f"the runs were chosen by different scores: {', '.join(selections)}", remedy="draw them separately"
        )
    score = selections[0].removeprefix("dev.")
    return {
        "kind": "curves",
        "score": selections[0],
        "settings": [
            {
                "name": setting_name(members[0]),
                "seeds": [record["seed"] for record in members],
                "points": _points(members, score),
            }
            for members in settings
        ],
    }


def _points(members: Iterable[Mapping[str, Any]], score: str) -> list[dict[str, Any]]:
    found: dict[int, list[float]] = {}
    for record in members:
        for entry in record["curve"]:
            value = entry["dev"].get(score)
            if value is not None and math.isfinite(value):
                found.setdefault(entry["samples"], []).append(value)
    points = []
    for samples, values in sorted(found.items()):
        mean, deviation = mean_and_deviation(values)
        points.append({"samples": samples, "mean": mean, "deviation": deviation, "seeds": len(values)})
    return points


def scores_against(records: Iterable[Mapping[str, Any]], axis: str, score: str = "") -> dict[str, Any]:
    """Computes one curve for each combination of the other settings.

    Arguments:
      records: the records of the runs, of one sweep or of several data sets. Runs that diverged or were dropped are
        left out.
      axis: a setting of the grid whose values are numbers, such as "model.stacked_layers", or its last part alone.
      score: "dev." or "test." and the name of a score. The default is the dev score that chose the checkpoints.

    Returns:
      Plain values, from which `KINDS` draws the figure. Each curve has its name and, for each value of the
      axis, the mean of the checkpoints' scores, their sample standard deviation (None for one seed) and the seeds.

    Raises:
      InputError: a run is there twice, no run has finished, the grid has no such axis, a value of the axis is not a
        number, a run does not have the score or has an undefined one, two settings have the same place, or no score is
        given and the checkpoints were chosen by different ones.
    """
    records = list(records)
    run, times = next(iter(collections.Counter(record["run"] for record in records).most_common(1)), ("", 0))
    if times > 1:
        raise InputError(f"run {run} is in {times} of the folders", remedy="leave all but one of them out")
    settings = by_setting(records)
    if not settings:
        raise InputError("no run has finished, so there is no score", remedy="run the sweep again to resume it")
    axis = _axis(settings, axis)
    curves: dict[str, dict[float, dict[str, Any]]] = {}
    selections = sorted({record["selected_on"] for members in settings for record in members})
    if not score and len(selections) > 1:
        raise InputError(
            f"the runs were chosen by different scores: {', '.join(selections)}", remedy="say which with --score"
        )
    score = score or selections[0]
    data_of = {
        members[0]["run"]: name
        for name, found in by_pairs(settings, lambda members: members[0]).items()
        for members in found
    }
    several = len(set(data_of.values())) > 1
    for members in settings:
        first = members[0]
        value = first["overrides"].get(axis)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InputError(
                f"{axis} is {value!r} in run {first['run']}, which is not a number",
                remedy="draw against another setting",
            )
        others = {key: each for key, each in first["overrides"].items() if key != axis}
        name = setting_name({**first, "overrides": others})
        points = curves.setdefault(f"{data_of[first['run']]}: {name}" if several else name, {})
        if value in points:
            raise InputError(
                f"two settings have {axis}={value}, one of them that of run {first['run']}",
                remedy="move the runs of one of the two away",
            )
        points[value] = {"value": value, **_point(members, score)}
    return {
        "kind": "scores",
        "axis": axis,
        "score": score,
        "curves": [
            {"name": name, "points": [points[value] for value in sorted(points)]} for name, points in curves.items()
        ],
    }


def _axis(settings: Sequence[Sequence[Mapping[str, Any]]], name: str) -> str:
    """Returns the grid's own name of the axis."""
    known = sorted({key for members in settings for key in members[0]["overrides"]})
    found = [key for key in known if name in (key, key.rpartition(".")[2])]
    if len(found) != 1:
        problem = f"{name!r} is {'more than one axis' if found else 'not an axis'} of this sweep's grid"
        remedy = f"its axes are {', '.join(known)}" if known else "draw its learning curves: leave --against out"
        raise InputError(problem, remedy=remedy)
    return found[0]


def _point(members: Sequence[Mapping[str, Any]], score: str) -> dict[str, Any]:
    part, _, name = score.partition(".")
    values = []
    for record in members:
        scores = (record.get(part) or {}) if part in ("dev", "test") else {}
        value = scores.get(name)
        if value is None and name in scores:
            raise InputError(f"the score {score!r} of run {record['run']} is undefined", remedy="draw another: --score")
        if value is None:
            known = ", ".join(f"{one}.{each}" for one in ("dev", "test") for each in sorted(record.get(one) or {}))
            raise InputError(f"run {record['run']} has no score {score!r}", remedy=f"its scores are {known}")
        values.append(value)
    mean, deviation = mean_and_deviation(values)
    return {"mean": mean, "deviation": deviation, "seeds": [record["seed"] for record in members]}


# Files


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
    across = int(_CHARACTERS_AN_INCH * figure.get_figwidth())
    lines = [f"first: {data['text_a']}", f"second: {data['text_b']}", f"answer: {_answer(data)}"]
    figure.suptitle("\n".join(_wrapped(line, across) for line in lines), fontsize=_TITLE_SIZE)
    return figure


def _answer(data: Mapping[str, Any]) -> str:
    """Returns the predicted score of a pair, or its predicted label with the probability of that label."""
    if data["score"] is not None:
        return f"{data['score']:.3f}"
    probability = data["probabilities"].get(data["label"])
    return data["label"] if probability is None else f"{data['label']} (probability {probability:.2f})"


def _draw_occlusion(data: Mapping[str, Any]) -> Figure:
    """Draws the changes of accuracy without a feature (RE2's Figure 2), with one panel per class. See
    `Occlusion.as_json`.

    Over several seeds (`SeedOcclusion.as_json`), the colors show the mean, and the deviation is printed below the mean.
    """
    # <float>[blocks, features, classes] in percentage points; NaN where there is no value
    change = 100 * np.array(data["change"], float)
    deviation = 100 * np.array(data.get("change_deviation", np.full(change.shape, np.nan)), float).reshape(change.shape)
    blocks, features, classes = change.shape
    known = change[np.isfinite(change)]
    limit = max(np.abs(known).max(initial=0), 1e-3)
    any_deviation = bool(np.isfinite(deviation).any())
    figure = _figure(1.6 + classes * (0.9 + 0.6 * blocks), 1.3 + (0.6 if any_deviation else 0.45) * features)
    places = figure.subplots(1, classes, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(places, data["labels"], strict=True)):
        values = change[:, :, number].T
        axes.set_facecolor(_NO_VALUE_COLOR)
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


def _draw_curves(data: Mapping[str, Any]) -> Figure:
    """Draws learning curves: the mean over the seeds, with a band of one sample standard deviation; see
    `curves`.
    """
    lines = []
    for one in data["settings"]:
        lines.append((f"{_printable(one['name'], 100)} ({_seeds({len(one['seeds'])})})", "samples", one["points"]))
    return _bands(lines, data["score"], "samples seen")


def _draw_scores(data: Mapping[str, Any]) -> Figure:
    """Draws a score against a setting (CSRAN's Figures 2 and 3), with bands as in `_draw_curves`. See
    `scores_against`.
    """
    lines = []
    for one in data["curves"]:
        name = f"{_printable(one['name'], 100)} ({_seeds({len(point['seeds']) for point in one['points']})})"
        lines.append((name, "value", one["points"]))
    figure = _bands(lines, data["score"], data["axis"].rpartition(".")[2])
    for axes in figure.axes:
        axes.set_xticks(sorted({float(point["value"]) for one in data["curves"] for point in one["points"]}))
        axes.xaxis.set_major_formatter("{x:g}")
    return figure


def _draw_timing(data: Mapping[str, Any]) -> Figure:
    """Draws the parameters of models (ESAN's Figure 2) and the time that they take for a batch, next to the numbers
    that papers printed. See `papers.timing`.
    """
    from matplotlib.ticker import EngFormatter, NullFormatter

    measured = {}
    for row in data["rows"]:
        seconds = np.array(row["batch_seconds"], float)
        measured[row["model"]] = (row["parameters"], seconds.mean(), seconds.std(ddof=1))
    published = {row["model"]: (_parameters(row["parameters"]), *_seconds(row["seconds"])) for row in data["published"]}
    names = list(dict.fromkeys([*measured, *published]))
    if not measured:
        raise ValueError("no model that was timed")
    figure = _figure(8, 1.5 + 0.42 * len(names))
    left, right = figure.subplots(1, 2, sharey=True)
    # A published number is written with the digits it was printed with.
    styles = {
        "measured here": (measured, "o", "#31688e", "#31688e", 5, 1),
        "as published": (published, "D", "none", "#440154", -12, None),
    }
    seconds = f"time for {data['batch_size']} pairs of {data['length']} tokens a sentence"
    for axes, label, unit, value, spread in ((left, "parameters", "", 0, None), (right, seconds, "s", 1, 2)):
        for style, (rows, marker, inside, edge, above, places) in styles.items():
            known = {names.index(name): row for name, row in rows.items() if row[value] is not None}
            if not all(row[value] > 0 for row in known.values()):
                raise ValueError("a size or time that is not above 0")
            options = dict(
                marker=marker, markerfacecolor=inside, markeredgecolor=edge, ecolor=edge, linestyle="none", capsize=2
            )
            spreads = [row[spread] for row in known.values()] if spread else None
            axes.errorbar([row[value] for row in known.values()], list(known), xerr=spreads, label=style, **options)
            for place, row in known.items():
                text = EngFormatter(unit, places=places)(row[value])
                options = dict(xytext=(0, above), textcoords="offset points", ha="center", fontsize=7, color=edge)
                axes.annotate(text, (row[value], place), **options)
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


def _parameters(text: str | None) -> float | None:
    """Parses "3.9M" as 3.9e6. Returns None for text that is not such a number ("> 10M")."""
    found = re.fullmatch(r"([\d.]+)M", text or "")
    return 1e6 * float(found[1]) if found else None


def _seconds(text: str | None) -> tuple[float | None, float]:
    """Parses "0.04 ± 0.01" as (0.04, 0.01)."""
    mean, _, deviation = (text or "").partition(" ± ")
    return (float(mean) if mean else None), float(deviation or 0)


def _seeds(counts: Collection[int]) -> str:
    """Formats the numbers of seeds {2, 3} as "2 to 3 seeds"."""
    least, most = min(counts), max(counts)
    return count_text(least, "seed") if least == most else f"{least} to {most} seeds"


def _bands(lines: Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]], score: str, across: str) -> Figure:
    """Draws lines with a band of one sample standard deviation. Each line is (label, key of the horizontal position,
    points with "mean" and "deviation"). If there are many lines, each gets its own panel, with the other lines in gray
    behind it.
    """
    import matplotlib

    if not lines:
        raise ValueError("no setting to draw a curve of")
    apart = len(lines) > _LINES_TOGETHER
    if apart:
        rows = math.ceil(len(lines) / _PANELS_ACROSS)
        figure = _figure(2.7 * _PANELS_ACROSS, 0.4 + 2.1 * rows)
        panels = list(figure.subplots(rows, _PANELS_ACROSS, sharex=True, sharey=True).flat)
    else:
        figure = _figure(6.4, 3.8 + 0.2 * len(lines))
        panels = [figure.subplots()] * len(lines)
    colors = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, max(2, len(lines))))
    for number, (axes, (label, place, points)) in enumerate(zip(panels, lines, strict=False)):
        places, mean, deviation = (
            np.array([point[key] or 0.0 for point in points], float) for key in (place, "mean", "deviation")
        )
        color, marker = (_ABOVE_ZERO, "o") if apart else (colors[number], _MARKERS[number])
        axes.plot(places, mean, color=color, marker=marker, markersize=4 - apart, label=label, zorder=2 + apart)
        axes.fill_between(places, mean - deviation, mean + deviation, color=color, alpha=0.2, linewidth=0)
        axes.grid(alpha=0.3)
        for behind in panels[: len(lines)] if apart else ():
            if behind is not axes:
                behind.plot(places, mean, color="silver", linewidth=0.8)
        if apart:
            axes.set_title(_wrapped(label, 40), fontsize=7)
    for axes in panels[len(lines) :]:
        axes.remove()
    below, beside = _printable(_words(across), 100), _printable(_words(score))
    if apart:
        figure.supxlabel(below, fontsize=_TITLE_SIZE)
        figure.supylabel(beside, fontsize=_TITLE_SIZE)
    else:
        panels[0].set(xlabel=below, ylabel=beside)
        figure.legend(loc="outside lower left", frameon=False)
    return figure


def _words(name: str) -> str:
    """Formats "dev.macro_f1" as "dev macro f1"."""
    return name.replace(".", " ").replace("_", " ")


def _figure(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches, limited to what can be drawn however long the texts are."""
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, _LARGEST), min(height, _LARGEST)), layout="constrained")


def _white_at_zero(signed: bool) -> Colormap:
    """Returns a colormap from white to blue. For signed values, whose limits must be symmetric, it goes from red
    through white to blue.
    """
    from matplotlib.colors import LinearSegmentedColormap

    colors = ["white", _ABOVE_ZERO, "#053061"]
    # In an odd number of colors, the middle one is the color of zero.
    return LinearSegmentedColormap.from_list("", ["#67001f", _BELOW_ZERO, *colors] if signed else colors, N=257)


def _wrapped(text: str, width: int) -> str:
    """Wraps text to at most two lines."""
    return textwrap.fill(_printable(text, 2 * width), width, max_lines=2, placeholder=" …")


def _name_ticks(axes: Axes, rows: Sequence[Any], columns: Sequence[Any], upright: bool = True) -> None:
    axes.set_yticks(range(len(rows)), [_printable(name) for name in rows])
    axes.set_xticks(range(len(columns)), [_printable(name) for name in columns], rotation=90 if upright else 0)


def _printable(text: Any, longest: int = _LONGEST_LABEL) -> str:
    """Returns text that a figure can contain. It is shortened, and control characters are replaced, because no program
    could read an SVG file with them.
    """
    text = "".join(character if character.isprintable() else "\ufffd" for character in str(text))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


KINDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "attention": _draw_attention,
    "occlusion": _draw_occlusion,
    "curves": _draw_curves,
    "scores": _draw_scores,
    "timing": _draw_timing,
}

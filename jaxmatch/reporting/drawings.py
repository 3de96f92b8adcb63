"""The drawings of what the analyses found: each makes a matplotlib figure of plain values.

They can be told apart in print and by colour-blind readers: colour maps are viridis and cividis, whose lightness rises
steadily, lines differ in their markers too, and cells of a heat map have their numbers in them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>Pp*Xh"
_LONGEST_LABEL = 24
_LARGEST = 60


def attention(data: Mapping[str, Any]) -> Figure:
    """Attention weights of a pair (RE2's Figure 3): a row a block, a column a direction; see
    `PairAttention.as_json`.
    """
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
    """Changes of accuracy without a feature (RE2's Figure 2): a panel a class; see `Occlusion.as_json`.

    Over several seeds (`SeedOcclusion.as_json`) colours are those of the mean, and the deviation stands below it.
    """
    # <float>[blocks, features, classes] in percentage points; NaN where there is nothing
    change = 100 * np.array(data["change"], float)
    deviation = 100 * np.array(data.get("change_deviation", np.full(change.shape, np.nan)), float).reshape(change.shape)
    blocks, features, classes = change.shape
    known = change[np.isfinite(change)]
    lower, upper = min(known.min(initial=0), -1e-3), max(known.max(initial=0), 1e-3)
    any_deviation = bool(np.isfinite(deviation).any())
    figure = _figure(1.6 + classes * (0.9 + 0.6 * blocks), 1.3 + (0.6 if any_deviation else 0.45) * features)
    places = figure.subplots(1, classes, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(places, data["labels"], strict=True)):
        values = change[:, :, number].T
        drawn = axes.imshow(np.ma.masked_invalid(values), cmap="cividis", vmin=lower, vmax=upper, aspect="auto")
        for (feature, block), value in np.ndenumerate(values):
            if math.isfinite(value):
                light = (value - lower) / (upper - lower) > 0.5
                color = "black" if light else "white"
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


def curves(data: Mapping[str, Any]) -> Figure:
    """Learning curves: the mean over the seeds, and a band of one sample standard deviation; see `curves.curves`."""
    lines = []
    for one in data["settings"]:
        lines.append((f"{_printable(one['name'], 100)} ({_seeds({len(one['seeds'])})})", "samples", one["points"]))
    return _bands(lines, data["score"], "samples seen")


def scores(data: Mapping[str, Any]) -> Figure:
    """A score against a setting (CSRAN's Figures 2 and 3), with bands as in `curves`; see `axes.scores_against`."""
    lines = []
    for one in data["curves"]:
        name = f"{_printable(one['name'], 100)} ({_seeds({len(point['seeds']) for point in one['points']})})"
        lines.append((name, "value", one["points"]))
    figure = _bands(lines, data["score"], data["axis"].rpartition(".")[2])
    figure.axes[0].set_xticks(sorted({float(point["value"]) for one in data["curves"] for point in one["points"]}))
    figure.axes[0].xaxis.set_major_formatter("{x:g}")
    return figure


def timing(data: Mapping[str, Any]) -> Figure:
    """Parameters of models (ESAN's Figure 2), and the time they take for a batch, beside what papers printed; see
    `sweep.inference_times`."""
    from matplotlib.ticker import EngFormatter, NullFormatter

    ours = {}
    for row in data["rows"]:
        seconds = np.array(row["batch_seconds"], float)
        ours[row["model"]] = (row["parameters"], seconds.mean(), seconds.std(ddof=1))
    theirs = {row["model"]: (_parameters(row["parameters"]), *_seconds(row["seconds"])) for row in data["published"]}
    names = list(dict.fromkeys([*ours, *theirs]))
    if not ours:
        raise ValueError("no model that was timed")
    figure = _figure(8, 1.5 + 0.42 * len(names))
    left, right = figure.subplots(1, 2, sharey=True)
    # A published number is written with the digits it was printed with.
    styles = {
        "measured here": (ours, "o", "#31688e", "#31688e", 5, 1),
        "as published": (theirs, "D", "none", "#440154", -12, None),
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
    """ "3.9M" as 3.9e6; None for what is no number ("> 10M")."""
    found = re.fullmatch(r"([\d.]+)M", text or "")
    return 1e6 * float(found[1]) if found else None


def _seconds(text: str | None) -> tuple[float | None, float]:
    """ "0.04 ± 0.01" as (0.04, 0.01)."""
    mean, _, deviation = (text or "").partition(" ± ")
    return (float(mean) if mean else None), float(deviation or 0)


def _seeds(counts: Collection[int]) -> str:
    """{2, 3} as "2 to 3 seeds"."""
    least, most = min(counts), max(counts)
    return f"{least} seed{'s' * (least != 1)}" if least == most else f"{least} to {most} seeds"


def _bands(lines: Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]], score: str, across: str) -> Figure:
    """Lines with a band of one sample standard deviation: (label, key of the place, points with "mean" and "deviation")
    each.
    """
    import matplotlib

    if not lines:
        raise ValueError("no setting to draw a curve of")
    figure = _figure(6.4, 3.8 + 0.2 * len(lines))
    axes = figure.subplots()
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, max(2, len(lines))))
    for number, (label, place, points) in enumerate(lines):
        places, mean = (np.array([point[key] for point in points], float) for key in (place, "mean"))
        deviation = np.array([point["deviation"] or 0.0 for point in points], float)
        axes.plot(
            places,
            mean,
            color=colours[number],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            linestyle=("-", "--", ":", "-.")[number // len(_MARKERS) % 4],
            label=label,
        )
        axes.fill_between(places, mean - deviation, mean + deviation, color=colours[number], alpha=0.2, linewidth=0)
    axes.set_xlabel(_printable(_words(across), 100))
    axes.set_ylabel(_printable(_words(score)))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower left", frameon=False)
    return figure


def _words(name: str) -> str:
    """ "dev.macro_f1" as "dev macro f1"."""
    return name.replace(".", " ").replace("_", " ")


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


KINDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "attention": attention,
    "occlusion": occlusion,
    "curves": curves,
    "scores": scores,
    "timing": timing,
}

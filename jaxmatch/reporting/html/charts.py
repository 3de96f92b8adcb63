"""Learning curves as SVG: a thin line a run, their mean, and a band of one sample standard deviation over the seeds."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence

from jaxmatch.reporting.html.markup import escape

WIDTH, HEIGHT = 340, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 34
# How each class of mark looks by itself; a page may give it other colours.
_LINE = 'fill="none" stroke="#20639b"'
_LOOKS = {
    "run": f'{_LINE} stroke-opacity=".55" stroke-linecap="round"',
    "run diverged": 'fill="none" stroke="#1a1a1a" stroke-dasharray="4 3" stroke-linecap="round"',
    "mean": f'{_LINE} stroke-width="2.2"',
    "band": 'fill="#20639b" fill-opacity=".18"',
    "chosen": 'fill="#20639b"',
    "axis": 'stroke="#1a1a1a"',
    "rule": 'stroke="#d5d5d5" stroke-width=".5"',
    "value": 'font-size="10" text-anchor="end"',
    "samples": 'font-size="10" text-anchor="middle"',
}


@dataclasses.dataclass(frozen=True)
class Curve:
    """One run.

    Attributes:
      name: told where a pointer rests on its line.
      points: (samples seen, value); None where the value is not finite.
      chosen_at: samples at which its checkpoint was chosen, or None.
      diverged: drawn dashed, and in no mean.
    """

    name: str
    points: Sequence[tuple[int, float | None]]
    chosen_at: int | None
    diverged: bool


@dataclasses.dataclass(frozen=True)
class Range:
    """What the two axes of a chart span."""

    samples: tuple[float, float]
    values: tuple[float, float]


def range_of(curves: Iterable[Curve]) -> Range | None:
    """The range that holds all curves, or None if they have no point; charts of one range can be compared by eye."""
    points = [(x, y) for curve in curves for x, y in curve.points if y is not None]
    if not points:
        return None
    xs, ys = zip(*points, strict=True)
    low, high = min(ys), max(ys)
    margin = 0.05 * (high - low) or abs(high) * 0.05 or 0.5
    return Range((0, max(xs)), (low - margin, high + margin))


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers between two others: multiples of 1, 2 or 5 times a power of ten, some `about` of them.

    Raises:
      ValueError: `low` is not below `high`.
    """
    if not low < high:
        raise ValueError(f"there is nothing between {low} and {high}")
    power = 10.0 ** math.floor(math.log10((high - low) / about))
    step = next(factor * power for factor in (1, 2, 5, 10) if (high - low) / (factor * power) <= about + 1)
    # Of the multiples, rounded: else 3 * 0.1 would print as 0.30000000000000004.
    decimals = max(0, -math.floor(math.log10(step)) + 1)
    return [round(number * step, decimals) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def band(curves: Iterable[Curve]) -> list[tuple[int, float, float]]:
    """(samples, mean, sample standard deviation) of the runs that did not diverge, where two or more still train."""
    found: dict[int, list[float]] = {}
    for curve in curves:
        for samples, value in curve.points if not curve.diverged else ():
            if value is not None:
                found.setdefault(samples, []).append(value)
    return [(x, statistics.fmean(ys), statistics.stdev(ys)) for x, ys in sorted(found.items()) if len(ys) > 1]


def chart(label: str, curves: Sequence[Curve], spans: Range) -> str:
    """An SVG element that stands alone.

    Arguments:
      label: what is drawn, for who does not see it.
      curves: of one setting.
      spans: of the axes.
    """
    parts = [*_axes(spans)]
    middle = band(curves)
    if middle:
        edge = [(x, mean + spread) for x, mean, spread in middle] + [
            (x, mean - spread) for x, mean, spread in reversed(middle)
        ]
        parts.append(f'<polygon {_look("band")} points="{_points(edge, spans)}"/>')
    for curve in curves:
        kind = "run diverged" if curve.diverged else "run"
        shown = "".join(
            f'<polyline {_look(kind)} points="{_points(piece, spans)}"/>' for piece in _pieces(curve.points)
        )
        at = next(((x, y) for x, y in curve.points if x == curve.chosen_at and y is not None), None)
        if at and not curve.diverged:
            x, y = _place(at, spans)
            shown += f'<circle {_look("chosen")} cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
        parts.append(f"<g><title>{escape(curve.name)}</title>{shown}</g>")
    if middle:
        parts.append(f'<polyline {_look("mean")} points="{_points([(x, mean) for x, mean, _ in middle], spans)}"/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _look(kind: str) -> str:
    return f'class="{kind}" {_LOOKS[kind]}'


def _pieces(points: Iterable[tuple[int, float | None]]) -> list[list[tuple[int, float]]]:
    """The stretches between values that are not finite; one point alone becomes a dot, a line to itself."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for x, y in points:
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append((x, y))
    return [piece * 2 if len(piece) == 1 else piece for piece in pieces if piece]


def _place(point: tuple[float, float], spans: Range) -> tuple[float, float]:
    (left, right), (low, high) = spans.samples, spans.values
    x = _LEFT + (point[0] - left) / ((right - left) or 1) * (WIDTH - _LEFT - _RIGHT)
    y = HEIGHT - _BOTTOM - (point[1] - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)
    return x, y


def _points(points: Iterable[tuple[float, float]], spans: Range) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(point, spans) for point in points))


def _short(number: float) -> str:
    """1500 -> "1.5k", 2e6 -> "2M": samples under an axis."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{sign}"
    return f"{number:g}"


def _axes(spans: Range) -> list[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for value in ticks(*spans.values):
        _, y = _place((0, value), spans)
        parts.append(f'<line {_look("rule")} x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text {_look("value")} x="{_LEFT - 5}" y="{y + 3.5:.1f}">{value:g}</text>')
    for samples in ticks(*spans.samples) if spans.samples[1] > 0 else []:
        x, _ = _place((samples, 0), spans)
        parts.append(f'<text {_look("samples")} x="{x:.1f}" y="{bottom + 14}">{_short(samples)}</text>')
    parts.append(f'<line {_look("axis")} x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text {_look("samples")} x="{(_LEFT + right) / 2:.0f}" y="{HEIGHT - 4}">pairs seen</text>')
    return parts

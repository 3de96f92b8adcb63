"""The table of an occlusion analysis: the accuracy that a trained RE2 loses without one feature, class by class."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmatch.analysis.occlusion import FEATURES, Occlusion
from jaxmatch.errors import without_nan
from jaxmatch.reporting import captions, formats
from jaxmatch.reporting.formats import Sheet, Text, csv_text


@dataclasses.dataclass(frozen=True)
class Occluded:
    """The result of an occlusion analysis, and what it was measured on.

    Attributes:
      mean: the result of a run, or the mean over the seeds of a setting.
      data: the name of the data set and of the split.
      records: the checked records of the runs; empty for a model without a record.
      setting: the setting of the runs in words; "" for a single run.
      accuracy_deviation: <float64>[classes], the standard deviation over the seeds; None for a single run.
      change_deviation: <float64>[blocks, features, classes], the standard deviation over the seeds; None for a single
        run.
    """

    mean: Occlusion
    data: str
    records: tuple[Mapping[str, Any], ...]
    setting: str = ""
    accuracy_deviation: np.ndarray | None = None
    change_deviation: np.ndarray | None = None

    def lines(self) -> Iterator[tuple[int, str, np.ndarray, np.ndarray | None]]:
        """Yields (block counted from 1, masked feature, change of each class, its deviation)."""
        for block, changes in enumerate(self.mean.change):
            for number, feature in enumerate(FEATURES):
                spread = None if self.change_deviation is None else self.change_deviation[block, number]
                yield block + 1, feature, changes[number], spread


def occlusions(found: Sequence[Occluded], format: str) -> str:
    """Formats the results as "markdown" or "latex", one table each, or as "csv", one table for all."""
    if format == "csv":
        return _as_csv(found)
    return "\n".join({"markdown": formats.markdown, "latex": formats.latex}[format](_sheet(one)) for one in found)


def _texts(values: np.ndarray, spreads: np.ndarray | None, style: str) -> Iterator[Text]:
    for number, value in enumerate(values):
        text = format(100 * value, style) if math.isfinite(value) else "–"
        spread = math.nan if spreads is None else spreads[number]
        yield Text(f"{text} ± {100 * spread:.1f}" if math.isfinite(spread) else text)


def _sheet(one: Occluded) -> Sheet:
    whole = (Text("–"), Text("nothing"), *_texts(one.mean.accuracy, one.accuracy_deviation, ".1f"))
    blocks: dict[int, list[tuple[Text, ...]]] = {}
    for block, feature, change, spread in one.lines():
        blocks.setdefault(block, []).append((Text(str(block)), Text(feature), *_texts(change, spread, "+z.1f")))
    counts = ", ".join(
        f"{pairs:,} {label}" for label, pairs in zip(one.mean.labels, one.mean.pairs.tolist(), strict=True)
    )
    what = (
        "Accuracy of each class (%) and its change in points when a feature of a block is masked; "
        f"{one.data} ({counts} pairs)."
    )
    return Sheet(
        title=f"Occlusion sensitivity, {one.setting}" if one.setting else "Occlusion sensitivity",
        caption=(what, *_provenance(one.records)),
        notes=(),
        headings=("block", "masked", *one.mean.labels),
        numeric=(True, False, *(True for _ in one.mean.labels)),
        spans=(),
        sections=((whole,), *(tuple(rows) for rows in blocks.values())),
    )


def _provenance(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return captions.caption(records, (), [records], each="") if records else ()


def _as_csv(found: Sequence[Occluded]) -> str:
    """Formats the results as CSV: one line a setting, block, feature and class.

    Accuracies and their changes are shares of 1; undefined values are empty.
    """

    def plain(values: np.ndarray | None, label: int) -> float | None:
        return None if values is None else without_nan(float(values[label]))

    rows: list[tuple[Any, ...]] = [
        (
            "setting",
            "runs",
            "data",
            "block",
            "masked",
            "class",
            "pairs",
            "accuracy",
            "accuracy.std",
            "change",
            "change.std",
        )
    ]
    for one in found:
        for block, feature, change, spread in one.lines():
            for number, (label, pairs) in enumerate(zip(one.mean.labels, one.mean.pairs.tolist(), strict=True)):
                of_class = plain(one.mean.accuracy, number), plain(one.accuracy_deviation, number)
                of_change = plain(change, number), plain(spread, number)
                start = one.setting, len(one.records), one.data, block, feature, label, pairs
                rows.append((*start, *of_class, *of_change))
    return csv_text(rows)

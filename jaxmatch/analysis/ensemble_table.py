"""The table of ensembles: the runs of each setting alone, by majority vote, and by averaged probability."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.analysis.ensemble import EnsembleScores
from jaxmatch.errors import printable_json, without_nan
from jaxmatch.reporting import captions, formats
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text
from jaxmatch.reporting.layout import Published, format_number, score_heading
from jaxmatch.reporting.records import setting_name
from jaxmatch.reporting.statistics import mean_and_deviation


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The runs of a setting together.

    Attributes:
      members: the checked records of the runs.
      split: the split of the data set that was scored.
      pairs: the number of pairs of the split.
      scores: the scores of the runs alone and together.
    """

    members: tuple[Mapping[str, Any], ...]
    split: str
    pairs: int
    scores: EnsembleScores

    @property
    def parameters(self) -> int:
        """The number of parameters of all runs together."""
        return sum(record["parameters"] for record in self.members)


def ensembles(found: Sequence[Ensemble], published: Sequence[Published], format: str, notes: Sequence[str] = ()) -> str:
    """Formats the table of ensembles as text.

    Arguments:
      found: one ensemble for each setting, all scored on the same split.
      published: rows of papers. Rows of the same data set that have a score of the split are shown below the ensembles.
      format: "markdown", "latex", "csv" or "json".
      notes: the notes of the sweep.
    """
    if format == "json":
        return printable_json([_as_json(one) for one in found]) + "\n"
    if format == "csv":
        return _as_csv(found)
    return {"markdown": formats.markdown, "latex": formats.latex}[format](_sheet(found, published, notes))


def _number(score: str, value: float) -> str:
    return format_number(score, value) if math.isfinite(value) else NO_VALUE


def _rows(one: Ensemble) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name in one.scores.average:
        score = f"{one.split}.{name}"
        mean, deviation = mean_and_deviation([scores[name] for scores in one.scores.single])
        rows.append(
            (
                setting_name(one.members[0]),
                f"{one.parameters:,}",
                str(len(one.members)),
                score_heading(score),
                f"{_number(score, mean)} ± {_number(score, deviation)}",
                NO_VALUE if one.scores.vote is None else _number(score, one.scores.vote[name]),
                _number(score, one.scores.average[name]),
            )
        )
    return tuple(rows)


def _sheet(found: Sequence[Ensemble], published: Sequence[Published], notes: Sequence[str]) -> Sheet:
    split, sets = found[0].split, {record["data"]["name"] for one in found for record in one.members}
    published = [row for row in published if sets == {row.settings.get("data.name", *sets)}] if len(sets) == 1 else []
    scores = [f"{split}.{name}" for name in found[0].scores.average]
    printed = [(row, score) for row in published for score in scores if score in row.scores]
    below = tuple(
        (
            row.label,
            str(row.settings.get("parameters", "")),
            str(row.settings.get("seeds", "")),
            score_heading(score),
        )
        + ("", "", "", row.scores[score])
        for row, score in printed
    )
    sections = [tuple((*row, "") if printed else row for row in _rows(one)) for one in found]
    records = [record for one in found for record in one.members]
    details = captions.caption(records, scores, [one.members for one in found])
    sizes = sorted({f"{one.members[0]['data']['name']} {split}, {one.pairs:,} pairs" for one in found})
    votes = any(one.scores.vote is not None for one in found)
    averaged = "averaged probability" if votes else "averaged number"
    headings = ("setting", "parameters", "runs", "score", "alone", "majority vote", averaged)
    ties = "Equal votes are decided by the summed probability; parameters" if votes else "Parameters"
    return Sheet(
        title="Runs together",
        caption=(
            f"{'; '.join(sizes)}.",
            "Alone: each run by itself.",
            *details,
            f"{ties} are those of all runs.",
        ),
        notes=(*notes, *_notes([row for row, _ in printed])),
        headings=(*headings, *(["published"] if printed else [])),
        numeric=(False, True, False, False, True, True, True, *([True] if printed else [])),
        spans=(),
        sections=tuple(tuple(tuple(map(Text, row)) for row in section) for section in (*sections, below) if section),
    )


def _notes(published: Sequence[Published]) -> tuple[str, ...]:
    """Returns notes on published rows: their sources and numbers of training pairs. Equal notes are merged."""
    labels: dict[str, list[str]] = {}
    for row in published:
        details = [row.source, *([f"{row.training_pairs:,} training pairs"] if row.training_pairs else [])]
        details += ["its released configuration chooses checkpoints on the test set"] * row.chosen_on_test
        labels.setdefault("; ".join(details), []).append(row.label)
    return tuple(f"{', '.join(dict.fromkeys(names))}: {source}." for source, names in labels.items())


def _as_json(one: Ensemble) -> dict[str, Any]:
    first = one.members[0]
    return {
        "variant": first["variant"],
        "overrides": first["overrides"],
        "runs": [record["run"] for record in one.members],
        "parameters": one.parameters,
        "selected_on": first["selected_on"],
        "vectors": first["data"]["vectors"],
        "training_pairs": first["data"]["train"],
        "device": sorted({record["device"] for record in one.members}),
        "data": f"{first['data']['name']} {one.split}",
        "pairs": one.pairs,
        "single": without_nan(one.scores.single),
        "vote": without_nan(one.scores.vote),
        "average": without_nan(one.scores.average),
    }


def _as_csv(found: Sequence[Ensemble]) -> str:
    """Formats the table as CSV: one line a setting and score, with unrounded numbers; undefined values are empty."""
    rows: list[tuple[Any, ...]] = [
        (
            "setting",
            "parameters",
            "runs",
            "data",
            "pairs",
            "score",
            "alone.mean",
            "alone.std",
            "majority_vote",
            "averaged_probability",
        )
    ]
    for one in found:
        for name in one.scores.average:
            alone = [scores[name] for scores in one.scores.single]
            vote = None if one.scores.vote is None else one.scores.vote[name]
            values = without_nan((*mean_and_deviation(alone), vote, one.scores.average[name]))
            data = f"{one.members[0]['data']['name']} {one.split}"
            rows.append(
                (
                    setting_name(one.members[0]),
                    one.parameters,
                    len(one.members),
                    data,
                    one.pairs,
                    f"{one.split}.{name}",
                    *values,
                )
            )
    return csv_text(rows)

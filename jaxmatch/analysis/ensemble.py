"""Several runs of one setting combined into one model, by majority vote or by averaged probabilities; and their table.

RE2 lets eight runs vote (Yang et al., 2019, section 3.3); the paper does not state how a tie is resolved.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmatch.analysis.evaluate import label_numbers, pairs_of, score_outputs
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, printable_json, without_nan
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import Matcher
from jaxmatch.reporting import formats
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text
from jaxmatch.reporting.layout import Published, format_number, score_heading
from jaxmatch.reporting.records import setting_name
from jaxmatch.reporting.statistics import mean_and_deviation
from jaxmatch.reporting.table import caption


@dataclasses.dataclass(frozen=True)
class EnsembleScores:
    """The scores of some runs alone and together. Each mapping is score name -> value.

    Attributes:
      single: the scores of each run.
      vote: the scores of the majority vote; None for a regression, whose numbers cannot vote.
      average: the scores of the averaged probabilities; for a regression, of the averaged numbers.
    """

    single: tuple[Mapping[str, float], ...]
    vote: Mapping[str, float] | None
    average: Mapping[str, float]


def average(probabilities: np.ndarray) -> np.ndarray:
    """Computes the mean over the runs: <float>[runs, pairs, classes] -> <float64>[pairs, classes]."""
    return np.asarray(probabilities, np.float64).mean(axis=0)


def vote_shares(probabilities: np.ndarray) -> np.ndarray:
    """Computes each class's share of the runs' votes; the summed probability decides between equal shares.

    A run votes for its most probable class. The averaged probability of a class is added to its share of the votes. It
    is scaled down to less than the weight of one vote, so that it orders equal shares and changes no other order.

    Arguments:
      probabilities: <float>[runs, pairs, classes].

    Returns:
      <float64>[pairs, classes]; NaN where the probabilities of a run are NaN.
    """
    probabilities = np.asarray(probabilities, np.float64)
    runs, _, classes = probabilities.shape
    votes = np.eye(classes)[probabilities.argmax(axis=2)].mean(axis=0)
    return votes + probabilities.mean(axis=0) / (2 * runs)


def ensemble(matchers: Iterable[Matcher], split: Split) -> EnsembleScores:
    """Scores some runs on one split, alone and together.

    Arguments:
      matchers: the runs, used one after another. If a generator loads them, only the first and the current run are in
        memory.
      split: the pairs.

    Raises:
      InputError: no run is given, the runs have different tasks or labels, the split is empty, or it has a label that
        the runs do not know.
    """
    first, outputs, single = None, [], []
    for matcher in matchers:
        if first is None:
            first = matcher
            label_numbers(first, split)  # raises an error about a wrong label before the predictions are computed
        elif (matcher.task, matcher.labels) != (first.task, first.labels):
            raise InputError(
                "the runs of an ensemble must have the same task and labels: "
                f"{_task_and_labels(first)} and {_task_and_labels(matcher)}",
                remedy="give runs of one data set",
            )
        logits = matcher.logits(pairs_of(split))
        single.append(score_outputs(matcher, split, logits))
        outputs.append(logits.astype(np.float64) if matcher.task == "regression" else probabilities_of(logits))
    if first is None:
        raise InputError("an ensemble needs at least one run")
    outputs = np.stack(outputs)
    exact = exact_in_float32 if first.task == "ranking" else lambda together: together
    return EnsembleScores(
        single=tuple(single),
        vote=None if first.task == "regression" else score_outputs(first, split, exact(vote_shares(outputs))),
        average=score_outputs(first, split, exact(average(outputs))),
    )


def exact_in_float32(outputs: np.ndarray) -> np.ndarray:
    """Replaces the differences of two outputs by whole numbers of the same order and sign.

    A ranking compares differences in float32, in which small differences beside a vote would be ties.

    Arguments:
      outputs: <float64>[pairs, 2].

    Returns:
      <float64>[pairs, 2]; NaN where an output is NaN.
    """
    difference = outputs[:, 1] - outputs[:, 0]
    values, place = np.unique(difference, return_inverse=True)
    numbers = np.arange(len(values)) - np.searchsorted(values, 0.0)
    numbers += (values > 0) & ~np.any(values == 0)  # without a zero, the smallest positive difference is 1
    return np.where(np.isnan(difference), np.nan, [np.zeros(len(place)), numbers[place]]).T


def _task_and_labels(matcher: Matcher) -> str:
    return f"{matcher.task} ({', '.join(matcher.labels) or 'a number'})"


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
    details = caption(records, scores, [one.members for one in found])
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

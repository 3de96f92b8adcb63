"""Several runs of one setting combined into one model, by majority vote or by averaged probabilities; and their table.

RE2 lets eight runs vote (Yang et al., 2019, section 3.3); the paper does not state how a tie is resolved.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmatch.analysis.evaluate import label_numbers, pairs_of, score_outputs
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, printable_json, without_nan
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import Matcher
from jaxmatch.reporting import formats
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text
from jaxmatch.reporting.layout import Published, format_number, score_heading
from jaxmatch.reporting.records import setting_name
from jaxmatch.reporting.statistics import mean_and_deviation
from jaxmatch.reporting.table import caption


@dataclasses.dataclass(frozen=True)
class EnsembleScores:
    """The scores of some runs alone, by majority vote (None for a regression), and by averaged probabilities or, in a
    regression, numbers: score name -> value.
    """

    single: tuple[Mapping[str, float], ...]
    vote: Mapping[str, float] | None
    average: Mapping[str, float]


def vote_shares(probabilities: np.ndarray) -> np.ndarray:
    """Computes each class's share of the runs' votes; the summed probability decides between equal shares.

    A run votes for its most probable class. The averaged probability of a class is added to its share of the votes. It
    is scaled down to less than the weight of one vote, so that it orders equal shares and changes no other order.

    <float64>[runs, pairs, classes] -> <float64>[pairs, classes], NaN where the probabilities of a run are NaN.
    """
    runs, _, classes = probabilities.shape
    votes = np.eye(classes)[probabilities.argmax(axis=2)].mean(axis=0)
    return votes + probabilities.mean(axis=0) / (2 * runs)


def ensemble(matchers: Iterable[Matcher], split: Split) -> EnsembleScores:
    """Scores some runs on one split, alone and together.

    The runs are used one after another. If a generator loads them, only the first and the current run are in memory.

    Raises:
      InputError: the runs have different tasks or labels, the split is empty, or it has a label that they do not know.
    """
    first, outputs, single = None, [], []
    for matcher in matchers:
        if first is None:
            first = matcher
            label_numbers(first, split)  # raises an error about a wrong label before the predictions are computed
        elif (matcher.task, matcher.labels) != (first.task, first.labels):
            both = " and ".join(f"{one.task} ({', '.join(one.labels) or 'a number'})" for one in (first, matcher))
            problem = f"the runs of an ensemble must have the same task and labels: {both}"
            raise InputError(problem, remedy="give runs of one data set")
        logits = matcher.logits(pairs_of(split))
        single.append(score_outputs(matcher, split, logits))
        outputs.append(logits.astype(np.float64) if matcher.task == "regression" else probabilities_of(logits))
    outputs = np.stack(outputs)
    exact = exact_in_float32 if first.task == "ranking" else lambda together: together
    return EnsembleScores(
        single=tuple(single),
        vote=None if first.task == "regression" else score_outputs(first, split, exact(vote_shares(outputs))),
        average=score_outputs(first, split, exact(outputs.mean(axis=0))),
    )


def exact_in_float32(outputs: np.ndarray) -> np.ndarray:
    """Replaces the differences of two outputs by whole numbers of the same order and sign.

    A ranking compares differences in float32, in which small differences beside a vote would be ties.

    <float64>[pairs, 2] -> <float64>[pairs, 2], NaN where an output is NaN.
    """
    difference = outputs[:, 1] - outputs[:, 0]
    values, place = np.unique(difference, return_inverse=True)
    numbers = np.arange(len(values)) - np.searchsorted(values, 0.0)
    numbers += (values > 0) & ~np.any(values == 0)  # without a zero, the smallest positive difference is 1
    return np.where(np.isnan(difference), np.nan, [np.zeros(len(place)), numbers[place]]).T


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The records of the runs of a setting, the split that was scored and its number of pairs, and the scores."""

    members: tuple[Mapping[str, Any], ...]
    split: str
    pairs: int
    scores: EnsembleScores

    @property
    def parameters(self) -> int:
        """The number of parameters of all runs together."""
        return sum(record["parameters"] for record in self.members)

    @property
    def data(self) -> str:
        """The name of the data set and of the split."""
        return f"{self.members[0]['data']['name']} {self.split}"

    def lines(self) -> Iterator[tuple[str, float, float, float | None, float]]:
        """Yields (score, mean and deviation of the runs alone, majority vote, average) for each score."""
        scores = self.scores
        for name, average in scores.average.items():
            alone = mean_and_deviation([each[name] for each in scores.single])
            yield f"{self.split}.{name}", *alone, None if scores.vote is None else scores.vote[name], average


def ensembles(found: Sequence[Ensemble], published: Sequence[Published], format: str, notes: Sequence[str] = ()) -> str:
    """Formats the table of ensembles as text.

    Arguments:
      found: one ensemble for each setting, all scored on the same split.
      published: rows of papers. Rows of the same data set that have a score of the split are shown below the ensembles.
      format: "markdown", "latex" or "json".
      notes: the notes of the sweep.
    """
    if format == "json":
        return printable_json([_as_json(one) for one in found]) + "\n"
    return {"markdown": formats.markdown, "latex": formats.latex}[format](_sheet(found, published, notes))


def _sheet(found: Sequence[Ensemble], published: Sequence[Published], notes: Sequence[str]) -> Sheet:
    def number(score: str, value: float | None) -> str:
        return NO_VALUE if value is None or not math.isfinite(value) else format_number(score, value)

    sections = []
    for one in found:
        about = setting_name(one.members[0]), f"{one.parameters:,}", str(len(one.members))
        sections.append(
            [
                (*about, score_heading(score), f"{number(score, mean)} ± {number(score, deviation)}")
                + (number(score, vote), number(score, average))
                for score, mean, deviation, vote, average in one.lines()
            ]
        )
    records = [record for one in found for record in one.members]
    sets, scores = {record["data"]["name"] for record in records}, [score for score, *_ in found[0].lines()]
    published = [row for row in published if sets == {row.settings.get("data.name", *sets)}] if len(sets) == 1 else []
    printed = [(row, score) for row in published for score in scores if score in row.scores]
    if printed:
        sections = [[(*row, "") for row in section] for section in sections]
        sections.append(
            [
                (row.label, *(str(row.settings.get(name, "")) for name in ("parameters", "seeds")))
                + (score_heading(score), "", "", "", row.scores[score])
                for row, score in printed
            ]
        )
    sizes = sorted({f"{one.data}, {one.pairs:,} pairs" for one in found})
    votes = any(one.scores.vote is not None for one in found)
    averaged = "averaged probability" if votes else "averaged number"
    headings = ("setting", "parameters", "runs", "score", "alone", "majority vote", averaged)
    ties = "Equal votes are decided by the summed probability; parameters" if votes else "Parameters"
    about, details = caption(records, scores, [one.members for one in found])
    return Sheet(
        title="Runs together",
        caption=(f"{'; '.join(sizes)}.", "Alone: each run by itself.", *about),
        details=(*details, f"{ties} are those of all runs."),
        notes=(*notes, *_notes([row for row, _ in printed])),
        headings=(*headings, *(["published"] if printed else [])),
        numeric=(False, True, False, False, True, True, True, *([True] if printed else [])),
        sections=tuple(tuple(tuple(map(Text, row)) for row in section) for section in sections),
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
        "data": one.data,
        "pairs": one.pairs,
        **without_nan(vars(one.scores)),
    }

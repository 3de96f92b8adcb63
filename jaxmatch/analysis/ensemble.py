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
from jaxmatch.errors import InputError, without_nan
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import Matcher
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
    def data(self) -> str:
        """The name of the data set and of the split."""
        return f"{self.members[0]['data']['name']} {self.split}"

    def as_json(self) -> dict[str, Any]:
        """Returns the settings of the runs and the scores as plain values; None stands for NaN."""
        first = self.members[0]
        return {
            **{name: first[name] for name in ("variant", "overrides", "selected_on")},
            "runs": [record["run"] for record in self.members],
            "parameters": sum(record["parameters"] for record in self.members),
            "vectors": first["data"]["vectors"],
            "training_pairs": first["data"]["train"],
            "device": sorted({record["device"] for record in self.members}),
            "data": self.data,
            "pairs": self.pairs,
            **without_nan(vars(self.scores)),
        }


def sheet(found: Sequence[Ensemble], published: Sequence[Published] = (), notes: Sequence[str] = ()) -> Sheet:
    """Returns the table of ensembles.

    Arguments:
      found: one ensemble for each setting, all scored on the same split.
      published: rows of papers. Rows of the same data set that have a score of the split are shown below the ensembles.
      notes: the notes of the sweep.
    """

    def number(score: str, value: float | None) -> str:
        return NO_VALUE if value is None or not math.isfinite(value) else format_number(score, value)

    records = [record for one in found for record in one.members]
    scores = [f"{found[0].split}.{name}" for name in found[0].scores.average]
    data = ", ".join(sorted({record["data"]["name"] for record in records}))
    published = [row for row in published if row.settings.get("data.name", data) == data]
    published = [row for row in published if {*scores} & {*row.scores}]
    sections, below, sources, blank = [], [], {}, [""] * bool(published)
    for one in found:
        parameters = sum(record["parameters"] for record in one.members)
        about, rows = (setting_name(one.members[0]), f"{parameters:,}", str(len(one.members))), []
        for name, average in one.scores.average.items():
            score, vote = f"{one.split}.{name}", one.scores.vote and one.scores.vote[name]
            alone = mean_and_deviation([each[name] for each in one.scores.single])
            alone = " ± ".join(number(score, value) for value in alone)
            rows.append((*about, score_heading(score), alone, number(score, vote), number(score, average), *blank))
        sections.append(rows)
    for row in published:
        about = row.label, *(str(row.settings.get(name, "")) for name in ("parameters", "seeds"))
        cells = [(score_heading(score), "", "", "", row.scores[score]) for score in scores if score in row.scores]
        below += [about + each for each in cells]
        details = [row.source, *([f"{row.training_pairs:,} training pairs"] if row.training_pairs else [])]
        details += ["its released configuration chooses checkpoints on the test set"] * row.chosen_on_test
        sources.setdefault("; ".join(details), []).append(row.label)
    sections += [below] if below else []
    votes = any(one.scores.vote is not None for one in found)
    headings = ("setting", "parameters", "runs", "score", "alone", "majority vote")
    headings += ("averaged probability" if votes else "averaged number", *(["published"] if published else []))
    ties = "Equal votes are decided by the summed probability; parameters" if votes else "Parameters"
    about, details = caption(records, scores, [one.members for one in found])
    sizes = "; ".join(sorted({f"{one.data}, {one.pairs:,} pairs" for one in found}))
    return Sheet(
        title="Runs together",
        caption=(f"{sizes}.", "Alone: each run by itself.", *about),
        details=(*details, f"{ties} are those of all runs."),
        notes=(*notes, *(f"{', '.join(labels)}: {source}." for source, labels in sources.items())),
        headings=headings,
        numeric=(False, True, False, False, True, True, True, True)[: len(headings)],
        sections=tuple(tuple(tuple(map(Text, row)) for row in section) for section in sections),
    )

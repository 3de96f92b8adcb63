"""The certainty of a report's ranking, in the terms of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge
of the Statistical Precipice": bootstrap intervals over the seeds, and the probability of improvement.
"""

from collections.abc import Sequence

import numpy as np

from jaxmatch.reporting import statistics
from jaxmatch.reporting.captions import row_name
from jaxmatch.reporting.comparisons import ranked
from jaxmatch.reporting.formats import NO_VALUE, Sheet
from jaxmatch.reporting.html.grid import grid
from jaxmatch.reporting.layout import format_number, higher_is_better, score_heading
from jaxmatch.reporting.records import SweepFolder
from jaxmatch.reporting.table import table_of

RESAMPLES, SEED = 5_000, 0


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Computes the percentile interval of the mean over seeds drawn with replacement. It is None for fewer than two
    values.
    """
    if len(values) < 2:
        return None
    return _middle(np.asarray(values)[_drawn(len(values))].mean(axis=1))


def probability_of_improvement(values: Sequence[float], others: Sequence[float]) -> float:
    """Computes how often a run of `values` scores above a run of `others`. Ties count half (Mann and Whitney's U
    divided by the number of pairs).
    """
    return float(_wins(values, others).mean())


def improvement_interval(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Computes the percentile interval of `probability_of_improvement`. The seeds of each setting are drawn separately.
    Returns None if either setting has fewer than two values.
    """
    if min(len(values), len(others)) < 2:
        return None
    times, times_of_others = _times_drawn(len(values)), _times_drawn(len(others), SEED + 1)
    won = (times @ _wins(values, others) * times_of_others).sum(axis=1)
    return _middle(won / (len(values) * len(others)))


def _improvement_text(values: Sequence[float], others: Sequence[float]) -> str:
    ends = improvement_interval(values, others)
    return f"{probability_of_improvement(values, others):.0%}" + (f" ({ends[0]:.0%} to {ends[1]:.0%})" if ends else "")


def _wins(values: Sequence[float], others: Sequence[float]) -> np.ndarray:
    """Returns <float64>[values, others]: 1 where the value is greater, 0.5 where they tie, and 0 elsewhere."""
    return np.heaviside(np.subtract.outer(np.asarray(values), np.asarray(others)), 0.5)


def _drawn(count: int, seed: int = SEED) -> np.ndarray:
    """Returns <int64>[resamples, count]: indices drawn with replacement."""
    return np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))


def _times_drawn(count: int, seed: int = SEED) -> np.ndarray:
    """Returns <float64>[resamples, count]: how often each index is drawn. Memory is linear in the number of runs."""
    times = np.zeros((RESAMPLES, count))
    np.add.at(times, (np.arange(RESAMPLES)[:, None], _drawn(count, seed)), 1)
    return times


def _middle(resampled: np.ndarray) -> tuple[float, float]:
    lower, upper = np.quantile(resampled, ((1 - statistics.CONFIDENCE) / 2, (1 + statistics.CONFIDENCE) / 2))
    return float(lower), float(upper)


def certainty(folder: SweepFolder) -> list[tuple[str, Sheet]]:
    """Returns a heading and a table for each data set. The table shows, for each setting, the bootstrap interval of its
    mean and how often a run of the best setting beats a run of this one. The list is empty if there is no dev or test
    score to compare.
    """
    if not folder.records:
        return []
    table = table_of(folder)
    found = []
    for score in [score for score in table.layout.scores if ranked(table, score)][-1:]:
        heading = score_heading(score)
        headings = ("setting", "seeds", heading, "95% interval", "the best beats it")
        for data, cells in ranked(table, score).items():
            best = list(cells[0][2].scores[score].values.values())
            rows = []
            for _, settings, cell in cells:
                values = list(cell.scores[score].values.values())
                ends = bootstrap_interval(values)
                shown = " to ".join(format_number(score, end) for end in ends) if ends else NO_VALUE
                better = (best, values) if higher_is_better(score) else (values, best)
                share = NO_VALUE if cell is cells[0][2] else _improvement_text(*better)
                mean = format_number(score, cell.scores[score].mean)
                rows.append((row_name(settings), str(len(values)), mean, shown, share))
            found.append((f"{heading}, {data}", grid(headings, rows, (False, True, True, True, True))))
    return found

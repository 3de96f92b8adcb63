"""How sure a report's ranking is, in the terms of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the
Statistical Precipice": bootstrap intervals over the seeds, and the probability of improvement.
"""

from collections.abc import Sequence

from jaxmatch.reporting import significance
from jaxmatch.reporting.folder_table import table_of
from jaxmatch.reporting.html import markup
from jaxmatch.reporting.sweep_folder import SweepFolder
from jaxmatch.reporting.tables import numbers, uncertainty

RESAMPLES, SEED = 5_000, 0
NOTHING = "–"


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The percentile interval of the mean over seeds drawn with replacement; None for fewer than two."""
    if len(values) < 2:
        return None
    import numpy as np

    drawn = np.random.default_rng(SEED).choice(np.asarray(values), (RESAMPLES, len(values)))
    ends = (1 - significance.CONFIDENCE) / 2, (1 + significance.CONFIDENCE) / 2
    lower, upper = np.quantile(drawn.mean(axis=1), ends)
    return float(lower), float(upper)


def probability_of_improvement(values: Sequence[float], others: Sequence[float]) -> float:
    """How often a run of the first scores above a run of the others, ties counting half (Mann and Whitney's U over the
    number of pairs).
    """
    wins = sum((value > other) + 0.5 * (value == other) for value in values for other in others)
    return wins / (len(values) * len(others))


def certainty(folder: SweepFolder) -> str:
    """For each setting the interval of its mean by the bootstrap, and how often a run of the best beats one of it."""
    if not folder.records:
        return markup.element("p", "No run has ended yet.")
    table = table_of(folder)
    parts = []
    for score in [score for score in table.layout.scores if uncertainty.ranked(table, score)][-1:]:
        for data, cells in uncertainty.ranked(table, score).items():
            best = list(cells[0][2].scores[score].values.values())
            rows = []
            for _, settings, cell in cells:
                values = list(cell.scores[score].values.values())
                ends = bootstrap_interval(values)
                shown = " to ".join(numbers.print_number(score, end) for end in ends) if ends else NOTHING
                better = (best, values) if numbers.higher_is_better(score) else (values, best)
                share = NOTHING if cell is cells[0][2] else f"{probability_of_improvement(*better):.0%}"
                mean = numbers.print_number(score, cell.scores[score].mean)
                rows.append((uncertainty.setting_name(settings), str(len(values)), mean, shown, share))
            heading = numbers.score_heading(score)
            headings = ("setting", "seeds", heading, "95% interval", "the best beats it")
            parts.append(markup.element("h3", f"{heading}, {data}"))
            parts.append(markup.grid(headings, rows, (False, True, True, True, True)))
    if not parts:
        return markup.element("p", "No dev or test score to compare.")
    legend = (
        f"Interval: {RESAMPLES:,} bootstrap samples of the seeds. The best beats it: the share of pairs of a run of the best setting and a "
        "run of this one in which the first is better, ties counting half; 50% tells nothing."
    )
    return markup.element("p", legend) + "".join(parts)

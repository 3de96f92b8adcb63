"""The uncertainty of a table's numbers: which mean is best beyond chance, how many seeds would settle it, and how much
the test set itself decides.
"""

import math
from collections.abc import Callable, Collection, Mapping

from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import (
    Cell,
    Content,
    Summary,
    format_number,
    format_setting,
    higher_is_better,
    is_percent,
    plain_score_name,
    setting_headings,
)
from jaxmatch.reporting.records import by_pairs, deviation_of
from jaxmatch.reporting.statistics import LEVEL
from jaxmatch.reporting.tables import comparisons
from jaxmatch.reporting.tables.comparisons import Place

FEWEST_PAIRS = 4  # the fewest pairs for Fisher's interval of a correlation


def ranked(table: Content, score: str) -> dict[str, list[tuple[Place, Mapping, Cell]]]:
    """Returns data set -> the cells that have a mean of a dev or test score, the best first. It is empty for other
    scores.

    Scores of checkpoints that were chosen on the test set are not ranked.
    """
    if score.partition(".")[0] not in ("dev", "test") or higher_is_better(score) is None:
        return {}
    known = [found for found in comparisons.cells(table) if found[2].scores[score].mean is not None]
    sign = -1 if higher_is_better(score) else 1
    ordered = sorted(known, key=lambda found: sign * found[2].scores[score].mean)
    return by_pairs(ordered, lambda found: found[2].records[0])


def _p_value(table: Content, best: Cell, other: Cell, score: str) -> float | None:
    """Returns the p value of the test of two means, the better one first; None if it cannot be tested.

    A paired test compares the seeds that both have. If these tell the two apart in favor of the other mean, the result
    is None.
    """
    test = comparisons.test_of(best.scores[score], other.scores[score], table.layout.paired)
    if test is None:
        return None
    favors_best = (test.difference > 0) == higher_is_better(score)
    return None if test.p_value < LEVEL and not favors_best else test.p_value


def beyond_chance(table: Content) -> set[tuple[Place, str]]:
    """Returns (cell, score) of the best means that the table's tests tell apart from every other mean on the same data,
    corrected by Holm for the number of tests.
    """
    found = set()
    for score in table.layout.scores:
        for (place, _, best), *others in ranked(table, score).values():
            p_values = [_p_value(table, best, cell, score) for _, _, cell in others]
            if p_values and None not in p_values and max(statistics.holm(p_values)) < LEVEL:
                found.add((place, score))
    return found


def seeds_needed(table: Content) -> list[str]:
    """Describes, for each data set, whether the seeds tell apart its two best settings by the table's last dev or test
    score, or how many more seeds would.
    """
    scores = [score for score in table.layout.scores if ranked(table, score)]
    sentences = []
    of_data = ranked(table, scores[-1]) if scores else {}
    for name, cells in of_data.items():
        if len(cells) < 2:
            continue
        (_, first, best), (_, second, next_best), *_ = cells
        score = scores[-1]
        where = f"{plain_score_name(score)}{_on(name, of_data)}"
        what = f"({setting_name(first)}; {setting_name(second)}) in {where}"
        p_value = _p_value(table, best, next_best, score)
        if p_value is None:
            continue
        if p_value < LEVEL:
            sentences.append(f"The seeds separate the two best settings {what} (p {p_text(p_value)}, these two alone).")
            continue
        sentences.append(
            f"{_needed(best.scores[score], next_best.scores[score], table.layout.paired)} are needed to separate the "
            f"two best settings {what} (power {statistics.POWER:.0%}, level {LEVEL:.0%}, these two alone)."
        )
    return sentences


def _needed(one: Summary, other: Summary, paired: bool) -> str:
    """Says how many seeds separate two settings, and how many more these are than now."""
    shared = sorted(one.values.keys() & other.values.keys())
    if paired:
        count = statistics.shared_seeds_to_separate([one.values[seed] - other.values[seed] for seed in shared])
    else:
        count = statistics.seeds_to_separate(*(list(each.values.values()) for each in (one, other)))
    seeds = "shared seeds" if paired else "seeds each"
    now = len(shared) if paired else min(len(one.values), len(other.values))
    return seeds_text(count, now, seeds)


def seeds_text(count: int | None, now: int, seeds: str = "seeds each") -> str:
    """Formats the number of seeds that separate two settings (`statistics.seeds_to_separate`).

    Arguments:
      count: the number. None: more than `statistics.MOST_SEEDS`.
      now: the number of seeds that there are now.
      seeds: the words for what is counted.
    """
    if count is None:
        return f"More than {statistics.MOST_SEEDS:,} {seeds}"
    return f"About {count:,} {seeds}, {count - now:,} more than now,"


def _on(name: str, of_data: Collection[str]) -> str:
    """Names the data set that a sentence is about, if there are several."""
    return f" on {name}" if len(of_data) > 1 else ""


def setting_name(settings: Mapping) -> str:
    """Describes a row's settings in words."""
    headings = setting_headings(list(settings))
    texts = [(key, format_setting(key, value)) for key, value in settings.items()]
    return ", ".join(text if key == "variant" else f"{headings[key]} {text}" for key, text in texts) or "this work"


def p_text(p_value: float) -> str:
    """Formats a p value as "= 0.017" or "< 0.001"."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def sampling_error(table: Content) -> list[str]:
    """Describes the sampling error of the best test score of each data set, in sentences."""
    return [
        *_of_pairs(table, "accuracy", statistics.wilson),
        *_of_pairs(table, "pearson", statistics.fisher),
        *_of_rankings(table),
    ]


def _of_pairs(table: Content, name: str, interval: Callable[[float, int], tuple[float, float]]) -> list[str]:
    """Describes the sampling error of a score over pairs. It uses dev for data sets without any test score."""
    sentences = []
    shown = table.layout.scores
    tested = {data for score in shown if score.startswith("test.") for data in ranked(table, score)}
    on_test, on_dev = (ranked(table, f"{part}.{name}") if f"{part}.{name}" in shown else {} for part in ("test", "dev"))
    untested = {data: found for data, found in on_dev.items() if data not in tested}
    of_data = {data: ("test", found[0]) for data, found in on_test.items()}
    of_data |= {data: ("dev", found[0]) for data, found in untested.items()}
    for data, (part, (_, _, best)) in of_data.items():
        score = f"{part}.{name}"
        value, pairs = best.scores[score].mean, best.records[0]["data"][part]
        if pairs >= FEWEST_PAIRS:
            unit = "%" if is_percent(score) else ""
            mean, lower, upper = (format_number(score, each) for each in (value, *interval(value, pairs)))
            sentences.append(
                f"Sampling error of the best {plain_score_name(score)}{_on(data, of_data)}: {mean}{unit}, "
                f"{statistics.CONFIDENCE:.0%} interval {lower} to {upper} ({pairs:,} pairs), "
                "in addition to the spread over seeds."
            )
    return sentences


def _of_rankings(table: Content) -> list[str]:
    """Describes the sampling error of test scores that are means over questions. It uses the standard deviation over
    the questions, averaged over the seeds.
    """
    of_data: dict[str, list[tuple[int, str]]] = {}
    for score in table.layout.scores:
        for name, ((_, _, best), *_) in ranked(table, score).items():
            deviations = [deviation_of(record, score) for record in best.finished]
            if not deviations or None in deviations:
                continue
            deviation, questions = (sum(values) / len(deviations) for values in zip(*deviations, strict=True))
            margin, mean = statistics.NORMAL_QUANTILE * deviation / math.sqrt(questions), best.scores[score].mean
            title = plain_score_name(score).partition(" ")[2]
            text = f"{title} {format_number(score, mean)} ± {format_number(score, margin)}"
            of_data.setdefault(name, []).append((round(questions), text))
    return [
        f"Sampling error of the best test scores{_on(name, of_data)}: {' and '.join(text for _, text in found)} "
        f"({statistics.CONFIDENCE:.0%} interval, {found[0][0]:,} questions), in addition to the spread over seeds."
        for name, found in of_data.items()
    ]

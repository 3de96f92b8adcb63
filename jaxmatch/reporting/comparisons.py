"""Comparisons of a table's numbers: with the original row, with published numbers of the same settings, and of the
best mean with all others.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import SCORES
from jaxmatch.errors import InputError
from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import Cell, Content, Published, Summary, TableLayout, higher_is_better, is_percent
from jaxmatch.reporting.records import by_pairs, has_setting, identity, setting_of
from jaxmatch.reporting.statistics import LEVEL

# The keys of a published row that are not settings of a run.
NO_SETTINGS = ("parameters", "seeds")
# A cell by its row and its column, both counted from 0.
Place = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference of a cell's mean from that of the original's cell.

    Attributes:
      value: the mean of the cell minus the mean of the original's cell; with a paired test, over the seeds that both
        have.
      test: the test of the difference, or None if no test is possible, as with too few seeds.
      corrected: the p value of the test after Holm's correction for all tests of the score in the table.
    """

    value: float
    test: statistics.MeanDifference | None
    corrected: float | None = None


def cells(table: Content) -> Iterator[tuple[Place, Mapping[str, Any], Cell]]:
    """Yields the cells that have runs, each with its place and all its settings, including the pivoted setting."""
    for number, row in enumerate(table.rows):
        for column, (value, cell) in enumerate(zip(table.pivot, row.cells, strict=True)):
            if cell is not None:
                pivot = {table.layout.columns: value} if table.layout.columns else {}
                yield (number, column), {**row.settings, **pivot}, cell


def _key(settings: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((key, identity(value)) for key, value in settings.items())


def check_original(layout: TableLayout, keys: Sequence[str]) -> None:
    """Checks that the original of a layout can be found.

    Arguments:
      layout: the layout, which names the original.
      keys: the keys that label the rows.

    Raises:
      InputError: the original is named by a key that labels no row and no column.
    """
    known = [*keys, *([layout.columns] if layout.columns else [])]
    for key in layout.original:
        if key not in known:
            raise InputError(
                f"the table's original is named by {key!r}, which labels no row",
                remedy=f"name it by {' or '.join(known)}" if known else "give the layout rows",
            )


def differences(table: Content) -> dict[tuple[Place, str], Difference]:
    """Returns (cell, score) -> the difference of the cell from the cell that has the original setting and is like it in
    everything else.

    The original itself has no difference. A score has none if it is a time, or if one of the two cells has no mean of
    it.
    """
    original = table.layout.original
    if not original:
        return {}
    by_settings = {_key(settings): cell for _, settings, cell in cells(table)}
    found = {}
    for place, settings, cell in cells(table):
        other = by_settings.get(_key({**settings, **original}))
        if other is None or other is cell:
            continue
        for score in table.layout.scores:
            own, base = cell.scores[score], other.scores[score]
            if score.partition(".")[0] != "times" and own.mean is not None and base.mean is not None:
                test = test_of(own, base, table.layout.paired)
                paired = table.layout.paired and test is not None
                found[place, score] = Difference(test.difference if paired else own.mean - base.mean, test)
    for score in table.layout.scores:
        tested = [key for key, difference in found.items() if key[1] == score and difference.test]
        corrected = statistics.holm([found[key].test.p_value for key in tested])
        for key, p_value in zip(tested, corrected, strict=True):
            found[key] = dataclasses.replace(found[key], corrected=p_value)
    return found


def test_of(mine: Summary, other: Summary, paired: bool) -> statistics.MeanDifference | None:
    """Tests the difference of two means: seed by seed over the seeds that both have, or as two groups of seeds."""
    if not paired:
        return statistics.welch(list(mine.values.values()), list(other.values.values()))
    seeds = sorted(mine.values.keys() & other.values.keys())
    return statistics.paired(*([summary.values[seed] for seed in seeds] for summary in (mine, other)))


def published_by_place(table: Content) -> dict[Place, Published]:
    """Returns cell -> the first published row with the settings of this cell and of no other."""
    found: dict[Place, Published] = {}
    for published in table.layout.published:
        settings = {key: value for key, value in published.settings.items() if key not in NO_SETTINGS}
        if not settings or not set(published.scores) & set(table.layout.scores):
            continue
        same = [place for place, _, cell in cells(table) if _has_settings(cell, settings)]
        if len(same) == 1:
            found.setdefault(same[0], published)
    return found


def _has_settings(cell: Cell, settings: Mapping[str, Any]) -> bool:
    return all(
        has_setting(record, key) and identity(setting_of(record, key)) == identity(value)
        for record in cell.records
        for key, value in settings.items()
    )


def interval(summary: Summary) -> statistics.Interval | None:
    """Returns the confidence interval of the mean over the seeds, or None without a deviation, as for a single seed."""
    return None if summary.deviation is None else statistics.mean_interval(list(summary.values.values()))


def published_number(score: str, text: str) -> tuple[float | None, float]:
    """Returns the number that a published text such as "88.9 ± 0.1" begins with, or None if it begins with no number,
    and half a unit of its last digit. Both are shares if our score is a share.
    """
    match = re.match(r"\s*([-+]?\d+(?:\.(\d+))?)", text.replace("−", "-"))
    if match is None:
        return None, 0.0
    unit = 100.0 if is_percent(score) else 1.0
    return float(match[1]) / unit, 0.5 * 10.0 ** -len(match[2] or "") / unit


def other_training_set(cell: Cell, published: Published) -> bool:
    """Returns whether the models of a cell were trained on more or fewer pairs than a published model, by more than a
    hundredth.
    """
    wanted = published.training_pairs
    return bool(wanted) and any(abs(record["data"]["train"] - wanted) > wanted / 100 for record in cell.records)


def to_published(cell: Cell, score: str, published: Published) -> tuple[str, tuple[float, float]] | None:
    """Returns whether the mean of a cell "covers", "beats" or "misses" the published number, and the interval of the
    difference by which that is judged. Returns None if nothing can be judged.

    Nothing can be judged from fewer than two seeds or from seeds that all agree, if the published text is not a number,
    if the training sets differ, or if the score is not the same quantity.
    """
    name, summary, text = score.partition(".")[2], cell.scores[score], published.scores[score]
    published_value, rounding = published_number(score, text)
    if not summary.deviation or published_value is None or name not in SCORES:
        return None
    if score in published.unlike or other_training_set(cell, published):
        return None
    values = list(summary.values.values())
    found = statistics.to_published(values, published_value, *printed_spread(score, published))
    return found and (statistics.judge(*found, SCORES[name].higher_is_better, rounding), found)


def printed_spread(score: str, published: Published) -> tuple[float | None, int | None]:
    """Returns the printed deviation of a published number and its number of runs. Each is None if it is not printed."""
    match = re.search(r"±\s*(\d+(?:\.\d+)?)", published.scores[score])
    seeds = published.settings.get("seeds")
    unit = 100.0 if is_percent(score) else 1.0
    return float(match[1]) / unit if match else None, seeds if isinstance(seeds, int) else None


def ranked(table: Content, score: str) -> dict[str, list[tuple[Place, Mapping, Cell]]]:
    """Returns data set -> the cells that have a mean of a dev or test score, the best first. It is empty for other
    scores.

    Scores of checkpoints that were chosen on the test set are not ranked.
    """
    if score.partition(".")[0] not in ("dev", "test") or higher_is_better(score) is None:
        return {}
    known = [found for found in cells(table) if found[2].scores[score].mean is not None]
    sign = -1 if higher_is_better(score) else 1
    ordered = sorted(known, key=lambda found: sign * found[2].scores[score].mean)
    return by_pairs(ordered, lambda found: found[2].records[0])


def p_value(table: Content, best: Cell, other: Cell, score: str) -> float | None:
    """Returns the p value of the test of two means, the better one first; None if it cannot be tested.

    A paired test compares the seeds that both have. If these tell the two apart in favor of the other mean, the result
    is None.
    """
    test = test_of(best.scores[score], other.scores[score], table.layout.paired)
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
            p_values = [p_value(table, best, cell, score) for _, _, cell in others]
            if p_values and None not in p_values and max(statistics.holm(p_values)) < LEVEL:
                found.add((place, score))
    return found

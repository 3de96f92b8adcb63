"""The texts of a table's cells, made from its numbers."""

import dataclasses
from collections.abc import Collection, Mapping

from jaxmatch.reporting import statistics
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text
from jaxmatch.reporting.layout import (
    OWN,
    VARIANT,
    Cell,
    Content,
    FloorRow,
    Published,
    format_number,
    format_setting,
    format_whole_numbers,
    score_heading,
    setting_headings,
)
from jaxmatch.reporting.records import identity
from jaxmatch.reporting.tables import comparisons, uncertainty
from jaxmatch.reporting.tables.comparisons import Difference, Place

FLOOR = "floor"
SCORE, DIFFERENCE, PUBLISHED = "score", "difference", "published"


@dataclasses.dataclass(frozen=True)
class _Plan:
    """The columns of scores, and what they show.

    Attributes:
      columns: (what, score) of each column, for one value of the pivot key.
      best: (cell, score) of the means that are best beyond chance.
      differences: (cell, score) -> the difference from the original.
      published_by_place: cell -> the published row of its settings, for the cells that have one.
    """

    columns: tuple[tuple[str, str], ...]
    best: Collection[tuple[Place, str]]
    differences: Mapping[tuple[Place, str], Difference]
    published_by_place: Mapping[Place, Published]


def _plan(table: Content) -> _Plan:
    differences, published_by_place = comparisons.differences(table), comparisons.published_by_place(table)
    columns = []
    for score in table.layout.scores:
        columns.append((SCORE, score))
        if any(score == of for _, of in differences):
            columns.append((DIFFERENCE, score))
        if any(score in published.scores for published in published_by_place.values()):
            columns.append((PUBLISHED, score))
    return _Plan(tuple(columns), uncertainty.beyond_chance(table), differences, published_by_place)


def _heading(what: str, score: str) -> str:
    heading = score_heading(score)
    return heading if what == SCORE else f"{what}: {heading}"


def _score_text(cell: Cell | None, score: str, best: bool) -> Text:
    if cell is None:
        return Text(NO_VALUE)
    summary = cell.scores[score]
    if summary.mean is None:
        # A setting that was dropped and has a diverged run was dropped because of that run.
        return Text(NO_VALUE if cell.finished else "diverged" if cell.diverged else "dropped")
    mean = format_number(score, summary.mean)
    spread = "" if summary.deviation is None else f" ± {format_number(score, summary.deviation)}"
    fewer = "" if len(summary.values) == len(cell.finished) else f" (n = {len(summary.values)})"
    return Text(mean + spread + fewer, bold=best)


def _signed(score: str, value: float) -> str:
    printed = format_number(score, value)
    return f"−{printed[1:]}" if printed.startswith("-") else f"+{printed}"


def _difference_text(score: str, difference: Difference | None) -> Text:
    if difference is None:
        return Text("")
    signed = _signed(score, difference.value)
    if difference.corrected is None:
        return Text(signed)
    return Text(f"{signed} (p {uncertainty.p_text(difference.corrected)})")


def _published_text(cell: Cell, score: str, published: Published | None) -> Text:
    if published is None or score not in published.scores:
        return Text("")
    text = published.scores[score]
    if comparisons.other_training_set(cell, published):
        return Text(f"{text} ({published.training_pairs:,} training pairs)")
    if (found := comparisons.to_published(cell, score, published)) is None:
        return Text(text)
    verdict, ends = found
    lower, upper = (_signed(score, end) for end in ends)
    return Text(f"{text} ({verdict}: {lower} to {upper})")


def _cell_texts(plan: _Plan, cell: Cell | None, place: Place) -> list[Text]:
    texts = []
    for what, score in plan.columns:
        if what == SCORE:
            texts.append(_score_text(cell, score, (place, score) in plan.best))
        elif cell is None:
            texts.append(Text(""))
        elif what == DIFFERENCE:
            texts.append(_difference_text(score, plan.differences.get((place, score))))
        else:
            texts.append(_published_text(cell, score, plan.published_by_place.get(place)))
    return texts


def _seeds(cell: Cell | None) -> str:
    if cell is None:
        return NO_VALUE
    left_out = [
        f" + {len(runs)} {how}" for runs, how in ((cell.diverged, "diverged"), (cell.dropped, "dropped")) if runs
    ]
    return f"{len(cell.finished)}{''.join(left_out)}"


def _own_row(table: Content, number: int, plan: _Plan, named: bool) -> tuple[Text, ...]:
    row = table.rows[number]
    records = [record for cell in row.cells if cell is not None for record in cell.records]
    seeds = [_seeds(cell) for cell in row.cells]
    texts = [Text(OWN)] if named else []
    texts += [Text(format_setting(key, value)) for key, value in row.settings.items()]
    texts.append(Text(format_whole_numbers(record["parameters"] for record in records)))
    # One number if it is the same in all cells of the row, otherwise one per cell, from left to right.
    texts.append(Text(seeds[0] if len(set(seeds)) == 1 else " / ".join(seeds)))
    for column, cell in enumerate(row.cells):
        texts += _cell_texts(plan, cell, (number, column))
    return tuple(texts)


def _floor_row(table: Content, floor: FloorRow, plan: _Plan, named: bool) -> tuple[Text, ...]:
    in_a_column = VARIANT in table.keys
    texts = [FLOOR if in_a_column else floor.title] if named else []
    texts += [floor.title if key == VARIANT else "" for key in table.keys]
    texts += [f"{floor.parameters:,}", ""]
    for what, score in plan.columns * len(table.pivot):
        value = floor.scores.get(score) if what == SCORE else None
        texts.append("" if value is None else format_number(score, value))
    return tuple(map(Text, texts))


def _published_place(table: Content, published: Published) -> int | None:
    """Returns the index of the pivoted column that a published row belongs to, or None if it has no such column."""
    if not table.layout.columns:
        return 0
    if table.layout.columns not in published.settings:
        return None
    wanted = identity(published.settings[table.layout.columns])
    return next((place for place, value in enumerate(table.pivot) if identity(value) == wanted), None)


def _published_row(table: Content, published: Published, plan: _Plan) -> tuple[Text, ...]:
    def setting(key: str) -> Text:
        return Text(format_setting(key, published.settings[key]) if key in published.settings else "")

    texts = [Text(published.label), *map(setting, table.keys), setting("parameters"), setting("seeds")]
    place = _published_place(table, published)
    for number in range(len(table.pivot)):
        own = number == place
        texts += [
            Text(published.scores.get(score, "") if own and what == SCORE else "") for what, score in plan.columns
        ]
    return tuple(texts)


def _has_row(table: Content, published: Published) -> bool:
    return _published_place(table, published) is not None and bool(set(table.layout.scores) & set(published.scores))


def _published_notes(table: Content, published_by_place: Mapping[Place, Published]) -> tuple[str, ...]:
    """Returns notes on published rows: their sources, and values without a column. Equal notes are merged."""
    labels: dict[str, list[str]] = {}
    for published in table.layout.published:
        has_place = published in published_by_place.values()
        shown = table.layout.scores if has_place or _has_row(table, published) else ()
        details = [f"{score_heading(name)} {text}" for name, text in published.scores.items() if name not in shown]
        if has_place:  # only a row below has columns for these
            details += [
                f"{published.settings[key]} {key}" for key in comparisons.NO_SETTINGS if key in published.settings
            ]
        details += ["its released configuration chooses checkpoints on the test set"] * published.chosen_on_test
        details += [
            f"{score_heading(name)}: {reason}"
            for name, reason in published.unlike.items()
            if name in table.layout.scores
        ]
        those = labels.setdefault("; ".join([published.source, *details]), [])
        those += [published.label] if published.label not in those else []
    return tuple(f"{', '.join(those)}: {source}." for source, those in labels.items())


def _legend(table: Content, plan: _Plan) -> list[str]:
    """Explains the marks and abbreviations that occur in the cells."""
    cells = [cell for row in table.rows for cell in row.cells]
    floors = ", ".join(floor.title for floor in table.floors if not floor.pretrained)
    summaries = [(cell, summary) for cell in cells if cell is not None for summary in cell.scores.values()]
    legend = [f"Floors ({floors}): fitted once on the training pairs, on the CPU, without seeds."] if floors else []
    if elsewhere := [floor.title for floor in table.floors if floor.pretrained]:
        legend.append(f"Pretrained ({', '.join(elsewhere)}): not trained here; its own tokenizer reads the texts.")
    if any(summary.values and len(summary.values) < len(cell.finished) for cell, summary in summaries):
        legend.append("(n = k): only k of the runs have that score.")
    if any(cell.finished and not summary.values for cell, summary in summaries):
        legend.append(f"{NO_VALUE}: the runs have no such score" + (", or there is no run." if None in cells else "."))
    elif None in cells:
        legend.append(f"{NO_VALUE}: no run.")
    if plan.differences:
        headings = setting_headings(tuple(table.layout.original))
        name = ", ".join(
            f"{headings[key]} {format_setting(key, value)}" for key, value in table.layout.original.items()
        )
        corrected = "all differences of a score, over all columns" if table.layout.columns else "all of a column"
        over = f"{statistics.METHOD} over the seeds ({statistics.ASSUMPTION})"
        if table.layout.paired:
            over = f"{statistics.PAIRED}, over the seeds that both have (their differences roughly normal)"
        test = f"; p: {over}, corrected by Holm for {corrected}"
        tested = any(difference.test for difference in plan.differences.values())
        legend.append(f"Differences are to {name}{test if tested else ''}.")
    judged = [
        comparisons.printed_spread(score, plan.published_by_place[place])
        for place, _, cell in comparisons.cells(table)
        for score in table.layout.scores
        if place in plan.published_by_place and score in plan.published_by_place[place].scores
        if comparisons.to_published(cell, score, plan.published_by_place[place])
    ]
    if judged:
        spread = [None not in printed for printed in judged]
        theirs = (
            "The interval includes the paper's own deviation over its seeds"
            if all(spread)
            else "The interval does not include how much the published number depends on seeds"
            if not any(spread)
            else "The interval includes the paper's own deviation over its seeds where the paper prints one"
        )
        legend.append(
            f"In brackets: the {statistics.CONFIDENCE:.0%} confidence interval of our mean less the published number "
            "(Welch's t). covers: the interval contains zero, up to rounding; beats: our mean is better over the whole "
            f"interval; misses: worse over the whole interval. {theirs}."
        )
    if plan.best:
        others = "every other" if all(cell is None or cell.finished for cell in cells) else "every other that finished"
        test = "the paired test" if table.layout.paired else "Welch's test"
        legend.append(
            f"Bold: better than {others} on the same data, by {test} with Holm's correction "
            f"(p < {statistics.LEVEL:.2f})."
        )
    return [*legend, *uncertainty.sampling_error(table), *uncertainty.seeds_needed(table)]


def sheet(table: Content) -> Sheet:
    """Returns the table as it is printed, in plain text.

    The best mean of each score on each data set among the project's own runs is bold if it is best beyond chance
    (uncertainty.py). Published scores appear next to the cell of the same settings, with the verdict on that cell's
    mean, or else in rows below. Those without a column are in a note. Floors come between our rows and the published
    rows, and are compared with nothing.
    """
    layout, plan = table.layout, _plan(table)
    below = [
        each for each in layout.published if each not in plan.published_by_place.values() and _has_row(table, each)
    ]
    published = tuple(_published_row(table, each, plan) for each in below)
    named = bool(published) or bool(table.floors and VARIANT not in table.keys)
    headings = setting_headings([*table.keys, *([layout.columns] if layout.columns else [])])
    labels = [*(["model"] if named else []), *(headings[key] for key in table.keys), "parameters", "seeds"]
    spans: list[tuple[str, int]] = []
    if layout.columns:
        values = [format_setting(layout.columns, value) for value in table.pivot]
        spans = [("", len(labels)), *((f"{headings[layout.columns]} {value}", len(plan.columns)) for value in values)]
    own = tuple(_own_row(table, number, plan, named) for number in range(len(table.rows)))
    floors = tuple(_floor_row(table, each, plan, named) for each in table.floors)
    scores = [_heading(what, score) for what, score in plan.columns] * len(table.pivot)
    return Sheet(
        title=layout.title,
        caption=(*table.caption, *_legend(table, plan)),
        notes=(*layout.notes, *_published_notes(table, plan.published_by_place)),
        headings=(*labels, *scores),
        numeric=(*(heading == "parameters" for heading in labels), *(True for _ in scores)),
        spans=tuple(spans),
        sections=tuple(section for section in (own, floors, published) if section),
    )

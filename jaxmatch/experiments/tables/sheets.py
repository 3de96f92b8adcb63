"""From the numbers of a table to the text of its cells."""

import itertools

from jaxmatch.experiments.tables import numbers
from jaxmatch.experiments.tables.fields import identity
from jaxmatch.experiments.tables.formats import Sheet, Text
from jaxmatch.experiments.tables.parts import Cell, Content, Published, Row
from jaxmatch.training.scores import HIGHER_IS_BETTER

OWN = "this work"
NOTHING = "–"


def _data_name(cell: Cell) -> str:
    return (*cell.finished, *cell.diverged)[0]["data"]["name"]


def _best_means(table: Content) -> dict[tuple[str, str], str]:
    """(score, data set) -> the best mean as it is printed; those without a competition or a direction are left out.

    A checkpoint chosen on the test set wins nothing.
    """
    means: dict[tuple[str, str], list[float]] = {}
    for score, cell in itertools.product(table.layout.scores, (cell for row in table.rows for cell in row.cells)):
        part, _, name = score.partition(".")
        if part in ("dev", "test") and name in HIGHER_IS_BETTER and cell is not None:
            mean = cell.scores[score].mean
            if mean is not None:
                means.setdefault((score, _data_name(cell)), []).append(mean)
    best = {}
    for (score, data), found in means.items():
        if len(found) > 1:
            winner = max(found) if HIGHER_IS_BETTER[score.partition(".")[2]] else min(found)
            best[score, data] = numbers.print_number(score, winner)
    return best


def _score_text(cell: Cell | None, score: str, best: dict[tuple[str, str], str]) -> Text:
    if cell is None:
        return Text(NOTHING)
    summary = cell.scores[score]
    if summary.mean is None:
        return Text("diverged" if cell.diverged and not cell.finished else NOTHING)
    mean = numbers.print_number(score, summary.mean)
    spread = "" if summary.deviation is None else f" ± {numbers.print_number(score, summary.deviation)}"
    fewer = "" if len(summary.values) == len(cell.finished) else f" (n = {len(summary.values)})"
    return Text(mean + spread + fewer, bold=mean == best.get((score, _data_name(cell))))


def _seeds(cell: Cell | None) -> str:
    if cell is None:
        return NOTHING
    return f"{len(cell.finished)}" + (f" + {len(cell.diverged)} diverged" if cell.diverged else "")


def _own_row(table: Content, row: Row, best: dict[tuple[str, str], str], named: bool) -> tuple[Text, ...]:
    records = [record for cell in row.cells if cell is not None for record in (*cell.finished, *cell.diverged)]
    seeds = [_seeds(cell) for cell in row.cells]
    texts = [Text(OWN)] if named else []
    texts += [Text(numbers.print_setting(key, value)) for key, value in row.settings.items()]
    texts.append(Text(numbers.print_whole_numbers(record["parameters"] for record in records)))
    # One number where all cells of the row have as many, else one a cell, from left to right.
    texts.append(Text(seeds[0] if len(set(seeds)) == 1 else " / ".join(seeds)))
    texts += [_score_text(cell, score, best) for cell in row.cells for score in table.layout.scores]
    return tuple(texts)


def _published_place(table: Content, published: Published) -> int | None:
    """Which of the pivoted columns a published row belongs to; None if it says nothing about it."""
    if not table.layout.columns:
        return 0
    if table.layout.columns not in published.settings:
        return None
    asked = identity(published.settings[table.layout.columns])
    return next((place for place, value in enumerate(table.pivot) if identity(value) == asked), None)


def _published_row(table: Content, published: Published) -> tuple[Text, ...]:
    def setting(key: str) -> Text:
        return Text(numbers.print_setting(key, published.settings[key]) if key in published.settings else "")

    texts = [Text(published.label), *map(setting, table.keys), setting("parameters"), setting("seeds")]
    place = _published_place(table, published)
    for number in range(len(table.pivot)):
        texts += [Text(published.scores.get(score, "") if number == place else "") for score in table.layout.scores]
    return tuple(texts)


def _has_row(table: Content, published: Published) -> bool:
    return _published_place(table, published) is not None and bool(set(table.layout.scores) & set(published.scores))


def _published_note(table: Content, published: Published) -> str:
    """Where a published row is from, and those of its scores that have no column."""
    shown = table.layout.scores if _has_row(table, published) else ()
    rest = [(name, text) for name, text in published.scores.items() if name not in shown]
    told = (f"{numbers.score_heading(name)} {text}" for name, text in rest)
    return "; ".join([f"{published.label}: {published.source}", *told]) + "."


def _signs(table: Content) -> list[str]:
    """What the signs that occur in the cells mean."""
    cells = [cell for row in table.rows for cell in row.cells]
    summaries = [(cell, summary) for cell in cells if cell is not None for summary in cell.scores.values()]
    signs = []
    if any(summary.values and len(summary.values) < len(cell.finished) for cell, summary in summaries):
        signs.append("(n = k): only k of the runs have that score.")
    if any(cell.finished and not summary.values for cell, summary in summaries):
        signs.append(f"{NOTHING}: the runs have no such score" + (", or there is no run." if None in cells else "."))
    elif None in cells:
        signs.append(f"{NOTHING}: no run.")
    return signs


def sheet(table: Content) -> Sheet:
    """The table as it is printed, in plain text.

    The best mean of each score on each data set among the project's own runs is bold, and so is any that prints the
    same. Published scores for which there is no column are told in a note.
    """
    layout, best = table.layout, _best_means(table)
    published = tuple(_published_row(table, each) for each in layout.published if _has_row(table, each))
    headings = numbers.setting_headings([*table.keys, *([layout.columns] if layout.columns else [])])
    labels = [*(["model"] if published else []), *(headings[key] for key in table.keys), "parameters", "seeds"]
    spans: list[tuple[str, int]] = []
    if layout.columns:
        values = [numbers.print_setting(layout.columns, value) for value in table.pivot]
        spans = [("", len(labels)), *((f"{headings[layout.columns]} {value}", len(layout.scores)) for value in values)]
    own = tuple(_own_row(table, row, best, named=bool(published)) for row in table.rows)
    scores = [numbers.score_heading(score) for score in layout.scores] * len(table.pivot)
    return Sheet(
        title=layout.title,
        caption=(*table.caption, *_signs(table)),
        notes=(*layout.notes, *(_published_note(table, each) for each in layout.published)),
        headings=(*labels, *scores),
        numeric=(*(heading == "parameters" for heading in labels), *(True for _ in scores)),
        spans=tuple(spans),
        sections=(own, published) if published else (own,),
    )

"""The table of a sweep, a pure function of its records in any order: in Markdown, LaTeX, CSV and JSON."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import WAIT_OR_RESUME, InputError, nearest, printable_json, without_nan
from jaxmatch.reporting import FORMATS, captions, comparisons, formats, statistics
from jaxmatch.reporting.comparisons import Difference, Place
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text
from jaxmatch.reporting.layout import (
    OWN,
    PARTS,
    VARIANT,
    Cell,
    Content,
    FloorRow,
    Published,
    Row,
    Summary,
    TableLayout,
    format_number,
    format_setting,
    format_whole_numbers,
    score_heading,
    setting_headings,
)
from jaxmatch.reporting.records import (
    RUN_LABELS,
    STATUSES,
    SweepFolder,
    differing_settings,
    grouped,
    has_setting,
    identity,
    notes_file,
    read_sweep_folder,
    score_of,
    scores_of,
    setting_of,
    setting_of_run,
)
from jaxmatch.reporting.statistics import CONFIDENCE


class Table(Content):
    """A filled table that can be printed."""

    def markdown(self) -> str:
        """Returns the table in GitHub's Markdown, which can be read in a terminal, too."""
        return formats.markdown(sheet(self))

    def _repr_markdown_(self) -> str:
        """Returns the Markdown that a notebook shows."""
        return self.markdown()

    def latex(self) -> str:
        """Returns the table in LaTeX, with the rules of booktabs."""
        return formats.latex(sheet(self))

    def csv(self) -> str:
        """Returns CSV with one line per cell and unrounded numbers; see `as_csv`."""
        return as_csv(self)

    def json(self) -> str:
        """Returns JSON with everything, down to the scores of each run; see `as_json`."""
        return as_json(self)


def _summary(finished: Sequence[Mapping], score: str) -> Summary:
    values = {record["seed"]: score_of(record, score) for record in finished}
    known = {seed: value for seed, value in values.items() if value is not None}
    mean, deviation = statistics.mean_and_deviation(known.values()) if known else (None, None)
    if score.startswith("times.") and len({record["cohort"] for record in finished}) < len(finished):
        deviation = None  # runs that trained together share one measurement, so it has no spread
    return Summary(values=known, mean=mean, deviation=deviation)


def _place(record: Mapping, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(identity(setting_of(record, key)) for key in keys)


def _grouped(records: Sequence[Mapping], keys: Sequence[str]) -> dict[tuple[str, ...], list[Mapping]]:
    return grouped(records, lambda record: _place(record, keys))


def _row_keys(records: Sequence[Mapping], layout: TableLayout) -> tuple[str, ...]:
    """Returns the row keys of the layout, and every grid key that it does not name but in which runs of one cell would
    differ.

    Without the latter, runs of different settings would be averaged as if they were seeds.
    """
    keys = list(layout.rows)
    pivot = [layout.columns] if layout.columns else []
    for key in ("variant", *sorted({key for record in records for key in record["overrides"]} - {"seed"})):
        if key not in keys + pivot:
            groups = _grouped(records, keys + pivot).values()
            if any(len(_grouped(group, [key])) > 1 for group in groups):
                keys.append(key)
    return tuple(keys)


def _sorted_values(records: Sequence[Mapping], key: str, order: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Returns the values of a key, as identity -> value, in the order in which they are shown."""
    values = {_place(record, [key])[0]: setting_of(record, key) for record in records}
    names = [identity(value) for value in order.get(key, ())]

    def rank(name: str) -> tuple:
        value = values[name]
        if name in names:
            return (0, names.index(name))
        if isinstance(value, (int, float)):
            return (1, value, name)
        return (2, str(value), name)

    return {name: values[name] for name in sorted(values, key=rank)}


def _cell(records: Sequence[Mapping], layout: TableLayout) -> Cell:
    by_seed: dict[int, Mapping] = {}
    for record in sorted(records, key=lambda each: (each["seed"], each["run"])):
        other = by_seed.setdefault(record["seed"], record)
        if other is not record:
            differing = differing_settings(other, record)
            raise InputError(
                f"records {other['run']} and {record['run']} belong to the same table cell and seed, "
                + (f"but differ in {', '.join(differing[:4])}" if differing else "and the same settings"),
                remedy="name what differs in the layout's rows, or move one of the runs away",
            )
    fingerprints = {record["data"]["fingerprint"]: record["run"] for record in by_seed.values()}
    if len(fingerprints) > 1:
        first, second = list(fingerprints.values())[:2]
        raise InputError(
            f"records {first} and {second} belong to the same table cell but were trained on different data",
            remedy="move the runs of one of the two away",
        )
    first, *others = by_seed.values()
    for other in others:
        same = setting_of_run(other["run"]) == setting_of_run(first["run"])
        if not same and (differing := differing_settings(first, other)):
            raise InputError(
                f"records {first['run']} and {other['run']} belong to the same table cell but differ in "
                f"{', '.join(differing[:4])}",
                remedy="name what differs in the layout's rows, or move the runs of one of the two away",
            )
    of = {status: tuple(record for record in by_seed.values() if record["status"] == status) for status in STATUSES}
    return Cell(*of.values(), {score: _summary(of["finished"], score) for score in layout.scores})


def check_layout(layout: TableLayout, settings: Iterable[Mapping[str, Any]], scores: Collection[str]) -> None:
    """Checks, before anything is trained, that the runs will fill a layout.

    Arguments:
      layout: the layout of the table.
      settings: the settings of each run, dotted path -> value.
      scores: the names of the scores that the runs will have on dev and test.

    Raises:
      InputError: the layout names a row, a column, an original or a score that the runs do not have.
    """
    shown = [*layout.rows, *([layout.columns] if layout.columns else [])]
    for known in settings:
        for key in shown:
            if key not in known and key not in RUN_LABELS:
                raise InputError(
                    f"the table shows {key!r}, which is not a setting of its runs", remedy=nearest(key, sorted(known))
                )
    comparisons.check_original(layout, [*layout.rows, *RUN_LABELS])
    for score in layout.scores:
        part, name = _score_parts(score)
        if part != "times" and name not in scores:
            raise InputError(f"the table asks for {score!r}, which no run has", remedy=nearest(name, sorted(scores)))


def _score_parts(score: str) -> tuple[str, str]:
    part, _, name = score.partition(".")
    if part not in PARTS or not name:
        known = ", ".join(f"{each}.NAME" for each in PARTS)
        raise InputError(f"the table asks for {score!r}, which is not a score", remedy=f"use one of {known}")
    return part, name


def _check_layout_of_records(records: Sequence[Mapping], layout: TableLayout) -> None:
    for key in (*layout.rows, *([layout.columns] if layout.columns else [])):
        for record in records:
            if not has_setting(record, key):
                raise InputError(
                    f"record {record['run']} has no setting {key!r}, which the table shows",
                    remedy="check the layout's rows and columns, or move the run away",
                )
    for score in layout.scores:
        part, name = _score_parts(score)
        known_names = {known for record in records for known in scores_of(record, part)}
        if known_names and name not in known_names:
            raise InputError(
                f"the table asks for {score!r}, which no record has",
                remedy=f"use one of {', '.join(f'{part}.{known}' for known in sorted(known_names))}",
            )


def make_table(records: Sequence[Mapping], layout: TableLayout, floors: Sequence[FloorRow] = ()) -> Table:
    """Gathers the records of a sweep into a table.

    Runs that differ in the seed alone are averaged. Diverged and dropped runs are counted, but are in no mean. Grid
    keys that the layout does not name become row labels if runs of one cell differ in them.

    Arguments:
      records: the records of the runs, in any order.
      layout: the layout of the table.
      floors: lines below the lines of the records.

    Raises:
      InputError: there are no records; two runs have the same place and seed; runs of one place were trained on
        different data; the layout names a setting or score that the records do not have, or an original that labels no
        row.
    """
    if not records:
        raise InputError("there are no records to make a table of", remedy="run the sweep first")
    _check_layout_of_records(records, layout)
    keys = _row_keys(records, layout)
    comparisons.check_original(layout, keys)
    pivot = _sorted_values(records, layout.columns, layout.order) if layout.columns else {"": None}
    values = {key: _sorted_values(records, key, layout.order) for key in keys}
    ranks = {key: {name: rank for rank, name in enumerate(names)} for key, names in values.items()}
    groups = _grouped(records, keys)
    rows = []
    for place in sorted(groups, key=lambda names: [ranks[key][name] for key, name in zip(keys, names, strict=True)]):
        parts = _grouped(groups[place], [layout.columns]) if layout.columns else {("",): groups[place]}
        rows.append(
            Row(
                settings={key: values[key][name] for key, name in zip(keys, place, strict=True)},
                cells=tuple(_cell(parts[(name,)], layout) if (name,) in parts else None for name in pivot),
            )
        )
    filled = [cell for row in rows for cell in row.cells if cell is not None]
    means = [cell.finished for cell in filled]
    caption = captions.caption(records, layout.scores, means, "cell" if layout.columns else "row")
    return Table(layout, keys, tuple(pivot.values()), tuple(rows), caption, tuple(floors))


# The printed table

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
    return _Plan(tuple(columns), comparisons.beyond_chance(table), differences, published_by_place)


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
    return Text(f"{signed} (p {captions.p_text(difference.corrected)})")


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
    return [*legend, *captions.sampling_error(table), *captions.seeds_needed(table)]


def sheet(table: Content) -> Sheet:
    """Returns the table as it is printed, in plain text.

    The best mean of each score on each data set among the project's own runs is bold if it is best beyond chance
    (`comparisons.beyond_chance`). Published scores appear next to the cell of the same settings, with the verdict on
    that cell's mean, or else in rows below. Those without a column are in a note. Floors come between our rows and the
    published rows, and are compared with nothing.
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


# The table for machines

_RUN_FIELDS = ("run", "seed", "status", "parameters", "selected_on", "selected_at_samples", "diverged_at_samples")
_RUN_DETAILS = ("times", "device", "commit", "versions", "data")


def as_csv(table: Content) -> str:
    """Returns a header and one line per cell, even if the printed table is pivoted.

    The columns are the grid keys, "parameters", the numbers of finished and of diverged runs (also of dropped runs, if
    there are any), and several columns per score. A score has its mean, its sample standard deviation, the number of
    runs that have it, and the ends of the mean's 95% confidence interval. If the layout names an original, a score also
    has the difference from it and the p value of that difference, as it is and corrected by Holm. If a published row
    has a cell's settings, a score also has the published number, as a share like ours, and what the interval of the
    difference says about it. Other published rows are left out. Floors come last, with their means alone. Without a
    column "variant", their names are in an additional column, "model".

    Undefined values are empty. Accuracies and similar scores are shares of 1, not percent.
    """
    keys = [*table.keys, *([table.layout.columns] if table.layout.columns else [])]
    names = ["mean", "std", "n", "lower", "upper"]
    names += ["difference", "p_value", "p_holm"] if table.layout.original else []
    differences, published_by_place = comparisons.differences(table), comparisons.published_by_place(table)
    names += ["published", "verdict"] if published_by_place else []
    any_dropped = any(cell.dropped for _, _, cell in comparisons.cells(table))
    statuses = ["finished", "diverged", *(["dropped"] if any_dropped else [])]
    # If no column contains the names of floors, one is added.
    named = bool(table.floors) and VARIANT not in keys
    rows = [
        [
            *(["model"] if named else []),
            *keys,
            "parameters",
            *statuses,
            *(f"{score}.{name}" for score in table.layout.scores for name in names),
        ]
    ]
    for place, settings, cell in comparisons.cells(table):
        sizes = dict.fromkeys(record["parameters"] for record in cell.records)
        counts = [";".join(map(str, sizes)), *(len(getattr(cell, status)) for status in statuses)]
        numbers: list[Any] = []
        for score in cell.scores:
            entry = _score_as_json(cell, score, differences.get((place, score)), published_by_place.get(place))
            flat = entry | entry.get("difference", {}) | (entry["interval"] or {})
            flat |= {
                "published": entry.get("published", {}).get("value"),
                "verdict": entry.get("published", {}).get("verdict"),
            }
            numbers += [flat.get(name) for name in names]
        rows.append([*([OWN] if named else []), *settings.values(), *counts, *numbers])
    for floor in table.floors:
        means = [floor.scores.get(score) if name == "mean" else None for score in table.layout.scores for name in names]
        settings = [floor.title if key == VARIANT else None for key in keys]
        rows.append([*([floor.title] if named else []), *settings, floor.parameters, *(None for _ in statuses), *means])
    return csv_text(rows)


def as_json(table: Content) -> str:
    """Returns layout, caption, statistics, and each run with all its scores, samples, times, device, commit and
    versions.

    Undefined numbers are null.
    """
    differences, published_by_place = comparisons.differences(table), comparisons.published_by_place(table)
    content = {
        "title": table.layout.title,
        "caption": table.caption,
        "notes": table.layout.notes,
        "keys": table.keys,
        "columns": table.layout.columns,
        "scores": table.layout.scores,
        "original": table.layout.original,
        "rows": [
            {"settings": settings, **_cell_as_json(place, cell, differences, published_by_place)}
            for place, settings, cell in comparisons.cells(table)
        ],
        **({"floors": [dataclasses.asdict(floor) for floor in table.floors]} if table.floors else {}),
        "published": [dataclasses.asdict(published) for published in table.layout.published],
    }
    return printable_json(without_nan(content), indent=1, allow_nan=False) + "\n"


def _score_as_json(
    cell: Cell, score: str, difference: comparisons.Difference | None, published: Published | None
) -> dict[str, Any]:
    summary = cell.scores[score]
    interval = comparisons.interval(summary)
    entry: dict[str, Any] = {
        "mean": summary.mean,
        "std": summary.deviation,
        "n": len(summary.values),
        "interval": interval and {"lower": interval.lower, "upper": interval.upper, "confidence": CONFIDENCE},
        "values": {str(seed): value for seed, value in summary.values.items()},
    }
    if difference is not None:
        test = (
            {**dataclasses.asdict(difference.test), "confidence": CONFIDENCE} if difference.test else {"method": None}
        )
        entry["difference"] = {**test, "difference": difference.value, "p_holm": difference.corrected}
    if published is not None and score in published.scores:
        text = published.scores[score]
        entry["published"] = {
            "label": published.label,
            "text": text,
            "value": comparisons.published_number(score, text)[0],
            **_verdict(cell, score, published),
        }
    return entry


def _verdict(cell: Cell, score: str, published: Published) -> dict[str, Any]:
    found = comparisons.to_published(cell, score, published)
    if found is None:
        return {"verdict": None}
    return {"verdict": found[0], "difference_to_it": {"lower": found[1][0], "upper": found[1][1]}}


def _cell_as_json(
    place: comparisons.Place,
    cell: Cell,
    differences: Mapping[tuple[comparisons.Place, str], comparisons.Difference],
    published_by_place: Mapping[comparisons.Place, Published],
) -> dict[str, Any]:
    scores = {
        score: _score_as_json(cell, score, differences.get((place, score)), published_by_place.get(place))
        for score in cell.scores
    }
    runs = []
    for record in sorted(cell.records, key=lambda each: each["seed"]):
        parts = {part: scores_of(record, part) for part in ("dev", "test", "best_on_test")}
        details = {field: record.get(field) for field in (*_RUN_FIELDS, *_RUN_DETAILS)}
        runs.append(details | {"scores": parts})
    counts = {"finished": len(cell.finished), "diverged": len(cell.diverged)}
    counts |= {"dropped": len(cell.dropped)} if cell.dropped else {}
    return {**counts, "scores": scores, "runs": runs}


# The table of a folder


def folder_table(directory: Path, format: str = "markdown") -> str:
    """Returns the table of a sweep folder as text, made from its records alone.

    Raises:
      InputError: no sweep was run in the folder, none of its runs has ended, or the format is unknown.
    """
    if format not in FORMATS:
        raise InputError(f'there is no table format "{format}"', remedy=nearest(format, list(FORMATS)))
    return getattr(table_of(read_sweep_folder(directory)), format)()


def table_of(folder: SweepFolder) -> Table:
    """Returns the table of a sweep folder.

    Raises:
      InputError: none of its runs has ended, or the layout in its notes cannot be followed.
    """
    layout = folder.layout
    if not folder.records:
        raise InputError("no run has finished yet", path=folder.path, remedy=WAIT_OR_RESUME)
    if folder.missing:
        have = "has" if len(folder.missing) == 1 else "have"
        note = f"{len(folder.missing)} of {len(folder.runs)} runs {have} not finished"
        if failed := sorted(folder.path.glob("cohorts/*/error.json")):
            note += f"; training failed, as {failed[0]} says"
        layout = dataclasses.replace(layout, notes=(*layout.notes, note))
    try:
        return make_table(list(folder.records.values()), layout, folder.floors)
    except InputError as error:
        raise InputError(error.problem, path=error.path or notes_file(folder.path), remedy=error.remedy) from None

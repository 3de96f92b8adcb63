"""The table of a sweep: a pure function of its records, in any order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError, nearest
from jaxmatch.reporting import formats, statistics
from jaxmatch.reporting.layout import PARTS, Cell, Content, FloorRow, Published, Row, Summary, TableLayout
from jaxmatch.reporting.records import (
    RUN_LABELS,
    STATUSES,
    differing_settings,
    grouped,
    has_setting,
    identity,
    score_of,
    scores_of,
    setting_of,
    setting_of_run,
)
from jaxmatch.reporting.tables import captions, comparisons, exports, layout

__all__ = ["Published", "Table", "TableLayout", "check_layout", "make_table"]


class Table(Content):
    """A filled table that can be printed."""

    def markdown(self) -> str:
        """Returns the table in GitHub's Markdown, which can be read in a terminal, too."""
        return formats.markdown(layout.sheet(self))

    def _repr_markdown_(self) -> str:
        """Returns the Markdown that a notebook shows."""
        return self.markdown()

    def latex(self) -> str:
        """Returns the table in LaTeX, with the rules of booktabs."""
        return formats.latex(layout.sheet(self))

    def csv(self) -> str:
        """Returns CSV with one line per cell and unrounded numbers; see `exports.as_csv`."""
        return exports.as_csv(self)

    def json(self) -> str:
        """Returns JSON with everything, down to the scores of each run; see `exports.as_json`."""
        return exports.as_json(self)


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

"""The HTML page about a sweep's folder: verdict, table, effects, mistakes, failures, learning curves, plan. The page
needs no other file and no network. It is made with Matplotlib and Jinja (the extra `report`).
"""

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from jaxmatch.errors import InputError, NotInstalled, count_text, printable, report_damage
from jaxmatch.files import read_json
from jaxmatch.reporting import figures
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text
from jaxmatch.reporting.layout import format_number, format_setting, higher_is_better, score_heading, setting_headings
from jaxmatch.reporting.records import REMEDY, Record, SweepFolder, grouped, read_sweep_folder, setting_name
from jaxmatch.reporting.table import Row, sheet, table_of
from jaxmatch.reporting.verdict import Ranking, verdict
from jaxmatch.workdir import MISTAKES_FILE, Workdir

try:
    import jinja2
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise NotInstalled("a report", error.name, "report") from None

# Task -> what its worst predictions are.
_WORST = {
    "classification": "Most confident mistakes",
    "regression": "Largest errors",
    "ranking": "Questions with the lowest reciprocal rank: the best right candidate, and the one ranked first",
}


def report(directory: Path) -> str:
    """Returns the HTML page about a sweep's folder, and about the chosen setting if the folder is that of a tuning.

    Raises:
      InputError: no sweep was run in the folder, or a file of it is damaged.
    """
    folders = [read_sweep_folder(directory)]
    if (Path(directory) / "final" / "sweep.json").exists():
        folders.append(read_sweep_folder(Path(directory) / "final"))
    title, name = folders[0].layout.title or folders[0].name, folders[0].name
    return templates().get_template("page.html").render(title=title, name=name, parts=list(map(contents, folders)))


def templates() -> jinja2.Environment:
    """Returns the Jinja environment of the templates. It escapes the values that the templates show, including all
    control characters except line feeds.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(str(value), keep="\n"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def contents(folder: SweepFolder) -> dict[str, Any]:
    table, ranking = table_of(folder) if folder.records else None, Ranking(folder)
    (sentences, command), results = verdict(folder, ranking), None
    if table:
        printed = sheet(table)
        details = [line for line in printed.details if line not in sentences]
        results = {
            "sheet": printed,
            "aside": aside(printed),
            "details": details,
            "copies": {"LaTeX": table.latex(), "CSV": table.csv()},
        }
    counts = Counter(record["status"] for record in folder.records.values())
    counted = [f"{count_text(len(folder.runs), 'run')} planned"]
    counted += [f"{counts['finished']} finished", f"{counts['diverged']} diverged"]
    counted += [f"{counts['dropped']} dropped by successive halving"] if counts["dropped"] else []
    return {
        "title": folder.layout.title,
        "summary": f"{', '.join(counted)}, {len(folder.missing)} missing.",
        "verdict": {"sentences": sentences, "command": command},
        "results": results,
        "effects": effects(ranking),
        "mistakes": mistakes(folder, ranking.run_to_use),
        "failures": failures(folder),
        "curves": _curves(folder.records.values()),
        "plan": "\n\n".join(filter(None, (folder.command, folder.plan))),
    }


# Parts of the page


def aside(sheet: Sheet) -> set[int]:
    """Returns the columns that a narrow screen leaves out: sizes, scores chosen on test, what is equal in all rows."""
    rows = [row for section in sheet.sections for row in section]
    same = {column for column, cells in enumerate(zip(*rows)) if len({cell.content for cell in cells} - {""}) == 1}
    same = {column for column in same if len(rows) > 1 and not sheet.numeric[column]}
    return same | {n for n, name in enumerate(sheet.headings) if name == "parameters" or "(selected on test)" in name}


def effects(ranking: Ranking) -> Sheet | None:
    """Returns a table of the mean dev score of each value of each axis of the grid, and of its difference from the best
    value, over the settings that differ in nothing else.
    """

    def rest(row: Row, axis: str) -> str:
        return str(sorted((key, value) for key, value in row.settings.items() if key != axis))

    rows, score = [], ranking.score
    sign = 1 if higher_is_better(score) else -1
    for axis in ranking.table.keys if ranking.rows else ():
        by_value = list(grouped(ranking.rows, lambda row: format_setting(axis, row.settings[axis])).items())
        means = {value: mean(map(ranking.mean, members)) for value, members in by_value}
        best = max(means, key=lambda value: sign * means[value])
        others = {rest(row, axis): ranking.mean(row) for row in dict(by_value)[best]}
        for value, members in by_value if len(by_value) > 1 else ():
            gaps = [ranking.mean(row) - others[rest(row, axis)] for row in members if rest(row, axis) in others]
            gap = NO_VALUE if value == best or not gaps else format_number(score, mean(gaps))
            name = setting_headings([axis])[axis]
            rows.append((name, value, str(len(members)), format_number(score, means[value]), gap))
    headings = ("axis", "value", "settings", score_heading(score), "difference from the best value")
    return grid(headings, rows, (False, False, True, True, True)) if rows else None


def mistakes(folder: SweepFolder, run: Record | None) -> dict[str, Any] | None:
    """Returns the worst predictions on dev of a run (training/evaluation.py), or None if training saved none.

    Raises:
      InputError: the file is damaged.
    """
    file = Workdir(folder.path).run_folder(run["run"]) / MISTAKES_FILE if run else None
    if file is None or not file.exists():
        return None
    tables = []
    with report_damage(file, REMEDY):
        found = read_json(file)
        about = f"Run {run['run']} (seed {run['seed']}) on the {found['pairs']:,} pairs of {found['split']}"
        if found["task"] == "classification":
            names = found["labels"]
            rows = [(n, *map(str, row), str(sum(row))) for n, row in zip(names, found["confusion"], strict=True)]
            headings = ("label", *(f"answered {name}" for name in names), "pairs")
            tables.append(("Confusion matrix", grid(headings, rows, (False, *(True for _ in headings[1:])))))
        columns = list(found["worst"][0]) if found["worst"] else []
        rows = [[row[field] for field in columns] for row in found["worst"]]
        texts = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row] for row in rows]
        numeric = [not isinstance(value, str) for value in rows[0]] if rows else []
        headings = [name.replace("_", " ") for name in columns]
        tables.append((_WORST[found["task"]], grid(headings, texts, numeric)))
    return {"about": f"{about}, with the chosen checkpoint. Texts are as the model reads them.", "tables": tables}


def failures(folder: SweepFolder) -> list[str]:
    """Describes the runs that diverged and the runs that have no record."""
    diverged = [
        f"{_described(name, record)}: diverged after {record['diverged_at_samples'] or 0:,} pairs"
        for name, record in folder.records.items()
        if record["status"] == "diverged"
    ]
    return diverged + [f"{_described(name, folder.runs[name])}: no record" for name in folder.missing]


def _described(run: str, place: Mapping[str, Any]) -> str:
    return f"{setting_name(place)}, seed {place['seed']} ({run})" if place else run


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]) -> Sheet:
    """Builds a table of plain texts. `numeric`: for each column, whether it contains numbers."""
    body = tuple(tuple(map(Text, row)) for row in rows)
    return Sheet("", (), (), tuple(headings), tuple(numeric), (body,))


def _curves(records: Iterable[Record]) -> list[str]:
    """Returns the figure of the learning curves as the addresses of two images, for a light and a dark background;
    none if no run finished, or if the score that chose the checkpoints is not the same for all.
    """
    try:
        values = figures.curves(records)
    except InputError:
        return []
    images = [figures.images(values, dark=dark)["svg"] for dark in (False, True)]
    return [f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}" for image in images]

"""The HTML page about a sweep's folder: tables, learning curves, plan, settings, failures. The page needs no other file
and no network. It is made with Altair and Jinja (the extra `report`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from jaxmatch.config.settings import flatten
from jaxmatch.errors import NotInstalled, count_text, printable, report_damage
from jaxmatch.files import read_json
from jaxmatch.reporting import statistics
from jaxmatch.reporting import verdict as verdicts
from jaxmatch.reporting.captions import row_name
from jaxmatch.reporting.comparisons import ranked
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text
from jaxmatch.reporting.layout import (
    duration_text,
    format_number,
    format_setting,
    higher_is_better,
    is_percent,
    score_heading,
    setting_headings,
    setting_text,
    shared_text,
)
from jaxmatch.reporting.records import Record, SweepFolder, grouped, read_mistakes, read_sweep_folder, score_of
from jaxmatch.reporting.table import sheet, table_of
from jaxmatch.workdir import Workdir

try:
    import altair
    import jinja2
    import vl_convert
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise NotInstalled("a report", error.name, "report") from None

_MOST_SETTINGS = 40  # the most lines that can be told apart by pointing at them
_OWN = "#3a7fb5"
_PAIRS = altair.X(
    "pairs:Q", title="training pairs seen", axis=altair.Axis(tickCount=4, labelExpr="format(datum.value, '~s')")
)
_NUMBER = re.compile(r"([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?: (s|min|h)\b)?")
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_TEXTS = {"text_a": "first text", "text_b": "second text"}
# Task -> heading, and the columns: field -> its heading.
_WORST = {
    "classification": (
        "Most confident mistakes",
        {**_TEXTS, "label": "label", "answer": "answer", "probability": "probability"},
    ),
    "regression": ("Largest errors", {**_TEXTS, "label": "label", "answer": "answer"}),
    "ranking": (
        "Questions with the lowest reciprocal rank",
        {
            "text_a": "question",
            "text_b": "best right candidate",
            "rank": "its rank",
            "candidates": "of",
            "preferred": "ranked first",
        },
    ),
}


class Drawn(NamedTuple):
    """A chart on the page.

    Attributes:
      caption: the caption, as plain text.
      spec: the Vega-Lite specification.
    """

    caption: str
    spec: Mapping[str, Any]


def report(directory: Path) -> str:
    """Returns the HTML page about a sweep's folder. If the folder is that of a tuning, the page also covers the chosen
    setting. The same folder gives the same page.

    Raises:
      InputError: no sweep was run in the folder, or a file of it is damaged.
    """
    directory = Path(directory)
    folders = [read_sweep_folder(directory)]
    if (directory / "final" / "sweep.json").exists():
        folders.append(read_sweep_folder(directory / "final"))
    first = folders[0]
    version = "_".join(altair.SCHEMA_VERSION.split(".")[:2])  # the version of Vega-Lite: "v6_1"
    return (
        templates()
        .get_template("page.html")
        .render(
            title=first.layout.title or first.name,
            name=first.name,
            parts=[contents(folder) for folder in folders],
            resamples=statistics.RESAMPLES,
            vega=Markup(vl_convert.javascript_bundle(vl_version=version)),
        )
    )


def templates() -> jinja2.Environment:
    """Returns the Jinja environment of the templates. It escapes the values that the templates show, including all
    control characters except line feeds.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(str(value), keep="\n"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ranks"] = ranks
    return environment


# Parts of the page


def contents(folder: SweepFolder) -> dict[str, Any]:
    """Returns everything that the page shows about a sweep.

    Raises:
      InputError: a record or another file of the folder is damaged.
    """
    return {
        "title": folder.layout.title,
        "choice": _choice(folder),
        "summary": summary(folder),
        "verdict": verdicts.verdict(folder),
        "results": results(folder),
        "effects": effects(folder),
        "certainty": certainty(folder),
        "mistakes": mistakes(folder),
        "failures": failures(folder),
        "curves": curves(folder),
        "plan": plan(folder),
        "runs": runs(folder),
        "settings": settings(folder),
    }


def summary(folder: SweepFolder) -> str:
    """Describes the progress of the sweep."""
    diverged, dropped = (
        sum(each["status"] == status for each in folder.records.values()) for status in ("diverged", "dropped")
    )
    counts = [
        f"{count_text(len(folder.runs), 'run')} planned",
        f"{len(folder.records) - diverged - dropped} finished",
        f"{diverged} diverged",
        *([f"{dropped} dropped by successive halving"] if dropped else []),
        f"{len(folder.missing)} missing",
    ]
    return ", ".join(counts) + "."


def effects(folder: SweepFolder) -> Sheet | None:
    """Returns a table of the mean dev score of each value of each axis, and of its difference from the best value."""
    found = verdicts.effects(folder)
    if not found:
        return None
    score = verdicts.ranked(folder)[0]
    headings = ("axis", "value", "settings", score_heading(score), "difference from the best value")
    rows = [
        (
            setting_headings([effect.axis])[effect.axis],
            format_setting(effect.axis, effect.value),
            str(effect.settings),
            format_number(score, effect.mean),
            NO_VALUE if effect.difference is None else format_number(score, effect.difference),
        )
        for effect in found
    ]
    return grid(headings, rows, (False, False, True, True, True))


def results(folder: SweepFolder) -> dict[str, Any] | None:
    """Returns the table of the sweep, and the same table in LaTeX and CSV to be copied."""
    if not folder.records:
        return None
    table = table_of(folder)
    return {"sheet": sheet(table), "copies": {"LaTeX": table.latex(), "CSV": table.csv()}}


def _choice(folder: SweepFolder) -> str:
    """Describes what a tuning chose. Returns "" for any other folder."""
    file = folder.path / "choice.json"
    if not file.exists():
        return ""
    with report_damage(file, "run the tuning again to renew it"):
        choice = read_json(file)
        place = ", ".join(
            [
                *([choice["variant"]] if choice["variant"] else []),
                *(f"{k} = {v}" for k, v in choice["overrides"].items()),
            ]
        )
        return (
            f"Chosen by {choice['score']} ({choice['mean']:.4f}) among {choice['candidates']}: "
            f"{place or 'the only setting'}."
        )


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
                ends = statistics.bootstrap_interval(values)
                shown = " to ".join(format_number(score, end) for end in ends) if ends else NO_VALUE
                better = (best, values) if higher_is_better(score) else (values, best)
                share = NO_VALUE if cell is cells[0][2] else _improvement_text(*better)
                mean = format_number(score, cell.scores[score].mean)
                rows.append((row_name(settings), str(len(values)), mean, shown, share))
            found.append((f"{heading}, {data}", grid(headings, rows, (False, True, True, True, True))))
    return found


def _improvement_text(values: Sequence[float], others: Sequence[float]) -> str:
    ends = statistics.improvement_interval(values, others)
    return f"{statistics.probability_of_improvement(values, others):.0%}" + (
        f" ({ends[0]:.0%} to {ends[1]:.0%})" if ends else ""
    )


def mistakes(folder: SweepFolder) -> dict[str, Any] | None:
    """Returns the mistakes on dev of the run that the verdict names, or None if there is no such run or training saved
    no mistakes.
    """
    run = verdicts.run_to_use(folder)
    found = run and read_mistakes(folder.path, run["run"])
    if not found:
        return None
    about = (
        f"Run {run['run']} (seed {run['seed']}) on the {found['pairs']:,} pairs of {found['split']}, with the chosen "
        "checkpoint. "
    )
    tables = []
    if found["task"] == "classification":
        names, counts = found["labels"], found["confusion"]
        rows = [(name, *map(str, row), str(sum(row))) for name, row in zip(names, counts, strict=True)]
        headings = ("label", *(f"answered {name}" for name in names), "pairs")
        tables.append(("Confusion matrix", grid(headings, rows, (False, *(True for _ in headings[1:])))))
    heading, columns = _WORST[found["task"]]
    rows = [[_shown(row[field]) for field in columns] for row in found["worst"]]
    numeric = [bool(rows) and not isinstance(found["worst"][0][field], str) for field in columns]
    tables.append((heading, grid(tuple(columns.values()), rows, numeric)))
    return {"about": about + "Texts are as the model reads them.", "tables": tables}


def _shown(value: str | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def failures(folder: SweepFolder) -> list[str]:
    """Describes the runs that diverged and the runs that have no record."""
    diverged = [
        f"{_setting(folder, name)}, seed {record['seed']} ({name}): diverged after "
        f"{record['diverged_at_samples'] or 0:,} pairs"
        for name, record in folder.records.items()
        if record["status"] == "diverged"
    ]
    return diverged + [f"{_missing(folder, name)}: no record" for name in folder.missing]


def curves(folder: SweepFolder) -> dict[str, list[Drawn]]:
    """Draws the learning curves: all settings in one chart, and each setting with its runs. Settings whose runs were
    all dropped by successive halving are drawn separately.
    """
    settings = grouped(folder.records.values(), lambda record: _setting(folder, record["run"]))
    found: dict[str, list[Drawn]] = {"together": all_settings(folder), "apart": [], "dropped": []}
    for name, drawn in of_each_setting(settings).items():
        dropped = all(record["status"] == "dropped" for record in settings[name])
        found["dropped" if dropped else "apart"] += drawn
    return found


def runs(folder: SweepFolder) -> Sheet | None:
    """Returns a table with one line per run."""
    records = list(folder.records.values())
    scores = [score for score in folder.layout.scores if not score.startswith("times.")]
    headings = ["run", "setting", "seed", "status", "stopped early", "chosen at", *map(score_heading, scores)]
    rows = [
        [
            record["run"],
            _setting(folder, record["run"]),
            str(record["seed"]),
            record["status"],
            "yes" if record.get("stopped_early") else "no",
            NO_VALUE if record["selected_at_samples"] is None else f"{record['selected_at_samples']:,}",
            *(_score(record, score) for score in scores),
        ]
        for record in records
    ]
    numeric = [False, False, True, False, False, True, *(True for _ in scores)]
    return grid(headings, rows, numeric) if rows else None


def plan(folder: SweepFolder) -> dict[str, Any]:
    """Returns the plan in words, what successive halving did, and a table with one line per cohort: which runs trained
    together, and how long they took.
    """
    ended = folder.records
    rows = []
    for cohort in Workdir(folder.path).cohorts():
        if not set(cohort.runs) & set(folder.runs):  # the cohort belongs to another sweep of this folder
            continue
        own = [ended[run] for run in cohort.runs if run in ended]
        state = "done" if cohort.done else "not done"
        rows.append(
            [
                cohort.name,
                shared_settings(folder, [run for run in cohort.runs if run in folder.runs]),
                str(len(cohort.runs)),
                state,
                *_times(own),
            ]
        )
    if not rows:  # without cohort folders, the records tell which runs trained together
        by_cohort = grouped(ended.values(), lambda record: record["cohort"])
        rows = [
            [name, shared_settings(folder, [record["run"] for record in own]), str(len(own)), "done", *_times(own)]
            for name, own in by_cohort.items()
        ]
    headings = ("cohort", "what its runs share", "runs", "state", "compiling", "training", "evaluating", "device")
    numeric = (False, False, True, False, True, True, True, False)
    return {
        "text": folder.plan,
        "halving": _halving(folder),
        "cohorts": grid(headings, rows, numeric) if rows else None,
    }


def _halving(folder: SweepFolder) -> dict[str, Any] | None:
    """Returns a table of how many settings successive halving continued, and a sentence about what that saved."""
    file = folder.path / "halving.json"
    if not file.exists():
        return None
    with report_damage(file, "run the tuning again to renew it"):
        notes = read_json(file)
        if "decisions" not in notes:  # halving has not decided anything yet
            return None
        rows = [
            (str(each["after_epochs"]), str(each["settings"]), str(len(each["go_on"]))) for each in notes["decisions"]
        ]
        steps, seconds = notes["saving"]["replica_steps"], notes["saving"]["train_seconds"]
        saved = f"Of {steps['whole']:,.0f} steps of all runs {steps['made']:,.0f} were made"
        if "whole" in seconds:
            saved += f"; training took {seconds['made']:,.0f} s, "
            saved += f"the whole grid would have taken {seconds['whole']:,.0f} s, estimated"
    sheet = grid(("halving after epoch", "settings", "continued"), rows, (True, True, True))
    return {"sheet": sheet, "saved": f"{saved}."}


def settings(folder: SweepFolder) -> list[Sheet]:
    """Returns tables of the settings in which the runs differ and of those that all runs have in common."""
    records = list(folder.records.values())
    if not records:
        return []
    known = [{**flatten(record["config"]), **_surroundings(record)} for record in records]
    shown: dict[str, dict[str, str]] = {"": {}, "differs": {}}
    for key in dict.fromkeys(key for each in known for key in each):  # models have different settings
        values = dict.fromkeys(_text(each.get(key)) for each in known)
        shown["" if len(values) == 1 else "differs"][key] = "; ".join(values)
    differs = [grid(("differs between runs", "values"), shown["differs"].items())] if shown["differs"] else []
    return [*differs, grid(("setting", "value"), shown[""].items())]


def _surroundings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a result depends on besides the config of its run."""
    around = {"device": record["device"], "commit": record.get("commit") or "unknown"}
    around |= {"matrix products": record["products"]} if "products" in record else {}
    around |= {f"version of {name}": version for name, version in record["versions"].items()}
    return around | {f"data: {name}": value for name, value in flatten(record["data"]).items()}


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return NO_VALUE if value in ("", None, {}) else str(value)


def _place(folder: SweepFolder, run: str) -> tuple[Mapping[str, Any], str]:
    """Returns the place of a run in the grid as it is planned now. A record may come from an earlier, narrower grid."""
    place = folder.runs[run] or folder.records.get(run, {"overrides": {}, "variant": ""})
    return place["overrides"], place["variant"]


def _setting(folder: SweepFolder, run: str) -> str:
    return setting_text(*_place(folder, run)) or "as configured"


def shared_settings(folder: SweepFolder, runs: Sequence[str]) -> str:
    """Describes the settings that runs have in common."""
    places = [_place(folder, run) for run in runs]
    return shared_text(places) or (NO_VALUE if any(map(any, places)) else "as configured")


def _missing(folder: SweepFolder, run: str) -> str:
    place = folder.runs[run]
    return f"{_setting(folder, run)}, seed {place['seed']} ({run})" if place else run


def _score(record: Mapping[str, Any], score: str) -> str:
    value = score_of(record, score)
    return NO_VALUE if value is None else format_number(score, value)


def _times(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the times and the device of a cohort, as texts. Each of its records stores them. The last one is used,
    because the runs of a cohort may have been trained in two parts.
    """
    if not records:
        return [NO_VALUE] * 4
    times = records[-1]["times"]
    texts = [times.get(f"{name}_seconds") for name in ("compile", "train", "evaluate")]
    return [*(NO_VALUE if seconds is None else duration_text(seconds) for seconds in texts), records[-1]["device"]]


# Charts


def all_settings(folder: SweepFolder) -> list[Drawn]:
    """Draws the mean dev score of each setting in one chart. Pointing at a line, or clicking on the legend, brings one
    setting to the front. The list is empty if the settings cannot be compared.
    """
    rows = points(folder)
    if not rows:
        return []
    order = list(dict.fromkeys(row["setting"] for row in rows))
    front = altair.selection_point(name="front", fields=["setting"], on="pointerover", bind="legend", empty=True)
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_line(point=altair.OverlayMarkDef(size=25))
        .encode(
            x=_PAIRS,
            y=altair.Y("score:Q", title=score_heading(verdicts.ranked(folder)[0]), scale=altair.Scale(zero=False)),
            color=altair.Color("setting:N", sort=order, title=None, scale=altair.Scale(scheme="tableau20")),
            opacity=altair.condition(front, altair.value(1.0), altair.value(0.12)),
            strokeWidth=altair.condition(front, altair.value(2.0), altair.value(1.0)),
            tooltip=["setting:N", altair.Tooltip("pairs:Q", format=","), altair.Tooltip("score:Q", format=".4~f")],
        )
        .add_params(front)
        .configure_legend(orient="bottom", columns=1, labelLimit=0, symbolLimit=_MOST_SETTINGS)
    )
    caption = "Mean dev score over the seeds, the best setting first. Point at a line to bring it to the front."
    return [Drawn(caption, _spec(chart, "Mean dev score of all settings", 320))]


def points(folder: SweepFolder) -> list[dict[str, Any]]:
    """Returns the mean dev score of each setting at each evaluation that all its runs have, the best setting first."""
    found = []
    for setting in verdicts.ranked(folder)[1][:_MOST_SETTINGS]:
        rows = [row for record in setting.records for row in _rows(record, dev_score) if row["value"] is not None]
        for pairs, same in sorted(grouped(rows, lambda row: row["pairs"]).items()):
            if len(same) == len(setting.records):
                value = mean(row["value"] for row in same)
                found.append({"setting": printable(setting.name), "pairs": pairs, "score": value})
    return found


def of_each_setting(settings: Mapping[str, Sequence[Record]]) -> dict[str, list[Drawn]]:
    """Draws two charts per setting: the dev score that chooses its checkpoints, and the training loss. The scales are
    the same for all settings, so that the charts can be compared by eye.

    Arguments:
      settings: name -> records of the setting's runs.
    """
    found: dict[str, list[Drawn]] = {name: [] for name in settings}
    for heading, value_of in (("", dev_score), ("training loss", training_loss)):
        rows = {name: [row for each in runs for row in _rows(each, value_of)] for name, runs in settings.items()}
        known = [row for same in rows.values() for row in same if row["value"] is not None]
        if not known:
            continue
        most = max(row["pairs"] for row in known)
        low, high = min(row["value"] for row in known), max(row["value"] for row in known)
        margin = 0.05 * (high - low) or abs(high) * 0.05 or 0.5
        for name, same in rows.items():
            what = heading or score_heading(settings[name][0]["selected_on"])
            y = altair.Y(
                "value:Q",
                title=what,
                scale=altair.Scale(domain=[low - margin, high + margin], nice=False),
                axis=altair.Axis(title=None, tickCount=4),
            )
            chart = _of_runs(same, _PAIRS.scale(domain=[0, most], nice=False), y)
            found[name].append(Drawn(f"{what}: {name}", _spec(chart, printable(f"{what} of {name}"), 170)))
    return found


def _of_runs(rows: Iterable[Mapping[str, Any]], x: altair.X, y: altair.Y) -> altair.LayerChart:
    """Draws the curves of one setting: one line per run, their mean, and a band of one sample standard deviation."""
    base = altair.Chart(altair.Data(values=list(rows))).encode(x, y)
    learning = base.transform_filter("!datum.diverged && isValid(datum.value)").transform_joinaggregate(
        runs="count()", groupby=["pairs"]
    )
    columns = ["run:N", altair.Tooltip("pairs:Q", format=","), altair.Tooltip("value:Q", format=".4~f")]
    dashes = altair.condition("datum.diverged", altair.value([4, 3]), altair.value([1, 0]))
    return altair.layer(
        learning.transform_filter("datum.runs > 1").mark_errorband(extent="stdev", color=_OWN, opacity=0.2),
        base.mark_line(color=_OWN, opacity=0.55, strokeWidth=1, strokeCap="round").encode(
            detail="run:N", strokeDash=dashes, tooltip=columns
        ),
        learning.transform_filter("datum.runs > 1").mark_line(color=_OWN, strokeWidth=2.2).encode(y="mean(value):Q"),
        learning.transform_filter("datum.chosen")
        .mark_point(color=_OWN, filled=True, opacity=1)
        .encode(tooltip=columns),
    )


def dev_score(record: Record, entry: Mapping[str, Any]) -> float | None:
    """Returns the score that chooses the checkpoint, at an evaluation of a run. It is in percent if tables show it in
    percent.
    """
    value = entry["dev"].get(record["selected_on"].removeprefix("dev."))
    return value if value is None or not is_percent(record["selected_on"]) else 100 * value


def training_loss(record: Record, entry: Mapping[str, Any]) -> float | None:
    return entry["train_loss"]


def _rows(record: Record, value_of: Callable[[Record, Mapping[str, Any]], float | None]) -> list[dict[str, Any]]:
    """Returns the points of a run's curve."""
    alike = {"run": printable(f"seed {record['seed']} ({record['run']})"), "diverged": record["status"] == "diverged"}
    chosen = record.get("selected_at_samples")
    return [
        {**alike, "pairs": entry["samples"], "value": value_of(record, entry), "chosen": entry["samples"] == chosen}
        for entry in record["curve"]
    ]


def _spec(chart: altair.Chart | altair.LayerChart, description: str, height: int) -> Mapping[str, Any]:
    """Returns the specification of a chart that is as wide as its place on the page and lets the colors of the page
    show through.
    """
    whole = chart.properties(width="container", height=height, background="transparent", description=description)
    return whole.configure_view(stroke=None).to_dict()


# Tables, and the order in which a click on a heading sorts their rows


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] = ()) -> Sheet:
    """Builds a table of plain texts.

    Arguments:
      headings: the headings, one per column.
      rows: the rows, each with one text per column.
      numeric: for each column, whether it contains numbers, which are aligned right. By default, no column does.
    """
    body = tuple(tuple(map(Text, row)) for row in rows)
    return Sheet("", (), (), tuple(headings), tuple(numeric) or (False,) * len(headings), (), (body,))


def ranks(sheet: Sheet) -> list[Mapping[str, int]]:
    """Returns, for each column, the place of its texts in ascending order, from 0. A column of numbers ("1,024",
    "83.4 ± 2.3", "−0.5 (p = 0.02)", "12 min") is ordered by value, and any other column as text. Texts without a value
    have no place.
    """
    columns = zip(*(row for section in sheet.sections for row in section), strict=True)
    return [_places({text.content for text in column}, numeric) for column, numeric in zip(columns, sheet.numeric)]


def _places(texts: Iterable[str], numeric: bool) -> Mapping[str, int]:
    texts = [text for text in texts if text not in ("", NO_VALUE)]
    values = {text: value for text in texts if (value := _number(text, whole=not numeric)) is not None}
    known = values if numeric or len(values) == len(texts) else {text: text.casefold() for text in texts}
    place = {value: number for number, value in enumerate(sorted(set(known.values())))}
    return {text: place[value] for text, value in known.items()}


def _number(text: str, whole: bool) -> float | None:
    """Returns the number that a text is (`whole`) or begins with, or None if there is no such number."""
    found = _NUMBER.fullmatch(text) if whole else _NUMBER.match(text)
    return float(found[1].replace(",", "").replace("−", "-")) * _SECONDS.get(found[2], 1) if found else None

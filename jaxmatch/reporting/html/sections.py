"""The parts of a report. Each function turns what a sweep left in its folder into what templates/page.html shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxmatch.errors import report_damage
from jaxmatch.files import read_json
from jaxmatch.printable import count_text
from jaxmatch.reporting import verdict as verdicts
from jaxmatch.reporting.formats import NO_VALUE, Sheet
from jaxmatch.reporting.html import charts
from jaxmatch.reporting.html.certainty import certainty
from jaxmatch.reporting.html.grid import grid
from jaxmatch.reporting.html.mistakes import mistakes
from jaxmatch.reporting.layout import (
    duration_text,
    format_number,
    format_setting,
    score_heading,
    setting_headings,
    setting_text,
    shared_text,
)
from jaxmatch.reporting.records import SweepFolder, grouped, score_of
from jaxmatch.reporting.table import sheet, table_of
from jaxmatch.settings import flatten
from jaxmatch.workdir import Workdir


def contents(folder: SweepFolder) -> dict[str, Any]:
    """Returns everything that the page shows about a sweep.

    Raises:
      InputError: a record or another file of the folder is damaged.
    """
    return {
        "title": folder.layout.title,
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


def failures(folder: SweepFolder) -> list[str]:
    """Describes the runs that diverged and the runs that have no record."""
    diverged = [
        f"{_setting(folder, name)}, seed {record['seed']} ({name}): diverged after "
        f"{record['diverged_at_samples'] or 0:,} pairs"
        for name, record in folder.records.items()
        if record["status"] == "diverged"
    ]
    return diverged + [f"{_missing(folder, name)}: no record" for name in folder.missing]


def curves(folder: SweepFolder) -> dict[str, list[charts.Drawn]]:
    """Draws the learning curves: all settings in one chart, and each setting with its runs. Settings whose runs were
    all dropped by successive halving are drawn separately.
    """
    settings = grouped(folder.records.values(), lambda record: _setting(folder, record["run"]))
    found: dict[str, list[charts.Drawn]] = {"together": charts.all_settings(folder), "apart": [], "dropped": []}
    for name, drawn in charts.of_each_setting(settings).items():
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
            NO_VALUE if record.get("selected_at_samples") is None else f"{record['selected_at_samples']:,}",
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
    around |= {f"version of {name}": version for name, version in record.get("versions", {}).items()}
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
    times = records[-1].get("times", {})
    texts = [times.get(f"{name}_seconds") for name in ("compile", "train", "evaluate")]
    return [*(NO_VALUE if seconds is None else duration_text(seconds) for seconds in texts), records[-1]["device"]]

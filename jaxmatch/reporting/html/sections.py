"""The parts of a report, each from what a sweep left in its folder to a piece of HTML."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.files import read_json
from jaxmatch.plain_file import check_plain_file
from jaxmatch.reporting import record_schema
from jaxmatch.reporting import verdict as verdicts
from jaxmatch.reporting.folder_table import table_of
from jaxmatch.reporting.grouping import grouped
from jaxmatch.reporting.html import charts, markup
from jaxmatch.reporting.html.all_curves import all_curves
from jaxmatch.reporting.sweep_folder import SweepFolder
from jaxmatch.reporting.tables import layout, numbers
from jaxmatch.reporting.wording import duration_text, setting_text, shared_text
from jaxmatch.settings import flatten
from jaxmatch.workdir import Workdir

NOTHING = "–"


def summary(folder: SweepFolder) -> str:
    """How far the sweep is."""
    diverged, dropped = (
        sum(each["status"] == status for each in folder.records.values()) for status in ("diverged", "dropped")
    )
    counts = [
        f"{len(folder.runs)} runs planned",
        f"{len(folder.records) - diverged - dropped} finished",
        f"{diverged} diverged",
        *([f"{dropped} dropped by successive halving"] if dropped else []),
        f"{len(folder.missing)} missing",
    ]
    return markup.element("p", ", ".join(counts) + ".", class_="summary")


def verdict(folder: SweepFolder) -> str:
    """What the sweep found, and what to do with it."""
    sentences = verdicts.verdict(folder)
    if not sentences:
        return markup.element("p", "No finished runs can be compared.")
    return markup.bullets(sentences)


def effects(folder: SweepFolder) -> str:
    """The mean dev score of each value of each axis, and its difference from the best value."""
    found = verdicts.effects(folder)
    if not found:
        return markup.element("p", "The grid has no axis with two values or more.")
    score = verdicts.ranked(folder)[0]
    headings = ("axis", "value", "settings", numbers.score_heading(score), "difference from the best value")
    rows = [
        (
            numbers.setting_headings([effect.axis])[effect.axis],
            numbers.print_setting(effect.axis, effect.value),
            str(effect.settings),
            numbers.print_number(score, effect.mean),
            NOTHING if effect.difference is None else numbers.print_number(score, effect.difference),
        )
        for effect in found
    ]
    legend = "Means over the settings with this value. The difference is over settings that are equal in all else."
    return markup.element("p", legend) + markup.grid(headings, rows, (False, False, True, True, True))


def curves_of_all(folder: SweepFolder) -> str:
    """Learning curves: of all settings in one chart, then of each setting with its runs."""
    return all_curves(folder) + learning_curves(folder)


def results(folder: SweepFolder) -> str:
    """The table, and the same in LaTeX and CSV to be copied."""
    if not folder.records:
        return markup.element("p", "No run has ended yet: there is no table.")
    table = table_of(folder)
    copies = (
        markup.folded(name, markup.element("pre", text))
        for name, text in (("LaTeX", table.latex()), ("CSV", table.csv()))
    )
    return markup.sheet(layout.sheet(table)) + "".join(copies)


def failures(folder: SweepFolder) -> str:
    """Runs that diverged, and runs that are not there."""
    diverged = [
        f"{_setting(folder, name)}, seed {record['seed']} ({name}): diverged after {record['diverged_at_samples'] or 0:,} pairs"
        for name, record in folder.records.items()
        if record["status"] == "diverged"
    ]
    missing = [f"{_missing(folder, name)}: no record" for name in folder.missing]
    if not diverged and not missing:
        return markup.element("p", "None: every planned run has ended, and none diverged.")
    return markup.bullets(diverged + missing)


def learning_curves(folder: SweepFolder) -> str:
    """For each setting the dev score that chooses its checkpoints, and the training loss; scales are alike in all
    settings.

    Settings whose runs were all dropped by successive halving are folded away.
    """
    settings = _by_setting(folder)
    parts = []
    for heading, pick in (("dev", _dev_curve), ("loss", _loss_curve)):
        drawn = {name: [pick(record) for record in members] for name, members in settings.items()}
        spans = charts.range_of(curve for members in drawn.values() for curve in members)
        parts.append((heading, drawn, spans))
    figures, dropped = [], []
    for name, members in settings.items():
        score = numbers.score_heading(members[0]["selected_on"])
        shown = dropped if all(record["status"] == "dropped" for record in members) else figures
        for heading, drawn, spans in parts:
            what = score if heading == "dev" else "training loss"
            if spans:
                chart = charts.chart(f"{what} of {name}", drawn[name], spans)
                shown.append(f"<figure>{chart}{markup.element('figcaption', f'{what}: {name}')}</figure>")
    if not figures and not dropped:
        return markup.element("p", "No run has ended yet.")
    legend = (
        "A thin line a run (dashed: it diverged), a dot where its checkpoint was chosen; the thick line is the mean over the runs "
        "that were still training, the band one sample standard deviation on either side."
    )
    open_, closed = (f'<div class="charts">{"".join(each)}</div>' for each in (figures, dropped))
    folded = markup.folded("settings that successive halving dropped", closed) if dropped else ""
    return markup.element("p", legend) + open_ + folded


def runs(folder: SweepFolder) -> str:
    """A line a run."""
    records = list(folder.records.values())
    scores = [score for score in folder.layout.scores if not score.startswith("times.")]
    headings = ["run", "setting", "seed", "status", "stopped early", "chosen at", *map(numbers.score_heading, scores)]
    rows = [
        [
            record["run"],
            _setting(folder, record["run"]),
            str(record["seed"]),
            record["status"],
            "yes" if record.get("stopped_early") else "no",
            NOTHING if record.get("selected_at_samples") is None else f"{record['selected_at_samples']:,}",
            *(_score(record, score) for score in scores),
        ]
        for record in records
    ]
    numeric = [False, False, True, False, False, True, *(True for _ in scores)]
    return markup.grid(headings, rows, numeric) if rows else markup.element("p", "No run has ended yet.")


def plan(folder: SweepFolder) -> str:
    """A line a cohort: what was trained together, and how long it took."""
    ended = folder.records
    rows = []
    for cohort in Workdir(folder.path).cohorts():
        if not set(cohort.runs) & set(folder.runs):  # of another sweep of this folder
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
    if not rows:  # kept records alone tell which runs trained together
        by_cohort = grouped(ended.values(), lambda record: record["cohort"])
        rows = [
            [name, shared_settings(folder, [record["run"] for record in own]), str(len(own)), "done", *_times(own)]
            for name, own in by_cohort.items()
        ]
    headings = ("cohort", "what its runs share", "runs", "state", "compiling", "training", "evaluating", "device")
    numeric = (False, False, True, False, True, True, True, False)
    begun = markup.grid(headings, rows, numeric) if rows else markup.element("p", "No cohort was begun.")
    return (markup.element("pre", folder.plan) if folder.plan else "") + _halving(folder) + begun


def _halving(folder: SweepFolder) -> str:
    """Which settings successive halving dropped, and what that saved."""
    file = folder.path / "halving.json"
    if not file.exists():
        return ""
    check_plain_file(file, "run the tuning again to renew it")
    try:
        notes = read_json(file)
        if "decisions" not in notes:  # it has not come so far
            return ""
        rows = [
            (str(each["after_epochs"]), str(each["settings"]), str(len(each["go_on"]))) for each in notes["decisions"]
        ]
        steps, seconds = notes["saving"]["replica_steps"], notes["saving"]["train_seconds"]
        saved = f"Of {steps['whole']:,.0f} steps of all runs {steps['made']:,.0f} were made"
        if "whole" in seconds:
            saved += f"; training took {seconds['made']:,.0f} s, the whole grid would have taken {seconds['whole']:,.0f} s, estimated"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the file is damaged ({error})", path=file, remedy="run the tuning again to renew it"
        ) from None
    told = markup.grid(("halving after epoch", "settings", "went on"), rows, (True, True, True))
    return told + markup.element("p", f"{saved}.")


def settings(folder: SweepFolder) -> str:
    """What all runs have in common, and what they differ in."""
    records = list(folder.records.values())
    if not records:
        return markup.element("p", "No run has ended yet.")
    known = [{**flatten(record["config"]), **_surroundings(record)} for record in records]
    shown: dict[str, dict[str, str]] = {"": {}, "differs": {}}
    for key in known[0]:
        values = dict.fromkeys(_text(each.get(key)) for each in known)
        shown["" if len(values) == 1 else "differs"][key] = "; ".join(values)
    parts = [markup.grid(("setting", "value"), shown[""].items())]
    if shown["differs"]:
        parts = [markup.grid(("differs between runs", "values"), shown["differs"].items()), *parts]
    return "".join(parts)


def _surroundings(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a result depends on besides its config."""
    around = {"device": record["device"], "commit": record.get("commit") or "unknown"}
    around |= {"matrix products": record["products"]} if "products" in record else {}
    around |= {f"version of {name}": version for name, version in record.get("versions", {}).items()}
    return around | {f"data: {name}": value for name, value in flatten(record["data"]).items()}


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return NOTHING if value in ("", None, {}) else str(value)


def _place(folder: SweepFolder, run: str) -> tuple[Mapping[str, Any], str]:
    """A run's place in the grid, as it is planned now: a record may be of an earlier, narrower grid."""
    place = folder.runs[run] or folder.records.get(run, {"overrides": {}, "variant": ""})
    return place["overrides"], place["variant"]


def _setting(folder: SweepFolder, run: str) -> str:
    return setting_text(*_place(folder, run)) or "as configured"


def shared_settings(folder: SweepFolder, runs: Sequence[str]) -> str:
    places = [_place(folder, run) for run in runs]
    return shared_text(places) or (NOTHING if any(map(any, places)) else "as configured")


def _missing(folder: SweepFolder, run: str) -> str:
    place = folder.runs[run]
    return f"{_setting(folder, run)}, seed {place['seed']} ({run})" if place else run


def _by_setting(folder: SweepFolder) -> dict[str, list[Mapping[str, Any]]]:
    """Records that differ in the seed alone, in the order of the plan."""
    return grouped(folder.records.values(), lambda record: _setting(folder, record["run"]))


def _curve(record: Mapping[str, Any], points: Iterable[tuple[int, float | None]]) -> charts.Curve:
    diverged = record["status"] == "diverged"
    return charts.Curve(
        f"seed {record['seed']} ({record['run']})", tuple(points), record.get("selected_at_samples"), diverged
    )


def _dev_curve(record: Mapping[str, Any]) -> charts.Curve:
    score = record["selected_on"].removeprefix("dev.")
    scale = 100.0 if numbers.is_percent(record["selected_on"]) else 1.0
    values = ((entry["samples"], entry["dev"].get(score)) for entry in record["curve"])
    return _curve(record, ((samples, None if value is None else scale * value) for samples, value in values))


def _loss_curve(record: Mapping[str, Any]) -> charts.Curve:
    return _curve(record, ((entry["samples"], entry["train_loss"]) for entry in record["curve"]))


def _score(record: Mapping[str, Any], score: str) -> str:
    value = record_schema.score_of(record, score)
    return NOTHING if value is None else numbers.print_number(score, value)


def _times(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of a cohort, which each of its records holds; runs of one cohort may have been trained in two goes."""
    if not records:
        return [NOTHING] * 4
    times = records[-1].get("times", {})
    texts = [times.get(f"{name}_seconds") for name in ("compile", "train", "evaluate")]
    return [*(NOTHING if seconds is None else duration_text(seconds) for seconds in texts), records[-1]["device"]]

"""Learning curves as Vega-Lite charts, made with Altair (the extra `report`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import altair

from jaxmatch.printable import printable
from jaxmatch.reporting.layout import is_percent, score_heading
from jaxmatch.reporting.records import SweepFolder, grouped
from jaxmatch.reporting.verdict import ranked

Record = Mapping[str, Any]
_MOST_SETTINGS = 40  # the most lines that can be told apart by pointing at them
_OWN = "#3a7fb5"
_PAIRS = altair.X(
    "pairs:Q", title="training pairs seen", axis=altair.Axis(tickCount=4, labelExpr="format(datum.value, '~s')")
)


class Drawn(NamedTuple):
    """A chart on the page.

    Attributes:
      caption: the caption, as plain text.
      spec: the Vega-Lite specification.
    """

    caption: str
    spec: Mapping[str, Any]


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
            y=altair.Y("score:Q", title=score_heading(ranked(folder)[0]), scale=altair.Scale(zero=False)),
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
    for setting in ranked(folder)[1][:_MOST_SETTINGS]:
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

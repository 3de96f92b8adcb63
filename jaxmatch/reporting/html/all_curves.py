"""One chart with the learning curves of all settings, drawn by Vega-Lite through Altair (the extra `report`).

The page holds Vega's programs, so that it needs no network. A pointer on a line, or a click on the legend, brings one
setting to the front.
"""

from statistics import mean
from typing import Any

from jaxmatch.reporting.grouping import grouped
from jaxmatch.reporting.html import markup
from jaxmatch.reporting.sweep_folder import SweepFolder
from jaxmatch.reporting.tables import numbers
from jaxmatch.reporting.verdict import ranked

MISSING = "Altair is not installed: pip install 'jaxmatch[report]' adds a chart of all settings together."
_MOST_SETTINGS = 40  # of which lines can still be told apart by pointing at them


def points(folder: SweepFolder) -> list[dict[str, Any]]:
    """The mean dev score of each setting at each of its evaluations that all its runs have, the best setting first."""
    score, settings = ranked(folder)
    name = score.removeprefix("dev.")
    scale = 100.0 if numbers.is_percent(score) else 1.0
    found = []
    for setting in settings[:_MOST_SETTINGS]:
        entries = [
            (entry["samples"], entry["dev"].get(name)) for record in setting.records for entry in record["curve"]
        ]
        known = [(samples, value) for samples, value in entries if value is not None]
        for samples, same in sorted(grouped(known, lambda entry: entry[0]).items()):
            if len(same) == len(setting.records):
                value = scale * mean(value for _, value in same)
                found.append({"setting": setting.name, "pairs": samples, "score": value})
    return found


def all_curves(folder: SweepFolder) -> str:
    """The chart; a sentence where Altair is missing, and nothing where there is nothing to draw."""
    rows = points(folder)
    if not rows:
        return ""
    try:
        import altair
    except ImportError:
        return markup.element("p", MISSING)
    order = list(dict.fromkeys(row["setting"] for row in rows))
    heading = numbers.score_heading(ranked(folder)[0])
    front = altair.selection_point(fields=["setting"], on="pointerover", bind="legend", empty=True, nearest=False)
    setting = altair.Color("setting:N", sort=order, title=None, scale=altair.Scale(scheme="tableau20"))
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_line(point=altair.OverlayMarkDef(size=25))
        .encode(
            x=altair.X("pairs:Q", title="training pairs seen", axis=altair.Axis(tickCount=5, format="~s")),
            y=altair.Y("score:Q", title=heading, scale=altair.Scale(zero=False)),
            color=setting,
            opacity=altair.condition(front, altair.value(1.0), altair.value(0.12)),
            strokeWidth=altair.condition(front, altair.value(2.0), altair.value(1.0)),
            tooltip=["setting:N", altair.Tooltip("pairs:Q", format=","), altair.Tooltip("score:Q", format=".4~f")],
        )
        .add_params(front)
        .properties(width="container", height=320, background="transparent")
        .configure_legend(orient="bottom", columns=2, labelLimit=260, symbolLimit=_MOST_SETTINGS)
        .configure_view(stroke=None)
    )
    options = {"actions": False, "renderer": "svg"}
    drawn = chart.to_html(inline=True, fullhtml=False, output_div="all-curves", embed_options=options)
    return f"<figure>{drawn}<figcaption>Mean dev score over the seeds. Point at a line to bring it to the front.</figcaption></figure>"

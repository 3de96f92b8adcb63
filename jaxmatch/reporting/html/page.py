"""The whole page, made from its parts with the Jinja templates next to this file (the extra `report`)."""

from collections.abc import Sequence
from pathlib import Path

import altair
import jinja2
import vl_convert
from markupsafe import Markup

from jaxmatch.errors import report_damage
from jaxmatch.files import read_json
from jaxmatch.printable import printable
from jaxmatch.reporting.html import certainty, sections
from jaxmatch.reporting.html.grid import ranks
from jaxmatch.reporting.records import SweepFolder


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


def page(folders: Sequence[SweepFolder]) -> str:
    """Returns an HTML page that needs no other file. The same folders give the same page.

    Arguments:
      folders: the sweep, followed by the sweep of the chosen setting if the first is a tuning.

    Raises:
      InputError: a record or another file of a folder is damaged.
    """
    first = folders[0]
    parts = [{**sections.contents(folder), "choice": _choice(folder)} for folder in folders]
    version = "_".join(altair.SCHEMA_VERSION.split(".")[:2])  # the version of Vega-Lite: "v6_1"
    return (
        templates()
        .get_template("page.html")
        .render(
            title=first.layout.title or first.name,
            name=first.name,
            parts=parts,
            resamples=certainty.RESAMPLES,
            vega=Markup(vl_convert.javascript_bundle(vl_version=version)),
        )
    )


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

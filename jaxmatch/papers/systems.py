"""The numbers that the papers of further systems print for their own models, read from systems.toml."""

import functools
import tomllib
from importlib import resources

from jaxmatch.reporting.tables import Published


@functools.cache
def published(model: str, data_set: str) -> tuple[Published, ...]:
    """Returns the rows of a model, by its name in a config, for a data set such as 'snli', or no rows if none are
    known.
    """
    text = resources.files("jaxmatch.papers").joinpath("systems.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)["figures"]
    found = [row for row in rows if (row["model"], row["data_set"]) == (model, data_set)]
    fields = [{name: value for name, value in row.items() if name not in ("model", "data_set")} for row in found]
    return tuple(Published(**{**row, "settings": {"model.name": model, **row["settings"]}}) for row in fields)

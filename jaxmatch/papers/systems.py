"""The numbers that the papers of further systems print for their own models, read from systems.toml."""

import functools
import tomllib
from importlib import resources

from jaxmatch.reporting.layout import Published


@functools.cache
def published(model: str, data_set: str) -> tuple[Published, ...]:
    """Returns the rows of a model, by its name in a config, for a data set such as 'snli', or no rows if none are
    known.
    """
    text = resources.files("jaxmatch.papers").joinpath("systems.toml").read_text(encoding="utf-8")
    rows = []
    for row in tomllib.loads(text)["figures"]:
        key = row.pop("model"), row.pop("data_set")
        if key == (model, data_set):
            rows.append(Published(**{**row, "settings": {"model.name": model, **row["settings"]}}))
    return tuple(rows)

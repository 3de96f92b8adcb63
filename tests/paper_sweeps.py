"""The planned sweeps of the papers."""

from pathlib import Path

from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.catalog import CATALOG
from jaxmatch.sweep import launch
from jaxmatch.sweep.sweep import with_scores

SWEEPS = Path(__file__).parent.parent / "sweeps"


def resolved(sweep, dataset, **arguments):
    return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset}, **arguments)


def chosen_by(planned):
    """Returns the score that chooses the checkpoints of a sweep on a public data set."""
    name = planned.config.data.name
    return planned.config.training.selection or catalog.selection(name, CATALOG[name].task)


def shown(planned):
    """Returns the layout of a sweep's table, with all scores that it shows."""
    return with_scores(planned.table, [with_overrides(planned.config, {"training.selection": chosen_by(planned)})])

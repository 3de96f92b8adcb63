"""The sweep that a file and a command line describe together."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.baselines.floors import named_floors
from jaxmatch.config import TrainingConfig
from jaxmatch.config.sections import OWN_LAYOUT
from jaxmatch.data import catalog
from jaxmatch.errors import InputError
from jaxmatch.reporting.tables import TableLayout
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.changes import changed, values_of
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.launcher_files import called, config_file, load_config, load_module, user_file_errors
from jaxmatch.sweep.preparation import guessed_task
from jaxmatch.sweep.smoke import smoke_sweep

# Options of the command line that change a setting of the data.
OF_THE_DATA = {
    "data_directory": "data.directory",
    "vectors": "data.vectors",
    **{name: f"data.{name}" for name in OWN_LAYOUT},
}


def resolve(
    file: Path,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    floors: str | None = None,
    smoke: bool = False,
    command: str = "",
) -> Sweep:
    """Returns the sweep that a file and a command line describe together. See `launch.sweep` for the arguments."""
    options, overrides = dict(options or {}), dict(overrides or {})
    for option, setting in OF_THE_DATA.items():
        value = options.pop(option, None)
        if value is not None and not smoke:  # generated data needs none of them
            overrides[setting] = value
    if smoke:
        overrides = {name: value for name, value in overrides.items() if name not in OF_THE_DATA.values()}
    sweep = _load_sweep(Path(file), options)
    if smoke:  # these only select the generated data that resembles the user's
        hints = {key: overrides.pop(key) for key in ("data.task", "training.selection") if key in overrides}
        sweep = smoke_sweep(dataclasses.replace(sweep, config=with_overrides(sweep.config, hints)))
    else:
        sweep = _with_selection(sweep, overrides, grid_overrides or {})
    sweep = dataclasses.replace(sweep, command=command)
    if floors is not None:
        sweep = dataclasses.replace(sweep, floors=named_floors(floors))
    return changed(sweep, seeds=seeds, overrides=overrides, grid_overrides=grid_overrides)


def _with_selection(sweep: Sweep, overrides: Mapping[str, Any], grid_overrides: Mapping[str, str]) -> Sweep:
    """Returns the sweep with the score of its data set as `training.selection`, unless a score is requested.

    Raises:
      InputError: the data sets of an axis have several scores.
    """
    grid = {key: values for key, values in sweep.grid.items() if key not in grid_overrides}
    grid |= {key: values_of(text) for key, text in grid_overrides.items() if text.strip()}
    changed = {*overrides, *grid, *(key for settings in sweep.variants.values() for key in settings)}
    if "training.selection" in changed or sweep.config.training.selection != TrainingConfig().selection:
        return sweep
    data = {key: value for key, value in overrides.items() if key.startswith("data.")}
    names = grid.get("data.name") or (with_overrides(sweep.config, data).data.name,)
    selections = {_selection_of(with_overrides(sweep.config, data | {"data.name": name})): name for name in names}
    if len(selections) > 1:
        raise InputError(
            f"the data sets of this grid have several scores: {', '.join(sorted(selections))}",
            remedy="name one that all have (--config.training.selection=…), or make a sweep of each data set",
        )
    (selection,) = selections
    return dataclasses.replace(sweep, config=with_overrides(sweep.config, {"training.selection": selection}))


def _selection_of(config: ConfigDict) -> str:
    """Returns the score of the data set of a config: that of the catalog or, for other data, that of the task. The task
    of the user's own data is guessed unless the config states it.
    """
    if config.data.name in catalog.CATALOG:
        return catalog.CATALOG[config.data.name].selection
    task = config.data.task or catalog.EMBEDDED_TASKS.get(config.data.name) or guessed_task(config)
    return catalog.SELECTION[task or "classification"]


def _load_sweep(file: Path, options: Mapping[str, str]) -> Sweep:
    file, named = config_file(file)
    module, options = load_module(file), named | dict(options)
    if hasattr(module, "get_sweep"):
        sweep = called(module, "get_sweep", options, file)
        if not isinstance(sweep, Sweep):
            raise InputError(f"get_sweep() returns a {type(sweep).__name__}", path=file, remedy="return a Sweep")
        return sweep
    if hasattr(module, "get_timing"):
        raise InputError("this file describes a timing, not a training", path=file, remedy="use jaxmatch timing")
    if not hasattr(module, "get_config"):
        raise InputError("the file has neither get_sweep() nor get_config()", path=file, remedy="define one of them")
    name = "_".join((file.stem, *options.values()))
    layout = getattr(module, "TABLE", None) or TableLayout(title=name, rows=(), scores=())
    config = load_config(file, **options)
    with user_file_errors(file):
        return Sweep(name=name, config=config, grid={}, seeds=(0,), table=layout)

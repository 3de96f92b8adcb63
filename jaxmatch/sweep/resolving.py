"""The sweep that a file and a command line describe together."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.baselines import named_floors
from jaxmatch.config.sections import OWN_LAYOUT
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.launcher_files import called, config_file, load_config, load_module, user_file_errors
from jaxmatch.sweep.sweep import Sweep, changed, smoke_sweep

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
    sweep = dataclasses.replace(sweep, command=command)
    if floors is not None:
        sweep = dataclasses.replace(sweep, floors=named_floors(floors))
    return changed(sweep, seeds=seeds, overrides=overrides, grid_overrides=grid_overrides)


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

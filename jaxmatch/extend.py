"""Models, scores, data sets and hyperparameters of your own.

A module outside the package calls these functions. `--import FILE_OR_MODULE` loads the module for a command. A name
must be an identifier that the package does not use; otherwise an `InputError` is raised. It may be added again.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

from jaxmatch.config.models import MODELS, ModelConfig
from jaxmatch.config.settings import ADDED_DEFAULTS, SCORES, SECTIONS, OptimizerConfig, Score
from jaxmatch.errors import InputError

ADDED: dict[tuple[str, str], Any] = {}  # (kind, name) -> the value that was added


def _add(registry: MutableMapping[str, Any], kind: str, name: str, value: Any) -> None:
    if name in registry and (kind, name) not in ADDED:
        raise InputError(f'there is a {kind} "{name}" already', remedy="choose another name")
    if not name.isidentifier():
        raise InputError(f"{name!r} is not a valid name for a {kind}", remedy="use letters, digits and underscores")
    registry[name] = ADDED[kind, name] = value


def add_model(settings: type[ModelConfig], module: type) -> None:
    """Adds a model.

    Arguments:
      settings: a frozen dataclass, a subclass of `ModelConfig`, with `name` and `title`. Its fields are made with
        `jaxmatch.config.models.setting`.
      module: a Flax module, a subclass of `PairModel` (jaxmatch/models/pair_model.py). It is constructed with the
        settings and the number of outputs.
    """
    from jaxmatch import models  # imports flax

    _add(MODELS, "model", settings.name, settings)
    models.MODELS[settings.name] = module


def add_score(score: Score, function: Callable[..., Any], task: str) -> None:
    """Adds a score of a task. Checkpoints can be chosen by the score, too: `training.selection`.

    Arguments:
      score: the name, title and direction of the score.
      function: labels `<int32>[pairs]`, outputs `<float64>[run, pairs, classes]` -> `<float>[run]`. In a
        regression, labels are `<float32>[pairs]` and outputs `<float64>[run, pairs]`. A function with an argument
        `groups` receives the groups of a ranking: `[pairs]`, whole numbers or texts, equal for the candidates of a
        group.
      task: "classification", "regression" or "ranking".
    """
    from jaxmatch.data.pairs import TASKS
    from jaxmatch.training import scores

    if task not in TASKS:
        raise InputError(f"there is no task {task!r}", remedy=f"the tasks are {', '.join(TASKS)}")
    _add(SCORES, "score", score.name, score)
    takes_groups = "groups" in inspect.signature(function).parameters
    scores.ADDED[score.name] = scores.AddedScore(task, function, takes_groups)


def add_data_set(source: Any) -> None:
    """Adds a data set: a `jaxmatch.data.catalog.Source`, which names its files and the functions that read them."""
    from jaxmatch.data import catalog

    if source.name not in catalog.CATALOG and source.name in catalog.names():  # such a set has no source
        raise InputError(f'there is a data set "{source.name}" already', remedy="choose another name")
    _add(catalog.CATALOG, "data set", source.name, source)


def add_hyperparameter(
    name: str,
    default: float,
    help: str,
    loss: Callable[..., Any],
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """Adds a traced hyperparameter of the loss, `optimizer.NAME`. A grid over it compiles one program.

    Arguments:
      name: the name of the hyperparameter.
      default: the value for which the loss is the same as without the hyperparameter. Runs with this value keep the
        names that they have without the hyperparameter.
      help: the meaning of the hyperparameter, in one line.
      loss: (losses `<float32>[batch]`, outputs `<float32>[batch, classes]`, labels `<int32>[batch]`, value
        `<float32>[]`) -> `<float32>[batch]`, the new losses in place of `losses`. In a regression, outputs are
        `<float32>[batch, 1]` and labels `<float32>[batch]`.
      least, most, below: the bounds of the value: at least `least`, at most `most`, less than `below`.
    """
    from jaxmatch.config.models import setting
    from jaxmatch.training import step

    fields = {each.name: (each.name, each.type, each) for each in dataclasses.fields(SECTIONS["optimizer"])}
    field = setting(float(default), help, least=least, most=most, below=below)
    _add(fields, "setting of the optimizer", name, (name, float, field))
    optimizer = dataclasses.make_dataclass("OptimizerConfig", fields.values(), frozen=True)
    optimizer.__doc__ = OptimizerConfig.__doc__
    SECTIONS["optimizer"] = optimizer
    ADDED_DEFAULTS[f"optimizer.{name}"] = float(default)
    step.ADDED[name] = loss


def load(names: Iterable[str]) -> None:
    """Imports modules that extend the package: names of modules, or paths of files that end in .py.

    Raises:
      InputError: a module or file does not exist, or its import fails.
    """
    for name in names:
        from jaxmatch.sweep.files import load_module, load_named  # only for commands that load a module

        if name.endswith(".py") or os.sep in name:
            load_module(Path(name))
        else:
            load_named(name, "give --import a file that ends in .py, or a module")

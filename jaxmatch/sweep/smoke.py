"""A sweep shrunk to seconds: does it load, train, record and tabulate? Its scores mean nothing."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.data import catalog
from jaxmatch.settings import flatten, with_overrides
from jaxmatch.sweep.grid import TRACED, Sweep
from jaxmatch.training.scores import score_names

NOTE = "Smoke run: a tiny model after a few steps on generated data; its scores mean nothing"
# Of seeds and variants; a program takes far longer to compile than these steps to train.
_FIRST = 2
# Those that a model does not have are left out.
_SETTINGS = {
    "model.blocks": 2,
    "model.encoder_layers": 1,
    "model.alignment_layers": 2,
    "model.stacked_layers": 2,
    "model.aggregation_layers": 1,
    "model.head_size": 12,
    "model.grid_length": 16,
    "model.dense_blocks": 2,
    "model.block_layers": 2,
    "model.character_features": 4,
    "model.tags": False,  # the tagger's model is a file, too
    "model.hidden_size": 12,  # what two, three or four kernel sizes can share
    "data.directory": "",
    "data.task": "",
    "data.vectors": "",
    "data.tokenizer": "word",
    "data.lowercase": True,
    "data.remove_punctuation": True,
    "data.minimum_count": 5,
    "data.maximum_length": 0,
    "data.truncation_side": "right",
    "data.drop_from_length": 0,
    "training.batch_size": 512,
    "training.epochs": 1,
    "training.evaluate_every_samples": 0,
    "training.evaluate_every_samples_late": 0,
    "training.maximum_buckets": 1,
    "optimizer.warmup_samples": 0,
}


def _embedded(config: ConfigDict) -> tuple[str, tuple[str, ...]]:
    """The embedded data set used instead of a config's own, and the scores it has."""
    name, selection = config.data.name, config.training.selection
    labels: tuple[str, ...] = ()
    if name in catalog.CATALOG:
        task, labels = catalog.CATALOG[name].task, catalog.CATALOG[name].labels
    elif name in catalog.EMBEDDED_TASKS:
        return name, _scores(name)
    else:  # own data, which is not read: the selection score shows the task
        task = config.data.task or (
            "ranking" if selection.startswith(("map", "mrr", "recall_at_")) else "classification"
        )
    two = len(labels) == 2 or selection in ("f1", "auc")
    name = "embedded_ranking" if task == "ranking" else "embedded_paraphrase" if two else "embedded_inference"
    return name, _scores(name)


def _shrunk(config: ConfigDict, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A variant that brings a model of its own, made as tiny as the others; any other as it is."""
    if "model.name" not in settings:
        return dict(settings)
    known = flatten(with_overrides(config, settings))
    tiny = {
        key: value for key, value in _SETTINGS.items() if key in settings or (key.startswith("model.") and key in known)
    }
    return {**settings, **tiny}


def _scores(name: str) -> tuple[str, ...]:
    return (*score_names(catalog.EMBEDDED_TASKS[name], 3 if name == "embedded_inference" else 2), "loss")


def smoked(sweep: Sweep) -> Sweep:
    """The sweep with a tiny model and a few steps on an embedded data set of the same task; a classification for a
    regression.

    The first two variants and seeds stay. Of the grid, axes that share a program stay, of the others the first value
    does. Published rows go: there is nothing to compare.
    """
    embedded, possible = _embedded(sweep.config)
    selection = sweep.config.training.selection
    if selection not in possible:
        selection = catalog.SELECTION[catalog.EMBEDDED_TASKS[embedded]]
    known = flatten(sweep.config)
    changes = {**_SETTINGS, "data.name": embedded, "training.selection": selection}
    config = with_overrides(sweep.config, {key: value for key, value in changes.items() if key in known})
    named = [score.partition(".") for score in sweep.table.scores]
    layout = dataclasses.replace(
        sweep.table,
        title=f"{sweep.table.title}: smoke run",
        # Without scores, a launcher shows those that go with the selection.
        scores=sweep.table.scores if all(name in possible for part, _, name in named if part != "times") else (),
        published=(),
        ensembles=(),
        notes=(*sweep.table.notes, NOTE),
    )
    grid = {key: values if key.startswith(f"{TRACED}.") else values[:1] for key, values in sweep.grid.items()}
    return dataclasses.replace(
        sweep,
        name=f"{sweep.name}-smoke",
        config=config,
        grid=grid,
        seeds=tuple(sweep.seeds)[:_FIRST],
        variants={name: _shrunk(config, sweep.variants[name]) for name in list(sweep.variants)[:_FIRST]},
        table=layout,
    )

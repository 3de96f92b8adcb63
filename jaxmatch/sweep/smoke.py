"""A sweep shrunk to seconds, which shows whether it loads, trains, records and tabulates. Its scores mean nothing."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config import DataConfig
from jaxmatch.config.sections import OWN_LAYOUT
from jaxmatch.data import catalog
from jaxmatch.settings import flatten, with_overrides
from jaxmatch.sweep.grid import TRACED, Sweep
from jaxmatch.training.scores import score_names

NOTE = "Smoke run: a tiny model after a few steps on generated data; its scores mean nothing"
# The number of seeds and of variants that stay. A program takes far longer to compile than these few steps to train.
_FIRST = 2
# The settings of a smoke run. Settings that a model does not have are left out.
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
    "model.tags": False,  # the model of the tagger is a file, which a smoke run must not need
    "model.hidden_size": 12,  # can be divided among two, three or four kernel sizes
    "model.heads": 4,
    "data.directory": "",
    "data.task": "",
    "data.vectors": "",
    **{f"data.{name}": getattr(DataConfig, name) for name in OWN_LAYOUT},
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
    """Returns the embedded data set that replaces the data set of a config, and the scores of the embedded one."""
    name, selection = config.data.name, config.training.selection
    labels: tuple[str, ...] = ()
    if name in catalog.CATALOG:
        task, labels = catalog.CATALOG[name].task, catalog.CATALOG[name].labels
    elif name in catalog.EMBEDDED_TASKS:
        return name, _scores(name)
    else:  # the user's own data, which is not read: the selection score shows the task
        task = config.data.task or (
            "ranking" if selection.startswith(("map", "mrr", "recall_at_")) else "classification"
        )
    two = len(labels) == 2 or selection in ("f1", "max_f1", "auc")
    name = "embedded_ranking" if task == "ranking" else "embedded_paraphrase" if two else "embedded_inference"
    return name, _scores(name)


def _first_variants(config: ConfigDict, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the first variants that still differ with a tiny model, as name -> settings."""
    found: dict[str, dict[str, Any]] = {}
    known = []
    for name, settings in variants.items():
        tiny = _shrunk(config, settings)
        whole = flatten(with_overrides(config, tiny))
        if whole in known:
            continue
        found[name] = tiny
        known.append(whole)
        if len(found) == _FIRST:
            break
    return found


def _shrunk(config: ConfigDict, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a variant. A model of its own is made as tiny as the others."""
    if "model.name" not in settings:
        return dict(settings)
    known = flatten(with_overrides(config, settings))
    tiny = {
        key: value for key, value in _SETTINGS.items() if key in settings or (key.startswith("model.") and key in known)
    }
    return {**settings, **tiny}


def _scores(name: str) -> tuple[str, ...]:
    return (*score_names(catalog.EMBEDDED_TASKS[name], 3 if name == "embedded_inference" else 2), "loss")


def smoke_sweep(sweep: Sweep) -> Sweep:
    """Returns the sweep with a tiny model and a few steps on an embedded data set of the same task.

    A regression becomes a classification. The first two seeds stay, and the first two variants that differ in more than
    the size of the model. Axes of the grid whose values share a program stay as they are, and other axes keep only
    their first value. Published rows are removed, because there is nothing to compare.
    """
    embedded, possible = _embedded(sweep.config)
    selection = sweep.config.training.selection if sweep.config.training.selection in possible else ""
    known = flatten(sweep.config)
    changes = {**_SETTINGS, "data.name": embedded, "training.selection": selection}
    config = with_overrides(sweep.config, {key: value for key, value in changes.items() if key in known})
    named = [score.partition(".") for score in sweep.table.scores]
    layout = dataclasses.replace(
        sweep.table,
        title=f"{sweep.table.title}: smoke run",
        # Without scores, a launcher shows those that match the selection score.
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
        variants=_first_variants(config, sweep.variants),
        table=layout,
    )

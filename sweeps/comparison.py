"""Models side by side on one data set: the same pairs, vectors and seeds, with parameters, training time and inference
time.

    jaxmatch sweep sweeps/comparison.py --dataset sick --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/comparison

`--dataset`: one of configs/re2.py, whose data and training all models share. `--models`: any of re2, esan, csran
and cafe, separated by commas, or all. `--floors`: what they are to beat, any of majority, overlap, cosine, tfidf and
bm25 (for rankings), all or none; without it all beside `--models all`. tfidf needs scikit-learn:
pip install 'jaxmatch[floors]'. A model whose file in configs/ has the data set has its structure, its optimizer and
its batch size from there, any other its defaults. `--features paper` gives each what its paper gives of a word besides
its vector; by default all see the same. `--smoke` tries it in seconds, without data files.
"""

import dataclasses
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch import InputError, Published, Sweep, TableLayout, default_config, load_config, with_overrides
from jaxmatch.baselines.floors import FLOORS
from jaxmatch.papers import csran, data_sets, esan, re2
from jaxmatch.settings import flatten, nearest
from jaxmatch.sweep.launch import SCORES
from jaxmatch.sweep.launcher_files import load_module

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
TITLES = {"re2": "RE2", "esan": "ESAN", "csran": "CSRAN", "cafe": "CAFE"}
ALL, NONE = "all", "none"
SEEDS = 5
TIMES = ("times.train_seconds_a_run", "times.inference_microseconds_a_pair")
PAPERS = {"re2": re2, "esan": esan, "csran": csran}
CAFE_FEATURES = {"characters": "bilstm", "tags": True}


def features_of(model: str, dataset: str) -> dict[str, Any]:
    """What the paper of a model gives of each word besides its vector."""
    return {"re2": {}, "esan": esan.features(dataset), "csran": dict(csran.FEATURES), "cafe": CAFE_FEATURES}[model]


def settings_of(model: str, dataset: str) -> dict[str, Any]:
    """How a model differs from the setting that all share."""
    file = CONFIGS / f"{model}.py"
    own = flatten(load_config(file, dataset=dataset)) if dataset in load_module(file).DATA_SETS else {}
    return {
        "model.name": model,
        **{key: own[key] for key in own if key.startswith(("model.", "optimizer.")) or key == "training.batch_size"},
    }


def published_of(model: str, dataset: str, config: ConfigDict) -> tuple[Published, ...]:
    """What the paper of a model printed of it for a data set, where that is the data set of `config`."""
    if model == "cafe":
        return published_of_cafe(dataset, config)
    paper = PAPERS.get(model)
    found = [name for name, data in paper.DATA_SETS.items() if data.config == f"{model}_{dataset}"] if paper else []
    rows = [row for name in found for row in paper.published_main(name, config) if "model.name" in row.settings]
    if model == "csran" and dataset == "trecqa_clean":
        rows += csran.published_for_train_all()
    return tuple(rows)


def published_of_cafe(dataset: str, config: ConfigDict) -> tuple[Published, ...]:
    """What the papers of CSRAN and ESAN, which compare theirs with it, print of CAFE: the first that has the data
    set.
    """
    settings = {
        "model.name": "cafe",
        "data.name": config.data.name,
        **{f"model.{key}": value for key, value in CAFE_FEATURES.items()},
    }
    for model in ("csran", "esan"):
        for name, data in PAPERS[model].DATA_SETS.items():
            rows = (
                PAPERS[model].published_main(name, default_config(model)) if data.config == f"{model}_{dataset}" else ()
            )
            for row in rows:
                if row.label.startswith("CAFE"):
                    # What hinders a comparison with that paper's own model hinders one with this, too.
                    return (
                        dataclasses.replace(
                            row, settings=settings, training_pairs=data.training_pairs, unlike=rows[0].unlike
                        ),
                    )
    return ()


def floors_of(asked: str) -> tuple[str, ...]:
    """The names of the floors that are asked for.

    Raises:
      InputError: there is no such floor.
    """
    if asked in (ALL, NONE):
        return tuple(FLOORS) if asked == ALL else ()
    names = tuple(dict.fromkeys(asked.split(",")))
    for name in names:
        if name not in FLOORS:
            raise InputError(f'there is no floor "{name}"', remedy=nearest(name, list(FLOORS)))
    return names


def get_sweep(
    dataset: str = "embedded_inference",
    models: str = "re2,esan,csran,cafe",
    features: str = data_sets.NONE,
    floors: str = "",
) -> Sweep:
    known = sorted(load_module(CONFIGS / "re2.py").DATA_SETS)
    if dataset not in known:
        raise InputError(f'there is no data set "{dataset}" in this sweep', remedy=nearest(dataset, known))
    names = list(TITLES if models == ALL else dict.fromkeys(models.split(",")))
    for name in names:
        if name not in TITLES:
            raise InputError(f'there is no model "{name}" in this sweep', remedy=nearest(name, list(TITLES)))
    told = {name: data_sets.feature_settings(features_of(name, dataset), features) for name in names}
    # What a model needs of the data, all have: they are to see the same words.
    shared = {key: value for settings in told.values() for key, value in settings.items() if key.startswith("data.")}
    config = with_overrides(load_config(CONFIGS / "re2.py", dataset=dataset), shared)
    told = {
        name: {key: value for key, value in settings.items() if key not in shared} for name, settings in told.items()
    }
    variants = {TITLES[name]: settings_of(name, dataset) | told[name] for name in names}
    selection = config.training.selection
    published = [
        row for name in names for row in published_of(name, dataset, with_overrides(config, variants[TITLES[name]]))
    ]
    return Sweep(
        name=f"comparison-{dataset}",
        config=config,
        grid={},
        variants=variants,
        seeds=tuple(range(SEEDS)),
        floors=floors_of(floors or (ALL if models == ALL else NONE)),
        table=TableLayout(
            title=f"Models on {dataset}",
            rows=("variant",),
            scores=(*SCORES.get(selection, (f"dev.{selection}", f"test.{selection}")), *TIMES),
            published=tuple(published),
            notes=(
                *(esan.NOTES.get(dataset, ()) if {"esan", "cafe"} & set(names) else ()),
                "A run's training time is its share of that of the runs it was trained with, the same for each of them; compiling and "
                "evaluating are not in it. "
                "Inference is what evaluation took for a pair and run, padding included",
            ),
            order={"variant": tuple(variants)},
        ),
    )

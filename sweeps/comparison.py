"""Models side by side on one data set: the same pairs, vectors and seeds, with parameters, training time and inference
time.

    jaxmatch sweep sweeps/comparison.py --dataset sick --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/comparison

`--dataset`: one of configs/re2.py, whose data and training all models share. `--models`: any of re2, esan, csran, cafe,
bimpm, diin, decatt, esim, siamese and transformer, separated by commas, or all. With all, the table has all simple
baselines (`--baselines`); TF-IDF needs pip install 'jaxmatch[baselines]'. A model takes its structure, optimizer and
batch size from its file in configs/. If the file does not have the data set, the structure is the default, and
optimizer and batch size are those for SNLI; warmup and decay take as many pairs as RE2's do on this data set. (On
embedded data sets, the whole optimizer is then RE2's.) `--features paper` gives each model the word features that its
paper uses besides the vector; by default all models see the same. `--smoke` tries it in seconds, without data files.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from jaxmatch import InputError, Published, Sweep, TableLayout, default_config, load_config, with_overrides
from jaxmatch.baselines import BASELINES
from jaxmatch.config.models import MODELS
from jaxmatch.errors import nearest
from jaxmatch.papers import published, re2
from jaxmatch.papers.esan_csran import csran, esan
from jaxmatch.sweep.files import data_title, known_data_sets, model_settings

TITLES = {name: config.title for name, config in MODELS.items()}
SEEDS = 5
TIMES = ("times.train_seconds_a_run", "times.inference_microseconds_a_pair")
PAPERS = {"re2": re2, "esan": esan, "csran": csran}
# Model -> the word features that its paper uses besides the vector, for papers other than the three above.
FEATURES = {
    "cafe": {"characters": "bilstm", "tags": True},
    "bimpm": {"characters": "bilstm"},
    "diin": {"characters": "cnn", "tags": True, "exact_match": True},
}
# Model -> its names in the tables of other papers, if they differ from its title -> the settings behind those scores,
# as far as they differ from the defaults.
# The figures for SciTail do not say whether their DecAtt attends within a sentence.
PRINTED = {"decatt": {"DecAtt": {"intra_attention": True}, "DecompAtt": {}}}


def features_of(model: str, dataset: str) -> dict[str, Any]:
    """Returns the word features that the paper of a model uses besides the vector."""
    return {"esan": esan.features(dataset), "csran": dict(csran.FEATURES), **FEATURES}.get(model, {})


def published_of(model: str, dataset: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns the scores that the paper of a model printed for a data set, if that is the data set of `config`. For a
    model whose paper is not one of the three, they include a score that one of the three quotes (`quoted`).
    """
    below = csran.published_below_train(TITLES[model]) if dataset == "trecqa_clean" else ()
    if model not in PAPERS:
        return published.of_system(model, dataset) + quoted(model, dataset, config) + below
    paper = PAPERS[model]
    found = [name for name, data in published.printed(model).data_sets.items() if data.config == f"{model}_{dataset}"]
    rows = [row for name in found for row in paper.published_main(name, config) if "model.name" in row.settings]
    return (*rows, *below)


def quoted(model: str, dataset: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns the score of a model that one of the three papers prints for comparison: the first paper that has one."""
    printed = PRINTED.get(model, {TITLES[model]: {}})
    for name in ("csran", "esan", "re2"):
        for title, data in published.printed(name).data_sets.items():
            if data.config != f"{name}_{dataset}":
                continue
            rows = PAPERS[name].published_main(title, default_config(name))
            for row in rows:
                if (label := row.label.partition(" (")[0]) in printed:
                    known = FEATURES.get(model, {}) | printed[label]
                    known = {f"model.{key}": value for key, value in known.items()}
                    settings = {**row.settings, "model.name": model, "data.name": config.data.name, **known}
                    # A difference that hinders a comparison with that paper's own model also hinders one with this
                    # model.
                    details = dict(settings=settings, training_pairs=data.training_pairs, unlike=rows[0].unlike)
                    return (dataclasses.replace(row, **details),)
    return ()


def setting_notes(config: ConfigDict, shown: set[str], variants: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns notes about the settings of the models that stand beside the numbers of their own papers."""
    notes = re2.setting_notes(config, of=TITLES["re2"]) if "re2" in shown else ()
    for name, paper in (("esan", esan), ("csran", csran)):
        if name in shown:
            title = TITLES[name]
            notes += paper.setting_notes(with_overrides(config, {"model.name": name} | variants[title]), of=title)
    return notes


def punctuation_note(names: Sequence[str], config: ConfigDict) -> tuple[str, ...]:
    """Returns a note if models read texts without the punctuation that their own configs keep."""
    kept = [TITLES[name] for name in names if not load_config(name).data.remove_punctuation]
    if not kept or not config.data.remove_punctuation:
        return ()
    keep = "the config of {} keeps" if len(kept) == 1 else "the configs of {} keep"
    return (f"Every model reads the texts as RE2's config has them; {keep.format(', '.join(kept))} punctuation",)


def get_sweep(
    dataset: str = "embedded_inference",
    models: str = "re2,esan,csran,cafe",
    features: str = published.NONE,
) -> Sweep:
    known = known_data_sets("re2")
    if dataset not in known:
        raise InputError(f'there is no data set "{dataset}" in this sweep', remedy=nearest(dataset, known))
    names = list(TITLES if models == "all" else dict.fromkeys(models.split(",")))
    for name in names:
        if name not in TITLES:
            raise InputError(f'there is no model "{name}" in this sweep', remedy=nearest(name, list(TITLES)))
    feature_settings = {name: published.feature_settings(features_of(name, dataset), features) for name in names}
    # Data settings that one model needs apply to all models, which are to see the same words.
    shared = {
        key: value
        for settings in feature_settings.values()
        for key, value in settings.items()
        if key.startswith("data.")
    }
    config = with_overrides(load_config("re2", dataset=dataset), shared)
    feature_settings = {
        name: {key: value for key, value in settings.items() if key not in shared}
        for name, settings in feature_settings.items()
    }
    variants = {
        TITLES[name]: model_settings(name, dataset, "optimizer.", "training.batch_size") | feature_settings[name]
        for name in names
    }
    printed = [
        row for name in names for row in published_of(name, dataset, with_overrides(config, variants[TITLES[name]]))
    ]
    return Sweep(
        name=f"comparison-{dataset}",
        config=config,
        grid={},
        variants=variants,
        seeds=tuple(range(SEEDS)),
        baselines=tuple(BASELINES) if models == "all" else (),
        table=TableLayout(
            title=f"Models on {data_title(dataset)}",
            rows=("variant",),
            scores=TIMES,  # after the score that chooses the checkpoint, which depends on the data
            published=tuple(printed),
            notes=(
                *setting_notes(config, {row.settings.get("model.name") for row in printed}, variants),
                *(esan.notes.get(dataset, ()) if {"esan", "cafe", "diin"} & set(names) else ()),
                *punctuation_note(names, config),
                "A run's training time is its share of that of the runs it was trained with, the same for each of "
                "them; compiling and evaluating are not in it. Inference is what evaluation took for a pair and run, "
                "padding included",
            ),
            order={"variant": tuple(variants)},
        ),
    )

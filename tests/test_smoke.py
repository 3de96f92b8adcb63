"""A smoke run keeps the structure of a sweep and reduces its size."""

from pathlib import Path

import pytest

from jaxmatch import models
from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.generated import DIMENSIONS
from jaxmatch.models import MODELS
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.sweep import launch
from jaxmatch.sweep.files import load_module
from jaxmatch.sweep.sweep import NOTE, Sweep, smoke_sweep
from jaxmatch.training.scores import score_names
from jaxmatch.training.step import flattening

ROOT = Path(__file__).parent.parent
LAYOUT = TableLayout(title="t", rows=(), scores=())


SWEEPS = [file for file in sorted((ROOT / "sweeps").glob("*.py")) if not file.stem.endswith("_timing")]
CONFIGS = [
    ROOT / "configs" / f"{file.stem}_{name}.py"
    for file in sorted((ROOT / "configs").glob("*.py"))
    for name in load_module(file).DATA_SETS
]
FILES = [*SWEEPS, *CONFIGS]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_launcher_file_has_a_smoke_run_without_data(file):
    planned = launch.resolve(file, smoke=True, options={"data_directory": "/no/such/folder", "vectors": "none.txt"})
    data = planned.config.data
    assert data.name.startswith("embedded_") and not data.vectors and not data.directory
    task = "ranking" if data.name == "embedded_ranking" else "classification"
    known = score_names(task, 3 if data.name == "embedded_inference" else 2)
    assert (planned.config.training.selection or catalog.selection(data.name, task)) in known
    assert all(score.split(".")[1] in known for score in planned.table.scores if not score.startswith("times."))
    runs = planned.runs()
    assert len({run.signature("data") for run in runs}) <= 2
    assert NOTE in planned.table.notes


@pytest.mark.parametrize(
    ("name", "embedded", "selection"),
    [
        ("snli", "embedded_inference", ""),
        ("quora", "embedded_paraphrase", "f1"),
        ("wikiqa", "embedded_ranking", "map"),
        ("sick_relatedness", "embedded_inference", ""),
    ],
)
def test_data_is_replaced_by_embedded_data_of_a_similar_task(name, embedded, selection):
    requested = {"wikiqa": "map", "quora": "f1", "sick_relatedness": "pearson"}.get(name, "")
    config = with_overrides(
        default_config(), {"data.name": name, "training.selection": requested, "data.maximum_length": 50}
    )
    config = smoke_sweep(Sweep("s", config, {}, (0,), LAYOUT)).config
    assert (config.data.name, config.training.selection, config.data.maximum_length) == (embedded, selection, 0)


def test_the_replacement_of_user_data_follows_from_its_score_or_task():
    def data_for(**changes):
        settings = {key.replace("__", "."): value for key, value in changes.items()}
        config = with_overrides(default_config(), {"data.name": "own", **settings})
        return smoke_sweep(Sweep("s", config, {}, (0,), LAYOUT)).config.data.name

    assert data_for() == "embedded_inference"
    assert data_for(training__selection="map") == data_for(training__selection="recall_at_2") == "embedded_ranking"
    assert data_for(training__selection="f1") == "embedded_paraphrase"
    assert data_for(data__task="ranking") == "embedded_ranking"


def test_axes_that_change_the_program_keep_only_their_first_value():
    grid = {"model.blocks": (1, 2, 3), "optimizer.learning_rate": (0.1, 0.2)}
    variants = {name: {"optimizer.dropout_rate": number / 10} for number, name in enumerate("abc")}
    small = smoke_sweep(Sweep("s", default_config(), grid, range(10), LAYOUT, variants))
    assert small.grid == {"model.blocks": (1,), "optimizer.learning_rate": (0.1, 0.2)}
    assert small.seeds == (0, 1) and list(small.variants) == ["a", "b"]


@pytest.mark.parametrize(
    ("task", "selection", "data", "chosen"),
    [
        ("regression", "pearson", "embedded_inference", ""),
        ("ranking", "map", "embedded_ranking", "map"),
        ("", "mrr", "embedded_ranking", "mrr"),
        ("classification", "macro_f1", "embedded_inference", "macro_f1"),
    ],
)
def test_a_smoke_run_of_user_data_fits_its_task_and_score(task, selection, data, chosen):
    overrides = {"training.selection": selection} | ({"data.task": task} if task else {})
    planned = launch.resolve(ROOT / "configs" / "esan.py", smoke=True, options={"dataset": "own"}, overrides=overrides)
    assert (planned.config.data.name, planned.config.training.selection) == (data, chosen)


def test_a_smoke_run_needs_no_layout_and_takes_eight_attention_heads():
    layout = {"data.columns": "text_a=q1,text_b=q2", "data.labels": "0=no,1=yes", "data.split": "0.8/0.2"}
    config = with_overrides(default_config("transformer"), {"data.name": "own", "model.heads": 8, **layout})
    small = smoke_sweep(Sweep("s", config, {}, (0,), LAYOUT)).config
    assert (small.data.columns, small.data.labels, small.data.split) == ("", "", "")
    models.build(small.model.to_dict(), outputs=3)
    overrides = {**layout, "data.vectors": "glove.txt", "data.directory": "data"}
    planned = launch.resolve(ROOT / "configs" / "re2.py", smoke=True, options={"dataset": "own"}, overrides=overrides)
    assert (planned.config.data.columns, planned.config.data.vectors, planned.config.data.directory) == ("", "", "")


def test_overrides_and_seeds_apply_to_a_smoke_run():
    planned = launch.resolve(ROOT / "sweeps" / "re2_main.py", smoke=True, overrides={"training.epochs": "3"}, seeds=3)
    assert planned.config.training.epochs == 3 and len(planned.seeds) == 3


def test_variants_that_are_equal_with_a_tiny_model_are_left_out():
    sizes = {"whole": {}, "two blocks": {"model.blocks": 2}, "no dropout": {"optimizer.dropout_rate": 0.0}}
    small = smoke_sweep(Sweep("s", with_overrides(default_config(), {"model.blocks": 3}), {}, (0,), LAYOUT, sizes))
    assert list(small.variants) == ["whole", "no dropout"] and len(small.runs()) == 2


def test_models_of_variants_become_tiny():
    options = {"dataset": "quora", "models": "esan,cafe", "features": "paper"}
    planned = launch.resolve(ROOT / "sweeps" / "comparison.py", smoke=True, options=options)
    runs = planned.runs()
    assert [run.config.model.name for run in runs] == ["esan", "esan", "cafe", "cafe"]
    for run in runs:
        # Tags are off, because the tagger needs a file.
        assert (run.config.model.hidden_size, run.config.model.character_features, run.config.model.tags) == (
            12,
            4,
            False,
        )
        assert run.config.model.characters != "none" and run.config.training.batch_size == 512


@pytest.mark.parametrize("model", MODELS)
def test_every_model_becomes_tiny(model):
    config = smoke_sweep(Sweep("s", default_config(model), {}, (0,), LAYOUT)).config.model
    assert config.name == model and config.get("hidden_size", 12) == 12
    module = models.build(config.to_dict(), outputs=3)
    assert flattening(module, DIMENSIONS).count < 100_000


def test_a_smoke_run_keeps_several_kernel_sizes():
    config = with_overrides(default_config(), {"model.kernel_size": (1, 3, 5)})
    assert smoke_sweep(Sweep("s", config, {}, (0,), LAYOUT)).config.model.kernel_size == (1, 3, 5)

"""A smoke run keeps the structure of a sweep and reduces its size."""

import re
from pathlib import Path

import pytest

from jaxmatch import models
from jaxmatch.cli.main import main
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
    ("settings", "embedded", "selection"),
    [
        ({"data.name": "snli", "data.maximum_length": 50}, "embedded_inference", ""),
        ({"data.name": "quora", "training.selection": "f1"}, "embedded_paraphrase", "f1"),
        ({"data.name": "wikiqa", "training.selection": "map"}, "embedded_ranking", "map"),
        ({"data.name": "sick_relatedness", "training.selection": "pearson"}, "embedded_inference", ""),
        ({"data.name": "own"}, "embedded_inference", ""),
        ({"data.name": "own", "training.selection": "recall_at_2"}, "embedded_ranking", "recall_at_2"),
        ({"data.name": "own", "training.selection": "macro_f1"}, "embedded_inference", "macro_f1"),
        ({"data.name": "own", "data.task": "ranking"}, "embedded_ranking", ""),
        ({"data.name": "own", "data.task": "regression", "training.selection": "pearson"}, "embedded_inference", ""),
    ],
)
def test_data_is_replaced_by_embedded_data_of_a_similar_task(settings, embedded, selection):
    config = smoke_sweep(Sweep("s", with_overrides(default_config(), settings), {}, (0,), LAYOUT)).config
    assert (config.data.name, config.training.selection, config.data.maximum_length) == (embedded, selection, 0)


def test_axes_that_change_the_program_keep_only_their_first_value():
    grid = {"model.blocks": (1, 2, 3), "optimizer.learning_rate": (0.1, 0.2)}
    variants = {name: {"optimizer.dropout_rate": number / 10} for number, name in enumerate("abc")}
    small = smoke_sweep(Sweep("s", default_config(), grid, range(10), LAYOUT, variants))
    assert small.grid == {"model.blocks": (1,), "optimizer.learning_rate": (0.1, 0.2)}
    assert small.seeds == (0, 1) and list(small.variants) == ["a", "b"]


def test_a_smoke_run_needs_no_layout_and_takes_eight_attention_heads():
    layout = {"data.columns": "text_a=q1,text_b=q2", "data.labels": "0=no,1=yes", "data.split": "0.8/0.2"}
    config = with_overrides(default_config("transformer"), {"data.name": "own", "model.heads": 8, **layout})
    small = smoke_sweep(Sweep("s", config, {}, (0,), LAYOUT)).config
    assert (small.data.columns, small.data.labels, small.data.split) == ("", "", "")
    models.build(small.model.to_dict(), outputs=3)
    overrides = {**layout, "data.vectors": "glove.txt", "data.directory": "data"}
    planned = launch.resolve(ROOT / "configs" / "re2.py", smoke=True, options={"dataset": "own"}, overrides=overrides)
    assert (planned.config.data.columns, planned.config.data.vectors, planned.config.data.directory) == ("", "", "")


def test_variants_that_are_equal_with_a_tiny_model_are_left_out():
    sizes = {"whole": {}, "two blocks": {"model.blocks": 2}, "no dropout": {"optimizer.dropout_rate": 0.0}}
    small = smoke_sweep(Sweep("s", with_overrides(default_config(), {"model.blocks": 3}), {}, (0,), LAYOUT, sizes))
    assert list(small.variants) == ["whole", "no dropout"] and len(small.runs()) == 2


@pytest.mark.parametrize("model", MODELS)
def test_every_model_becomes_tiny(model):
    config = smoke_sweep(Sweep("s", default_config(model), {}, (0,), LAYOUT)).config.model
    assert config.name == model and config.get("hidden_size", 12) == 12
    module = models.build(config.to_dict(), outputs=3)
    assert flattening(module, DIMENSIONS).count < 100_000


# Command -> rows of its table; main tables also have rows of baselines.
LAUNCHERS = {
    "re2_main --dataset wikiqa --config.model.blocks=1": 5,
    "re2_ablation --dataset wikiqa --config.model.blocks=1": 2,
    # With characters it takes twice as long; csran_main has them.
    "esan_ablation --dataset quora --features none --config.model.alignment_layers=1": 2,
    "csran_main --dataset scitail --config.model.stacked_layers=1": 4,
    "comparison --dataset sick --models siamese,decatt": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Encoded data and compiled programs, shared by the smoke runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize(("launcher", "rows"), LAUNCHERS.items(), ids=[words.split()[0] for words in LAUNCHERS])
def test_a_smoke_run_prints_the_whole_table(launcher, rows, cache, few_pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)
    sweep, *options = launcher.split()
    size = ("--smoke", "--seeds", "1")
    words = ["sweep", str(ROOT / "sweeps" / f"{sweep}.py"), *options, *size, "--workdir", str(tmp_path / "work")]
    assert main([*words, f"--config.execution.cache_directory={cache}"]) == 0
    text = capsys.readouterr().out
    assert ": smoke run" in text and "its scores mean nothing" in text and "Yang" not in text
    body = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert len(body) == rows
    assert all(re.search(r"\d\.\d", line) for line in body)


@pytest.mark.slow
def test_smoke_runs_include_the_analyses_of_the_trained_models(cache, few_pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)

    def launched(sweep, *options):
        words = ["sweep", str(ROOT / "sweeps" / f"{sweep}.py"), "--smoke", "--workdir", str(tmp_path / sweep), *options]
        words.append("--config.model.blocks=1")
        assert main([*words, f"--config.execution.cache_directory={cache}"]) == 0
        return capsys.readouterr().out

    text = launched("re2_ensemble")
    assert "**Runs together.** embedded_inference test, 120 pairs." in text and "DRCN" not in text
    text = launched("re2_occlusion")
    assert "**Occlusion sensitivity, as configured.**" in text and "over 2 seeds (0, 1)" in text
    assert (tmp_path / "re2_occlusion" / "figures" / "occlusion.png").read_bytes().startswith(b"\x89PNG")
    text = launched("re2_attention", "--seeds", "1", "--first", "A man sleeps.", "--second", "Nobody is awake.")
    assert text.count("first:  A man sleeps.") == 1 and "block 1, second over first" in text
    names = sorted(file.name for file in (tmp_path / "re2_attention" / "figures").iterdir())
    assert [name.partition("-seed0")[2] for name in names] == [".json", ".png", ".svg"]

"""Sweep files: mistakes are reported with their line, and the shipped sweeps fit their data sets and scores."""

import re
from pathlib import Path

import pytest

from jaxmatch.errors import InputError
from jaxmatch.sweep import launch, preparation
from jaxmatch.sweep.launcher_files import load_module

ROOT = Path(__file__).parent.parent

# A mistake in `Sweep(...)` -> the message about it.
MISTAKES = {
    "seeds=5": "seeds of the sweep is 5: make it a tuple",
    'grid={"model.blocks": 3}': "axis model.blocks of the sweep is 3: make it a tuple",
    'grid={"model.alignment": "linear"}': "axis model.alignment of the sweep is 'linear': make it a tuple",
    'grid=("model.blocks",)': "grid of the sweep is ('model.blocks',): make it a dictionary",
    'analyses={"ensembles": {}}': (
        "the sweep asks for 'ensembles', which is not an analysis: use ensemble, occlusion, inspect"
    ),
    'analyses={"occlusion": {"spilt": "dev"}}': (
        "the options of the analysis 'occlusion' are {'spilt': 'dev'}: make them a dictionary, of split"
    ),
    'analyses={"ensemble": None}': "the options of the analysis 'ensemble' are None: make them a dictionary",
    'variants={"a": "model.blocks"}': "the variant 'a' of the sweep is 'model.blocks': make it a dictionary",
    "table=7": "the table of the sweep is a int: give a TableLayout",
    "config=ConfigDict()": (
        "the config of the sweep lacks data, execution, model, optimizer, training: begin with default_config()"
    ),
    "table=TableLayout(title=3, rows=())": "title of a TableLayout is 3: make it a text",
    'table=TableLayout("t", rows=(), columns=3)': "columns of a TableLayout is 3: make it a text",
    'table=TableLayout("t", rows=(), order=3)': "order of a TableLayout is 3: make it a dictionary",
    'table=TableLayout("t", rows=(), order={"seed": 3})': "the order of seed in a table is 3: make it a tuple",
    'table=TableLayout("t", rows=(), published=(3,))': "published of a table has 3: make it a Published",
    'table=TableLayout("t", rows=(), notes=(3,))': "notes of a table has 3: make it a text",
    'table=TableLayout("t", rows=(), published=(Published("P", {"dev.f1": 0.7}, "T"),))': (
        "the published dev.f1 of P is 0.7: give it as a text"
    ),
    "name=None": "the name of the sweep is None: give it a text",
    'name=""': "the name of the sweep is '': give it a text",
    "grid={3: (1,)}": "grid of the sweep has the key 3: make it a text",
    "variants={3: {}}": "variants of the sweep has the key 3: make it a text",
    'analyses={"inspect": {"pair": 3}}': "the pair of the analysis 'inspect' is 3: make it a pair of texts",
    'analyses={"ensemble": {"split": 3}}': "the split of the analysis 'ensemble' is 3: make it a text",
    "config={}": "the config of the sweep is a dict: begin with default_config()",
    'table=TableLayout("t", rows=("model.blocks"))': "rows of a table is 'model.blocks': make it a tuple, with a comma",
    'table=TableLayout("t", rows=(), scores=("dev.accuracy"))': "scores of a table is 'dev.accuracy': make it a tuple",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_in_a_sweep_file_is_reported_with_its_line(tmp_path, mistake):
    file = tmp_path / "mine.py"
    file.write_text(
        "from ml_collections import ConfigDict\n"
        "from jaxmatch.settings import default_config\n"
        "from jaxmatch.sweep.grid import Sweep\n"
        "from jaxmatch.reporting.tables import Published, TableLayout\n\n"
        "def get_sweep():\n"
        '    given = dict(name="mine", config=default_config(), grid={}, seeds=(0,), table=TableLayout("t", rows=()))\n'
        f"    return Sweep(**{{**given, **dict({mistake})}})\n"
    )
    with pytest.raises(InputError, match=re.escape(f"{file}:8: the file fails with TypeError: {MISTAKES[mistake]}")):
        launch.resolve(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("get_sweep = 3", "get_sweep is 3: make it a function"),
        ("import sys\nsys.exit(0)", "2: the file fails with SystemExit: 0"),
        ("def get_sweep():\n    raise SystemExit(0)", "2: the file fails with SystemExit: 0"),
        (
            "from jaxmatch.settings import default_config, with_overrides\n"
            "def get_sweep():\n    with_overrides(default_config(), {'model.blok': 1})",
            'there is no setting "config.model.blok"; did you mean',
        ),
    ],
)
def test_file_that_fails_to_make_a_sweep_is_an_error_naming_the_file(tmp_path, text, problem):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        launch.resolve(file)
    assert str(caught.value).startswith(f"{file}:") and problem in str(caught.value)


SWEEPS = [file for file in sorted((ROOT / "sweeps").glob("*.py")) if not file.stem.endswith("_timing")]


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_sweeps_load_and_their_runs_resolve(file):
    planned = launch.resolve(file)
    runs = planned.runs()
    assert len(runs) == len({run.identity("data") for run in runs})
    assert set(planned.grid) <= {*planned.table.rows, planned.table.columns}
    assert all(planned.table.scores)


@pytest.mark.parametrize("dataset", sorted(load_module(ROOT / "configs" / "re2.py").DATA_SETS))
def test_grid_sweep_accepts_every_data_set(dataset):
    planned = launch.resolve(ROOT / "sweeps" / "grid.py", options={"dataset": dataset})
    assert planned.config.data.name == dataset
    assert planned.table.scores[0] == f"dev.{planned.config.training.selection}"
    assert len(planned.runs()) == 3 * 2 * 3 * 5


def test_axis_of_data_sets_uses_the_score_that_they_share():
    def selection(names, **changes):
        axis = {"data.name": names}
        return launch.resolve(ROOT / "configs" / "re2_own.py", grid_overrides=axis, **changes).config.training.selection

    assert selection("trecqa,trecqa_clean") == "map" and selection("sick_relatedness,stsb") == "pearson"
    with pytest.raises(InputError, match=r"several scores: map, mrr; name one .*--config.training.selection"):
        selection("wikiqa,trecqa_clean")
    assert selection("wikiqa,trecqa_clean", overrides={"training.selection": "map"}) == "map"


def test_removed_axis_of_data_sets_leaves_the_score_of_the_config(tmp_path):
    file = tmp_path / "two.py"
    file.write_text(
        "from jaxmatch import Sweep, load_config\n\n\ndef get_sweep():\n"
        "    config = load_config('re2', dataset='stsb')\n"
        "    config.training.selection = 'accuracy'\n"
        "    return Sweep(name='two', config=config, grid={'data.name': ('sick', 'rte')})\n"
    )
    assert launch.resolve(file).config.training.selection == "accuracy"
    assert launch.resolve(file, grid_overrides={"data.name": ""}).config.training.selection == "pearson"


def test_table_without_scores_uses_those_of_the_overridden_selection():
    planned = launch.resolve(
        ROOT / "configs" / "re2_own.py", overrides={"data.task": "regression", "training.selection": "pearson"}
    )
    assert planned.table.scores == ("dev.pearson", "test.pearson", "test.spearman")
    named = launch.resolve(ROOT / "sweeps" / "re2_sick.py", overrides={"training.selection": "macro_f1"})
    assert named.table.scores == ("dev.accuracy", "test.accuracy")


def test_group_column_makes_user_data_a_ranking(tmp_path):
    def resolved(**overrides):
        overrides = {key.replace("__", "."): value for key, value in overrides.items()}
        options = {"dataset": "own", "data_directory": str(tmp_path)}
        return launch.resolve(ROOT / "configs" / "re2.py", options=options, overrides=overrides)

    assert resolved().config.training.selection == "accuracy"  # no file yet: the reader will report it
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text_a\ttext_b\tlabel\na\tb\t1\na\tc\t0\n")
    assert resolved().config.training.selection == "accuracy"
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text_a\ttext_b\tlabel\tgroup\na\tb\t1\tq\na\tc\t0\tq\n")
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\n")
    ranking = resolved(data__vectors=str(tmp_path / "v.txt"), execution__cache_directory=str(tmp_path / "cache"))
    assert ranking.config.training.selection == "mrr" and ranking.table.scores == ("dev.mrr", "test.map", "test.mrr")
    assert preparation.prepare(ranking.config).task == "ranking"
    assert resolved(training__selection="accuracy").config.training.selection == "accuracy"
    assert resolved(data__task="classification").config.training.selection == "accuracy"
    assert resolved(data__task="regression").config.training.selection == "pearson"
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text_a\ttext_b\tlabel\na\tb\t1\na\tc\t0\n")
    assert resolved(data__task="ranking").config.training.selection == "mrr"


def test_default_selection_depends_on_the_data_set():
    def selection(**overrides):
        changes = {f"data.{name}" if name == "name" else name: value for name, value in overrides.items()}
        return launch.resolve(
            ROOT / "configs" / "re2.py", options={"dataset": "own"}, overrides=changes
        ).config.training.selection

    assert (
        selection(name="wikiqa") == "mrr"
        and selection(name="stsb") == "pearson"
        and selection(name="rte") == "accuracy"
        and selection(name="embedded_ranking") == "mrr"
    )
    assert selection(**{"name": "wikiqa", "training.selection": "map"}) == "map"

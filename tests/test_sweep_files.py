"""Sweep files: mistakes are reported with their line, and the shipped sweeps fit their data sets and scores."""

import re
from pathlib import Path

import pytest

from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.sweep import launch
from jaxmatch.sweep.plan import make_plan
from jaxmatch.sweep.sweep import with_scores

ROOT = Path(__file__).parent.parent

# A mistake in `Sweep(...)` -> the message about it.
MISTAKES = {
    "seeds=5": "seeds of a Sweep cannot be 5: make it a Iterable[int]",
    'grid={"model.blocks": 3}': "grid of a Sweep cannot be 3: make it a Mapping[str, Iterable[Any]]",
    'analyses={"ensembles": {}}': "the sweep asks for 'ensembles': the analyses and their options are {'ensemble': ",
    'variants={"a": "model.blocks"}': "variants of a Sweep cannot be 'model.blocks': make it a Mapping[str, Mapping",
    "config=ConfigDict()": (
        "the config of the sweep lacks data, execution, model, optimizer, training: begin with default_config()"
    ),
    "table=TableLayout(title=3, rows=())": "title of a TableLayout cannot be 3: make it a str",
    'table=TableLayout("t", rows=(), published=(Published("P", {"dev.f1": 0.7}, "T"),))': (
        "scores of a Published cannot be 0.7: make it a Mapping[str, str]"
    ),
    'table=TableLayout("t", rows=("model.blocks"))': (
        "rows of a TableLayout cannot be 'model.blocks': make it a tuple[str, ...]"
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_in_a_sweep_file_is_reported_with_its_line(tmp_path, mistake):
    file = tmp_path / "mine.py"
    file.write_text(
        "from ml_collections import ConfigDict\n"
        "from jaxmatch.config.settings import default_config\n"
        "from jaxmatch.sweep.sweep import Sweep\n"
        "from jaxmatch.reporting.layout import Published, TableLayout\n\n"
        "def get_sweep():\n"
        '    given = dict(name="mine", config=default_config(), grid={}, seeds=(0,), table=TableLayout("t", rows=()))\n'
        f"    return Sweep(**{{**given, **dict({mistake})}})\n"
    )
    with pytest.raises(InputError, match=re.escape(f"{file}:8: the file fails with TypeError: {MISTAKES[mistake]}")):
        launch.resolve(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("get_sweep = 3", "the file has no get_sweep(); define one that returns a Sweep"),
        ("import sys\nsys.exit(0)", "2: the file fails with SystemExit: 0"),
        ("def get_sweep():\n    raise SystemExit(0)", "2: the file fails with SystemExit: 0"),
        (
            "from jaxmatch.config.settings import default_config, with_overrides\n"
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
    assert set(planned.grid) <= set(planned.table.rows)


@pytest.mark.parametrize(
    ("columns", "rows", "settings", "selection"),
    [
        ("label", "1", {}, "accuracy"),
        ("label\tgroup", "1\tq", {}, "mrr"),
        ("label", "1.5", {"data.task": "regression"}, "pearson"),
        ("label\tgroup", "1\tq", {"data.task": "classification"}, "accuracy"),
        ("label\tgroup", "1\tq", {"training.selection": "accuracy"}, "accuracy"),
        ("label\tgroup", "1\tq", {"training.selection": ""}, "mrr"),
    ],
)
def test_score_of_own_data_is_that_of_its_task(tmp_path, columns, rows, settings, selection):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(
            f"text_a\ttext_b\t{columns}\na\tb\t{rows}\na\tc\t{rows.replace('1', '0')}\n"
        )
    options = {"dataset": "own", "data_directory": str(tmp_path), "vectors": "hashed"}
    small = {"model.blocks": 1, "model.encoder_layers": 1, "model.hidden_size": 8}
    settings = {"execution.cache_directory": str(tmp_path / "cache"), **small, **settings}
    plan = make_plan(launch.resolve(ROOT / "configs" / "re2.py", options=options, overrides=settings))
    ((run, _),) = plan.runs.values()
    assert run.config.training.selection == selection


def test_a_table_without_scores_shows_those_of_its_runs():
    def shown(scores, *selections, **training):
        settings = {f"training.{name}": value for name, value in training.items()}
        configs = [
            with_overrides(default_config(), {"training.selection": selection, **settings}) for selection in selections
        ]
        return with_scores(TableLayout("t", rows=(), scores=scores), configs).scores

    assert shown((), "pearson") == ("dev.pearson", "test.pearson", "test.spearman")
    assert shown((), "mrr", "map", "mrr") == ("dev.mrr", "test.map", "test.mrr", "dev.map")
    assert shown(("times.train_seconds",), "loss") == ("dev.loss", "test.loss", "times.train_seconds")
    assert shown(("dev.accuracy",), "macro_f1") == ("dev.accuracy",)
    assert shown(("dev.auc",), "f1", best_on_test=True) == ("dev.auc", "best_on_test.f1")
    assert shown((), "auc", best_on_test=True) == ("dev.auc", "test.auc", "best_on_test.auc")

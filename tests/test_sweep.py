"""Sweeps: the runs of a grid, the identity of a run, and changes from the command line."""

import itertools
import re
from pathlib import Path

import pytest

from jaxmatch.config.settings import default_config, flatten, with_overrides
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.sweep import launch
from jaxmatch.sweep.plan import make_plan
from jaxmatch.sweep.sweep import Run, Sweep, with_scores

ROOT = Path(__file__).parent.parent
LAYOUT = TableLayout(title="", rows=())


def a_sweep(grid=None, seeds=(0,), variants=None, config=None) -> Sweep:
    return Sweep("s", config or default_config(), grid or {}, seeds, LAYOUT, variants or {})


def a_run(seed=0, **overrides) -> Run:
    settings = {key.replace("__", "."): value for key, value in overrides.items()}
    return Run(with_overrides(default_config(), settings), seed, {}, "")


def test_grid_order_varies_seeds_fastest_and_then_the_last_axis():
    runs = a_sweep({"model.blocks": (1, 2), "optimizer.learning_rate": (0.1, 0.2)}, seeds=(7, 3)).runs()
    found = [(*run.overrides.values(), run.seed) for run in runs]
    assert found == list(itertools.product((1, 2), (0.1, 0.2), (7, 3)))
    for run in runs:
        assert {key: flatten(run.config)[key] for key in run.overrides} == run.overrides


def test_every_variant_meets_the_whole_grid():
    variants = {"full": {}, "w/o enc-in": {"model.encoder_input": False}}
    runs = a_sweep({"model.blocks": (1, 2)}, variants=variants).runs()
    found = [(run.variant, run.config.model.encoder_input, run.config.model.blocks) for run in runs]
    assert found == [("full", True, 1), ("full", True, 2), ("w/o enc-in", False, 1), ("w/o enc-in", False, 2)]
    assert all(list(run.overrides) == ["model.blocks"] for run in runs)


def test_grid_values_override_those_of_a_variant():
    runs = a_sweep({"model.blocks": (1, 2)}, variants={"deep": {"model.blocks": 5}}).runs()
    assert [run.config.model.blocks for run in runs] == [1, 2]


def test_table_notes_grid_axes_that_override_a_variant():
    planned = a_sweep({"model.blocks": (1, 3)}, variants={"plain": {}, "deep": {"model.blocks": 2}})
    (note,) = launch.changed(launch.changed(planned)).table.notes  # a launch calls `changed` twice
    assert note == "model.blocks is an axis of the grid, whose values stand in place of that of deep"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"seeds": ()}, "seeds of the sweep s has no values"),
        ({"seeds": (1, 2, 1)}, "seeds of the sweep s has a value twice"),
        ({"seeds": (2**32,)}, "seed 4294967296 cannot"),
        ({"grid": {"model.blocks": (1, 2, 1)}}, "value twice"),
        ({"grid": {"model.block": (1, 2)}}, 'did you mean "model.blocks"'),
        ({"grid": {"model.blocks": (1, "many")}}, "model.blocks is 'many'"),
        ({"variants": {"odd": {"model.kernel_size": 2}}}, "kernel_size"),
    ],
)
def test_invalid_grids_seeds_and_variants_are_refused(arguments, problem):
    with pytest.raises(InputError, match=problem):
        a_sweep(**arguments).runs()


@pytest.mark.parametrize(
    ("key", "value", "same_signature", "same_identity"),
    [
        ("data.directory", "/elsewhere", True, True),
        ("execution.checkpoint_seconds", 1.0, True, True),
        ("execution.cache_directory", "/elsewhere", True, True),
        ("execution.evaluation_batch_size", 7, True, True),
        ("optimizer.learning_rate", 0.5, True, False),
        ("optimizer.dropout_rate", 0.5, True, False),
        ("model.blocks", 3, False, False),
        ("model.precision", "bfloat16", False, False),
        ("training.batch_size", 7, False, False),
        ("training.patience_samples", 7, False, False),
        ("training.selection", "f1", False, False),
        ("data.drop_from_length", 100, False, False),
    ],
)
def test_settings_that_change_the_signature_and_the_identity_of_a_run(key, value, same_signature, same_identity):
    one, two = a_run(), a_run(**{key.replace(".", "__"): value})
    assert (one.signature("data") == two.signature("data")) is same_signature
    assert (one.identity("data") == two.identity("data")) is same_identity


def test_identity_and_signature_are_stable_across_versions():
    """Otherwise a folder that an earlier version began would be trained again."""
    run = a_run(training__selection="accuracy")
    assert (run.identity("data"), run.signature("data")) == ("4f43ca479381-seed0", "e8ede497d63c")


def test_seed_changes_the_identity_and_data_the_signature_too():
    assert a_run(0).signature("data") == a_run(1).signature("data") != a_run(0).signature("other")
    assert len({a_run(0).identity("data"), a_run(1).identity("data"), a_run(0).identity("other")}) == 3


def test_identity_does_not_depend_on_where_a_setting_comes_from():
    (by_grid,) = a_sweep({"optimizer.learning_rate": (0.5,), "model.blocks": ("3",)}).runs()
    by_config = a_run(model__blocks=3, optimizer__learning_rate="0.5")
    assert by_grid.identity("data") == by_config.identity("data")
    assert by_grid.signature("data") == by_config.signature("data")


@pytest.mark.parametrize(
    ("file_seeds", "requested", "seeds"),
    [((0, 1, 2), None, (0, 1, 2)), ((0, 1, 2), 2, (0, 1)), ((4, 2), 4, (4, 2, 5, 6)), ((), 2, (0, 1))],
)
def test_requested_seeds_extend_or_truncate_those_of_the_file(file_seeds, requested, seeds):
    assert tuple(launch.changed(a_sweep(seeds=file_seeds), seeds=requested).seeds) == seeds


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,3", (1, 2, 3)),
        ("full,simple", ("full", "simple")),
        ("3,(1,3)", (3, (1, 3))),
        ("True,False", (True, False)),
    ],
)
def test_a_grid_axis_is_read_from_a_command_line(text, values):
    key = {"full,simple": "model.fusion", "True,False": "model.encoder_input"}.get(text, "model.blocks")
    assert tuple(launch.changed(a_sweep(), grid_overrides={key: text}).grid[key]) == values


def test_an_override_of_a_grid_axis_is_refused():
    with pytest.raises(InputError, match=r"config.model.blocks is an axis.*--grid.model.blocks="):
        launch.changed(a_sweep({"model.blocks": (1, 2)}), overrides={"model.blocks": "3"})
    with pytest.raises(InputError, match=r"config.model.blocks is an axis"):
        launch.changed(a_sweep(), overrides={"model.blocks": "3"}, grid_overrides={"model.blocks": "1,2"})


def test_table_notes_settings_changed_from_the_file():
    overrides = {"training.epochs": "3", "training.batch_size": "128", "data.vectors": "some.txt"}
    planned = launch.changed(a_sweep(), overrides=overrides)
    assert planned.table.notes == ("Settings changed from the file's: training.epochs=3",)  # the file has 128, too
    assert launch.changed(a_sweep()).table.notes == ()


def test_an_empty_value_removes_an_axis(tmp_path):
    changes = {"model.blocks": "", "model.encoder_layers": " ", "optimizer.learning_rate": "0.01"}
    planned = launch.resolve(ROOT / "sweeps" / "grid.py", grid_overrides=changes)
    assert dict(planned.grid) == {"optimizer.learning_rate": (0.01,)}
    assert planned.table.rows == ("optimizer.learning_rate",)
    # Another model has other axes.
    changes = {"model.blocks": "", "model.encoder_layers": "", "model.head_size": "8,16"}
    planned = launch.resolve(
        ROOT / "sweeps" / "grid.py", overrides={"model.name": "siamese"}, grid_overrides=changes, seeds=1
    )
    sizes = {run.config.model.head_size for run in planned.runs()}
    assert sizes == {8, 16} and {run.config.model.name for run in planned.runs()} == {"siamese"}
    with pytest.raises(InputError, match="model.hidden_size is not an axis of this sweep's grid"):
        launch.resolve(ROOT / "sweeps" / "grid.py", grid_overrides={"model.hidden_size": ""})


def test_published_scores_chosen_on_test_are_shown_under_best_on_test():
    rows = (
        Published("a", {"test.accuracy": "88.9"}, "", chosen_on_test=True),
        Published("b", {"test.accuracy": "80.0"}, ""),
    )
    layout = TableLayout("t", (), scores=("dev.accuracy", "test.accuracy"), published=rows)
    table = with_scores(layout, [with_overrides(default_config(), {"training.best_on_test": True})])
    assert [dict(row.scores) for row in table.published] == [
        {"test.accuracy": "88.9", "best_on_test.accuracy": "88.9"},
        {"test.accuracy": "80.0"},
    ]
    assert with_scores(layout, [default_config()]).published == rows


# --- sweep files


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

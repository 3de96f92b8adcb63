"""Optuna's suggestions are taken in batches that share a program, and do not depend on interruptions."""

import json
import sys

import pytest
import small_sweep
from small_sweep import space

from jaxmatch.cli.main import main
from jaxmatch.config.settings import default_config
from jaxmatch.errors import InputError
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import launch, tune
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.sweep.tune import space_of
from jaxmatch.workdir import Workdir

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'jaxmatch[optuna]'")
CategoricalDistribution, FloatDistribution, IntDistribution = (
    getattr(optuna.distributions, f"{kind}Distribution") for kind in ("Categorical", "Float", "Int")
)
RATES, BLOCKS = {"optimizer.learning_rate": "log:1e-4:1e-1"}, {"model.blocks": "1:4"}


def suggested(searched, at_once=3, trials=8):
    """Returns the parameters of all trials of a study, whose scores follow from them."""
    study, params = tune.Study(searched, at_once), []
    while len(params) < trials:
        for trial, _ in study.batch(trials):
            params.append(trial.params)
            rate = trial.params.get("optimizer.learning_rate", 1.0)
            study.tell(trial, None if rate > 0.05 else rate * trial.params.get("model.blocks", 1))
    return params


def test_a_batch_shares_all_settings_but_the_traced_ones():
    params = suggested(space(RATES | BLOCKS), at_once=4, trials=24)
    assert len(params) == 24 and len({param["optimizer.learning_rate"] for param in params}) == 24
    batches = [[param["model.blocks"] for param in params[start : start + 4]] for start in range(0, 24, 4)]
    assert all(len(set(batch)) == 1 for batch in batches) and len({batch[0] for batch in batches}) > 1
    # It learns: a higher rate, below the one at which it diverges, is better.
    early, late = (sum(param["optimizer.learning_rate"] for param in half) for half in (params[:12], params[12:]))
    assert late > early
    # A search that is resumed gets the same trials.
    assert suggested(space(RATES | BLOCKS), at_once=4, trials=24) == params


def test_suggested_integers_are_the_steps_of_their_range():
    params = suggested(space(RATES | {"model.hidden_size": "8:40:16"}), at_once=1, trials=12)
    assert {param["model.hidden_size"] for param in params} == {8, 24, 40}


SEARCHED = {"optimizer.learning_rate": "log:1e-3:1e-1", "model.encoder_layers": "1:2"}


def tuned(files, workdir, watcher=None, **arguments):
    watcher = watcher or small_sweep.Watcher()
    arguments = {"trials": 4, "trials_at_once": 2, "final_seeds": 1, "space": SEARCHED} | arguments
    changes = small_sweep.overrides(files) | {"training.epochs": "1"}
    text = tune.tune(files / "small.py", workdir=workdir, seeds=2, display=watcher, overrides=changes, **arguments)
    return text, watcher


@pytest.fixture(scope="module")
def finished_tuning(small_files, tmp_path_factory):
    """The tables, the watcher and the folder of a tuning."""
    workdir = tmp_path_factory.mktemp("trials")
    return *tuned(small_files, workdir), workdir


@pytest.mark.slow
def test_trials_of_a_batch_train_as_one_program(finished_tuning):
    text, watcher, workdir = finished_tuning
    cohorts = Workdir(workdir).cohorts()
    # Four trials of two seeds: one program a batch, or one for both.
    assert [len(runs) for runs in watcher.trained] == [4, 4, 1]
    assert len({cohort.signature for cohort in cohorts}) <= 2 and len(cohorts) == 2
    records = small_sweep.records(workdir)
    means = {}
    for record in records.values():
        means.setdefault(record["overrides"]["optimizer.learning_rate"], []).append(record["dev"]["accuracy"])
    choice = json.loads((workdir / "choice.json").read_text())
    best = max(means, key=lambda rate: sum(means[rate]))
    assert sum(means[best]) == pytest.approx(2 * choice["mean"]) and choice["candidates"] == len(means) == 4
    (final,) = small_sweep.records(workdir / "final").values()
    assert final["seed"] == 2 and final["config"]["optimizer"]["learning_rate"] in means
    assert final["config"]["model"]["encoder_layers"] == choice["overrides"]["model.encoder_layers"]
    whole = folder_table(workdir / "final")
    assert "among 4 settings" in whole and "A small sweep: the chosen setting" in whole


@pytest.mark.slow
def test_a_killed_tuning_resumes_with_the_same_result(small_files, finished_tuning, tmp_path):
    with pytest.raises(small_sweep.Stop):
        tuned(small_files, tmp_path, watcher=small_sweep.StopAt("evaluated", 2))
    for left in ([4, 1], []):  # the second time, nothing is left to train
        text, watcher = tuned(small_files, tmp_path)
        assert [len(runs) for runs in watcher.trained] == left and text == finished_tuning[0]
        assert small_sweep.results(tmp_path) == small_sweep.results(finished_tuning[2])


def test_a_dry_run_shows_the_first_batch_and_writes_nothing(small_files, tmp_path):
    _, watcher = tuned(small_files, tmp_path / "work", dry_run=True)
    assert "4 runs (0 on record); remaining: 1 program, 1 cohort" in watcher.text and not (tmp_path / "work").exists()
    assert "then the chosen setting with 1 seed, which these numbers leave out" in watcher.text


def test_incompatible_settings_are_pruned_and_not_trained(small_files, tmp_path, monkeypatch):
    """A hidden size that cannot be divided among the kernel sizes is never trained."""
    launches = []

    def run(sweep, *_, **__):
        launches.append(sweep.runs())
        return [
            {"status": "finished", "selected_on": "dev.accuracy", "dev": {"accuracy": 0.5}, "overrides": run.overrides}
            for run in sweep.runs()
        ]

    monkeypatch.setattr(launch, "run", run)
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    given = {"model.hidden_size": "8,9", "model.kernel_size": "3,(1,3)", "optimizer.learning_rate": ""}
    searched = space_of(planned, given)
    records = tune.search(searched, tmp_path, small_sweep.Watcher(), trials=12, at_once=4)
    trained = {
        (record["overrides"]["model.hidden_size"], record["overrides"]["model.kernel_size"]) for record in records
    }
    assert trained == {(8, 3), (8, (1, 3)), (9, 3)}
    # A setting that is suggested twice is trained once.
    assert [len(runs) for runs in launches[-1:]] == [3]


def test_a_loss_is_minimized_and_a_setting_with_a_diverged_seed_has_no_mean(small_files, tmp_path, monkeypatch):
    def record(run):
        rate = run.overrides["optimizer.learning_rate"]
        finished = run.seed == 0 or rate > 0.01
        scores = {"status": "finished", "dev": {"loss": rate * (1 + run.seed)}}
        scores = scores if finished else {"status": "diverged", "dev": None}
        return {"selected_on": "dev.loss", "overrides": run.overrides} | scores

    monkeypatch.setattr(launch, "run", lambda sweep, *_, **__: [record(run) for run in sweep.runs()])
    studies, create = [], optuna.create_study
    monkeypatch.setattr(optuna, "create_study", lambda **options: studies.append(create(**options)) or studies[-1])
    changes = small_sweep.overrides(small_files) | {"training.selection": "loss"}
    planned = launch.resolve(small_files / "small.py", seeds=2, overrides=changes)
    searched = space_of(planned, {"optimizer.learning_rate": "log:1e-3:1e-1"})
    tune.search(searched, tmp_path, small_sweep.Watcher(), trials=6, at_once=3)
    (study,) = studies
    found = {trial.params["optimizer.learning_rate"]: (trial.state.name, trial.value) for trial in study.trials}
    assert {rate < 0.01 for rate in found} == {True, False}
    for rate, (state, value) in found.items():
        assert (state, value) == (
            ("PRUNED", None) if rate < 0.01 else ("COMPLETE", pytest.approx(1.5 * rate, rel=1e-3))
        )
    assert study.best_trial.params["optimizer.learning_rate"] == min(rate for rate in found if rate > 0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--space.model.blocks=1:3",), "--space.model.blocks needs --optuna TRIALS"),
        (("--optuna=3", "--halving"), "argument --halving: not allowed with argument --optuna; see jaxmatch tune"),
        (
            ("--optuna=3", "--grid.model.blocks=1,2", "--space.model.blocks=1:3"),
            "--grid.model.blocks and --space.model.blocks cannot be combined; give one of them",
        ),
        (("--optuna=3", "--space.model.blocks=3:1"), "'3:1' is not a range of model.blocks: "),
        (("--optuna=3", "--config.data.directory=nowhere"), "nowhere: "),
    ],
)
def test_invalid_options_are_reported_in_one_line(small_files, tmp_path, capsys, words, message):
    assert main(["tune", *small_sweep.command(small_files, tmp_path / "runs")[1:], *words]) == 2
    output, errors = capsys.readouterr()
    assert not output and errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1, errors
    assert not (tmp_path / "runs").exists()


def test_missing_optuna_is_reported_with_an_install_command(small_files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", *small_sweep.command(small_files, tmp_path / "runs", "--optuna", "3")[1:]]) == 2
    message = "jaxmatch: --optuna needs Optuna, which is not installed; pip install 'jaxmatch[optuna]'\n"
    assert capsys.readouterr().err == message and not (tmp_path / "runs").exists()


# --- the space


def test_search_space_combines_the_sweep_file_and_the_command_line():
    found = space(
        {"model.blocks": "1:3", "model.hidden_size": "30:100:20", "optimizer.dropout_rate": "0.8,0.9"},
        grid={"model.blocks": (1, 2), "model.kernel_size": (3, (1, 3))},
        space={"optimizer.learning_rate": "log:1e-4:1e-2"},
        seeds=(0, 1),
    )
    assert found.distributions == {
        "model.kernel_size": CategoricalDistribution(("3", "(1, 3)")),
        "optimizer.dropout_rate": CategoricalDistribution(("0.8", "0.9")),
        "optimizer.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
        "model.blocks": IntDistribution(1, 3),
        "model.hidden_size": IntDistribution(30, 90, step=20),
    }
    chosen = {
        "model.kernel_size": "(1, 3)",
        "optimizer.dropout_rate": "0.8",
        "model.blocks": 2,
        "model.hidden_size": 50,
    }
    place = found.place(chosen | {"optimizer.learning_rate": 0.001})
    assert place["model.kernel_size"] == (1, 3) and place["model.hidden_size"] == 50
    runs = found.points([place]).runs()
    assert [(run.seed, run.config.model.blocks, run.overrides) for run in runs] == [(0, 2, place), (1, 2, place)]
    assert set(found.sweep.table.rows) == place.keys() and not found.sweep.grid


def test_values_are_rounded_to_four_digits_and_stay_in_range():
    found = space({"optimizer.learning_rate": "log:0.00012345:0.0012345", "model.blocks": "1:3"})
    rates = [
        found.place({"optimizer.learning_rate": rate, "model.blocks": 3})["optimizer.learning_rate"]
        for rate in (0.00012345, 0.000456789, 0.0012345)
    ]
    assert rates == [0.00012345, 0.0004568, 0.001234]


def test_settings_with_an_empty_value_are_not_searched():
    file = {"grid": {"model.blocks": (1, 2)}, "space": {"optimizer.learning_rate": "0.1:0.2"}}
    assert list(space({"model.blocks": ""}, **file).distributions) == ["optimizer.learning_rate"]
    left = space({"optimizer.learning_rate": ""}, **file)
    assert left.distributions == {"model.blocks": CategoricalDistribution(("1", "2"))}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("model.blocks", "1:2.5", "'1:2.5' is not a range of model.blocks: "),
        ("model.blocks", "3:1", "; write it like 1:3, 8:64:8"),
        ("optimizer.learning_rate", "log:0:1", "'log:0:1' is not a range"),
        ("optimizer.learning_rate", "0.1:inf", "optimizer.learning_rate is inf; give a finite number"),
        ("optimizer.learning_rat", "0.1:0.2", 'there is no setting "config.optimizer.learning_rat"; did you mean'),
        ("model.fusion", "a:b", "'a:b' is not a range of model.fusion: it has no numbers; give choices: a,b"),
        ("optimizer.dropout_rate", "", "optimizer.dropout_rate is not an axis of this sweep's grid"),
        ("data.name", "sick,snli", "the settings of this grid differ in data.name"),
    ],
)
def test_invalid_search_space_is_refused(name, text, problem):
    with pytest.raises(InputError) as error:
        space({name: text})
    assert problem in str(error.value)


def test_overrides_that_would_not_reach_all_trials_are_refused():
    rates = {"optimizer.learning_rate": "log:1e-4:1e-1"}
    sweep = Sweep("s", default_config(), space=rates)
    with pytest.raises(InputError, match="config.optimizer.learning_rate is an axis of"):
        space_of(sweep, {}, {"optimizer.learning_rate": "0.01"})
    models = {"model.name": "re2,esan"}
    with pytest.raises(InputError, match="config.model.precision would not reach all models of"):
        space_of(sweep, models, {"model.precision": "bfloat16"})
    assert space_of(sweep, models, {"training.epochs": "2"}).distributions.keys() >= {"model.name"}


def test_empty_space_and_variants_are_refused():
    with pytest.raises(InputError, match="there is nothing to search; give a space: --space"):
        space({})
    with pytest.raises(InputError, match="a sweep with variants cannot be searched"):
        space({"optimizer.learning_rate": "log:1e-4:1e-1"}, variants={"a": {}})

"""Tuning chooses a setting on dev and reports it with seeds that were not used for the choice."""

import json

import pytest
import small_sweep
from small_records import tried
from small_sweep import DIVERGING

from jaxmatch.cli.main import main
from jaxmatch.config.settings import default_config, flatten
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import Published, TableLayout
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import tune
from jaxmatch.sweep.sweep import Sweep, with_scores


def test_the_setting_with_the_best_mean_on_dev_is_chosen():
    choice = tune.choose(
        [
            tried(0.1, 0, dev=0.90, test=0.9),
            tried(0.1, 1, dev=0.60, test=0.9),  # the best single seed, and best on test
            tried(0.2, 0, dev=0.79, test=0.1),
            tried(0.2, 1, dev=0.81, test=0.1),
            tried(0.3, 0, dev=0.70, test=0.2),
            tried(0.3, 1, dev=0.71, test=0.2),
        ]
    )
    assert choice.overrides == {"optimizer.learning_rate": 0.2} and choice.mean == pytest.approx(0.8)
    assert (choice.candidates, choice.diverged, choice.seeds) == (3, 0, (0, 1))
    assert choice.note().startswith(
        "Chosen by dev accuracy, 80.0 in the mean of 2 seeds, among 3 settings: learning rate 0.2;"
    )


def test_a_setting_with_a_diverged_seed_is_not_chosen():
    diverged = tried(0.1, 1, dev=None, status="diverged")
    records = [tried(0.1, 0, dev=0.9), diverged, tried(0.2, 0, dev=0.5), tried(0.2, 1, dev=0.5)]
    choice = tune.choose(records)
    assert choice.overrides == {"optimizer.learning_rate": 0.2} and choice.diverged == 1
    assert "among 2 settings, 1 of which diverged" in choice.note()
    # A run that diverged late still has the scores of its best checkpoint.
    late = [tried(0.1, 0, dev=0.9, status="diverged"), tried(0.2, 0, dev=0.5)]
    assert tune.choose(late).overrides == {"optimizer.learning_rate": 0.2}
    dropped = [tried(0.3, seed, dev=0.4, status="dropped") for seed in (0, 1)]
    with pytest.raises(
        InputError, match=r"every setting of this grid has a diverged run, or was dropped \(1 of 2\); try"
    ):
        tune.choose([*dropped, *records[:2]])


def test_the_smallest_loss_is_chosen():
    losses = [tried(0.3, 0, dev=0.5, selected_on="dev.loss"), tried(0.1, 0, dev=0.4, selected_on="dev.loss")]
    assert tune.choose(losses).overrides == {"optimizer.learning_rate": 0.1}


def test_records_with_different_selection_or_data_are_an_error():
    with pytest.raises(InputError, match=r"differ in training.selection \(dev.accuracy, dev.loss\)"):
        tune.choose([tried(0.1, 0, 0.5), tried(0.2, 0, 0.5, selected_on="dev.loss")])
    with pytest.raises(InputError, match=r"differ in data \(sick \(1\), sick \(2\)\)"):
        tune.choose([tried(0.1, 0, 0.5), tried(0.2, 0, 0.5, data="sick-changed")])


def test_the_final_sweep_trains_the_chosen_setting_with_new_seeds():
    published = (Published("P", {"test.accuracy": "88"}, "Table 1"),)
    layout = TableLayout("t", ("variant",), published=published, original={"variant": "a"})
    variants = {"a": {}, "b": {"model.blocks": 3}}
    planned = Sweep("s", default_config(), {"optimizer.learning_rate": (0.1, 0.2)}, (0, 4), layout, variants)
    choice = tune.Choice("b", {"optimizer.learning_rate": 0.2}, "dev.accuracy", 0.8, (0, 4), 4, 0)
    final = tune.final_sweep(planned, choice, 3)
    runs = final.runs()
    found = [(run.seed, run.variant, run.config.model.blocks, run.config.optimizer.learning_rate) for run in runs]
    assert found == [(seed, "b", 3, 0.2) for seed in (5, 6, 7)]
    assert final.table.rows == ("variant",) and final.table.published == published
    assert not final.table.original


def test_the_final_config_equals_the_chosen_run_if_a_variant_sets_a_grid_key():
    variants = {"a": {"model.name": "esan", "optimizer.learning_rate": 0.5}, "b": {"optimizer.learning_rate": 0.3}}
    grid = {"optimizer.learning_rate": (0.1, 0.2), "model.hidden_size": (8, 16)}
    planned = Sweep("s", default_config(), grid, (0,), TableLayout("t", ()), variants)
    for variant in variants:
        for run in planned.runs():
            if run.variant == variant:
                choice = tune.Choice(variant, run.overrides, "dev.accuracy", 0.8, (0,), 8, 0)
                (final,) = tune.final_sweep(planned, choice, 1).runs()
                assert flatten(final.config) == flatten(run.config)


def test_a_published_result_is_kept_for_any_chosen_setting():
    published_settings = {"model.name": "re2", "data.name": "snli", "model.blocks": 2, "seeds": 10}
    published = (Published("P", {"test.accuracy": "88"}, "Table 1", published_settings, 10, chosen_on_test=True),)
    layout = TableLayout("t", (), scores=("test.accuracy",), published=published)
    planned = Sweep("s", default_config(), {"model.blocks": (1, 3)}, (0,), layout)
    final = tune.final_sweep(
        planned, tune.Choice("", {"model.blocks": 3}, "dev.accuracy", 0.8, (0,), 2, 0), 2, on_test=True
    )
    table = with_scores(final.table, [run.config for run in final.runs()])
    (row,) = table.published
    assert row.settings == {"model.name": "re2", "data.name": "snli", "seeds": 10}
    # The published score was chosen on test, so it is also beside our score that is chosen on test.
    assert final.config.training.best_on_test and "best_on_test.accuracy" in table.scores
    assert row.scores == {"test.accuracy": "88", "best_on_test.accuracy": "88"}
    without = tune.final_sweep(planned, tune.Choice("", {"model.blocks": 3}, "dev.accuracy", 0.8, (0,), 2, 0), 2)
    assert not without.config.training.best_on_test


def tuned(files, workdir, **arguments):
    watcher = small_sweep.Watcher()
    text = tune.tune(
        files / "small.py", workdir=workdir, display=watcher, overrides=small_sweep.overrides(files), **arguments
    )
    return text, watcher


@pytest.mark.slow
def test_tuning_trains_the_grid_then_the_final_sweep_and_resumes(small_files, tmp_path):
    text, watcher = tuned(small_files, tmp_path / "work", dry_run=True)
    assert text == "" and not (tmp_path / "work").exists() and "2 runs (0 on record)" in watcher.text
    text, watcher = tuned(small_files, tmp_path / "work", final_seeds=2)
    assert [len(runs) for runs in watcher.trained] == [2, 2]
    choice = json.loads((tmp_path / "work" / "choice.json").read_text())
    assert choice["overrides"] == {"optimizer.learning_rate": 0.01} and DIVERGING not in choice["overrides"].values()
    final = small_sweep.records(tmp_path / "work" / "final")
    assert {record["seed"] for record in final.values()} == {1, 2}
    assert {record["config"]["optimizer"]["learning_rate"] for record in final.values()} == {0.01}
    grid, chosen = folder_table(tmp_path / "work"), folder_table(tmp_path / "work" / "final")
    assert text == "\n".join(each.partition("\n---\n")[0] for each in (grid, chosen))
    assert "A small sweep: the chosen setting" in chosen
    assert "among 2 settings, 1 of which diverged: learning" in chosen.replace("\\", "")
    # The same command again trains nothing and prints the same tables.
    again, watcher = tuned(small_files, tmp_path / "work", final_seeds=2)
    assert (again, watcher.trained) == (text, [])


def test_the_command_passes_its_options_to_tune(monkeypatch, capsys, tmp_path):
    calls = []

    def note(file, **arguments):
        calls.append((file.name, arguments))
        return "tables"

    monkeypatch.setattr(tune, "tune", note)
    monkeypatch.setattr("jaxmatch.reporting.verdict.verdict_lines", lambda folder: [folder.name])
    words = "tune a.py --seeds 3 --final-seeds 4 --dataset sick --smoke --halving --eta 2 --rungs 1,10 --workdir"
    assert main([*words.split(), str(tmp_path)]) == 0
    assert capsys.readouterr() == ("tables", "\nfinal\n")
    ((name, arguments),) = calls
    assert name == "a.py" and arguments["options"] == {"dataset": "sick"}
    given = {"seeds": 3, "final_seeds": 4, "smoke": True, "halve": True, "eta": 2, "rungs": (1, 10)}
    assert given.items() <= arguments.items()

"""The launchers of the papers' tables: their runs, the published scores, and the match between the two."""

import re
import shutil
import subprocess

import pytest
from paper_sweeps import SWEEPS, chosen_by, resolved, shown

from jaxmatch.cli.main import main
from jaxmatch.config.settings import flatten
from jaxmatch.errors import InputError
from jaxmatch.papers import csran, re2
from jaxmatch.sweep import launch, timing_plan

PAPER_SWEEPS = """
    re2_main re2_ensemble re2_ablation re2_robustness re2_occlusion re2_attention
    esan_main esan_ablation csran_main csran_ablation csran_depth
""".split()


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_papers_runs_existing_sweeps_with_the_expected_options():
    given = "--data-directory D --vectors V --on ray --dry-run"
    text = subprocess.run(
        ["make", "--dry-run", "papers", f"ARGUMENTS={given}"],
        cwd=SWEEPS.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    requested = re.search(r"for each in ([^;]+);", text).group(1).split()
    assert len(requested) == len(set(requested)) == 36
    assert {each.partition("/")[0] for each in requested} == {*PAPER_SWEEPS, "comparison", "re2_timing", "esan_timing"}
    for sweep, dataset in (each.split("/") for each in requested):
        if sweep.endswith("_timing"):
            planned = timing_plan.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset})
        else:
            options = {"setting": "released_tensorflow"} if sweep.startswith("re2") else {}
            planned = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, **options})
        assert planned.config.data.name == {"trecqa": "trecqa_all_clean"}.get(dataset, dataset)
        if sweep.startswith(("esan_main", "esan_ablation", "csran")):
            assert planned.config.model.characters != "none"
    assert re.search(r"\*_timing/\*\) set -- timing --data-directory=D --dry-run;;", text)
    code = "--setting released_tensorflow"
    assert f"re2_*) set -- sweep --seeds 10 {code} --floors all {given};;" in text
    assert f"re2_attention/*) set -- sweep {code} {given};;" in text
    assert f"comparison/*) set -- sweep --seeds 10 --models all {given};;" in text
    assert f"*) set -- sweep --seeds 10 --floors all {given};;" in text


@pytest.mark.parametrize("dataset", re2.DATA_SETS)
@pytest.mark.parametrize(("sweep", "variants"), [("re2_main", 1), ("re2_ablation", 7), ("re2_robustness", 9)])
def test_re2_launchers_plan_distinct_runs_for_every_data_set(sweep, variants, dataset):
    planned = resolved(sweep, dataset)
    assert planned.config.data.name == dataset
    runs = planned.runs()
    assert len(runs) == variants * 10
    assert len({run.identity("data") for run in runs}) == len(runs)
    # Each variant has a separate program, which its seeds share.
    assert len({run.signature("data") for run in runs}) == variants
    assert all(score.split(".")[1] in ("accuracy", "mrr", "map") for score in shown(planned).scores)
    assert shown(planned).scores[0] == f"dev.{chosen_by(planned)}"


@pytest.mark.parametrize("sweep", ["re2_main", "esan_main", "csran_depth"])
def test_an_unknown_data_set_is_reported_in_one_line(sweep, capsys):
    assert main(["sweep", str(SWEEPS / f"{sweep}.py"), "--dataset", "wikiqaa"]) == 2
    err = capsys.readouterr().err
    meant = 'did you mean "wikiqa"' if sweep.startswith("re2") else "known: "
    assert err.startswith(f'jaxmatch: there is no data set "wikiqaa" in this sweep; {meant}') and err.count("\n") == 1


def alternatives(dataset):
    runs = {run.variant: run.config.model for run in resolved("re2_ablation", dataset, seeds=1).runs()}
    return {
        name: (runs[name].alignment, runs[name].prediction)
        for name in ("original", "alignment alt.", "prediction alt.")
    }


def test_ablation_alternatives_match_the_paper_for_each_data_set():
    # "On SciTail F is an identity function while on all others it is a layer"; "on WikiQA the simplified prediction is
    # used".
    assert alternatives("snli") == {
        "original": ("linear", "full"),
        "alignment alt.": ("identity", "full"),
        "prediction alt.": ("linear", "simple"),
    }
    assert alternatives("quora")["original"] == ("linear", "symmetric")
    assert alternatives("quora")["prediction alt."] == ("linear", "simple")
    assert alternatives("scitail")["original"] == ("identity", "full")
    assert alternatives("scitail")["alignment alt."] == ("linear", "full")
    assert alternatives("wikiqa")["original"] == ("linear", "simple")
    assert alternatives("wikiqa")["prediction alt."] == ("linear", "full")


def test_robustness_varies_blocks_or_encoder_layers_with_the_other_at_two():
    runs = resolved("re2_robustness", "scitail", seeds=1).runs()
    counts = [(run.config.model.blocks, run.config.model.encoder_layers) for run in runs]
    assert counts == [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (2, 1), (2, 3), (2, 4), (2, 5)]
    assert all(run.config.model.alignment == "identity" for run in runs)


@pytest.mark.parametrize(
    ("sweep", "dataset", "rows", "with_settings_of_a_run"),
    [
        ("re2_main", "snli", 11, 1),
        ("re2_main", "scitail", 7, 1),
        ("re2_main", "quora", 8, 1),
        ("re2_main", "wikiqa", 7, 1),
        ("re2_main", "sick", 0, 0),
        ("re2_ablation", "snli", 7, 7),
        ("re2_ablation", "quora", 7, 7),
        ("re2_ablation", "scitail", 7, 7),
        ("re2_ablation", "wikiqa", 7, 7),
        ("re2_ablation", "sick", 0, 0),
        ("re2_robustness", "snli", 9, 9),
        ("re2_robustness", "quora", 9, 9),
        ("re2_robustness", "scitail", 9, 9),
        ("re2_robustness", "wikiqa", 0, 0),
        ("re2_robustness", "sick", 0, 0),
    ],
)
def test_published_rows_match_the_settings_of_at_most_one_run(sweep, dataset, rows, with_settings_of_a_run):
    planned = resolved(sweep, dataset, seeds=1)
    published = planned.table.published
    assert len(published) == rows
    assert all(set(row.scores) <= set(shown(planned).scores) and "Table " in row.source for row in published)
    found = []
    for row in published:
        requested = {key: value for key, value in row.settings.items() if key.startswith(("model.", "variant"))}
        known = [(run, {**flatten(run.config), "variant": run.variant}) for run in planned.runs()]
        runs = [run for run, settings in known if requested and requested.items() <= settings.items()]
        assert len(runs) <= 1
        found += [run.identity("data") for run in runs]
    assert len(found) == len(set(found)) == with_settings_of_a_run


ESAN_AND_CSRAN = [
    *(("esan_main", name, 1, rows, 1) for name, rows in (("snli", 11), ("quora", 10), ("multinli", 7))),
    *(("esan_ablation", name, 5, rows, rows) for name, rows in (("quora", 5), ("snli", 0))),
    *(
        ("csran_main", name, 1, rows, 1)
        for name, rows in (("snli", 6), ("scitail", 5), ("quora", 6), ("twitter_url", 4), ("trecqa", 7), ("ubuntu", 7))
    ),
    *(("csran_ablation", name, 4, 4, 4) for name in csran.ABLATION),
    *(("csran_depth", name, 5 * curves, 0, 0) for name, curves in (("scitail", 2), ("quora", 1), ("snli", 1))),
]


@pytest.mark.parametrize(("sweep", "dataset", "variants", "rows", "own"), ESAN_AND_CSRAN)
def test_esan_and_csran_launchers_plan_the_runs_of_their_published_rows(sweep, dataset, variants, rows, own):
    planned = resolved(sweep, dataset)
    runs = planned.runs()
    model = sweep.partition("_")[0]
    assert {run.config.model.name for run in runs} == {model}
    assert len(runs) == 5 * variants == len({run.identity("data") for run in runs})
    assert shown(planned).scores[0] == f"dev.{chosen_by(planned)}"
    assert len(planned.table.published) == rows
    found = []
    for row in planned.table.published:
        assert set(row.scores) <= set(shown(planned).scores) and re.search("Table |slides$", row.source)
        requested = {key: value for key, value in row.settings.items() if key not in ("parameters", "seeds")}
        settings = [(run, {**flatten(run.config), "variant": run.variant}) for run in runs if run.seed == 0]
        found += [run.identity("data") for run, known in settings if requested and requested.items() <= known.items()]
    assert len(found) == len(set(found)) == own
    # Without the features, the runs are not those of the paper, and a model gets only word vectors.
    plain = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "features": "none"}, seeds=1)
    assert (
        plain.config.model.characters == "none" and not plain.config.model.tags and plain.config.data.minimum_count == 5
    )
    assert planned.config.model.characters != "none" and planned.config.data.minimum_count == 1


def test_token_features_match_those_of_the_papers():
    def given(sweep, dataset):
        model = resolved(sweep, dataset).config.model
        return model.characters, model.tags, model.exact_match

    assert given("esan_main", "snli") == given("esan_main", "multinli") == ("cnn", True, True)
    assert given("esan_main", "quora") == ("cnn", False, False)  # "for the NLI task", section 2.1
    assert given("csran_main", "snli") == given("csran_depth", "quora") == ("bilstm", False, False)
    with pytest.raises(InputError, match='--features cannot be "all"; it is "paper" or "none"'):
        launch.resolve(SWEEPS / "esan_main.py", options={"features": "all"})


def test_ablation_variants_change_the_intended_settings():
    def changed(sweep, dataset):
        return [run.config.model for run in resolved(sweep, dataset, seeds=1).runs()]

    models = changed("csran_ablation", "scitail")
    assert [(model.refinement, model.co_stack) for model in models] == [
        (True, True),
        (False, True),
        (True, False),
        (False, False),
    ]
    assert {model.stacked_layers for model in models} == {3}
    depth = [(model.stacked_layers, model.co_stack) for model in changed("csran_depth", "scitail")]
    assert depth == [(layers, full) for full in (True, False) for layers in (1, 2, 3, 4, 5)]
    models = changed("esan_ablation", "quora")
    assert [model.augmentation for model in models] == ["gated", "none", "gated", "gated", "simple"]
    assert [(model.word_features, model.contextual_features) for model in models[2:4]] == [(False, True), (True, False)]


@pytest.mark.parametrize(("dataset", "prediction"), [("wikiqa", "full"), ("quora", "symmetric")])
def test_the_tuning_grid_has_the_ranges_of_the_paper(dataset, prediction):
    planned = resolved("re2_tuning", dataset)
    assert len(planned.runs()) == 720
    # Whether F of Eq. 2 is a layer, and which prediction layer, are hyperparameters (sections 2.2 and 2.4).
    assert planned.grid["model.prediction"] == (prediction, "simple")
    ends = {key: (min(values), max(values)) for key, values in planned.grid.items() if key != "model.prediction"}
    assert ends == {
        "model.blocks": (1, 3),
        "model.encoder_layers": (1, 3),
        "model.alignment": ("identity", "linear"),
        "training.batch_size": (64, 512),
        "optimizer.learning_rate": (1e-4, 3e-3),
    }


@pytest.mark.parametrize("sweep", ["re2_main", "re2_ablation", "re2_robustness"])
def test_the_setting_option_selects_paper_released_or_configured_settings(sweep):
    def resolve(dataset, setting):
        return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "setting": setting})

    paper, released, configured = (resolve("quora", setting) for setting in ("paper", "released_pytorch", "configured"))
    sizes = [(one.config.model.hidden_size, one.config.data.maximum_length) for one in (paper, released, configured)]
    assert sizes == [(150, 0), (200, 100), (200, 100)]
    assert [one.config.data.remove_punctuation for one in (paper, released, configured)] == [True, False, True]
    assert resolve("wikiqa", "released_pytorch").config.training.evaluate_every_samples == 1280
    assert len({one.name for one in (paper, released, configured)}) == 3  # their folders must not be confused
    for dataset, late, stops_after in (
        ("snli", 5_120_000, 5_120_000),
        ("quora", 3_584_000, 5_120_000),
        ("scitail", 0, 0),
        ("wikiqa", 0, 0),
    ):
        config = resolve(dataset, "released_tensorflow").config
        assert (config.training.late_from_samples, config.training.minimum_samples) == (late, stops_after)
        assert config.training.evaluate_each_epoch == (dataset != "wikiqa")
        assert config.model.connection == "augmented_running_sum"
    assert [one.config.model.dropout_placement for one in (paper, released, configured)] == [
        "every_layer",
        "released",
        "released",
    ]
    text = "Sweep file: training pairs with a text of 100 tokens or more are left out, as in the authors' code"
    assert [text in one.table.notes for one in (paper, released, configured)] == [False, True, False]
    text = "Sweep file: texts are cut after 100 tokens; the authors' code leaves out training pairs with a text of "
    text += "100 or more"
    assert [text in one.table.notes for one in (paper, released, configured)] == [False, False, True]
    text = "Sweep file: the hidden size is 200, as in the released settings; the paper's is 150"
    assert [text in one.table.notes for one in (paper, released, configured)] == [False, True, True]
    text = "Sweep file: dropout is placed as in the released code; the paper places it before every layer"
    assert [text in one.table.notes for one in (paper, released, configured)] == [False, True, True]
    tensorflow = resolve("quora", "released_tensorflow")
    joined = [" ".join(one.table.notes) for one in (paper, released, configured, tensorflow)]
    assert ["gains of weights start as in the PyTorch code" in notes for notes in joined] == [True, True, True, False]
    # Only their configuration of Tables 1 to 4 (configs/main.json5) chooses checkpoints on test.
    table = {"re2_ablation": "Table 6", "re2_robustness": "Table 7"}.get(sweep)
    choice = "authors' configuration of Tables 1 to 4 test scores do both"
    assert [choice in notes for notes in joined] == ([False] * 4 if table else [False, True, True, True])
    choice = f"dev scores choose the checkpoint and end the training, as in the authors' configuration of {table}"
    assert [choice in notes for notes in joined] == ([False, True, True, True] if table else [False] * 4)
    assert any(row.chosen_on_test for row in tensorflow.table.published) == (not table)
    prose = "w/o enc-in and parallel blocks are our reading of the paper's section 3.7; the authors' code has neither"
    assert [prose in notes for notes in joined] == [False, sweep == "re2_ablation", False, sweep == "re2_ablation"]
    assert ["no warmup; the paper has decay and warmup" in notes for notes in joined] == [False, True, True, True]
    assert all("ReLU" in notes for notes in joined)
    assert ["the authors' code mixes lengths" in notes for notes in joined] == [True, False, True, False]
    if sweep == "re2_ablation":
        connections = [one.variants["residual conn."]["model.connection"] for one in (paper, released, configured)]
        assert connections == ["vanilla", "vanilla_running_sum", "vanilla"]
        assert ["as the paper has it" in one.table.notes[-1] for one in (paper, released, configured)] == [
            True,
            False,
            True,
        ]
    for dataset, setting, message in (
        ("snli", "papers", 'cannot be "papers"; did you mean "paper"'),
        ("sick", "released_pytorch", "no released_pytorch"),
    ):
        with pytest.raises(InputError, match=message):
            resolve(dataset, setting)


def test_analysis_launchers_request_their_analyses():
    ensemble = resolved("re2_ensemble", "snli")
    assert len(ensemble.seeds) == 8 and ensemble.analyses == {"ensemble": {}}
    assert [row.scores["test.accuracy"] for row in ensemble.table.ensembles] == [
        "89.9",
        "88.8",
        "88.9",
        "89.3",
        "89.4",
        "90.1",
    ]
    occlusion = resolved("re2_occlusion", "wikiqa")
    assert occlusion.config.model.blocks == 3 and occlusion.analyses == {"occlusion": {}}
    assert resolved("re2_attention", "snli").analyses == {"inspect": {}}
    options = {"dataset": "snli", "first": "A man sleeps.", "second": "Nobody is awake."}
    requested = launch.resolve(SWEEPS / "re2_attention.py", options=options).analyses
    assert requested == {"inspect": {"pair": ["A man sleeps.", "Nobody is awake."]}}
    with pytest.raises(InputError, match="one text is no pair; give both --first and --second, or neither"):
        launch.resolve(SWEEPS / "re2_attention.py", options={"first": "A man sleeps."})

"""The launchers of the papers' tables and of the comparison: their runs, and the published scores that match them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jaxmatch import default_config
from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import flatten, with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.catalog import CATALOG
from jaxmatch.errors import InputError
from jaxmatch.layers.words import CharacterFeatures
from jaxmatch.papers import timing
from jaxmatch.papers.esan_csran import csran
from jaxmatch.sweep import launch
from jaxmatch.sweep.sweep import with_scores

SWEEPS = Path(__file__).parent.parent / "sweeps"
SICK = SWEEPS.parent / "configs" / "re2_sick.py"
PAPER_SWEEPS = """
    re2_main re2_ensemble re2_ablation re2_robustness re2_occlusion re2_attention
    esan_main esan_ablation csran_main csran_ablation csran_depth
""".split()


def resolved(sweep, dataset, **arguments):
    return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset}, **arguments)


def shown(planned):
    """Returns the layout of a sweep's table on a public data set, with all scores that it shows."""
    name = planned.config.data.name
    chosen_by = planned.config.training.selection or catalog.selection(name, CATALOG[name].task)
    return with_scores(planned.table, [with_overrides(planned.config, {"training.selection": chosen_by})])


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_papers_runs_existing_sweeps_with_the_expected_options():
    given = "--data-directory D --vectors V --on ray --dry-run"
    command = ["make", "--dry-run", "papers", f"ARGUMENTS={given}"]
    text = subprocess.run(command, cwd=SWEEPS.parent, capture_output=True, text=True, check=True).stdout
    requested = re.search(r"for each in ([^;]+);", text).group(1).split()
    assert len(requested) == len(set(requested)) == 36
    assert {each.partition("/")[0] for each in requested} == {*PAPER_SWEEPS, "comparison", "re2_timing", "esan_timing"}
    for sweep, dataset in (each.split("/") for each in requested):
        if sweep.endswith("_timing"):
            planned = timing.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset}).sweep
        else:
            options = {"setting": "released_tensorflow"} if sweep.startswith("re2") else {}
            planned = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, **options})
        assert planned.config.data.name == {"trecqa": "trecqa_all_clean"}.get(dataset, dataset)
        if sweep.startswith(("esan_main", "esan_ablation", "csran")):
            assert planned.config.model.characters != "none"
    assert re.search(r"\*_timing/\*\) set -- timing --data-directory=D --dry-run;;", text)
    code = "--setting released_tensorflow"
    assert f"re2_*) set -- sweep --seeds 10 {code} --baselines all {given};;" in text
    assert f"re2_attention/*) set -- sweep {code} {given};;" in text
    assert f"comparison/*) set -- sweep --seeds 10 --models all {given};;" in text
    assert f"*) set -- sweep --seeds 10 --baselines all {given};;" in text


@pytest.mark.parametrize(
    ("dataset", "original", "alignment", "prediction"),
    [
        # "On SciTail F is an identity function while on all others it is a layer"; "on WikiQA the simplified prediction
        # is used".
        ("snli", ("linear", "full"), "identity", "simple"),
        ("quora", ("linear", "symmetric"), "identity", "simple"),
        ("scitail", ("identity", "full"), "linear", "simple"),
        ("wikiqa", ("linear", "simple"), "identity", "full"),
    ],
)
def test_ablation_alternatives_match_the_paper_for_each_data_set(dataset, original, alignment, prediction):
    runs = {run.variant: run.config.model for run in resolved("re2_ablation", dataset, seeds=1).runs()}
    assert (runs["original"].alignment, runs["original"].prediction) == original
    assert runs["alignment alt."].alignment == alignment and runs["prediction alt."].prediction == prediction


MAIN_ROWS = {
    "re2": {"snli": 11, "scitail": 7, "quora": 8, "wikiqa": 7},
    "esan": {"snli": 11, "quora": 10, "multinli": 7},
    "csran": {"snli": 6, "scitail": 5, "quora": 6, "twitter_url": 4, "trecqa": 7, "ubuntu": 7},
}


@pytest.mark.parametrize(
    ("sweep", "dataset", "variants", "rows", "own"),
    [
        *((f"{model}_main", name, 1, rows, 1) for model, known in MAIN_ROWS.items() for name, rows in known.items()),
        *(("re2_ablation", name, 7, 7, 7) for name in ("snli", "quora", "scitail", "wikiqa")),
        *(("re2_robustness", name, 9, 9, 9) for name in ("snli", "quora", "scitail")),
        *(("re2_robustness", name, 9, 0, 0) for name in ("wikiqa", "sick")),
        *((name, "sick", variants, 0, 0) for name, variants in (("re2_main", 1), ("re2_ablation", 7))),
        *(("esan_ablation", name, 5, rows, rows) for name, rows in (("quora", 5), ("snli", 0))),
        *(("csran_ablation", name, 4, 4, 4) for name in csran.ABLATION),
        *(("csran_depth", name, 5 * curves, 0, 0) for name, curves in (("scitail", 2), ("quora", 1), ("snli", 1))),
    ],
)
def test_launchers_plan_the_runs_of_their_published_rows(sweep, dataset, variants, rows, own):
    planned, model = resolved(sweep, dataset, seeds=1), sweep.partition("_")[0]
    runs = planned.runs()
    assert {run.config.model.name for run in runs} == {model}
    assert len(runs) == variants == len({run.identity("data") for run in runs})
    # Each variant has a separate program, which its seeds share.
    assert len({run.signature("data") for run in runs}) == variants
    assert len(planned.table.published) == rows
    found = []
    for row in planned.table.published:
        assert set(row.scores) <= set(shown(planned).scores) and re.search("Table |slides$", row.source)
        requested = {key: value for key, value in row.settings.items() if key not in ("parameters", "seeds")}
        known = [(run, {**flatten(run.config), "variant": run.variant}) for run in runs]
        found += [run.identity("data") for run, all_ in known if requested and requested.items() <= all_.items()]
    assert len(found) == len(set(found)) == own
    if model != "re2":
        # Without the features, the runs are not those of the paper, and a model gets only word vectors.
        plain = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "features": "none"}).config
        assert (plain.model.characters, plain.model.tags, plain.data.minimum_count) == ("none", False, 5)
        assert planned.config.model.characters != "none" and planned.config.data.minimum_count == 1


def test_token_features_match_those_of_the_papers():
    def given(sweep, dataset):
        model = resolved(sweep, dataset).config.model
        return model.characters, model.tags, model.exact_match

    assert given("esan_main", "snli") == ("cnn", True, True)
    assert given("esan_main", "quora") == ("cnn", False, False)  # "for the NLI task", section 2.1
    assert given("csran_main", "snli") == given("csran_depth", "quora") == ("bilstm", False, False)


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
    assert len({one.name for one in (paper, released, configured)}) == 3  # their folders must not be confused
    tensorflow = resolve("quora", "released_tensorflow")
    joined = [" ".join(one.table.notes) for one in (paper, released, configured, tensorflow)]
    # Only their configuration of Tables 1 to 4 (configs/main.json5) chooses checkpoints on test.
    table = {"re2_ablation": "Table 6", "re2_robustness": "Table 7"}.get(sweep)
    assert any(row.chosen_on_test for row in tensorflow.table.published) == (not table)
    cut, ablation = "training pairs with a text of 100", sweep == "re2_ablation"
    dev = "dev scores choose the checkpoint and end the training, as in the authors' configuration of"
    for text, in_notes in {
        f"Sweep file: {cut} tokens or more are left out, as in the authors' code": (0, 1, 0, 1),
        f"Sweep file: texts are cut after 100 tokens; the authors' code leaves out {cut} or more": (0, 0, 1, 0),
        "Sweep file: the hidden size is 200, as in the released settings; the paper's is 150": (0, 1, 1, 1),
        "dropout is placed as in the released code; the paper places it before every layer": (0, 1, 1, 1),
        "gains of weights start as in the PyTorch code": (1, 1, 1, 0),
        "authors' configuration of Tables 1 to 4 test scores do both": (0, 0, 0, 0) if table else (0, 1, 1, 1),
        f"{dev} {table}": (0, 1, 1, 1) if table else (0, 0, 0, 0),
        "w/o enc-in and parallel blocks are our reading of the paper's section 3.7": (0, ablation, 0, ablation),
        "no warmup; the paper has decay and warmup": (0, 1, 1, 1),
        "ReLU": (1, 1, 1, 1),
        "the authors' code mixes lengths": (1, 0, 1, 0),
    }.items():
        assert tuple(text in notes for notes in joined) == in_notes, text
    if sweep == "re2_ablation":
        four = (paper, released, configured, tensorflow)
        connections = [one.variants["residual conn."]["model.connection"] for one in four]
        assert connections == ["vanilla", "vanilla_running_sum", "vanilla", "vanilla_projected"]
        as_paper = ["as the paper has it" in one.table.notes[-1] for one in (paper, released, configured)]
        assert as_paper == [True, False, True]
    for dataset, setting, message in (
        ("snli", "papers", 'cannot be "papers"; did you mean "paper"'),
        ("sick", "released_pytorch", "no released_pytorch"),
    ):
        with pytest.raises(InputError, match=message):
            resolve(dataset, setting)


def test_analysis_launchers_request_their_analyses():
    ensemble = resolved("re2_ensemble", "snli")
    assert len(ensemble.seeds) == 8 and ensemble.analyses == {"ensemble": {}}
    scores = [row.scores["test.accuracy"] for row in ensemble.table.ensembles]
    assert scores == ["89.9", "88.8", "88.9", "89.3", "89.4", "90.1"]
    occlusion = resolved("re2_occlusion", "wikiqa")
    assert occlusion.config.model.blocks == 3 and occlusion.analyses == {"occlusion": {}}
    assert resolved("re2_attention", "snli").analyses == {"inspect": {}}
    options = {"dataset": "snli", "first": "A man sleeps.", "second": "Nobody is awake."}
    requested = launch.resolve(SWEEPS / "re2_attention.py", options=options).analyses
    assert requested == {"inspect": {"pair": ["A man sleeps.", "Nobody is awake."]}}
    with pytest.raises(InputError, match="one text is no pair; give both --first and --second, or neither"):
        launch.resolve(SWEEPS / "re2_attention.py", options={"first": "A man sleeps."})


def test_selected_figures_equal_the_papers():
    def figures(sweep, dataset, label, **settings):
        wanted = {key.replace("__", "."): value for key, value in settings.items()}
        rows = [row for row in shown(resolved(sweep, dataset)).published if row.label.startswith(label)]
        (row,) = (row for row in rows if wanted.items() <= row.settings.items())
        return tuple(row.scores.values())

    of_test = ("0.7452 ± 0.0044", "0.7618 ± 0.0040")
    assert figures("re2_main", "wikiqa", "RE2") == 2 * of_test  # both are the scores chosen on test
    assert figures("re2_ablation", "scitail", "RE2", variant="w/o enc-in") == ("78.1",)
    assert figures("re2_robustness", "quora", "RE2", model__blocks=4) == ("89.5 ± 0.1",)
    assert figures("esan_main", "multinli", "DIIN") == ("78.8", "77.8")
    assert figures("esan_ablation", "quora", "ESAN", variant="w/ Simple Augment.") == ("89.1",)
    assert figures("csran_main", "trecqa", "CSRAN") == ("0.854", "0.935")
    assert figures("csran_main", "ubuntu", "KEHNN") == ("78.6", "0.460", "0.591", "0.819")
    # Figures that the papers print outside their tables.
    assert figures("csran_ablation", "snli", "CSRAN", variant="w/o MAR/CSRA") == ("88.0", "87.7")
    assert figures("csran_main", "snli", "CSRAN", parameters="13.9M") == ("88.7",)
    sizes = {row.label.split()[0]: row for row in resolved("csran_main", "snli").table.published}
    assert sizes["CSRAN"].source == "Tay et al. (2018), Table 2; parameters: Yang et al. (2019), Table 1"
    assert sizes["BiMPM"].settings == {"parameters": "1.6M"} and not sizes["DR-BiLSTM"].settings
    depth = [resolved("csran_depth", name).table for name in ("scitail", "snli")]
    notes = [" ".join(table.notes) for table in depth]
    assert "+1 on dev and +2.5 on test over a single layer" in notes[0] and "print no numbers" in notes[1]
    assert {table.scores for table in depth} == {("dev.accuracy", "test.accuracy")}


def test_sources_of_rows_name_the_other_figures_that_papers_print_for_a_model():
    def sources(sweep, dataset):
        return {row.label.partition(" (")[0]: row.source for row in resolved(sweep, dataset).table.published}

    snli, quora = sources("esan_main", "snli"), sources("esan_main", "quora")
    assert "Table 1; test accuracy (%) 86.9 in Yang et al. (2019), Table 1" in snli["BiMPM"]
    # The slides have CAFE's figures the other way round.
    assert "Table 1; test accuracy (%) 88.7 in Hu et al. (2020), slides" in snli["CAFE"]
    assert quora["CAFE"] == "Hu et al. (2020), Table 2; test accuracy (%) 88.5 in Hu et al. (2020), slides"
    of_two = "test accuracy (%) 87.5 in Hu et al. (2020), Table 1 and in Tay et al. (2018), Table 2"
    assert sources("re2_main", "snli")["BiMPM"] == f"Yang et al. (2019), Table 1; {of_two}"
    # "88.9 ± 0.1" and "88.9" are the same figure.
    assert sources("re2_main", "snli")["RE2"] == "Yang et al. (2019), Table 1"


@pytest.mark.parametrize("sweep", ["esan_ablation", "comparison"])
def test_captions_name_the_values_that_papers_do_not_state(sweep):
    def notes(**options):
        found = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": "quora", **options}).table.notes
        return [note for note in found if "the paper does not state" in note]

    decay, clip = "a learning rate times 0.95 every 128,000 pairs, down to 6e-05", "gradients clipped at a norm of 5"
    expected = [(decay, clip)]
    if sweep == "comparison":
        expected.append(("a dropout rate of 0.2", "an L2 penalty of 1e-08", clip))
    found = notes(features="none")
    assert len(found) == len(expected)
    for note, values in zip(found, expected, strict=True):
        assert note.endswith(f"the paper does not state: {', '.join(values)}")
    size = CharacterFeatures(default_config("esan").model).size
    assert all(note.endswith(f", embeddings of characters of size {size}") for note in notes(features="paper"))


def compare(**options):
    return launch.resolve(SWEEPS / "comparison.py", options=options, seeds=2)


def test_a_comparison_gives_all_models_the_same_data_and_seeds():
    planned = compare(dataset="quora")
    runs = planned.runs()
    assert [run.variant for run in runs] == [name for name in ("RE2", "ESAN", "CSRAN", "CAFE") for _ in (0, 1)]
    assert [run.config.model.name for run in runs[::2]] == ["re2", "esan", "csran", "cafe"]
    assert len({repr(run.config.data) for run in runs}) == 1 and [run.seed for run in runs[:2]] == [0, 1]
    assert all(run.config.model.get("characters", "none") == "none" for run in runs)
    # Each model has the settings of its own config file.
    assert runs[0].config.model.hidden_size == 200 and runs[0].config.training.batch_size == 512
    assert runs[2].config.training.batch_size == 128 and runs[2].config.model.hidden_size == 150
    assert planned.table.scores[-2:] == ("times.train_seconds_a_run", "times.inference_microseconds_a_pair")
    assert [row.label.split()[0] for row in planned.table.published] == ["RE2", "ESAN", "CSRAN", "CAFE"]
    assert planned.table.published[-1].scores == {"test.accuracy": "88.7"}  # ESAN's Table 2, as CSRAN's has no Quora


@pytest.mark.parametrize(
    ("dataset", "labels"),
    [
        ("trecqa_all_clean", ["CSRAN (paper, GloVe)"]),
        ("trecqa_clean", ["CSRAN (paper, GloVe, trained on TRAIN-ALL)"]),
        ("trecqa_all", []),
        ("multinli", ["ESAN (paper, GloVe 840B)"]),
    ],
)
def test_published_results_are_shown_only_for_the_same_data_set(dataset, labels):
    table = compare(dataset=dataset, models="re2,esan,csran").table
    assert [row.label for row in table.published] == labels
    if dataset == "trecqa_clean":
        assert not table.published[0].settings  # beside no row of ours
    assert any("official test pairs" in note for note in table.notes) == (dataset == "multinli")


def test_models_are_shown_with_results_quoted_from_papers():
    planned = compare(dataset="snli", models="all")
    assert [run.config.model.name for run in planned.runs()[::2]] == list(MODELS)
    quoted = {row.settings["model.name"]: row for row in planned.table.published}
    assert list(quoted) == ["re2", "esan", "csran", "cafe", "bimpm", "diin", "decatt", "esim", "siamese"]
    # A size that the paper does not print is taken from RE2's paper.
    assert quoted["esim"].settings["parameters"] == "4.3M"
    assert quoted["esim"].source == "Tay et al. (2018), Table 2; parameters: Yang et al. (2019), Table 1"
    both = [row for row in planned.table.published if row.settings["model.name"] == "decatt"]
    found = [(row.scores["test.accuracy"], row.settings["model.intra_attention"]) for row in both]
    assert found == [("86.3", False), ("86.8", True)] and both[1].settings["parameters"] == "0.6M"
    rows = compare(dataset="scitail", models="decatt,esim,siamese").table.published
    assert [(row.label.split()[0], *row.scores.values()) for row in rows] == [("DecompAtt", "72.3"), ("ESIM", "70.6")]
    (row,) = compare(dataset="quora", models="decatt,esim,cafe").table.published
    assert row.settings["model.name"] == "cafe"  # Tomar's pretrained DecAtt is another model


def test_model_keeps_its_optimizer_settings_on_data_sets_not_in_its_config():
    def configs(**options):
        return {run.variant: run.config for run in compare(**options).runs()}

    def settings_of(config):
        names = ("learning_rate", "dropout_rate", "warmup_samples", "decay_samples")
        return (*(config.optimizer[name] for name in names), config.training.batch_size)

    sick = configs(dataset="sick", models="re2,esim,transformer")
    rate, dropout, warmup, decay, size = settings_of(sick["RE2"])
    assert settings_of(sick["ESIM"]) == (0.0004, 0.5, warmup, decay, 32) and (rate, dropout, size) == (0.001, 0.2, 64)
    assert settings_of(sick["Transformer"]) == (0.0005, 0.2, 4_500, decay, 64)  # its file has SICK, one warmup epoch
    relatedness = configs(dataset="sick_relatedness", models="re2,transformer")
    assert settings_of(relatedness["Transformer"]) == (0.0005, 0.2, warmup, decay, 128)  # no warmup of 549,367 pairs
    embedded = configs(dataset="embedded_inference", models="re2,esim")
    assert settings_of(embedded["ESIM"]) == settings_of(embedded["RE2"])


def test_a_comparison_takes_any_models_and_data_set():
    planned = compare(dataset="sick", models="cafe,re2", features="paper")
    runs = planned.runs()
    assert [run.variant for run in runs] == ["CAFE", "CAFE", "RE2", "RE2"]
    assert runs[0].config.model.characters == "bilstm" and runs[0].config.model.tags
    assert {run.config.data.minimum_count for run in runs} == {1}
    assert compare().config.data.name == "embedded_inference"
    with pytest.raises(InputError, match='there is no model "esann" in this sweep; did you mean "esan"'):
        compare(models="re2,esann")
    for sweep in ("comparison", "re2_main", "esan_main"):
        with pytest.raises(InputError, match='there is no data set "quara" in this sweep; did you mean "quora"'):
            resolved(sweep, "quara")
    with pytest.raises(InputError, match="config.model.hidden_size is not common to the models of this sweep"):
        launch.resolve(SWEEPS / "comparison.py", overrides={"model.hidden_size": "8"})


def test_field_set_by_variants_cannot_be_overridden():
    for sweep, dataset, name, problem in (
        ("re2_robustness", "snli", "model.blocks", "1 block and .* set it"),
        ("re2_ablation", "snli", "model.fusion", "simple fusion, which sets it"),
        ("comparison", "quora", "optimizer.learning_rate", ".*ESAN.*, which set"),
    ):
        value = "simple" if name == "model.fusion" else "1"
        with pytest.raises(InputError, match=f"config.{name} would not reach {problem}"):
            resolved(sweep, dataset, overrides={name: value})
    assert resolved("comparison", "quora", overrides={"training.epochs": "2"}).config.training.epochs == 2


def test_field_of_one_model_cannot_be_overridden_beside_an_axis_of_models():
    axis = {"model.name": "re2,esan"}
    with pytest.raises(InputError, match=r"config.model.precision would not reach all models.*--grid.model.precision"):
        launch.resolve(SICK, overrides={"model.precision": "bfloat16"}, grid_overrides=axis)
    runs = launch.resolve(SICK, grid_overrides={**axis, "model.precision": "bfloat16"}).runs()
    found = {(run.config.model.name, run.config.model.precision) for run in runs}
    assert found == {("re2", "bfloat16"), ("esan", "bfloat16")}


def test_best_on_test_columns_can_be_disabled():
    names = ("dev.mrr", "test.map", "test.mrr", "best_on_test.map", "best_on_test.mrr")
    assert shown(resolved("re2_main", "wikiqa")).scores == names
    scores = shown(resolved("re2_main", "wikiqa", overrides={"training.best_on_test": "False"})).scores
    assert not any("best" in score for score in scores)

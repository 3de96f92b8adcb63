"""The sweep that compares all models on one data set."""

import pytest
from paper_sweeps import SWEEPS

from jaxmatch.config.models import MODELS
from jaxmatch.errors import InputError
from jaxmatch.sweep import launch
from jaxmatch.sweep.sweep import with_scores


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
    ("selection", "scores"),
    [
        ("mrr", ("dev.mrr", "test.map", "test.mrr")),
        ("pearson", ("dev.pearson", "test.pearson", "test.spearman")),
        ("macro_f1", ("dev.macro_f1", "test.macro_f1")),
    ],
)
def test_a_comparison_on_own_data_shows_the_scores_of_its_selection(selection, scores):
    planned = launch.resolve(
        SWEEPS / "comparison.py", options={"dataset": "own"}, overrides={"training.selection": selection}
    )
    runs = planned.runs()
    shown = with_scores(planned.table, [run.config for run in runs]).scores
    assert shown[:-2] == scores and shown[-1].startswith("times.")
    assert all(run.config.model.get("characters", "none") == "none" for run in runs)


@pytest.mark.parametrize(
    ("dataset", "labels"),
    [
        ("trecqa_all_clean", ["CSRAN (paper, GloVe)"]),
        ("trecqa_clean", ["CSRAN (paper, GloVe, trained on TRAIN-ALL)"]),
        ("trecqa", []),
        ("trecqa_all", []),
        ("sick", []),
        ("multinli", ["ESAN (paper, GloVe 840B)"]),
    ],
)
def test_published_results_are_shown_only_for_the_same_data_set(dataset, labels):
    table = compare(dataset=dataset, models="re2,esan,csran").table
    assert [row.label for row in table.published] == labels
    if dataset == "trecqa_clean":
        (row,) = table.published
        assert row.scores == {"test.map": "0.854", "test.mrr": "0.935"} and not row.settings  # beside no row of ours
    assert any("official test pairs" in note for note in table.notes) == (dataset == "multinli")


def test_models_are_shown_with_results_quoted_from_papers():
    planned = compare(dataset="snli", models="all")
    assert [run.config.model.name for run in planned.runs()[::2]] == list(MODELS)
    quoted = {row.settings["model.name"]: row for row in planned.table.published}
    assert list(quoted) == ["re2", "esan", "csran", "cafe", "bimpm", "diin", "decatt", "esim", "siamese"]
    assert quoted["decatt"].scores == {"test.accuracy": "86.8"}
    assert quoted["decatt"].settings["model.intra_attention"] and quoted["decatt"].settings["parameters"] == "0.6M"
    # A size that the paper does not print is taken from RE2's paper.
    assert quoted["esim"].settings["parameters"] == "4.3M"
    assert quoted["esim"].source == "Tay et al. (2018), Table 2; parameters: Yang et al. (2019), Table 1"
    vanilla, intra = (row for row in planned.table.published if row.settings["model.name"] == "decatt")
    assert vanilla.scores == {"test.accuracy": "86.3"} and not vanilla.settings["model.intra_attention"]
    assert intra is quoted["decatt"]
    rows = compare(dataset="scitail", models="decatt,esim,siamese").table.published
    assert [(row.label.split()[0], *row.scores.values()) for row in rows] == [("DecompAtt", "72.3"), ("ESIM", "70.6")]
    (row,) = compare(dataset="quora", models="decatt,esim,cafe").table.published
    assert row.settings["model.name"] == "cafe"  # Tomar's pretrained DecAtt is another model


def test_notes_name_the_models_whose_configs_keep_punctuation():
    def punctuation_notes(**options):
        return [note for note in compare(**options).table.notes if "punctuation" in note]

    of_all = "the configs of CSRAN, CAFE, BiMPM, DIIN, DecAtt, ESIM, Siamese BiLSTM, Transformer keep punctuation"
    assert len(punctuation_notes(models="all")) == 1 and of_all in punctuation_notes(models="all")[0]
    assert "the config of CSRAN keeps punctuation" in punctuation_notes(models="re2,csran")[0]
    assert punctuation_notes(models="re2,esan") == []


def test_model_keeps_its_optimizer_settings_on_data_sets_not_in_its_config():
    def configs(**options):
        return {run.variant: run.config for run in compare(**options).runs()}

    def settings_of(config):
        optimizer = config.optimizer
        return (
            optimizer.learning_rate,
            optimizer.dropout_rate,
            optimizer.warmup_samples,
            optimizer.decay_samples,
            config.training.batch_size,
        )

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
    with pytest.raises(InputError, match='there is no data set "quara" in this sweep; did you mean "quora"'):
        compare(dataset="quara")
    with pytest.raises(InputError, match="config.model.hidden_size is not common to the models of this sweep"):
        launch.resolve(SWEEPS / "comparison.py", overrides={"model.hidden_size": "8"})

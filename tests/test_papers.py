"""The paper's rows: what they train, what was printed of them, and that the launchers hold both together."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from jaxmatch.cli.main import main
from jaxmatch.config import MODELS
from jaxmatch.errors import InputError
from jaxmatch.papers import csran, esan, re2
from jaxmatch.settings import flatten
from jaxmatch.sweep import launch, timing_plan

SWEEPS = Path(__file__).parent.parent / "sweeps"
PAPER_SWEEPS = (
    "re2_main",
    "re2_ensemble",
    "re2_ablation",
    "re2_robustness",
    "re2_occlusion",
    "re2_attention",
    "esan_main",
    "esan_ablation",
    "csran_main",
    "csran_ablation",
    "csran_depth",
)


def resolved(sweep, dataset, **arguments):
    return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset}, **arguments)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_what_make_papers_trains_is_there():
    told = subprocess.run(
        ["make", "--dry-run", "papers", "ARGUMENTS=--data-directory D --vectors V --dry-run"],
        cwd=SWEEPS.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    asked = re.search(r"for each in ([^;]+);", told).group(1).split()
    assert len(asked) == len(set(asked)) == 36
    assert {each.partition("/")[0] for each in asked} == {*PAPER_SWEEPS, "comparison", "re2_timing", "esan_timing"}
    for sweep, dataset in (each.split("/") for each in asked):
        if sweep.endswith("_timing"):
            planned = timing_plan.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset})
        else:
            options = {"setting": "released_tensorflow"} if sweep.startswith("re2") else {}
            planned = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, **options})
        assert planned.config.data.name == {"trecqa": "trecqa_all_clean"}.get(dataset, dataset)
        if sweep.startswith(("esan_main", "esan_ablation", "csran")):
            assert planned.config.model.characters != "none"
    assert re.search(r"\*_timing/\*\) set -- timing --data-directory D --dry-run;;", told)
    given = "--data-directory D --vectors V --dry-run"
    assert f"re2_*) set -- sweep --seeds 10 --setting released_tensorflow {given};;" in told
    assert f"re2_attention/*) set -- sweep --setting released_tensorflow {given};;" in told
    assert f"*) set -- sweep --seeds 10 {given};;" in told


@pytest.mark.parametrize("dataset", re2.DATA_SETS)
@pytest.mark.parametrize(("sweep", "variants"), [("re2_main", 1), ("re2_ablation", 7), ("re2_robustness", 9)])
def test_every_launcher_takes_every_data_set(sweep, variants, dataset):
    planned = resolved(sweep, dataset)
    assert planned.config.data.name == dataset
    runs = planned.runs()
    assert len(runs) == variants * 10
    assert len({run.identity("data") for run in runs}) == len(runs)
    # A variant is a program of its own, its seeds are not.
    assert len({run.signature("data") for run in runs}) == variants
    assert all(score.split(".")[1] in ("accuracy", "mrr", "map") for score in planned.table.scores)
    assert planned.table.scores[0] == f"dev.{planned.config.training.selection}"


@pytest.mark.parametrize("sweep", PAPER_SWEEPS)
def test_an_unknown_data_set_is_one_line(sweep, capsys):
    assert main(["sweep", str(SWEEPS / f"{sweep}.py"), "--dataset", "wikiqaa"]) == 2
    said = capsys.readouterr().err
    meant = 'did you mean "wikiqa"' if sweep.startswith("re2") else "known: "
    assert said.startswith(f'jaxmatch: there is no data set "wikiqaa" in this sweep; {meant}') and said.count("\n") == 1


def alternatives(dataset):
    runs = {run.variant: run.config.model for run in resolved("re2_ablation", dataset, seeds=1).runs()}
    return {
        name: (runs[name].alignment, runs[name].prediction)
        for name in ("original", "alignment alt.", "prediction alt.")
    }


def test_alternatives_are_those_the_paper_notes_for_each_data_set():
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


def test_robustness_holds_one_of_both_counts_at_two():
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
def test_published_rows_have_the_settings_of_one_run_each(sweep, dataset, rows, with_settings_of_a_run):
    planned = resolved(sweep, dataset, seeds=1)
    published = planned.table.published
    assert len(published) == rows
    assert all(set(row.scores) <= set(planned.table.scores) and "Table " in row.source for row in published)
    found = []
    for row in published:
        asked = {key: value for key, value in row.settings.items() if key.startswith(("model.", "variant"))}
        known = [(run, {**flatten(run.config), "variant": run.variant}) for run in planned.runs()]
        runs = [run for run, settings in known if asked and asked.items() <= settings.items()]
        assert len(runs) <= 1
        found += [run.identity("data") for run in runs]
    assert len(found) == len(set(found)) == with_settings_of_a_run


LATER = [
    *(("esan_main", name, 1, rows, 1) for name, rows in (("snli", 11), ("quora", 10), ("multinli", 7))),
    *(("esan_ablation", name, 5, rows, rows) for name, rows in (("quora", 5), ("snli", 0))),
    *(
        ("csran_main", name, 1, rows, 1)
        for name, rows in (("snli", 6), ("scitail", 5), ("quora", 6), ("twitter_url", 4), ("trecqa", 7), ("ubuntu", 7))
    ),
    *(("csran_ablation", name, 4, 4, 4) for name in csran.ABLATION),
    *(("csran_depth", name, 5 * curves, 0, 0) for name, curves in (("scitail", 2), ("quora", 1), ("snli", 1))),
]


@pytest.mark.parametrize(("sweep", "dataset", "variants", "rows", "own"), LATER)
def test_launchers_of_esan_and_csran_hold_runs_and_figures_together(sweep, dataset, variants, rows, own):
    planned = resolved(sweep, dataset)
    runs = planned.runs()
    model = sweep.partition("_")[0]
    assert {run.config.model.name for run in runs} == {model}
    assert len(runs) == 5 * variants == len({run.identity("data") for run in runs})
    assert planned.table.scores[0] == f"dev.{planned.config.training.selection}"
    assert len(planned.table.published) == rows
    found = []
    for row in planned.table.published:
        assert set(row.scores) <= set(planned.table.scores) and re.search("Table |slides$", row.source)
        asked = {key: value for key, value in row.settings.items() if key not in ("parameters", "seeds")}
        settings = [(run, {**flatten(run.config), "variant": run.variant}) for run in runs if run.seed == 0]
        found += [run.identity("data") for run, known in settings if asked and asked.items() <= known.items()]
    assert len(found) == len(set(found)) == own
    # Without the features a run is not the paper's, and nothing but the vectors is given of a word.
    plain = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "features": "none"}, seeds=1)
    assert (
        plain.config.model.characters == "none" and not plain.config.model.tags and plain.config.data.minimum_count == 5
    )
    assert planned.config.model.characters != "none" and planned.config.data.minimum_count == 1


def test_features_of_the_papers():
    def given(sweep, dataset):
        model = resolved(sweep, dataset).config.model
        return model.characters, model.tags, model.exact_match

    assert given("esan_main", "snli") == given("esan_main", "multinli") == ("cnn", True, True)
    assert given("esan_main", "quora") == ("cnn", False, False)  # "for the NLI task", section 2.1
    assert given("csran_main", "snli") == given("csran_depth", "quora") == ("bilstm", False, False)
    with pytest.raises(InputError, match='--features cannot be "all"; it is "paper" or "none"'):
        launch.resolve(SWEEPS / "esan_main.py", options={"features": "all"})


def test_ablations_change_what_they_say():
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


def test_some_figures_of_esan_and_csran_as_printed():
    def figures(sweep, dataset, label, **settings):
        asked = settings.items()
        rows = [row for row in resolved(sweep, dataset).table.published if row.label.startswith(label)]
        (row,) = (row for row in rows if asked <= row.settings.items())
        return tuple(row.scores.values())

    assert figures("esan_main", "snli", "ESAN") == ("89.0",)
    assert figures("esan_main", "multinli", "DIIN") == ("78.8", "77.8")
    assert figures("esan_ablation", "quora", "ESAN", variant="w/ Simple Augment.") == ("89.1",)
    assert figures("csran_main", "trecqa", "CSRAN") == ("0.854", "0.935")
    assert figures("csran_main", "twitter_url", "CSRAN") == ("84.0",)
    assert figures("csran_main", "ubuntu", "KEHNN") == ("78.6", "0.460", "0.591", "0.819")
    assert figures("csran_ablation", "scitail", "CSRAN", variant="w/o MAR") == ("82.5",)
    # What the papers print outside of their tables.
    assert figures("csran_ablation", "snli", "CSRAN", variant="w/o MAR/CSRA") == ("88.0", "87.7")
    assert figures("csran_ablation", "snli", "CSRAN", variant="w/o MAR") == ("88.4",)
    assert figures("csran_main", "snli", "CSRAN", parameters="13.9M") == ("88.7",)
    assert figures("esan_main", "multinli", "BERT") == ("84.6", "83.4")
    assert [figures("esan_main", name, "MwAN") for name in ("snli", "quora")] == [("86.9",), ("88.2",)]
    (size,) = (row for row in resolved("csran_main", "snli").table.published if row.settings.get("parameters"))
    assert size.source == "Tay et al. (2018), Table 2; parameters: Yang et al. (2019), Table 1"
    assert resolved("csran_ablation", "snli").table.scores == ("dev.accuracy", "test.accuracy")
    notes = [resolved("csran_depth", name).table.notes[0] for name in ("scitail", "snli")]
    assert "+1 on dev and +2.5 on test over a single layer" in notes[0] and notes[1].endswith("print no numbers")
    assert esan.ORIGINAL in esan.ABLATIONS and csran.ORIGINAL in csran.ABLATIONS


def compare(**options):
    return launch.resolve(SWEEPS / "comparison.py", options=options, seeds=2)


def test_a_comparison_gives_all_models_the_same_data_and_seeds():
    planned = compare(dataset="quora")
    runs = planned.runs()
    assert [run.variant for run in runs] == [name for name in ("RE2", "ESAN", "CSRAN", "CAFE") for _ in (0, 1)]
    assert [run.config.model.name for run in runs[::2]] == ["re2", "esan", "csran", "cafe"]
    assert len({repr(run.config.data) for run in runs}) == 1 and [run.seed for run in runs[:2]] == [0, 1]
    assert all(run.config.model.get("characters", "none") == "none" for run in runs)
    # RE2's own setting, and those of the files of the others.
    assert runs[0].config.model.hidden_size == 200 and runs[0].config.training.batch_size == 512
    assert runs[2].config.training.batch_size == 128 and runs[2].config.model.hidden_size == 150
    assert planned.table.scores[-2:] == ("times.train_seconds_a_run", "times.inference_microseconds_a_pair")
    assert [row.label.split()[0] for row in planned.table.published] == ["RE2", "ESAN", "CSRAN", "CAFE"]
    assert planned.table.published[-1].scores == {"test.accuracy": "88.7"}  # ESAN's Table 2: CSRAN's has none of Quora


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
def test_a_paper_stands_in_a_comparison_on_its_own_data_alone(dataset, labels):
    table = compare(dataset=dataset, models="re2,esan,csran").table
    assert [row.label for row in table.published] == labels
    if dataset == "trecqa_clean":
        (row,) = table.published
        assert row.scores == {"test.map": "0.854", "test.mrr": "0.935"} and not row.settings  # beside no row of ours
    assert any("official test pairs" in note for note in table.notes) == (dataset == "multinli")


def test_models_without_a_paper_of_ours_stand_beside_what_papers_quote_of_them():
    planned = compare(dataset="snli", models="all")
    assert [run.config.model.name for run in planned.runs()[::2]] == list(MODELS)
    quoted = {row.settings["model.name"]: row for row in planned.table.published}
    assert list(quoted) == ["re2", "esan", "csran", "cafe", "bimpm", "diin", "decatt", "esim", "siamese"]
    assert quoted["decatt"].scores == {"test.accuracy": "86.8"}
    assert quoted["decatt"].settings["model.intra_attention"] and quoted["decatt"].settings["parameters"] == "0.6M"
    assert quoted["esim"].source == "Tay et al. (2018), Table 2"
    vanilla, intra = (row for row in planned.table.published if row.settings["model.name"] == "decatt")
    assert vanilla.scores == {"test.accuracy": "86.3"} and not vanilla.settings["model.intra_attention"]
    assert intra is quoted["decatt"]
    rows = compare(dataset="scitail", models="decatt,esim,siamese").table.published
    assert [(row.label.split()[0], *row.scores.values()) for row in rows] == [("DecompAtt", "72.3"), ("ESIM", "70.6")]
    (row,) = compare(dataset="quora", models="decatt,esim,cafe").table.published
    assert row.settings["model.name"] == "cafe"  # Tomar's pretrained DecAtt is another model


def test_a_comparison_says_which_models_would_keep_punctuation():
    def said(**options):
        return [note for note in compare(**options).table.notes if "punctuation" in note]

    of_all = "the configs of CSRAN, CAFE, BiMPM, DIIN, DecAtt, ESIM, Siamese BiLSTM, Transformer keep punctuation"
    assert len(said(models="all")) == 1 and of_all in said(models="all")[0]
    assert "the config of CSRAN keeps punctuation" in said(models="re2,csran")[0]
    assert said(models="re2,esan") == []


def test_a_comparison_takes_any_models_and_data_set():
    planned = compare(dataset="sick", models="cafe,re2", features="paper")
    runs = planned.runs()
    assert [run.variant for run in runs] == ["CAFE", "CAFE", "RE2", "RE2"]
    assert runs[0].config.model.characters == "bilstm" and runs[0].config.model.tags
    assert {run.config.data.minimum_count for run in runs} == {1} and {
        run.config.training.batch_size for run in runs
    } == {64}
    assert compare().config.data.name == "embedded_inference"
    with pytest.raises(InputError, match='there is no model "esann" in this sweep; did you mean "esan"'):
        compare(models="re2,esann")
    with pytest.raises(InputError, match='there is no data set "quara" in this sweep; did you mean "quora"'):
        compare(dataset="quara")
    with pytest.raises(InputError, match="config.model.hidden_size is not common to the models of this sweep"):
        launch.resolve(SWEEPS / "comparison.py", overrides={"model.hidden_size": "8"})


@pytest.mark.parametrize(("dataset", "settings"), [("wikiqa", 180), ("quora", 360)])
def test_the_tuning_grid_has_the_ranges_of_the_paper(dataset, settings):
    planned = resolved("re2_tuning", dataset)
    assert len(planned.runs()) == settings
    ends = {key: (min(values), max(values)) for key, values in planned.grid.items() if key != "model.prediction"}
    assert ends == {
        "model.blocks": (1, 3),
        "model.encoder_layers": (1, 3),
        "training.batch_size": (64, 512),
        "optimizer.learning_rate": (1e-4, 3e-3),
    }


@pytest.mark.parametrize("paper", [csran, esan, re2], ids=lambda paper: paper.PRINTED.name)
def test_data_files_name_their_sources_and_hold_figures(paper):
    for table, known in paper.PRINTED.tables.items():
        assert re.fullmatch(r"Table \d+(, ensembles)?|section [\d.]+|slides", table)
        columns = known["columns"]
        assert columns[0] == "row" and set(known.get("unlike", {})) <= set(columns)
        assert len({cells[0] for cells in known["rows"]}) == len(known["rows"])
        for column in (column for column in columns if "." in column):
            data_set, _, score = column.rpartition(" ")
            assert not data_set or data_set in paper.DATA_SETS
            assert score.partition(".")[0] in ("dev", "test", "times")
        for cells in known["rows"]:
            assert len(cells) == len(columns)
            figures = [text for column, text in zip(columns, cells, strict=True) if "." in column]
            assert all(re.fullmatch(r"(\d+\.\d+( ± \d+\.\d+)?|\+\d(\.\d)?)?", text) for text in figures)
    for name, data in paper.DATA_SETS.items():
        if data.main_table:
            assert [row.label for row in paper.PRINTED.rows(f"Table {data.main_table}", name)].count(
                paper.PRINTED.name
            ) == 1


def test_data_files_are_part_of_the_package():
    folder = SWEEPS.parent / "jaxmatch" / "papers"
    patterns = tomllib.loads((SWEEPS.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "jaxmatch.papers"
    ]
    found = {path.stem for pattern in patterns for path in folder.glob(pattern)}
    kept = {path.stem for path in folder.iterdir() if path.suffix not in ("", ".py")}
    assert found == kept == {"csran", "esan", "re2", "systems"}


def test_the_two_rows_of_one_model_have_the_same_figures_in_the_paper():
    for name in re2.ROBUSTNESS:
        rows = {row.label: row.scores for row in re2.PRINTED.rows("Table 7", name)}
        assert len(rows) == 10 and rows["2 blocks"] == rows["2 enc. layers"]


def test_some_figures_as_the_paper_prints_them():
    def figures(sweep, dataset, **settings):
        asked = {key.replace("__", "."): value for key, value in settings.items()}
        (row,) = (row for row in resolved(sweep, dataset).table.published if asked.items() <= row.settings.items())
        return tuple(row.scores.values())

    of_test = ("0.7452 ± 0.0044", "0.7618 ± 0.0040")
    assert figures("re2_main", "wikiqa", model__name="re2") == 2 * of_test  # which were chosen on test
    assert figures("re2_main", "snli", parameters="13.9M") == ("88.7",)
    assert figures("re2_ablation", "scitail", variant="w/o enc-in") == ("78.1",)
    assert figures("re2_ablation", "wikiqa", variant="simple fusion") == ("0.7345",)
    assert figures("re2_robustness", "quora", model__blocks=4) == ("89.5 ± 0.1",)
    assert figures("re2_robustness", "scitail", model__encoder_layers=5) == ("89.1 ± 0.3",)


def test_what_every_variant_sets_cannot_be_set_for_all():
    with pytest.raises(InputError, match="every variant of this sweep sets config.model.blocks"):
        resolved("re2_robustness", "snli", overrides={"model.blocks": "3"})
    assert resolved("re2_ablation", "snli", overrides={"model.blocks": "2"}).config.model.blocks == 2


def test_what_one_variant_sets_cannot_be_set_beside_it():
    with pytest.raises(InputError, match="config.model.fusion is a setting of the variant simple fusion itself"):
        resolved("re2_ablation", "snli", overrides={"model.fusion": "simple"})
    with pytest.raises(InputError, match="config.optimizer.learning_rate is a setting of the variant .*ESAN.* itself"):
        resolved("comparison", "quora", overrides={"optimizer.learning_rate": "0.01"})
    assert resolved("comparison", "quora", overrides={"training.epochs": "2"}).config.training.epochs == 2


def test_best_on_test_is_a_column_of_its_own_that_can_be_left_out():
    assert resolved("re2_main", "wikiqa").table.scores == (
        "dev.mrr",
        "test.map",
        "test.mrr",
        "best_on_test.map",
        "best_on_test.mrr",
    )
    scores = resolved("re2_main", "wikiqa", overrides={"training.best_on_test": "False"}).table.scores
    assert not any("best" in score for score in scores)


@pytest.mark.parametrize("sweep", ["re2_main", "re2_ablation", "re2_robustness"])
def test_the_setting_can_be_that_of_the_paper_or_the_released_one(sweep):
    def asked(dataset, setting):
        return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "setting": setting})

    paper, released, configured = (asked("quora", setting) for setting in ("paper", "released_pytorch", "configured"))
    sizes = [(one.config.model.hidden_size, one.config.data.maximum_length) for one in (paper, released, configured)]
    assert sizes == [(150, 0), (200, 100), (200, 100)]
    assert [one.config.data.remove_punctuation for one in (paper, released, configured)] == [True, False, True]
    assert asked("wikiqa", "released_pytorch").config.training.evaluate_every_samples == 1280
    assert len({one.name for one in (paper, released, configured)}) == 3  # a folder of one is not that of another
    for dataset, late, stops_after in (
        ("snli", 5_120_000, 5_120_000),
        ("quora", 3_584_000, 5_120_000),
        ("scitail", 0, 0),
        ("wikiqa", 0, 0),
    ):
        config = asked(dataset, "released_tensorflow").config
        assert (config.training.late_from_samples, config.training.minimum_samples) == (late, stops_after)
        assert config.training.evaluate_each_epoch == (dataset != "wikiqa")
        assert config.model.connection == "augmented_running_sum"
    assert [one.config.model.dropout_placement for one in (paper, released, configured)] == [
        "every_layer",
        "released",
        "released",
    ]
    told = "Training pairs with a text of 100 tokens or more are left out, as in the authors' code"
    assert [told in one.table.notes for one in (paper, released, configured)] == [False, True, False]
    told = "Training texts are cut after 100 tokens; the authors' code leaves their pairs out"
    assert [told in one.table.notes for one in (paper, released, configured)] == [False, False, True]
    told = "The file's hidden size is 200, as in the released settings; the paper's is 150"
    assert [told in one.table.notes for one in (paper, released, configured)] == [False, True, True]
    told = "Dropout stands where the released code has it; the paper's stands before every layer"
    assert [told in one.table.notes for one in (paper, released, configured)] == [False, True, True]
    said = [" ".join(one.table.notes) for one in (paper, released, configured, asked("quora", "released_tensorflow"))]
    assert ["gains of weights start as in the PyTorch code" in notes for notes in said] == [True, True, True, False]
    assert all("ReLU" in notes and "the authors' code mixes lengths" in notes for notes in said)
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
            asked(dataset, setting)


def test_launchers_of_analyses():
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
    asked = launch.resolve(SWEEPS / "re2_attention.py", options=options).analyses
    assert asked == {"inspect": {"pair": ["A man sleeps.", "Nobody is awake."]}}
    with pytest.raises(InputError, match="one text is no pair; give both --first and --second, or neither"):
        launch.resolve(SWEEPS / "re2_attention.py", options={"first": "A man sleeps."})

"""The published figures that the package holds, and where they come from."""

import re

import pytest
from paper_sweeps import SWEEPS, resolved, shown

from jaxmatch import default_config
from jaxmatch.layers.words import CharacterFeatures
from jaxmatch.papers import csran, esan, re2
from jaxmatch.sweep import launch


def test_selected_esan_and_csran_figures_equal_the_papers():
    def figures(sweep, dataset, label, **settings):
        wanted = settings.items()
        rows = [row for row in resolved(sweep, dataset).table.published if row.label.startswith(label)]
        (row,) = (row for row in rows if wanted <= row.settings.items())
        return tuple(row.scores.values())

    assert figures("esan_main", "snli", "ESAN") == ("89.0",)
    assert figures("esan_main", "multinli", "DIIN") == ("78.8", "77.8")
    assert figures("esan_ablation", "quora", "ESAN", variant="w/ Simple Augment.") == ("89.1",)
    assert figures("csran_main", "trecqa", "CSRAN") == ("0.854", "0.935")
    assert figures("csran_main", "twitter_url", "CSRAN") == ("84.0",)
    assert figures("csran_main", "ubuntu", "KEHNN") == ("78.6", "0.460", "0.591", "0.819")
    assert figures("csran_ablation", "scitail", "CSRAN", variant="w/o MAR") == ("82.5",)
    # Figures that the papers print outside their tables.
    assert figures("csran_ablation", "snli", "CSRAN", variant="w/o MAR/CSRA") == ("88.0", "87.7")
    assert figures("csran_ablation", "snli", "CSRAN", variant="w/o MAR") == ("88.4",)
    assert figures("csran_main", "snli", "CSRAN", parameters="13.9M") == ("88.7",)
    assert figures("esan_main", "multinli", "BERT") == ("84.6", "83.4")
    assert [figures("esan_main", name, "MwAN") for name in ("snli", "quora")] == [("86.9",), ("88.2",)]
    sizes = {row.label.split()[0]: row for row in resolved("csran_main", "snli").table.published}
    assert sizes["CSRAN"].source == "Tay et al. (2018), Table 2; parameters: Yang et al. (2019), Table 1"
    assert sizes["BiMPM"].settings == {"parameters": "1.6M"} and not sizes["DR-BiLSTM"].settings
    assert resolved("csran_ablation", "snli").table.scores == ("dev.accuracy", "test.accuracy")
    depth = [resolved("csran_depth", name).table for name in ("scitail", "snli")]
    notes = [" ".join(table.notes) for table in depth]
    assert "+1 on dev and +2.5 on test over a single layer" in notes[0] and "print no numbers" in notes[1]
    assert {table.scores for table in depth} == {("dev.accuracy", "test.accuracy")}
    assert esan.ORIGINAL in esan.ABLATIONS and csran.ORIGINAL in csran.ABLATIONS


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

    csran_too = sweep in ("csran_main", "comparison")
    decay, clip = "a learning rate times 0.95 every 128,000 pairs, down to 6e-05", "gradients clipped at a norm of 5"
    drops = "a dropout rate of 0.2", "an L2 penalty of 1e-08", clip
    expected = [(decay, clip)] * (sweep != "csran_main") + [drops] * csran_too
    found = notes(features="none")
    assert len(found) == len(expected)
    for note, values in zip(found, expected, strict=True):
        assert note.endswith(f"the paper does not state: {', '.join(values)}")
    size = CharacterFeatures(default_config("esan").model).size
    assert all(note.endswith(f", embeddings of characters of size {size}") for note in notes(features="paper"))


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


def test_selected_re2_figures_equal_the_paper():
    def figures(sweep, dataset, **settings):
        wanted = {key.replace("__", "."): value for key, value in settings.items()}
        table = shown(resolved(sweep, dataset))
        (row,) = (row for row in table.published if wanted.items() <= row.settings.items())
        return tuple(row.scores.values())

    of_test = ("0.7452 ± 0.0044", "0.7618 ± 0.0040")
    assert figures("re2_main", "wikiqa", model__name="re2") == 2 * of_test  # both are the scores chosen on test
    assert figures("re2_main", "snli", parameters="13.9M") == ("88.7",)
    assert figures("re2_ablation", "scitail", variant="w/o enc-in") == ("78.1",)
    assert figures("re2_ablation", "wikiqa", variant="simple fusion") == ("0.7345",)
    assert figures("re2_robustness", "quora", model__blocks=4) == ("89.5 ± 0.1",)
    assert figures("re2_robustness", "scitail", model__encoder_layers=5) == ("89.1 ± 0.3",)

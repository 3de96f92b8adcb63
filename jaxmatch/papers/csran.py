"""CSRAN (Tay et al., 2018): the settings behind the rows of its Tables 2-8 and the curves of its Figures 2 and 3.

The numbers printed in the tables and in the text are in csran.toml. The paper draws the curves without numbers.

The paper gives ranges of sizes, not the sizes of each table (configs/csran.py says which are used), and no number of
runs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import default_config
from jaxmatch.papers.published import printed, unstated_values
from jaxmatch.reporting.layout import Published

PRINTED = printed("csran")
DATA_SETS, data_set = PRINTED.data_sets, PRINTED.data_set
SEEDS = 5
ORIGINAL = "Original"
# The features of each word in the paper (section 2.1). The released code also has part of speech and exact match.
FEATURES: Mapping[str, Any] = {"characters": "bilstm"}

ABLATION = ("snli", "scitail", "trecqa")
ABLATION_LAYERS = 3  # "All ablation baselines reported are stacked with 3 layers", section 3.4
_WITHOUT_BOTH = {"refinement": False, "co_stack": False}
# Table 8: row -> what it changes.
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    ORIGINAL: {},
    "w/o MAR": {"refinement": False},
    "w/o CSRA": {"co_stack": False},
    "w/o MAR/CSRA": _WITHOUT_BOTH,
}
# The note of a table with a row "w/o CSRA" or with the stacked baseline.
ALIGNED_NOTE = (
    "Without co-stack affinity, the affinity is of the last layer; the alignment is then of all layers, which section "
    "3.5 calls identical, unless model.aligned_layers is changed to last, as in the released code"
)
DEPTHS = (1, 2, 3, 4, 5)
# Curves of Figures 2 (SciTail) and 3 (Quora, SNLI): data set -> curve -> what it changes.
CURVES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "scitail": {"CSRAN": {}, "stacked model": _WITHOUT_BOTH},
    "quora": {"CSRAN": {}},
    "snli": {"CSRAN": {}},
}


def ablation_scores(name: str) -> tuple[str, ...]:
    """Returns the scores that Table 8 and section 3.4 print for a data set."""
    return tuple(_ablation_figures(name, ORIGINAL))


def setting_notes(config: ConfigDict, of: str = "Sweep file") -> tuple[str, ...]:
    """Returns the note of a table about values that the paper does not state; see `unstated_values`."""
    return unstated_values(config, of, f"a dropout rate of {config.optimizer.dropout_rate:g}")


def depth_notes(name: str) -> tuple[str, ...]:
    """Returns the notes of a table of the curves for a data set. The paper draws the curves, and prints only two
    differences.
    """
    figure = 2 if name == "scitail" else 3
    found = PRINTED.rows("section 3.5", name)
    if not found:
        return (f"{PRINTED.citation} draw this in Figure {figure} and print no numbers",)
    dev, test = (found[0].scores[score] for score in ("dev.accuracy", "test.accuracy"))
    return (
        f"{PRINTED.citation} draw this in Figure {figure}; footnote 3 says that a stack has {dev} on dev and {test} on "
        "test over a single layer, and that 5 layers are best",
    )


def _matching_settings(config: ConfigDict) -> dict[str, Any]:
    """Returns the settings that a run must have to match a row of the paper, including the features of each word."""
    known = {"model.name": "csran", "data.name": config.data.name, "model.stacked_layers": config.model.stacked_layers}
    return known | {f"model.{key}": value for key, value in FEATURES.items()}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Tables 2 to 7: CSRAN and the single models it is compared with. A data set that is not in the paper has
    no rows.

    Arguments:
      name: the name of the data set.
      config: the config of the data set.
    """
    return PRINTED.main_rows(name, _matching_settings(config))


def published_below_train(system: str) -> tuple[Published, ...]:
    """Returns the row of a system for TrecQA, to be shown below the rows of models that were trained on TRAIN, because
    CSRAN was trained on the larger TRAIN-ALL. For the other systems, the paper does not say.

    Arguments:
      system: the name of the system in Table 6, without its citation.
    """
    rows = published_main("trecqa", default_config("csran"))
    found = (row for row in rows if row.label.partition(" (")[0] == system)
    labels = {PRINTED.label: f"{PRINTED.label.removesuffix(')')}, trained on TRAIN-ALL)"}
    return tuple(dataclasses.replace(row, label=labels.get(row.label, row.label), settings={}) for row in found)


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Table 8 with the scores that section 3.4 adds.

    Arguments:
      name: the name of the data set.
      config: the config of the table's first row.
    """
    stated = _matching_settings(config)
    rows = PRINTED.variant_rows("Table 8", name, {row: {"variant": row} | stated for row in ABLATIONS})
    in_text = any(PRINTED.rows("section 3.4", name))
    return tuple(
        dataclasses.replace(
            row,
            scores=_ablation_figures(name, row.settings["variant"]),
            source=f"{row.source} and section 3.4" if in_text else row.source,
        )
        for row in rows
    )


def _ablation_figures(name: str, label: str) -> dict[str, str]:
    """Returns the scores of a row of Table 8, followed by its scores in the text."""
    return {
        score: text
        for table in ("Table 8", "section 3.4")
        for row in PRINTED.rows(table, name)
        if row.label == label
        for score, text in row.scores.items()
    }

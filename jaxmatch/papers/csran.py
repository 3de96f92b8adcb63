"""CSRAN (Tay et al., 2018): the settings behind the rows of its Tables 2-8 and the curves of its Figures 2 and 3, and the figures
printed in the tables; what the curves show is only drawn.

The paper gives ranges of sizes, not those of each table (configs/csran.py says which are taken), and no number of runs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.papers.data_sets import DataSet, compared, find
from jaxmatch.reporting.tables import Published
from jaxmatch.settings import default_config

CITATION = "Tay et al. (2018)"
LABEL = "CSRAN (paper, GloVe)"
SEEDS = 5
ORIGINAL = "Original"
DATA_SETS = {
    "snli": DataSet("SNLI", "csran_snli", "2", training_pairs=549_367),
    "scitail": DataSet("SciTail", "csran_scitail", "3", training_pairs=23_596),
    "quora": DataSet("Quora", "csran_quora", "4", training_pairs=384_348),
    "twitter_url": DataSet("TwitterURL", "csran_twitter_url", "5", ("dev.f1", "test.f1")),
    "trecqa": DataSet("TrecQA", "csran_trecqa_all_clean", "6", ("dev.map", "test.map", "test.mrr"), 53_417),
    "ubuntu": DataSet(
        "Ubuntu",
        "csran_ubuntu",
        "7",
        ("dev.recall_at_1", "test.accuracy", "test.recall_at_1", "test.recall_at_2", "test.recall_at_5"),
        1_000_000,
    ),
}
# What the paper gives of each word (section 2.1); the released code also has part of speech and exact match.
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
# What a table with a row "w/o CSRA" or with the stacked baseline has to say.
ALIGNED_NOTE = (
    "Without co-stack affinity, the affinity is of the last layer; the alignment is then of all layers, which section 3.5 calls "
    "identical, unless model.aligned_layers is changed to last, as in the released code"
)
DEPTHS = (1, 2, 3, 4, 5)
# Curves of Figures 2 (SciTail) and 3 (Quora, SNLI): data set -> curve -> what it changes.
CURVES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "scitail": {"CSRAN": {}, "stacked model": _WITHOUT_BOTH},
    "quora": {"CSRAN": {}},
    "snli": {"CSRAN": {}},
}


def data_set(name: str, among: tuple[str, ...] = ()) -> DataSet:
    """The data set of that name, among some or all of the paper's.

    Raises:
      InputError: there is none; names the nearest.
    """
    return find(DATA_SETS, name, among)


# Tables 2 to 7: CSRAN last, after the single models it is compared with.
_MAIN = {
    "snli": (
        ("BiMPM (Wang et al., 2017)", "87.5"),
        ("ESIM (Chen et al., 2017)", "88.0"),
        ("DIIN (Gong et al., 2017)", "88.0"),
        ("DR-BiLSTM (Ghaeini et al., 2018)", "88.5"),
        ("CAFE (Tay et al., 2017c)", "88.5"),
        ("CSRAN", "88.7"),
    ),
    "scitail": (
        ("DecompAtt (Parikh et al., 2016)", "72.3"),
        ("ESIM (Chen et al., 2017)", "70.6"),
        ("DGEM (Khot et al., 2018)", "77.3"),
        ("CAFE (Tay et al., 2017c)", "83.3"),
        ("CSRAN", "86.7"),
    ),
    "quora": (
        ("L.D.C (Wang et al., 2016b)", "87.5"),
        ("Word DecompAtt (Tomar et al., 2017)", "87.5"),
        ("BiMPM (Wang et al., 2017)", "88.1"),
        ("Char DecompAtt (Tomar et al., 2017)", "88.4"),
        ("DIIN (Gong et al., 2017)", "89.0"),
        ("CSRAN", "89.2"),
    ),
    # Printed there as shares of one: 0.840.
    "twitter_url": (
        ("MultiP (Xu et al., 2014)", "53.6"),
        ("DeepPairwiseWord (He and Lin, 2016)", "74.9"),
        ("Subword + LM (Lan and Xu, 2018)", "76.0"),
        ("CSRAN", "84.0"),
    ),
    "trecqa": (
        ("HyperQA (Tay et al., 2017a)", "0.784", "0.865"),
        ("MPCNN (Rao et al., 2016)", "0.801", "0.877"),
        ("BiMPM (Wang et al., 2017)", "0.802", "0.899"),
        ("CA (Bian et al., 2017)", "0.821", "0.899"),
        ("IWAN (Shen et al., 2017)", "0.822", "0.889"),
        ("MCAN (Tay et al., 2018c)", "0.838", "0.904"),
        ("CSRAN", "0.854", "0.935"),
    ),
    # The accuracy is printed there as a share of one: 0.839.
    "ubuntu": (
        ("CNTN", "74.3", "0.349", "0.512", "0.797"),
        ("LSTM", "72.5", "0.361", "0.494", "0.801"),
        ("APLSTM", "75.8", "0.381", "0.545", "0.801"),
        ("MV-LSTM", "76.7", "0.410", "0.565", "0.800"),
        ("KEHNN", "78.6", "0.460", "0.591", "0.819"),
        ("MCAN", "83.4", "0.551", "0.684", "0.875"),
        ("CSRAN", "83.9", "0.556", "0.692", "0.880"),
    ),
}
# Scores of the paper whose namesakes here are not known to be, or are not, the same quantity.
_UNLIKE: Mapping[str, Mapping[str, str]] = {
    "twitter_url": {
        "test.f1": "the corpus's own evaluation takes the best F1 over all thresholds on test, ours is that of the likelier label"
    },
    "ubuntu": {"test.accuracy": "ours is over ten candidates of which nine are wrong, where always answering no has 90.0"},
}
# Table 8, dev sets.
_ABLATION_SCORES = {"snli": ("dev.accuracy",), "scitail": ("dev.accuracy",), "trecqa": ("dev.map", "dev.mrr")}
_ABLATION = {
    ORIGINAL: {"snli": ("88.6",), "scitail": ("88.0",), "trecqa": ("0.86", "0.90")},
    "w/o MAR": {"snli": ("88.4",), "scitail": ("82.5",), "trecqa": ("0.79", "0.85")},
    "w/o CSRA": {"snli": ("88.1",), "scitail": ("86.2",), "trecqa": ("0.84", "0.89")},
    "w/o MAR/CSRA": {"snli": ("88.0",), "scitail": ("83.0",), "trecqa": ("0.79", "0.84")},
}


def ablation_scores(name: str) -> tuple[str, ...]:
    """What Table 8 shows of a data set."""
    return _ABLATION_SCORES[name]


def _stated(config: ConfigDict) -> dict[str, Any]:
    """The settings by which a row of the paper finds the same row here: its words' features are part of them."""
    known = {"model.name": "csran", "data.name": config.data.name, "model.stacked_layers": config.model.stacked_layers}
    return known | {f"model.{key}": value for key, value in FEATURES.items()}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Tables 2 to 7: CSRAN and the single models it is compared with; nothing for a set that is not in the paper.

    Arguments:
      name: of the data set.
      config: its setting.
    """
    if name not in _MAIN:
        return ()
    data = DATA_SETS[name]
    scores = tuple(score for score in data.scores if score.startswith("test."))
    source = f"{CITATION}, Table {data.main_table}"
    *others, (_, *figures) = _MAIN[name]
    own = Published(
        LABEL, dict(zip(scores, figures, strict=True)), source, _stated(config), data.training_pairs, unlike=_UNLIKE.get(name, {})
    )
    return (own, *compared(others, scores, source))


def published_for_train_all() -> tuple[Published, ...]:
    """CSRAN's figures for TrecQA, to stand in a table of models trained on the smaller TRAIN: beside no row of it."""
    (row,) = (row for row in published_main("trecqa", default_config("csran")) if row.label == LABEL)
    return (dataclasses.replace(row, label=f"{LABEL[:-1]}, trained on TRAIN-ALL)", settings={}),)


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Table 8; arguments as of `published_main`, the setting that of its first row."""
    scores = _ABLATION_SCORES.get(name, ())
    return tuple(
        Published(
            LABEL,
            dict(zip(scores, figures[name], strict=True)),
            f"{CITATION}, Table 8",
            {"variant": row, **_stated(config)},
            DATA_SETS[name].training_pairs,
        )
        for row, figures in _ABLATION.items()
        if scores
    )

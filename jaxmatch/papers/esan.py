"""ESAN (Hu et al., 2020): the settings behind the rows of its Tables 1-5 and its Figure 2, and the figures printed there.

The paper gives ranges of sizes, not those of each table (configs/esan.py says which are taken), and no number of runs.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.papers.data_sets import DataSet, compared, find
from jaxmatch.reporting.tables import Published

CITATION = "Hu et al. (2020)"
LABEL = "ESAN (paper, GloVe 840B)"
SEEDS = 5
ORIGINAL = "ESAN"
DATA_SETS = {
    "snli": DataSet("SNLI", "esan_snli", "1", training_pairs=549_367),
    "quora": DataSet("Quora", "esan_quora", "2", training_pairs=384_348),
    "multinli": DataSet("MultiNLI", "esan_multinli", "3", training_pairs=392_702),
}
NOTES = {
    "multinli": (
        "The paper's figures are of the official test pairs, matched under dev and mismatched under test; ours of the development "
        "pairs, of which the matched ones also choose the checkpoint",
    )
}
_OTHER_PAIRS = "of the official test pairs, whose labels are not public; ours is of the development pairs"
_CHARACTERS = {"characters": "cnn", "character_features": 100}
_SYNTAX = {"tags": True, "exact_match": True}
_INFERENCE = ("snli", "multinli", "scitail", "sick", "rte", "embedded_inference")


def data_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
      InputError: there is none; names the nearest.
    """
    return find(DATA_SETS, name)


def features(name: str) -> dict[str, Any]:
    """Of a data set, what the paper gives of each word: characters, and on inference tasks part of speech and exact match (section 2.1)."""
    return _CHARACTERS | (_SYNTAX if name in _INFERENCE else {})


# Table 4: row -> what it changes.
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    ORIGINAL: {},
    "w/o Feat. Augment.": {"augmentation": "none"},
    "w/o Word Feat.": {"word_features": False},
    "w/o Contextual Feat.": {"contextual_features": False},
    "w/ Simple Augment.": {"augmentation": "simple"},
}

TIMED_BATCHES = 1000  # of Table 5

# Tables 1 to 3: ESAN and the single models it is compared with.
_ESAN = {
    "snli": {"test.accuracy": "89.0"},
    "quora": {"test.accuracy": "89.3"},
    "multinli": {"dev.accuracy": "79.3", "test.accuracy": "78.4"},
}
_COMPARED = {
    "snli": (
        ("ESIM (Chen et al., 2017)", "88.0"),
        ("BiMPM (Wang et al., 2017)", "87.5"),
        ("DIIN (Gong et al., 2017)", "88.0"),
        ("CAFE (Tay et al., 2018b)", "88.5"),
        ("CSRAN (Tay et al., 2018a)", "88.7"),
        ("ADIN (Liang et al., 2019)", "88.8"),
        ("RE2 (Yang et al., 2019)", "88.9"),
        ("OSOA-DFN (Liu et al., 2019a)", "88.8"),
    ),
    "quora": (
        ("BiMPM (Wang et al., 2017)", "88.2"),
        ("DIIN (Gong et al., 2017)", "89.1"),
        ("CAFE (Tay et al., 2018b)", "88.7"),
        ("CSRAN (Tay et al., 2018a)", "89.2"),
        ("RE2 (Yang et al., 2019)", "89.2"),
        ("OSOA-DFN (Liu et al., 2019a)", "89.0"),
        ("Enhanced-RCNN (Peng et al., 2020)", "89.3"),
    ),
    "multinli": (
        ("DIIN (Gong et al., 2017)", "78.8", "77.8"),
        ("CAFE (Tay et al., 2018b)", "78.7", "77.9"),
        ("AF-DMN (Duan et al., 2018)", "76.9", "76.3"),
        ("MwAN (Tan et al., 2018)", "78.5", "77.7"),
        ("ADIN (Liang et al., 2019)", "78.8", "77.9"),
    ),
}
# Table 4, Quora's dev set.
_ABLATION = {
    ORIGINAL: "89.4",
    "w/o Feat. Augment.": "88.1",
    "w/o Word Feat.": "89.0",
    "w/o Contextual Feat.": "88.9",
    "w/ Simple Augment.": "89.1",
}
# Table 5, on a MacBook Pro with Intel Core i7; and what section 4.2 says of Figure 2, whose other bars have no numbers.
_SIZES_AND_TIMES = {
    "ESAN": ("3.9M", "0.04 ± 0.01", "Table 5 (Intel Core i7)"),
    "BERT": ("109.5M", "0.88 ± 0.06", "Table 5 (Intel Core i7)"),
    "CSRAN": ("> 10M", "", "section 4.2"),
    "MwAN": ("> 10M", "", "section 4.2"),
}


def published_times() -> tuple[Published, ...]:
    """Table 5, and what is said of Figure 2."""
    return tuple(
        Published(label, {"times.batch_seconds": seconds} if seconds else {}, f"{CITATION}, {place}", {"parameters": parameters})
        for label, (parameters, seconds, place) in _SIZES_AND_TIMES.items()
    )


def _stated(name: str, config: ConfigDict) -> dict[str, Any]:
    """The settings by which a row of the paper finds the same row here: its words' features are part of them."""
    return {"model.name": "esan", "data.name": config.data.name, **{f"model.{key}": value for key, value in features(name).items()}}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Tables 1 to 3: ESAN and the single models it is compared with; nothing for a set that is not in the paper.

    Arguments:
      name: of the data set.
      config: its setting.
    """
    if name not in _ESAN:
        return ()
    source = f"{CITATION}, Table {DATA_SETS[name].main_table}"
    known = {"parameters": "3.9M"} if name == "quora" else {}  # Table 5
    unlike = dict.fromkeys(_ESAN[name], _OTHER_PAIRS) if name == "multinli" else {}
    own = Published(LABEL, _ESAN[name], source, _stated(name, config) | known, DATA_SETS[name].training_pairs, unlike=unlike)
    return (own, *compared(_COMPARED[name], tuple(_ESAN[name]), source))


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Table 4, which has Quora alone; arguments as of `published_main`."""
    if name != "quora":
        return ()
    return tuple(
        Published(
            LABEL,
            {"dev.accuracy": figure},
            f"{CITATION}, Table 4",
            {"variant": row, **_stated(name, config)},
            DATA_SETS[name].training_pairs,
        )
        for row, figure in _ABLATION.items()
    )

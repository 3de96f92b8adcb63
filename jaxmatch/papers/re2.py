"""RE2 (Yang et al., 2019): the settings behind the rows of its Tables 1-7, and the figures printed there.

Settings are fields of `config.model` that differ from the setting of the data set (configs/re2.py). That file has the released
model and optimizer, and treats text as the paper says; `with_setting` makes of it the paper's setting or the released one throughout.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.errors import InputError
from jaxmatch.papers.data_sets import VECTOR_ALONE, DataSet, find
from jaxmatch.reporting.tables import Published
from jaxmatch.settings import nearest, with_overrides

CITATION = "Yang et al. (2019)"
LABEL = "RE2 (paper, GloVe 840B)"
SEEDS = 10  # "the average score and the standard deviation of 10 runs", section 3.2
ORIGINAL = "original"
UP_TO = 5  # blocks and encoder layers of Table 7
# What a row of the paper says about its model. The hidden size is left out: the paper gives 150 for all sets, the released
# settings use 200 for three of them.
STATED = ("blocks", "encoder_layers", "alignment", "fusion", "connection", "encoder_input", "prediction", "parallel_blocks")


DATA_SETS = {
    "snli": DataSet("SNLI", "re2_snli", "1", training_pairs=549_367),
    "scitail": DataSet("SciTail", "re2_scitail", "2", training_pairs=23_596),
    "quora": DataSet("Quora", "re2_quora", "3", training_pairs=384_348),
    "wikiqa": DataSet("WikiQA", "re2_wikiqa", "4", scores=("dev.mrr", "test.map", "test.mrr"), training_pairs=20_360),
    "sick": DataSet("SICK", "re2_sick", ""),
}
PAPER = tuple(name for name, one in DATA_SETS.items() if one.main_table)
ROBUSTNESS = ("snli", "quora", "scitail")


def data_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
      InputError: there is none; names the nearest.
    """
    return find(DATA_SETS, name)


# What is trained

CONFIGURED, PAPER_SETTING, RELEASED = "configured", "paper", "released"
# Section 3.2: the hidden size is "150 in all experiments"; "We do not limit the maximum sequence length"; dropout "is applied before
# every fully-connected or convolutional layer".
_PAPER_SETTING = {"model.hidden_size": 150, "model.dropout_placement": "every_layer", "data.maximum_length": 0}
# configs/*.json5 of the released code, where configs/re2.py do otherwise: residual parts are summed over all blocks before; the
# text keeps its punctuation (SNLI's file had lost it before); and dev is scored more often, on the large sets far more often late in a
# run, which is then not stopped early.
_RUNNING_SUM = {"model.connection": "augmented_running_sum"}
_WITH_PUNCTUATION = {"data.remove_punctuation": False}
_OFTEN_LATE = {
    "training.evaluate_every_samples": 512_000,
    "training.evaluate_each_epoch": True,
    "training.evaluate_every_samples_late": 12_800,
    "training.minimum_samples": 5_120_000,
}
_RELEASED = {
    "snli": _RUNNING_SUM | _OFTEN_LATE | {"training.late_from_samples": 5_120_000},
    "scitail": _RUNNING_SUM
    | _WITH_PUNCTUATION
    | {"training.evaluate_every_samples": 6_400, "training.evaluate_each_epoch": True},
    "quora": _RUNNING_SUM | _WITH_PUNCTUATION | _OFTEN_LATE | {"training.late_from_samples": 3_584_000},
    "wikiqa": _RUNNING_SUM | _WITH_PUNCTUATION | {"training.evaluate_every_samples": 1_280},
}


def with_setting(name: str, config: ConfigDict, asked: str) -> ConfigDict:
    """A launcher's option --setting.

    Arguments:
      name: of the data set.
      config: of its file.
      asked: "configured" for what the file says, "paper", or "released".

    Raises:
      InputError: something else is asked, or the released setting of a set that has none.
    """
    if asked not in (CONFIGURED, PAPER_SETTING, RELEASED):
        raise InputError(f'--setting cannot be "{asked}"', remedy=nearest(asked, [CONFIGURED, PAPER_SETTING, RELEASED]))
    if asked == RELEASED and name not in _RELEASED:
        raise InputError(f'there is no released setting for "{name}"', remedy=f"known: {', '.join(_RELEASED)}")
    changes = {CONFIGURED: {}, PAPER_SETTING: _PAPER_SETTING, RELEASED: _RELEASED.get(name, {})}[asked]
    return with_overrides(config, changes)


def called_after(asked: str) -> tuple[str, str]:
    """What a setting adds to the name and to the title of a sweep."""
    return {CONFIGURED: ("", ""), PAPER_SETTING: ("-paper", ", the paper's setting"), RELEASED: ("-released", ", the released setting")}[asked]


def setting_notes(config: ConfigDict) -> tuple[str, ...]:
    """What a table has to say of a setting that is not the paper's."""
    size, notes = config.model.hidden_size, []
    if size != _PAPER_SETTING["model.hidden_size"]:
        notes.append(f"The file's hidden size is {size}, as in the released settings; the paper's is 150")
    if config.model.dropout_placement != _PAPER_SETTING["model.dropout_placement"]:
        notes.append("Dropout stands where the released code has it; the paper's stands before every layer")
    return tuple(notes)


def ablation_notes(config: ConfigDict) -> tuple[str, ...]:
    """`setting_notes` of Table 6, and which residual connection it has."""
    kind = {
        "vanilla": "the sum of the last two blocks' outputs, as the paper has it",
        "vanilla_running_sum": "the released code's: a block's output plus its input, where the first has the embeddings, mapped to its size",
    }[_vanilla(config.model)]
    return (*setting_notes(config), f"residual conn. is {kind}")


def _vanilla(model: Mapping[str, Any]) -> str:
    """The connection of "residual conn." that goes with a model's own: both as in the paper, or both as released."""
    return "vanilla_running_sum" if model["connection"] == "augmented_running_sum" else "vanilla"


def ablations(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Table 6: row -> what it changes.

    Arguments:
      model: `config.model` of the data set; the alternative of a layer is the one it does not use.
    """
    return {
        ORIGINAL: {},
        "w/o enc-in": {"encoder_input": False},
        "residual conn.": {"connection": _vanilla(model)},
        "simple fusion": {"fusion": "simple"},
        "alignment alt.": {"alignment": "linear" if model["alignment"] == "identity" else "identity"},
        "prediction alt.": {"prediction": "full" if model["prediction"] == "simple" else "simple"},
        "parallel blocks": {"parallel_blocks": True},
    }


def robustness(up_to: int = UP_TO) -> dict[str, dict[str, Any]]:
    """Table 7: row -> what it changes. "2 blocks" and "2 enc. layers" are the same model."""
    counts = range(1, up_to + 1)
    blocks = {f"{count} block{'s' * (count > 1)}": {"blocks": count, "encoder_layers": 2} for count in counts}
    layers = {f"{count} enc. layer{'s' * (count > 1)}": {"blocks": 2, "encoder_layers": count} for count in counts}
    return blocks | layers


def distinct(variants: Mapping[str, Mapping[str, Any]], model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The variants that are models of their own: of those with equal settings, the first."""
    kept: dict[str, dict[str, Any]] = {}
    for name, changes in variants.items():
        if not any({**model, **changes} == {**model, **other} for other in kept.values()):
            kept[name] = dict(changes)
    return kept


# Table 5: "the number of encoder layers is set to 3", section 3.6.
TIMED_LAYERS = 3
TIMED_BATCHES = 100


def timed() -> dict[str, dict[str, Any]]:
    """Table 5: row -> what it changes."""
    return {f"RE2 ({count} block{'s' * (count > 1)})": {"blocks": count} for count in (1, 2, 3)}


# Figure 2 is of "a three-block RE2 model", section 3.7, as the released setting of SNLI is; Figure 3 shows the third block as
# the last. The number of seeds is told of neither.
ANALYSED_BLOCKS = 3
ANALYSED_SEEDS = 3

# Section 3.2: "tuned in a range from 1 to 3", "from 1 to 3", "from 0.0001 to 0.003", "from 64 to 512".
TUNING = {
    "model.blocks": (1, 2, 3),
    "model.encoder_layers": (1, 2, 3),
    "training.batch_size": (64, 128, 256, 512),
    "optimizer.learning_rate": (1e-4, 3e-4, 1e-3, 2e-3, 3e-3),
}
# Section 3.4: on this symmetric task "we validate between two symmetric versions of the prediction layer".
TUNING_QUORA = {"model.prediction": ("symmetric", "simple")}


# What was printed

# RE2 itself in Tables 1 to 4: parameters and test scores.
_RE2 = {
    "snli": ("2.8M", {"test.accuracy": "88.9 ± 0.1"}),
    "scitail": ("", {"test.accuracy": "86.0 ± 0.6"}),
    "quora": ("", {"test.accuracy": "89.2 ± 0.2"}),
    "wikiqa": ("", {"test.map": "0.7452 ± 0.0044", "test.mrr": "0.7618 ± 0.0040"}),
}
# The single models it is compared with there: name, parameters, test scores in the order of the data set's.
_COMPARED = {
    "snli": (
        ("DecAtt (Parikh et al., 2016)", "0.6M", "86.8"),
        ("BiMPM (Wang et al., 2017)", "1.6M", "86.9"),
        ("ESIM (Chen et al., 2017)", "4.3M", "88.0"),
        ("DIIN (Gong et al., 2018)", "4.4M", "88.0"),
        ("MwAN (Tan et al., 2018)", "14M", "88.3"),
        ("CAFE (Tay et al., 2018)", "4.7M", "88.5"),
        ("HIM (Chen et al., 2017)", "7.7M", "88.6"),
        ("SAN (Liu et al., 2018)", "3.5M", "88.6"),
        ("CSRAN (Tay et al., 2018)", "13.9M", "88.7"),
        ("DRCN (Kim et al., 2018)", "6.7M", "88.9"),
    ),
    "scitail": (
        ("ESIM (Chen et al., 2017)", "", "70.6"),
        ("DecompAtt (Parikh et al., 2016)", "", "72.3"),
        ("DGEM (Khot et al., 2018)", "", "77.3"),
        ("HCRN (Tay et al., 2018)", "", "80.0"),
        ("CAFE (Tay et al., 2018)", "", "83.3"),
        ("CSRAN (Tay et al., 2018)", "", "86.7"),
    ),
    "quora": (
        ("BiMPM (Wang et al., 2017)", "", "88.2"),
        ("pt-DecAttn-word (Tomar et al., 2017)", "", "87.5"),
        ("pt-DecAttn-char (Tomar et al., 2017)", "", "88.4"),
        ("DIIN (Gong et al., 2018)", "", "89.1"),
        ("MwAN (Tan et al., 2018)", "", "89.1"),
        ("CSRAN (Tay et al., 2018)", "", "89.2"),
        ("SAN (Liu et al., 2018)", "", "89.4"),
    ),
    "wikiqa": (
        ("ABCNN (Yin et al., 2016)", "", "0.6921", "0.7108"),
        ("KVMN (Miller et al., 2016)", "", "0.7069", "0.7265"),
        ("BiMPM (Wang et al., 2017)", "", "0.718", "0.731"),
        ("IWAN (Shen et al., 2017)", "", "0.733", "0.750"),
        ("CA (Wang and Jiang, 2017)", "", "0.7433", "0.7545"),
        ("HCRN (Tay et al., 2018)", "", "0.743", "0.756"),
    ),
}
# The ensembles of Table 1: name, parameters, test accuracy. RE2's is of 8 models "by a voting strategy", section 3.3.
ENSEMBLE_SEEDS = 8
_ENSEMBLES = (
    ("BiMPM (ensemble)", "6.4M", "88.8"),
    ("DIIN (ensemble)", "17M", "88.9"),
    ("CAFE (ensemble)", "17.5M", "89.3"),
    ("MwAN (ensemble)", "58M", "89.4"),
    ("DRCN (ensemble)", "53.3M", "90.1"),
)
# Table 6, dev sets, without deviations; the columns of the paper.
_ABLATION_COLUMNS = ("snli", "quora", "scitail", "wikiqa")
_ABLATION = {
    ORIGINAL: ("88.9", "89.4", "88.9", "0.7740"),
    "w/o enc-in": ("87.2", "85.7", "78.1", "0.7146"),
    "residual conn.": ("88.9", "89.2", "87.4", "0.7640"),
    "simple fusion": ("88.8", "88.3", "87.5", "0.7345"),
    "alignment alt.": ("88.7", "89.3", "88.2", "0.7702"),
    "prediction alt.": ("88.9", "89.2", "88.8", "0.7558"),
    "parallel blocks": ("88.8", "88.6", "87.6", "0.7607"),
}
# Table 6 does not tell the depth of its originals, and Table 7 has two of its figures at another than the released one.
_OTHER_DEPTH = {
    "quora": "the original's 89.4 is that of 3 blocks in Table 7, where 2, which the released ablation trains, have 89.2 ± 0.2",
    "scitail": (
        "the original's 88.9 is that of 2 encoder layers in Table 7, where 3, which the released ablation trains, have 88.7 ± 0.6"
    ),
}
# Table 7, dev sets.
_ROBUSTNESS = {
    "1 block": ("88.1 ± 0.1", "88.7 ± 0.1", "88.3 ± 0.8"),
    "2 blocks": ("88.9 ± 0.2", "89.2 ± 0.2", "88.9 ± 0.3"),
    "3 blocks": ("88.9 ± 0.1", "89.4 ± 0.1", "88.8 ± 0.5"),
    "4 blocks": ("89.0 ± 0.1", "89.5 ± 0.1", "88.7 ± 0.5"),
    "5 blocks": ("89.0 ± 0.2", "89.2 ± 0.2", "88.5 ± 0.5"),
    "1 enc. layer": ("88.6 ± 0.2", "88.9 ± 0.2", "88.1 ± 0.4"),
    "2 enc. layers": ("88.9 ± 0.2", "89.2 ± 0.2", "88.9 ± 0.3"),
    "3 enc. layers": ("89.2 ± 0.1", "89.2 ± 0.1", "88.7 ± 0.6"),
    "4 enc. layers": ("89.1 ± 0.0", "89.1 ± 0.1", "88.7 ± 0.5"),
    "5 enc. layers": ("89.0 ± 0.1", "89.0 ± 0.2", "89.1 ± 0.3"),
}
# Table 5, on a MacBook Pro with Intel Core i7; in TensorFlow.
_TIMES = {
    "BiMPM (Wang et al., 2017)": "0.05 ± 0.00",
    "CAFE (Tay et al., 2018b)": "0.07 ± 0.01",
    "DIIN (Gong et al., 2018)": "0.85 ± 0.11",
    "DIIN with EM feature": "1.79 ± 0.22",
    "CSRAN (Tay et al., 2018a)": "0.28 ± 0.02",
    "RE2 (1 block)": "0.03 ± 0.00",
    "RE2 (2 blocks)": "0.04 ± 0.00",
    "RE2 (3 blocks)": "0.05 ± 0.00",
}


def published_times() -> tuple[Published, ...]:
    """Table 5."""
    source = f"{CITATION}, Table 5 (Intel Core i7)"
    return tuple(Published(label, {"times.batch_seconds": seconds}, source) for label, seconds in _TIMES.items())


def _stated(config: ConfigDict, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which a row of the paper finds the same row here."""
    model = {**config.model.to_dict(), **changes}
    stated = {f"model.{key}": model[key] for key in STATED} | VECTOR_ALONE  # of each word the paper gives RE2 its vector alone
    return {"model.name": "re2", "data.name": config.data.name, **stated, "seeds": SEEDS}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Tables 1 to 4: RE2 and the single models it is compared with; nothing for a set that is not in the paper.

    Arguments:
      name: of the data set.
      config: its released setting, which is that of the paper's row.
    """
    if name not in _RE2:
        return ()
    source = f"{CITATION}, Table {DATA_SETS[name].main_table}"
    parameters, scores = _RE2[name]
    known = {"parameters": parameters} if parameters else {}
    # configs/main.json5 of the released code: eval_file 'test', for all four.
    rows = [Published(LABEL, scores, source, _stated(config, {}) | known, DATA_SETS[name].training_pairs, chosen_on_test=True)]
    for label, parameters, *figures in _COMPARED[name]:
        known = {"parameters": parameters} if parameters else {}
        rows.append(Published(label, dict(zip(scores, figures, strict=True)), source, known))
    return tuple(rows)


def published_ensembles(name: str) -> tuple[Published, ...]:
    """The ensembles of Table 1; nothing for another set than SNLI."""
    if name != "snli":
        return ()
    source = f"{CITATION}, Table 1"
    of = {"data.name": name}
    rows = [Published(label, {"test.accuracy": figure}, source, {"parameters": size, **of}) for label, size, figure in _ENSEMBLES]
    known = {"parameters": "22.4M", "seeds": ENSEMBLE_SEEDS, **of}
    label = "RE2 (ensemble by voting, paper, GloVe 840B)"
    own = Published(label, {"test.accuracy": "89.9"}, source, known, DATA_SETS[name].training_pairs, chosen_on_test=True)
    return (own, *rows)


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Table 6; arguments as of `published_main`."""
    return tuple(_published_dev("6", _ABLATION, _ABLATION_COLUMNS, name, config, ablations(config.model), by_name=True))


def published_robustness(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Table 7; arguments as of `published_main`. Of its two rows for one model, whose figures are equal, the first."""
    variants = distinct(robustness(), config.model.to_dict())
    return tuple(_published_dev("7", _ROBUSTNESS, ROBUSTNESS, name, config, variants, by_name=False))


def _published_dev(
    table: str,
    figures: Mapping[str, tuple[str, ...]],
    columns: tuple[str, ...],
    name: str,
    config: ConfigDict,
    variants: Mapping[str, Mapping[str, Any]],
    by_name: bool,
) -> Iterable[Published]:
    if name not in columns:
        return
    for row, changes in variants.items():
        settings = {"variant": row} if by_name else {}
        score, source = DATA_SETS[name].scores[0], f"{CITATION}, Table {table}"
        unlike = {score: _OTHER_DEPTH[name]} if by_name and name in _OTHER_DEPTH else {}
        yield Published(
            LABEL,
            {score: figures[row][columns.index(name)]},
            source,
            settings | _stated(config, changes),
            DATA_SETS[name].training_pairs,
            unlike=unlike,
        )

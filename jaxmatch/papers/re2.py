"""RE2 (Yang et al., 2019): the settings behind the rows of its Tables 1 to 7, and the values of a launcher's
`--setting`. The numbers printed there are in re2.toml.

`configs/re2.py` has the model and optimizer of the authors' codes, treats text as the paper says, and scores dev after
every epoch. Each of the other values of `--setting` follows one source. The paper's numbers come from the TensorFlow
code (hitvoice/RE2). The PyTorch code came later (alibaba-edu/simple-effective-text-matching-pytorch) and reads the same
settings (configs/*.json5).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import with_overrides
from jaxmatch.errors import InputError, count_text, nearest
from jaxmatch.papers.published import WORD_VECTORS_ONLY, printed
from jaxmatch.reporting.layout import Published

PRINTED = printed("re2")
DATA_SETS, data_set = PRINTED.data_sets, PRINTED.data_set
SEEDS = 10  # "the average score and the standard deviation of 10 runs", section 3.2
ORIGINAL = "original"
UP_TO = 5  # the largest numbers of blocks and of encoder layers in Table 7
# The settings that a row of the paper states. The hidden size is left out: the paper gives 150 for all data sets, and
# the released settings use 200 for three of them.
STATED = "blocks encoder_layers alignment fusion connection encoder_input prediction parallel_blocks".split()


# The values of `--setting`

CONFIGURED, PAPER = "configured", "paper"
RELEASED_PYTORCH, RELEASED_TENSORFLOW = "released_pytorch", "released_tensorflow"

# Section 3.2: the hidden size is "150 in all experiments"; "We do not limit the maximum sequence length"; dropout "is
# applied before every fully-connected or convolutional layer"; Eq. 2 has no temperature; "we tokenize sentences with
# the NLTK toolkit"; the paper names no rate at which decay stops.
_PAPER = {
    "model.hidden_size": 150,
    "model.dropout_placement": "every_layer",
    "model.score_scale": "none",
    "data.maximum_length": 0,
    "data.tokenizer": "word",
    "optimizer.learning_rate_floor": 0.0,
}
# The paper has an "exponentially decaying learning rate with a linear warmup" without numbers. If a config has no
# decay, the default of the authors' codes is used. If a config has no warmup, the warmup is one epoch.
_DECAY = {"optimizer.decay_rate": 0.95, "optimizer.decay_samples": 128_000}
_WARMUP = {"scitail": 23_596, "quora": 384_348, "wikiqa": 20_360, "sick": 4_500}

_OFTEN_LATE = {
    "training.evaluate_every_samples": 512_000,
    "training.evaluate_each_epoch": True,
    "training.evaluate_every_samples_late": 12_800,
    "training.minimum_samples": 5_120_000,
}
# Settings in which both codes differ from configs/re2.py. The codes sum residual parts over all previous blocks. Their
# batches mix lengths. They split texts at white space, which requires their own preparation for SNLI and SciTail. They
# keep punctuation, except for SNLI, whose file had lost it before. They score dev more often. They leave out training
# pairs with a text of `max_len` tokens or more. `max_len` is 100 on Quora, and 999 elsewhere, which no text reaches.
_RELEASED = {
    "snli": _OFTEN_LATE | {"training.late_from_samples": 5_120_000},
    "scitail": {
        "data.remove_punctuation": False,
        "training.evaluate_every_samples": 6_400,
        "training.evaluate_each_epoch": True,
    },
    "quora": _OFTEN_LATE
    | {
        "data.tokenizer": "whitespace",
        "data.remove_punctuation": False,
        "data.drop_from_length": 100,
        "training.late_from_samples": 3_584_000,
    },
    "wikiqa": {"data.remove_punctuation": False, "training.evaluate_every_samples": 1_280},
}
_PYTORCH = {"model.connection": "augmented_running_sum", "training.mix_lengths": True}
# Half an epoch, in pairs.
_SHORT = {"scitail": 11_798, "wikiqa": 10_180}
# In the TensorFlow code, `conv1d` has ReLU, while `dense` replaces ReLU by GeLU. The gain of a weight starts at 1.
_TENSORFLOW = _PYTORCH | {"model.encoder_activation": "relu", "model.weight_normalization": "unit"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One value of `--setting`.

    Attributes:
      title_suffix: the text that it adds to the title of a table.
      residual: the connection of "residual conn." in Table 6, and the text about it in a caption.
      notes: notes about the setting in a caption, besides the differences from the paper.
    """

    title_suffix: str
    residual: tuple[str, str]
    notes: tuple[str, ...] = ()


_OF_THE_PAPER = ("vanilla", "the sum of the last two blocks' outputs, as the paper has it")
_NOT_MIXED = "batches hold pairs of similar length unless training.mix_lengths is set; the authors' code mixes lengths"
# configs/main.json5 of both codes sets eval_file to 'test'. configs/ablation.json5 and robustness.json5 inherit 'dev'.
_BY_DEV = (
    "dev scores choose the checkpoint and end the training; in the authors' configuration of Tables 1 to 4 test scores "
    "do both"
)
_BY_DEV_TOO = "dev scores choose the checkpoint and end the training, as in the authors' configuration of {}"
# This note names a difference from the network that made the paper's numbers, not from the network in the paper.
_NOT_TENSORFLOW = (
    "the convolutions have GeLU, as the paper says, and the gains of weights start as in the PyTorch code; in the "
    "TensorFlow code, which made the paper's numbers, the convolutions have ReLU and the gains start at 1"
)
SETTINGS = {
    CONFIGURED: Setting("", _OF_THE_PAPER, (_NOT_TENSORFLOW, _NOT_MIXED)),
    PAPER: Setting(
        ", the paper's setting",
        _OF_THE_PAPER,
        (
            "the paper gives no numbers of decay and warmup: where the file has none, 0.95 for 128,000 pairs after an "
            "epoch of warmup",
            _NOT_TENSORFLOW,
            _NOT_MIXED,
        ),
    ),
    RELEASED_PYTORCH: Setting(
        ", the setting of the PyTorch code",
        (
            "vanilla_running_sum",
            "the PyTorch code's: a block's output plus its input, where the first has the embeddings, mapped to its "
            "size",
        ),
        (_NOT_TENSORFLOW,),
    ),
    RELEASED_TENSORFLOW: Setting(
        ", the setting of the TensorFlow code",
        (
            "vanilla_projected",
            "the TensorFlow code's: a block's output, mapped to the size of its input, plus its input",
        ),
        (
            "the convolutions have ReLU and the gains of weights start at 1, as in the TensorFlow code; the paper "
            "says GeLU",
        ),
    ),
}


def setting(key: str) -> Setting:
    """Returns the setting that `--setting` requests. Raises an `InputError` if there is none of this name."""
    if key not in SETTINGS:
        raise InputError(f'--setting cannot be "{key}"', remedy=nearest(key, SETTINGS))
    return SETTINGS[key]


def with_setting(name: str, config: ConfigDict, key: str) -> ConfigDict:
    """Returns the config of a data set, from its file, in one of the `SETTINGS`.

    Raises:
      InputError: there is no such setting, or it is that of a code that has none for the data set.
    """
    setting(key)
    if key in (RELEASED_PYTORCH, RELEASED_TENSORFLOW) and name not in _RELEASED:
        raise InputError(f'there is no {key} setting for "{name}"', remedy=f"known: {', '.join(_RELEASED)}")
    changes = {}
    if key == PAPER:
        changes = _PAPER | (_DECAY if config.optimizer.decay_rate == 1 else {})
        if not config.optimizer.warmup_samples and name in _WARMUP:
            changes["optimizer.warmup_samples"] = _WARMUP[name]
    elif key != CONFIGURED:
        changes = _RELEASED[name] | (_PYTORCH if key == RELEASED_PYTORCH else _TENSORFLOW)
    return with_overrides(config, changes)


def short_training(name: str) -> dict[str, Any]:
    """Returns the training that `differences` starts from: six epochs, scored every half epoch.

    Raises:
      InputError: neither code has a setting for the data set, or its training is longer.
    """
    if name not in _SHORT:
        raise InputError(f'there is no short training for "{name}"', remedy=f"known: {', '.join(_SHORT)}")
    return {"training.epochs": 6, "training.evaluate_every_samples": _SHORT[name]}


def differences(name: str, config: ConfigDict) -> dict[str, dict[str, Any]]:
    """Returns rows from the configured setting with a short training to the TensorFlow code's setting: row -> what it
    changes.

    The running sum of residual parts has no row of its own: with up to three blocks it makes no difference. `name` is
    that of a data set with a `short_training`.
    """
    long = {"training.epochs": config.training.epochs}
    often = {key: value for key, value in _RELEASED[name].items() if key.startswith("training.evaluate")}
    code = _TENSORFLOW | _RELEASED[name] | long
    return {
        "original": {},
        "gains from 1": {"model.weight_normalization": "unit"},
        "ReLU": {"model.encoder_activation": "relu"},
        "punctuation kept": {"data.remove_punctuation": False},
        "mixed lengths": {"training.mix_lengths": True},
        "all epochs": long,
        "scored often": often,
        "TensorFlow code without mixed lengths": code | {"training.mix_lengths": False},
        "TensorFlow code": code,
    }


def name_and_title_suffix(key: str) -> tuple[str, str]:
    """Returns what a setting adds to the name and to the title of a sweep."""
    return "" if key == CONFIGURED else f"-{key.replace('_', '-')}", setting(key).title_suffix


def setting_notes(
    config: ConfigDict, key: str = CONFIGURED, of: str = "Sweep file", chosen_on_dev: str = ""
) -> tuple[str, ...]:
    """Returns the notes of a table about the differences of a setting from the paper's.

    Arguments:
      config, key: the config in that setting, and its name.
      of: the part of the table that has the setting, if not all of its rows do.
      chosen_on_dev: the paper's table that is reproduced, if its checkpoints were chosen on dev: "Table 6", "Table 7".
    """
    size, notes = config.model.hidden_size, []
    if size != _PAPER["model.hidden_size"]:
        notes.append(f"the hidden size is {size}, as in the released settings; the paper's is 150")
    if config.model.dropout_placement != _PAPER["model.dropout_placement"]:
        notes.append("dropout is placed as in the released code; the paper places it before every layer")
    if config.model.score_scale != _PAPER["model.score_scale"]:
        notes.append("the alignment has a learned temperature, as in the released code; the paper's Eq. 2 has none")
    if config.model.connection == "augmented_running_sum":
        notes.append(
            "with more than three blocks, the input of a block sums the outputs of all earlier blocks, as in the "
            "released code; the paper's Eq. 1 sums the last two"
        )
    if not config.data.remove_punctuation:
        notes.append("punctuation is kept, as in the released code; the paper removes it")
    schedule = {"decay": config.optimizer.decay_rate < 1, "warmup": config.optimizer.warmup_samples > 0}
    if missing := [name for name, present in schedule.items() if not present]:
        notes.append(f"the learning rate has no {' and no '.join(missing)}; the paper has decay and warmup")
    if config.data.tokenizer != _PAPER["data.tokenizer"]:
        notes.append(
            f'texts are split as by data.tokenizer="{config.data.tokenizer}"; the paper takes NLTK\'s tokenizer'
        )
    floor = config.optimizer.learning_rate_floor
    if floor and config.optimizer.decay_rate < 1:
        notes.append(f"decay stops at a learning rate of {floor:g}, as in the released settings; the paper names none")
    if longest := config.data.drop_from_length:
        notes.append(f"training pairs with a text of {longest} tokens or more are left out, as in the authors' code")
    elif longest := config.data.maximum_length:
        notes.append(
            f"texts are cut after {longest} tokens; the authors' code leaves out training pairs with a text of "
            f"{longest} or more"
        )
    notes += setting(key).notes
    if key != PAPER:
        notes.append(_BY_DEV_TOO.format(chosen_on_dev) if chosen_on_dev else _BY_DEV)
    return tuple(f"{of}: {note}" for note in notes)


def residual_connection(model: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the connection of "residual conn." in Table 6 and the text about it in a caption. Both follow the source
    that `config.model` follows.
    """
    if model["connection"] != "augmented_running_sum":
        return setting(PAPER).residual
    return setting(RELEASED_TENSORFLOW if model["encoder_activation"] == "relu" else RELEASED_PYTORCH).residual


# The settings behind the rows of the tables: fields of `config.model` that differ from the setting of the data set


def ablation_notes(config: ConfigDict, key: str = CONFIGURED) -> tuple[str, ...]:
    """Returns `setting_notes` for Table 6, and notes about rows that can be read in more than one way."""
    _, kind = residual_connection(config.model)
    prose = (
        "w/o enc-in and parallel blocks are our reading of the paper's section 3.7; the authors' code has neither",
    )
    return (
        *setting_notes(config, key, chosen_on_dev="Table 6"),
        *(prose if key in (RELEASED_PYTORCH, RELEASED_TENSORFLOW) else ()),
        f"residual conn. is {kind}",
    )


def ablations(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns Table 6: row -> what it changes. The alternative of a layer is the option that the model does not use."""
    return {
        ORIGINAL: {},
        "w/o enc-in": {"encoder_input": False},
        "residual conn.": {"connection": residual_connection(model)[0]},
        "simple fusion": {"fusion": "simple"},
        "alignment alt.": {"alignment": "linear" if model["alignment"] == "identity" else "identity"},
        "prediction alt.": {"prediction": "full" if model["prediction"] == "simple" else "simple"},
        "parallel blocks": {"parallel_blocks": True},
    }


def robustness(up_to: int = UP_TO) -> dict[str, dict[str, Any]]:
    """Returns Table 7: row -> what it changes. "2 blocks" and "2 enc. layers" are the same model."""
    counts = range(1, up_to + 1)
    blocks = {count_text(count, "block"): {"blocks": count, "encoder_layers": 2} for count in counts}
    layers = {count_text(count, "enc. layer"): {"blocks": 2, "encoder_layers": count} for count in counts}
    return blocks | layers


def distinct(variants: Mapping[str, Mapping[str, Any]], model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the variants that are different models. Of variants with equal settings, the first is kept."""
    kept: dict[str, dict[str, Any]] = {}
    for name, changes in variants.items():
        if not any({**model, **changes} == {**model, **other} for other in kept.values()):
            kept[name] = dict(changes)
    return kept


# Figure 2 shows "a three-block RE2 model" (section 3.7), like the released setting of SNLI. In Figure 3, the third
# block is the last. The paper gives no number of seeds for either figure.
ANALYSED_BLOCKS = 3
ANALYSED_SEEDS = 3


# Numbers that were printed

ENSEMBLE_SEEDS = 8  # RE2's ensemble in Table 1, section 3.3


def _matching_settings(config: ConfigDict, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a run must have to match a row of the paper."""
    model = {**config.model.to_dict(), **changes}
    # The paper gives RE2 only the vector of each word.
    stated = {f"model.{key}": model[key] for key in STATED} | WORD_VECTORS_ONLY
    return {"model.name": "re2", "data.name": config.data.name, **stated, "seeds": SEEDS}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Tables 1 to 4: RE2 and the single models it is compared with. A data set that is not in the paper has no
    rows. `config` is the released setting of the data set, which is that of the paper's row.
    """
    # configs/main.json5 of the released code sets eval_file to 'test' for all four data sets.
    return PRINTED.main_rows(name, _matching_settings(config, {}), chosen_on_test=True)


def published_ensembles(name: str) -> tuple[Published, ...]:
    """Returns the ensembles of Table 1. Data sets other than SNLI have no rows."""
    if name != "snli":
        return ()
    of = {"data.name": name}
    own, *others = PRINTED.rows("Table 1, ensembles")
    own = dataclasses.replace(
        own,
        label="RE2 (ensemble by voting, paper, GloVe 840B)",
        settings={**own.settings, "seeds": ENSEMBLE_SEEDS, **of},
        training_pairs=DATA_SETS[name].training_pairs,
        chosen_on_test=True,
    )
    return (own, *(dataclasses.replace(row, settings={**row.settings, **of}) for row in others))


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Table 6."""
    variants = ablations(config.model)
    settings = {row: {"variant": row} | _matching_settings(config, changes) for row, changes in variants.items()}
    return PRINTED.variant_rows("Table 6", name, settings)


def published_robustness(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Table 7, without the second of two rows that are of the same model and have equal numbers."""
    variants = distinct(robustness(), config.model.to_dict())
    settings = {row: _matching_settings(config, changes) for row, changes in variants.items()}
    return PRINTED.variant_rows("Table 7", name, settings)

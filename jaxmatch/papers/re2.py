"""RE2 (Yang et al., 2019): the settings behind the rows of its Tables 1-7. The numbers printed there are in re2.toml.

Settings are fields of `config.model` that differ from the setting of the data set (configs/re2.py, re2_settings.py).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.papers.data_sets import WORD_VECTORS_ONLY
from jaxmatch.papers.printed import printed
from jaxmatch.papers.re2_settings import (
    CONFIGURED,
    RELEASED_PYTORCH,
    RELEASED_TENSORFLOW,
    residual_connection,
    setting_notes,
)
from jaxmatch.printable import count_text
from jaxmatch.reporting.layout import Published

PRINTED = printed("re2")
DATA_SETS, data_set = PRINTED.data_sets, PRINTED.data_set
PAPER = tuple(name for name, one in DATA_SETS.items() if one.main_table)
ROBUSTNESS = ("snli", "quora", "scitail")
SEEDS = 10  # "the average score and the standard deviation of 10 runs", section 3.2
ORIGINAL = "original"
UP_TO = 5  # the largest numbers of blocks and of encoder layers in Table 7
# The settings that a row of the paper states. The hidden size is left out: the paper gives 150 for all data sets, and
# the released settings use 200 for three of them.
STATED = (
    "blocks",
    "encoder_layers",
    "alignment",
    "fusion",
    "connection",
    "encoder_input",
    "prediction",
    "parallel_blocks",
)


# Settings that are trained


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
    """Returns Table 6: row -> what it changes.

    Arguments:
      model: `config.model` of the data set. The alternative of a layer is the option that this model does not use.
    """
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


# Table 5: "the number of encoder layers is set to 3", section 3.6.
TIMED_LAYERS = 3
TIMED_BATCHES = 100


# Rows of Table 5 for models that are also implemented here: name -> row. (The row "DIIN with EM feature" includes the
# search for exact matches, which is not part of a model here.)
TIMED_BESIDE = {
    "bimpm": "BiMPM (Wang et al., 2017)",
    "cafe": "CAFE (Tay et al., 2018b)",
    "diin": "DIIN (Gong et al., 2018)",
    "csran": "CSRAN (Tay et al., 2018a)",
}
# The network over characters of these models. Parts of speech are left out, because the times of Table 5 leave out the
# tagging.
TIMED_CHARACTERS = {"bimpm": "bilstm", "cafe": "bilstm", "diin": "cnn", "csran": "bilstm"}


def timed() -> dict[str, dict[str, Any]]:
    """Returns Table 5: row -> what it changes."""
    return {f"RE2 ({count_text(count, 'block')})": {"blocks": count} for count in (1, 2, 3)}


# Figure 2 shows "a three-block RE2 model" (section 3.7), like the released setting of SNLI. In Figure 3, the third
# block is the last. The paper gives no number of seeds for either figure.
ANALYSED_BLOCKS = 3
ANALYSED_SEEDS = 3


def tuning(name: str) -> dict[str, tuple]:
    """Returns the grid in which the paper tunes: setting -> values. It gives ranges, not the values tried within them.

    Section 3.2: blocks and encoder layers "from 1 to 3", the learning rate "from 0.0001 to 0.003", batches "from 64 to
    512". Sections 2.2 and 2.4: whether F is a layer and whether the prediction layer is the simplified one are
    hyperparameters. Section 3.4: on Quora "we validate between two symmetric versions of the prediction layer".
    """
    return {
        "model.blocks": (1, 2, 3),
        "model.encoder_layers": (1, 2, 3),
        "model.alignment": ("linear", "identity"),
        "model.prediction": ("symmetric" if name == "quora" else "full", "simple"),
        "training.batch_size": (64, 128, 256, 512),
        "optimizer.learning_rate": (1e-4, 3e-4, 1e-3, 2e-3, 3e-3),
    }


# Numbers that were printed

ENSEMBLE_SEEDS = 8  # RE2's ensemble in Table 1, section 3.3


def published_times() -> tuple[Published, ...]:
    """Returns the rows of Table 5."""
    return PRINTED.rows("Table 5")


def _matching_settings(config: ConfigDict, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a run must have to match a row of the paper."""
    model = {**config.model.to_dict(), **changes}
    # The paper gives RE2 only the vector of each word.
    stated = {f"model.{key}": model[key] for key in STATED} | WORD_VECTORS_ONLY
    return {"model.name": "re2", "data.name": config.data.name, **stated, "seeds": SEEDS}


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Tables 1 to 4: RE2 and the single models it is compared with. A data set that is not in the paper has no
    rows.

    Arguments:
      name: the name of the data set.
      config: its released setting, which is the setting of the paper's row.
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
    """Returns Table 6. The arguments are as in `published_main`."""
    variants = ablations(config.model)
    settings = {row: {"variant": row} | _matching_settings(config, changes) for row, changes in variants.items()}
    return PRINTED.variant_rows("Table 6", name, settings)


def published_robustness(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Table 7. The arguments are as in `published_main`. Two of its rows are of the same model and have equal
    numbers; the first is returned.
    """
    variants = distinct(robustness(), config.model.to_dict())
    settings = {row: _matching_settings(config, changes) for row, changes in variants.items()}
    return PRINTED.variant_rows("Table 7", name, settings)

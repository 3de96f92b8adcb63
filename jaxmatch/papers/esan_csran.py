"""ESAN (Hu et al., 2020): the settings behind the rows of its Tables 1-5 and its Figure 2. CSRAN (Tay et al., 2018):
those of its Tables 2-8 and of the curves of its Figures 2 and 3.

The numbers that the papers print are in esan.toml, with those of the authors' slides, and in csran.toml. CSRAN's paper
draws the curves without numbers. Both papers give ranges of sizes, not the sizes of each table (configs/esan.py and
configs/csran.py say which are used), and no number of runs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import default_config
from jaxmatch.papers.published import Printed, printed
from jaxmatch.reporting.layout import Published


class Esan(Printed):
    """The paper of ESAN."""

    SEEDS = 5
    ORIGINAL = "ESAN"
    # Table 4: row -> what it changes.
    ABLATIONS: Mapping[str, Mapping[str, Any]] = {
        ORIGINAL: {},
        "w/o Feat. Augment.": {"augmentation": "none"},
        "w/o Word Feat.": {"word_features": False},
        "w/o Contextual Feat.": {"contextual_features": False},
        "w/ Simple Augment.": {"augmentation": "simple"},
    }

    def features(self, name: str) -> dict[str, Any]:
        """Returns the features that the paper gives each word of a data set: characters and, on inference tasks, part
        of speech and exact match (section 2.1).
        """
        inference = name in ("snli", "multinli", "scitail", "sick", "rte", "embedded_inference")
        syntax = {"tags": True, "exact_match": True} if inference else {}
        return {"characters": "cnn", "character_features": 100, **syntax}

    def _matching(self, name: str, config: ConfigDict) -> dict[str, Any]:
        """Returns the settings that a run must have to match a row of the paper."""
        features = {f"model.{key}": value for key, value in self.features(name).items()}
        return {"model.name": "esan", "data.name": config.data.name, **features}

    def published_main(self, name: str, config: ConfigDict) -> tuple[Published, ...]:
        """Returns Tables 1 to 3: ESAN and the single models it is compared with, followed by the rows that only the
        slides have. `name` and `config` are those of the data set.
        """
        known = self.rows("Table 5")[0].settings if name == "quora" else {}  # the size of the model, as timed there
        return self.main_rows(name, self._matching(name, config) | known)

    def published_ablation(self, name: str, config: ConfigDict) -> tuple[Published, ...]:
        """Returns Table 4, which covers Quora alone."""
        stated = self._matching(name, config)
        return self.variant_rows("Table 4", name, {row: {"variant": row} | stated for row in self.ABLATIONS})


class Csran(Printed):
    """The paper of CSRAN."""

    SEEDS = 5
    ORIGINAL = "Original"
    # The features of each word in the paper (section 2.1). The released code also has part of speech and exact match.
    FEATURES: Mapping[str, Any] = {"characters": "bilstm"}
    ABLATION = ("snli", "scitail", "trecqa")
    ABLATION_LAYERS = 3  # "All ablation baselines reported are stacked with 3 layers", section 3.4
    WITHOUT_BOTH: Mapping[str, Any] = {"refinement": False, "co_stack": False}
    # Table 8: row -> what it changes.
    ABLATIONS: Mapping[str, Mapping[str, Any]] = {
        ORIGINAL: {},
        "w/o MAR": {"refinement": False},
        "w/o CSRA": {"co_stack": False},
        "w/o MAR/CSRA": WITHOUT_BOTH,
    }
    # The note of a table with a row "w/o CSRA" or with the stacked baseline.
    ALIGNED_NOTE = (
        "Without co-stack affinity, the affinity is of the last layer; the alignment is then of all layers, which "
        "section 3.5 calls identical, unless model.aligned_layers is changed to last, as in the released code"
    )

    def _matching(self, config: ConfigDict) -> dict[str, Any]:
        """Returns the settings that a run must have to match a row of the paper."""
        model = {"name": "csran", "stacked_layers": config.model.stacked_layers, **self.FEATURES}
        return {"data.name": config.data.name, **{f"model.{key}": value for key, value in model.items()}}

    def published_main(self, name: str, config: ConfigDict) -> tuple[Published, ...]:
        """Returns Tables 2 to 7: CSRAN and the single models it is compared with. `name` and `config` are those of the
        data set. One that is not in the paper has no rows.
        """
        return self.main_rows(name, self._matching(config))

    def published_below_train(self, system: str) -> tuple[Published, ...]:
        """Returns the row of a system for TrecQA, to be shown below the rows of models that were trained on TRAIN,
        because CSRAN was trained on the larger TRAIN-ALL. For the other systems, the paper does not say.

        Arguments:
          system: the name of the system in Table 6, without its citation.
        """
        rows = self.published_main("trecqa", default_config("csran"))
        found = (row for row in rows if row.label.partition(" (")[0] == system)
        labels = {self.label: f"{self.label.removesuffix(')')}, trained on TRAIN-ALL)"}
        return tuple(dataclasses.replace(row, label=labels.get(row.label, row.label), settings={}) for row in found)

    def published_ablation(self, name: str, config: ConfigDict) -> tuple[Published, ...]:
        """Returns Table 8. `config` is that of the table's first row."""
        stated = self._matching(config)
        return self.variant_rows("Table 8", name, {row: {"variant": row} | stated for row in self.ABLATIONS})


esan, csran = printed("esan", Esan), printed("csran", Csran)

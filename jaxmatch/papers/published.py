"""The numbers that papers printed, read from one data file for each paper (re2.toml, esan.toml, csran.toml), and what
the modules of these papers share. systems.toml holds numbers of further papers.

A file has the paper's data sets and its tables, each under the name of the table or section that it was copied from:

    [tables."Table 4"]
    columns = ["row", "parameters", "wikiqa test.map", "wikiqa test.mrr"]
    rows = [["KVMN (Miller et al., 2016)", "", "0.7069", "0.7265"]]

A column of numbers is named by data set and score, or by the score alone if the table has no data sets. An empty cell
means that the paper prints nothing there. `unlike` gives, for a column, the reason why our score of that name must
not be compared with it; `source`, or `source_of_DATA_SET`, where the numbers are if not only in the table.
"""

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import with_overrides
from jaxmatch.errors import InputError, nearest
from jaxmatch.reporting.layout import Published, score_heading
from jaxmatch.reporting.records import grouped

PAPERS = ("re2", "esan", "csran")
ACCURACY = ("dev.accuracy", "test.accuracy")
# The values of a launcher's option --features.
PAPER, NONE = "paper", "none"
WORD_VECTORS_ONLY = {"model.characters": "none", "model.tags": False, "model.exact_match": False}


# Printed numbers


@dataclasses.dataclass(frozen=True)
class PaperDataSet:
    """A data set of a paper, or one that is only trained here.

    Attributes:
      title: the name of the data set, as tables show it.
      config: the stem of its file in configs/.
      main_table: the number of its table of results, or "" if the data set is not in the paper.
      scores: the scores that a table shows. The first is the score that chooses the checkpoint.
      training_pairs: the number of pairs of the official training set; 0 if unknown.
    """

    title: str
    config: str
    main_table: str
    scores: tuple[str, ...]
    training_pairs: int = 0


@dataclasses.dataclass(frozen=True)
class Printed:
    """The data file of a paper.

    Attributes:
      name: the name of the paper's model, as in the rows of its tables.
      citation: the citation of the paper: "Yang et al. (2019)".
      label: the label of its model in our tables.
      data_sets: name -> data set.
      tables: name of a table or section -> its columns and rows.
      notes: data set -> notes that our tables of it must have.
    """

    name: str
    citation: str
    label: str
    data_sets: Mapping[str, PaperDataSet]
    tables: Mapping[str, Mapping[str, Any]]
    notes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def data_set(self, name: str, among: Sequence[str] = ()) -> PaperDataSet:
        """Returns a data set by its name, out of those that a sweep takes (default: all). Else an `InputError`."""
        known = list(among or self.data_sets)
        if name not in known:
            raise InputError(f'there is no data set "{name}" in this sweep', remedy=nearest(name, known))
        return self.data_sets[name]

    def rows(self, table: str, data_set: str = "") -> tuple[Published, ...]:
        """Returns the rows of a table that have a number for a data set, or with "" all rows and columns."""
        known = self.tables[table]
        source = f"{self.citation}, {known.get(f'source_of_{data_set}') or known.get('source', table)}"
        found = []
        for cells in known["rows"]:
            row = {column: text for column, text in zip(known["columns"], cells, strict=True) if text}
            label = row.pop("row")
            scores = _of_data_set({column: text for column, text in row.items() if "." in column}, data_set)
            if scores or not data_set:
                settings = {column: text for column, text in row.items() if "." not in column}
                found.append(Published(label, scores, source, settings))
        return tuple(found)

    def main_rows(self, name: str, settings: Mapping[str, Any], **more: Any) -> tuple[Published, ...]:
        """Returns the main table of a data set: the paper's own model, followed by the models it is compared with,
        and by those that only its authors' slides have. On SNLI, a model without a size gets the size in RE2's Table 1.
        Where the papers print different numbers for a model, the source of its row names the others.

        Arguments:
          name: the name of the data set. Without a main table, it has no rows.
          settings: the settings that a run of ours must have to match the paper's own row.
          **more: further attributes of that row.
        """
        if name not in self.data_sets or not self.data_sets[name].main_table:
            return ()
        table = f"Table {self.data_sets[name].main_table}"
        rows = self.rows(table, name)
        if "slides" in self.tables:
            known = {_model_of(row) for row in rows}
            rows += tuple(row for row in self.rows("slides", name) if _model_of(row) not in known)
        rows = tuple(_with_size(_with_conflicts(row, name), name) for row in rows)
        (own,) = (row for row in rows if row.label == self.name)
        others = (row for row in rows if row is not own)
        return (self._own(own, table, name, {**settings, **own.settings}, **more), *others)

    def variant_rows(self, table: str, name: str, settings: Mapping[str, Mapping[str, Any]]) -> tuple[Published, ...]:
        """Returns the rows of a table about variants of the paper's own model.

        Arguments:
          table: the name of the table in the file.
          name: the name of the data set. A data set that the table lacks has no rows.
          settings: row of the table -> the settings that a run of ours must have to match it.
        """
        rows = {row.label: row for row in self.rows(table, name)}
        return tuple(self._own(rows[label], table, name, own) for label, own in settings.items()) if rows else ()

    def setting_notes(self, config: ConfigDict, of: str = "Sweep file") -> tuple[str, ...]:
        """Returns the note of a table about the values that ESAN's or CSRAN's paper does not state: those of the
        optimizer and of characters. (ESAN's names the decay, without numbers.) `of`: which of our rows have the values.
        """
        optimizer = config.optimizer
        values = [f"a dropout rate of {optimizer.dropout_rate:g}"] if config.model.name == "csran" else []
        if optimizer.decay_rate < 1:
            least = f", down to {optimizer.learning_rate_floor:g}" if optimizer.learning_rate_floor else ""
            decay = f"a learning rate times {optimizer.decay_rate:g} every {optimizer.decay_samples:,} pairs"
            values.append(decay + least)
        if optimizer.l2_penalty:
            values.append(f"an L2 penalty of {optimizer.l2_penalty:g}")
        if optimizer.gradient_clip:
            values.append(f"gradients clipped at a norm of {optimizer.gradient_clip:g}")
        if config.model.characters != "none":
            values.append("embeddings of characters of size 20")
        return (f"{of}: values that the paper does not state: {', '.join(values)}",) if values else ()

    def _own(self, row: Published, table: str, name: str, settings: Mapping[str, Any], **more: Any) -> Published:
        return dataclasses.replace(
            row,
            label=self.label,
            settings=settings,
            training_pairs=self.data_sets[name].training_pairs,
            unlike=_of_data_set(self.tables[table].get("unlike", {}), name),
            **more,
        )


@functools.cache
def printed(paper: str, kind: type = Printed) -> Any:
    """Reads the data file of one of `PAPERS`, as a `Printed`, or as a class derived from it."""
    fields = _data_file(paper)
    data_sets = fields.pop("data_sets").items()
    scores = {name: tuple(known.pop("scores", ACCURACY)) for name, known in data_sets}
    return kind(data_sets={name: PaperDataSet(scores=scores[name], **known) for name, known in data_sets}, **fields)


def _model_of(row: Published) -> str:
    """Returns the name of the model of a printed row, without its citation."""
    return row.label.partition(" (")[0]


def _with_conflicts(row: Published, data_set: str) -> Published:
    """Returns the row with the other numbers that the papers print for its model in its source."""
    others = [
        (f"{score_heading(score)} {text}", other.source)
        for paper in PAPERS
        for table in printed(paper).tables
        for other in printed(paper).rows(table, data_set)
        for score, text in other.scores.items()
        if _model_of(other) == _model_of(row) and score in row.scores
        if text.partition(" ")[0] != row.scores[score].partition(" ")[0]
    ]
    found = grouped(others, lambda other: other[0])
    texts = (f"; {number} in {' and in '.join(source for _, source in same)}" for number, same in found.items())
    return dataclasses.replace(row, source=row.source + "".join(texts))


def _with_size(row: Published, data_set: str) -> Published:
    """Returns the row with the number of parameters that RE2's Table 1, which covers SNLI, has of its model."""
    found = [each for each in printed("re2").rows("Table 1", data_set) if _model_of(each) == _model_of(row)]
    if "parameters" in row.settings or not found:
        return row
    settings = {**row.settings, "parameters": found[0].settings["parameters"]}
    return dataclasses.replace(row, source=f"{row.source}; parameters: {found[0].source}", settings=settings)


def _of_data_set(columns: Mapping[str, str], data_set: str) -> dict[str, str]:
    """Returns the columns of a data set under the names of their scores; with "", all, under their own names."""
    prefix = f"{data_set} " if data_set else ""
    return {column.removeprefix(prefix): text for column, text in columns.items() if column.startswith(prefix)}


def _data_file(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("jaxmatch.papers").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def of_system(model: str, data_set: str) -> tuple[Published, ...]:
    """Returns the rows that the paper of a further system prints of its own model (systems.toml), by its name in a
    config, for a data set such as 'snli', or no rows if none are known.
    """
    rows = []
    for row in _data_file("systems")["figures"]:
        key = row.pop("model"), row.pop("data_set")
        if key == (model, data_set):
            rows.append(Published(**{**row, "settings": {"model.name": model, **row["settings"]}}))
    return tuple(rows)


# Settings


def variants(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns variants as a sweep takes them: {"1 block": {"blocks": 1}} becomes {"1 block": {"model.blocks": 1}}."""
    return {name: {f"model.{key}": value for key, value in one.items()} for name, one in changes.items()}


def feature_settings(features: Mapping[str, Any], choice: str) -> dict[str, Any]:
    """Returns the settings that give a model the features that its paper gives each word besides the vector.

    Arguments:
      features: fields of `config.model`.
      choice: "paper", or "none" for the vector alone. Other values are an `InputError`.
    """
    if choice not in (PAPER, NONE):
        raise InputError(f'--features cannot be "{choice}"', remedy=f'it is "{PAPER}" or "{NONE}"')
    if choice == NONE:
        return {**WORD_VECTORS_ONLY, "data.minimum_count": 5}
    found = WORD_VECTORS_ONLY | {f"model.{key}": value for key, value in features.items()}
    if features.get("characters", "none") != "none":
        found["data.minimum_count"] = 1  # a word that the vocabulary lacks has no characters (data/text.py)
    return found


def with_features(config: ConfigDict, features: Mapping[str, Any], choice: str) -> ConfigDict:
    """Returns the config with `feature_settings`."""
    return with_overrides(config, feature_settings(features, choice))

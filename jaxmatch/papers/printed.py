"""The numbers that the papers printed, read from one data file for each paper (re2.toml, esan.toml, csran.toml).

A file has the paper's data sets and its tables, each under the name of the table or section that it was copied from:

    [tables."Table 4"]
    columns = ["row", "parameters", "wikiqa test.map", "wikiqa test.mrr"]
    rows = [["KVMN (Miller et al., 2016)", "", "0.7069", "0.7265"]]

A column of numbers is named by data set and score, or by the score alone if the table has no data sets. An empty cell
means that the paper prints nothing there. `unlike` gives, for a column, the reason why our score of that name must
not be compared with it.
"""

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jaxmatch.errors import InputError, nearest
from jaxmatch.papers.data_sets import PaperDataSet
from jaxmatch.reporting.layout import Published, score_heading
from jaxmatch.reporting.records import grouped

PAPERS = ("re2", "esan", "csran")


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
    notes: Mapping[str, tuple[str, ...]]

    def data_set(self, name: str, among: Sequence[str] = ()) -> PaperDataSet:
        """Returns a data set by its name.

        Arguments:
          name: the requested name.
          among: the names that a sweep takes; all names if it is empty.

        Raises:
          InputError: no data set has this name. The message suggests the nearest name.
        """
        known = list(among or self.data_sets)
        if name not in known:
            raise InputError(f'there is no data set "{name}" in this sweep', remedy=nearest(name, known))
        return self.data_sets[name]

    def rows(self, table: str, data_set: str = "") -> tuple[Published, ...]:
        """Returns the rows of a table, in its order.

        Arguments:
          table: the name of the table in the file.
          data_set: the data set of the columns; "" for all columns. Rows without a number for it are left out.
        """
        known = self.tables[table]
        source = f"{self.citation}, {known.get('source', table)}"
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
def printed(paper: str) -> Printed:
    """Reads the data file of one of `PAPERS`."""
    text = resources.files("jaxmatch.papers").joinpath(f"{paper}.toml").read_text(encoding="utf-8")
    fields = tomllib.loads(text)
    fields["notes"] = _tuples(fields.get("notes", {}))
    data_sets = {name: PaperDataSet(**_tuples(known)) for name, known in fields.pop("data_sets").items()}
    return Printed(data_sets=data_sets, **fields)


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
    """Returns the row with the number of parameters that RE2's Table 1, which covers SNLI, prints for its model.
    Returns the row unchanged if it has a number of parameters, if Table 1 has none for its model, or if `data_set` is
    not SNLI.
    """
    found = [each for each in printed("re2").rows("Table 1", data_set) if _model_of(each) == _model_of(row)]
    if "parameters" in row.settings or not found:
        return row
    size = found[0].settings["parameters"]
    return dataclasses.replace(
        row,
        source=f"{row.source}; parameters: {found[0].source}",
        settings={**row.settings, "parameters": size},
    )


def _of_data_set(columns: Mapping[str, str], data_set: str) -> dict[str, str]:
    """Returns the columns of a data set under the names of their scores. With "", returns all columns under their own
    names.
    """
    prefix = f"{data_set} " if data_set else ""
    return {column.removeprefix(prefix): text for column, text in columns.items() if column.startswith(prefix)}


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}

"""No cell of a CSV file is evaluated as a formula by a spreadsheet program, and numbers stay numbers."""

import csv
import io

import pytest
from small_records import record

from jaxmatch.reporting.formats import csv_text
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.table import make_table


def _cell(value):
    ((read,),) = csv.reader(io.StringIO(csv_text([[value]])))
    return read


@pytest.mark.parametrize(
    "value", ["=1+1", "+a", "-a", "@SUM(A1)", "  =1", "-1+1", "＝1", '=cmd|"/c calc"!A0', "-inf", "-", "+1 -1"]
)
def test_formulas_are_quoted_as_text(value):
    assert _cell(value) == "'" + value


@pytest.mark.parametrize(
    ("value", "shown"), [("\t=1", r"'\t=1"), ("\r=1", r"'\r=1"), ("\n@", r"'\n@"), ("a\x1b", r"a\x1b")]
)
def test_control_characters_are_escaped(value, shown):
    assert _cell(value) == shown


@pytest.mark.parametrize(
    "value", [-1, -1.5, "-1.5", "+2", "-1e-05", 0, True, "a=b", "a-b", "", "–", "a,b", 'a"b', [1, -2]]
)
def test_other_values_are_unchanged(value):
    assert _cell(value) == str(value)


def test_none_is_an_empty_cell():
    assert csv_text([[None, 1], ["a", None]]) == ",1\na,\n"


def test_a_table_of_a_sweep_quotes_settings_and_keeps_negative_numbers():
    runs = [record(variant="=HYPERLINK(1)", dev={"accuracy": 0.5, "mrr": -0.25})]
    table = make_table(runs, TableLayout("t", ("variant",), scores=("dev.mrr",)))
    (line,) = csv.DictReader(io.StringIO(table.csv()))
    assert line["variant"] == "'=HYPERLINK(1)" and line["dev.mrr.mean"] == "-0.25"

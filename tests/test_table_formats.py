"""Markdown, LaTeX, CSV and JSON tables are correct for any order of the records and any characters in them."""

import csv
import io
import json
import re
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_records import LAYOUT, SMALL_GRID, cells, record

from jaxmatch.reporting import formats
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.table import make_table


@settings(max_examples=20, deadline=None)
@given(st.permutations(SMALL_GRID), st.sampled_from(["", "optimizer.learning_rate"]))
def test_tables_do_not_depend_on_record_order(records, pivot):
    layout = TableLayout("t", ("model.blocks",), pivot)
    one, two = make_table(SMALL_GRID, layout), make_table(records, layout)
    assert one.markdown() == two.markdown()
    assert one.latex() == two.latex()
    assert one.csv() == two.csv()
    assert one.json() == two.json()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_csv_and_json_hold_unrounded_numbers(values):
    records = [record(seed=seed, dev={"accuracy": value}) for seed, value in enumerate(values)]
    table = make_table(records, LAYOUT)
    (line,) = csv.DictReader(io.StringIO(table.csv()))
    assert float(line["dev.accuracy.mean"]) == statistics.fmean(values)
    assert float(line["dev.accuracy.std"]) == statistics.stdev(values)
    assert line["dev.accuracy.n"] == str(len(values))
    (row,) = json.loads(table.json())["rows"]
    assert row["scores"]["dev.accuracy"]["values"] == {str(seed): value for seed, value in enumerate(values)}
    assert [run["run"] for run in row["runs"]] == [each["run"] for each in records]


def test_json_contains_times_versions_scores_and_settings():
    (row,) = json.loads(make_table([record()], LAYOUT).json())["rows"]
    (run,) = row["runs"]
    assert run["times"] == {"train_seconds": 12.34} and run["versions"] == {"jax": "0.10.2"}
    assert run["scores"]["best_on_test"]["accuracy"] == pytest.approx(0.861)
    assert row["settings"] == {"model.blocks": 1, "optimizer.learning_rate": 0.001}


def unescape(latex):
    """Undoes the escapes of LaTeX that this project makes, longest first."""
    table = formats.LATEX
    names = sorted(table.values(), key=len, reverse=True) + ["{}"]
    back = {escape: character for character, escape in table.items()} | {"{}": ""}
    return re.sub("|".join(map(re.escape, names)), lambda match: back[match[0]], latex)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab \\&%$#_{}~^<>|`\"[]*±×–“”,-'", max_size=20))
def test_latex_escapes_are_reversible_and_leave_no_special_characters(text):
    text = " ".join(text.split())
    escaped = formats.escape_latex(text)
    assert unescape(escaped) == text
    bare = re.sub(r"\\[a-z]+\{\}|\$\\[a-z]+\$|\$-\$|\\[&%$#_{}]|\{\[\}|\{\*\}|\{\}", "", escaped)
    assert not set(bare) & set('\\&%$#_{}~^<>|"[*')
    # LaTeX ligatures occur only where the text has the character that they produce.
    for sign, means in (("--", "–"), ("''", "”"), ("``", "“"), (",,", "„")):
        assert escaped.count(sign) == text.count(means)


def test_special_characters_are_escaped_in_markdown_and_latex():
    name = "50% of a_b & c|d {x} #1 *new* _it_"
    records = [record(variant=name, device="a_b")]
    table = make_table(records, TableLayout("100% & more", ("variant",)))
    assert cells(table)[1][0] == r"50% of a_b & c\|d {x} #1 \*new\* \_it\_"
    latex = table.latex()
    assert r"50\% of a\_b \& c\textbar{}d \{x\} \#1 {*}new{*} \_it\_ &" in latex
    assert r"\caption{100\% \& more." in latex and r"\label{tab:100-more}" in latex


def test_latex_rows_have_as_many_cells_as_columns_and_braces_match():
    layout = TableLayout("t", ("model.blocks",), "optimizer.learning_rate", ("dev.accuracy", "test.accuracy"))
    for pivot in (layout, LAYOUT):
        latex = make_table(SMALL_GRID, pivot).latex()
        columns = len(re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)[1])
        rows = [line for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert len(rows) == 1 + len(make_table(SMALL_GRID, pivot).rows)
        assert all(len(re.split(r"(?<!\\)&", row)) == columns for row in rows)
        plain = re.sub(r"\\[{}]", "", latex)
        assert plain.count("{") == plain.count("}")
        assert latex.index(r"\toprule") < latex.index(r"\midrule") < latex.index(r"\bottomrule")
        for environment in ("table", "tabular"):
            assert latex.count(rf"\begin{{{environment}}}") == latex.count(rf"\end{{{environment}}}") == 1

"""Control characters never reach a terminal: errors, tables, pages and progress show them as escapes."""

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from small_records import record

from jaxmatch.cli.common import note, show
from jaxmatch.errors import InputError, printable, printable_json
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.report import grid, templates
from jaxmatch.reporting.table import make_table
from jaxmatch.sweep.display import Display

EVIL = "a\x1b[31m\x07b\x9b2J\u202ec\ud800\x7f"
SHOWN = r"a\x1b[31m\x07b\x9b2J\u202ec\ud800\x7f"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def test_control_characters_are_escaped_and_others_stay():
    assert printable(EVIL) == SHOWN
    assert printable("a\tb\r\nc") == r"a\tb\r\nc" and printable("a\nb", keep="\n") == "a\nb"
    assert printable("\udcff.tsv") == r"\xff.tsv"  # a byte of a file name that is not UTF-8
    ordinary = "naïve — 日本語 עברית 👩\u200d👩 ± \\"
    assert printable(ordinary) == ordinary


@given(st.text(st.characters()))
def test_no_text_keeps_a_control_character(text):
    assert not CONTROL.search(printable(text)) and printable(printable(text)) == printable(text)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_printable_json_round_trips(value):
    text = printable_json(value, indent=1)
    assert json.loads(text) == value and not CONTROL.search(text)


def test_an_error_escapes_its_path_its_problem_and_its_remedy():
    error = InputError(f"bad {EVIL}\nword", path=Path(f"x\n{EVIL}  y.tsv"), line=3, remedy=f"drop {EVIL}")
    assert str(error) == rf"x\n{SHOWN}  y.tsv:3: bad {SHOWN} word; drop {SHOWN}"
    assert error.problem == f"bad {EVIL}\nword"


@pytest.mark.parametrize("form", ["markdown", "latex", "csv", "json"])
def test_tables_escape_titles_settings_devices_and_notes(form):
    layout = TableLayout(f"t {EVIL}", ("variant",), notes=(f"n {EVIL}",))
    printed = getattr(make_table([record(variant=EVIL, device=EVIL)], layout), form)()
    assert not CONTROL.search(printed)
    assert "x1b" in printed or "u001b" in printed


def test_markdown_syntax_in_titles_and_notes_is_escaped():
    layout = TableLayout(
        "~~a~~ &lt;", ("variant",), notes=("# one", "1. two", "- three", "+ four", "5 six", "-1 is fine")
    )
    printed = make_table([record(variant="a|b")], layout).markdown()
    assert r"**\~\~a\~\~ \&lt;.**" in printed and r"| a\|b " in printed
    assert printed.endswith("- \\# one\n- 1\\. two\n- \\- three\n- \\+ four\n- 5 six\n- \\-1 is fine\n")


def test_html_pages_escape_control_characters():
    pieces = '{% from "pieces.html" import table %}{{ table(sheet) }}<pre>{{ text }}</pre>'
    page = templates().from_string(pieces).render(sheet=grid([EVIL], [[f"<{EVIL}>"]], [False]), text="a\nb")
    assert not CONTROL.search(page) and "<pre>a\nb</pre>" in page
    assert page.count(r"a\x1b[31m") == 2  # a heading and a cell


def test_progress_and_printed_lines_escape_control_characters(capsys):
    written = io.StringIO()
    display = Display(Console(file=written, width=200))
    display.say(EVIL + "\n[red]")
    display.show(f"{EVIL}\nsecond")
    assert written.getvalue() == f"{SHOWN}\\n[red]\n{SHOWN}\nsecond\n"
    show(EVIL)
    note(EVIL + "\n")
    assert capsys.readouterr() == (f"{SHOWN}\n", f"{SHOWN}\\n\n")

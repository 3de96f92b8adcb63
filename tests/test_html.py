"""The HTML report of a sweep agrees with its records and loads no other file."""

import html
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.reporting.formats import Sheet, Text
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import SweepFolder, read_sweep_folder
from jaxmatch.reporting.report import grid, ranks, report, runs, settings, shared_settings, templates

RESULTS = Path(__file__).resolve().parent.parent / "results"


def without_programs(text: str) -> str:
    """Returns a page without its scripts, because Vega's scripts contain words that look like parts of a page."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


# Pieces


def shown(sheet):
    """Renders a table as HTML, without blanks between its tags."""
    text = templates().from_string('{% from "pieces.html" import table %}{{ table(sheet) }}').render(sheet=sheet)
    return re.sub(r">\s+<", "><", text)


def test_sheet_renders_as_escaped_html_with_bold_cells_and_ranks():
    content = Sheet(
        title="A & B",
        caption=("1 < 2.",),
        notes=("<script>",),
        headings=("x", "y"),
        numeric=(False, True),
        spans=(("", 1), ("over", 1)),
        sections=(((Text("a<b"), Text("1", bold=True)),), ((Text("c"), Text("")),)),
    )
    text = shown(content)
    assert "<b>A &amp; B.</b> 1 &lt; 2." in text and "<li>&lt;script&gt;</li>" in text
    assert '<td data-rank="0">a&lt;b</td><td class="number" data-rank="0"><b>1</b></td>' in text
    assert '<td data-rank="1">c</td><td class="number" data-rank=""></td>' in text
    assert text.count("<tbody>") == 2 and '<th colspan="1" class="over">over</th>' in text


@pytest.mark.parametrize(
    ("texts", "numeric"),
    [
        (["9", "30,247", "1,000,000"], True),
        (["71.3 ± 2.7", "80.6 ± 0.6 (n = 2)", "101.0 ± 0.1"], True),
        (["−14.0 (p < 0.001)", "-2.5", "−0.2 (p = 1.000)", "+0.2 (p = 1.000)"], True),
        (["9 s", "80 s", "2 min", "89 min", "1.6 h"], True),
        (["1e-05", "0.001", "0.003", "10"], False),
        (["alpha", "Beta", "gamma 10"], False),
        (["10 layers", "2 layers", "none"], False),  # texts, though two begin with a number
    ],
)
def test_columns_sort_by_value_and_cells_without_a_value_have_no_rank(texts, numeric):
    nothing = ["", "–", *(["diverged", "dropped"] if numeric else [])]
    (places,) = ranks(grid(["x"], [[text] for text in (*reversed(texts), *nothing)], [numeric]))
    assert sorted(texts, key=places.__getitem__) == texts and places.keys() == set(texts)


# The page


class Page(HTMLParser):
    """A parser that records unclosed tags and everything that a page would load."""

    EMPTY = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.loaded, self.wrong = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.loaded += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.loaded += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def cells_of(text):
    """Returns the cells of all tables of a page, from left to right."""
    return re.findall(r"<td[^>]*>(?:<b>)?([^<]*)", text)


def specs(text):
    """Returns the charts of a page."""
    return [json.loads(html.unescape(spec)) for spec in re.findall("data-spec='(.*?)'", text)]


@pytest.mark.slow
def test_a_page_holds_table_curves_failures_and_settings_and_loads_nothing(sweep_copy, capsys):
    assert main(["report", str(sweep_copy)]) == 0
    assert capsys.readouterr().out.strip() == str(sweep_copy / "report.html")
    whole = (sweep_copy / "report.html").read_text()
    text = without_programs(whole)
    assert "vegaEmbed" in whole and "<script src" not in whole
    page = Page(text)
    assert page.open == page.wrong == page.loaded == [] and "url(" not in text and "@import" not in text
    assert "2 runs planned, 1 finished, 1 diverged, 0 missing." in text
    good, bad = sorted(small_sweep.records(sweep_copy).values(), key=lambda record: record["status"], reverse=True)
    assert bad["status"] == "diverged"
    assert f"learning_rate=1e+30, seed 0 ({bad['run']}): diverged after {bad['diverged_at_samples']:,} pairs" in text
    cells = cells_of(text)
    assert f"{100 * good['test']['accuracy']:.1f}" in cells and "done" in cells and r"\toprule" in text
    assert len(specs(text)) == 5  # all settings; dev accuracy and training loss of two settings
    assert sum("dev accuracy" in spec["description"] for spec in specs(text)) == 2
    for key, value in (
        ("training.batch_size", "16"),
        ("optimizer.learning_rate", "0.01; 1e+30"),
        ("data: name", "own"),
    ):
        assert cells[cells.index(key) + 1] == value
    mistakes = json.loads((sweep_copy / "runs" / good["run"] / "mistakes.json").read_text())
    about = f"Run {good['run']} (seed 0) on the 32 pairs of dev, with the chosen checkpoint."
    assert about in text and all(row["text_a"] in cells for row in mistakes["worst"])
    # The same folder gives the same page.
    assert report(sweep_copy) == whole


@pytest.mark.slow
def test_page_of_an_unfinished_sweep_lists_missing_runs(sweep_copy):
    for run in small_sweep.records(sweep_copy):
        shutil.rmtree(sweep_copy / "runs" / run)
    text = report(sweep_copy)
    assert "2 runs planned, 0 finished, 0 diverged, 2 missing." in text
    assert re.search(r"<li>learning_rate=0.01, seed 0 \(\w+-seed0\): no record</li>", text)
    assert "No run has ended yet" in text


@pytest.mark.slow
def test_page_of_a_tuning_shows_the_choice_and_the_final_sweep(sweep_copy):
    shutil.copytree(sweep_copy, sweep_copy / "final")
    choice = {
        "variant": "",
        "overrides": {"optimizer.learning_rate": 0.01},
        "score": "dev.accuracy",
        "mean": 0.75,
        "candidates": 2,
    }
    write_json(sweep_copy / "choice.json", choice)
    text = without_programs(report(sweep_copy))
    assert "Chosen by dev.accuracy (0.7500) among 2: optimizer.learning_rate = 0.01." in text
    assert text.count("<h1>") == 2 and len(specs(text)) == 10
    (sweep_copy / "choice.json").write_text("[]")
    with pytest.raises(InputError, match="choice.json: the file is damaged"):
        report(sweep_copy)


def test_report_on_a_folder_without_a_sweep_is_an_error(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "no sweep was run in this folder" in capsys.readouterr().err


def test_settings_that_only_some_models_have_are_listed_and_each_run_says_where_it_stopped():
    folder = read_sweep_folder(RESULTS / "sick_comparison")
    rows = {row[0].content: (row[4].content, row[5].content) for row in runs(folder).sections[0]}
    assert rows == {
        name: ("yes" if record["stopped_early"] else "no", f"{record['selected_at_samples']:,}")
        for name, record in folder.records.items()
    }
    differing, common = settings(folder)
    text = str(differing)
    assert "model.perspectives" in text and "model.heads" in text and "model.perspectives" not in str(common)


def test_shared_settings_hold_only_changes_common_to_all_runs():
    def shared(*rates, variant=""):
        runs = {
            str(seed): {
                "variant": variant,
                "seed": seed,
                "overrides": {} if rate is None else {"optimizer.learning_rate": rate},
            }
            for seed, rate in enumerate(rates)
        }
        return shared_settings(SweepFolder(Path("."), "s", TableLayout("t", ()), runs, {}), list(runs))

    assert shared(0.1, 0.2) == "–"
    assert shared(0.1, 0.1) == "learning_rate=0.1"
    assert shared(0.1, 0.2, variant="simple") == "simple"
    assert shared(None, None) == "as configured"


def test_plan_of_kept_records_lists_the_shared_settings_of_each_cohort(tmp_path):
    text = report(RESULTS / "sick")
    plan = text.split("<h2>Plan</h2>")[1].split("<h2>Runs</h2>")[0]
    assert [cell for cell in cells_of(plan) if cell.startswith("blocks=")] == [
        "blocks=1",
        "blocks=2",
        "blocks=3",
    ]  # not the learning rate, which has two values


def test_page_shows_the_plan_and_the_settings_dropped_by_halving(tmp_path, capsys):
    kept = shutil.copytree(Path(__file__).parent.parent / "results" / "tuning" / "halved", tmp_path / "halved")
    notes = json.loads((kept / "sweep.json").read_text())
    (kept / "sweep.json").write_text(json.dumps({**notes, "plan": "sweep s: 18 runs <all>"}))
    assert main(["report", str(kept)]) == 0
    text = without_programs((kept / "report.html").read_text())
    assert "<pre>sweep s: 18 runs &lt;all&gt;</pre>" in text
    assert "18 runs planned, 3 finished, 0 diverged, 15 dropped by successive halving, 0 missing." in text
    halving = json.loads((kept / "halving.json").read_text())
    cells = " ".join(cells_of(text))
    for decision in halving["decisions"]:
        assert f" {decision['after_epochs']} {decision['settings']} {len(decision['go_on'])} " in cells
    assert (
        "Of 15,390 steps of all runs 5,130 were made; training took 49 s, the whole grid would have taken 162 s, "
        "estimated." in text
    )
    considered, left = halving["decisions"][0]["settings"], len(halving["decisions"][-1]["go_on"])
    shown, folded = text.split("<summary>settings that successive halving dropped</summary>")
    overview_charts = 1
    assert len(specs(shown)) == overview_charts + 2 * left
    assert len(specs(folded.split("</details>")[0])) == 2 * (considered - left)
    (kept / "halving.json").write_text(json.dumps({"decisions": [3], "saving": {}}))
    capsys.readouterr()
    assert main(["report", str(kept)]) == 2
    errors = capsys.readouterr().err
    assert "halving.json: the file is damaged" in errors and errors.count("\n") == 1


@pytest.mark.parametrize("missing", ["jinja2", "altair", "vl_convert"])
def test_missing_report_extra_is_a_one_line_error_with_the_install_command(tmp_path, monkeypatch, capsys, missing):
    monkeypatch.delitem(sys.modules, "jaxmatch.reporting.report")
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["report", str(RESULTS / "sick"), "--output", str(tmp_path / "page.html")]) == 2
    errors = capsys.readouterr().err
    assert (
        f"a report needs {missing}, which is not installed; pip install 'jaxmatch[report]'" in errors
        and errors.count("\n") == 1
    )
    assert not (tmp_path / "page.html").exists()

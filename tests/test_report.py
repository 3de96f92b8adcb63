"""The HTML report of a sweep agrees with its records, draws its charts, and loads no other file."""

import base64
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import small_sweep
from small_records import LAYOUT

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting.formats import Sheet, Text
from jaxmatch.reporting.records import SweepFolder
from jaxmatch.reporting.report import aside, mistakes, report, templates

RESULTS = Path(__file__).resolve().parent.parent / "results"


# Pieces


def shown(sheet):
    """Renders a table as HTML, without blanks between its tags."""
    text = templates().from_string('{% from "pieces.html" import table %}{{ table(sheet) }}').render(sheet=sheet)
    return re.sub(r">\s+<", "><", text)


def test_sheet_renders_as_escaped_html_with_bold_cells():
    content = Sheet(
        title="A & B",
        caption=("1 < 2.",),
        notes=("<script>",),
        headings=("x", "y"),
        numeric=(False, True),
        sections=(((Text("a<b"), Text("1", bold=True)),), ((Text("c"), Text("")),)),
    )
    text = shown(content)
    assert "</table></div><p><b>A &amp; B.</b> 1 &lt; 2.</p>" in text and "<script>" not in text
    assert '<td>a&lt;b</td><td class="number"><b>1</b></td>' in text
    assert '<td>c</td><td class="number"></td>' in text
    assert text.count("<tbody>") == 2 and '<th>x</th><th class="number">y</th>' in text


# The page


class Page(HTMLParser):
    """A parser that records unclosed tags and everything that a page would load."""

    EMPTY = ("meta", "br", "img", "source")

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


@pytest.mark.slow
def test_a_page_holds_table_curves_failures_and_settings_and_loads_nothing(sweep_copy, capsys):
    assert main(["report", str(sweep_copy)]) == 0
    assert capsys.readouterr().out.strip() == str(sweep_copy / "report.html")
    text = (sweep_copy / "report.html").read_text()
    page = Page(text)
    assert page.open == page.wrong == [] and "url(" not in text and "@import" not in text
    (image,) = page.loaded
    assert b"<svg" in base64.b64decode(image.removeprefix("data:image/svg+xml;base64,"))
    assert "2 runs planned, 1 finished, 1 diverged, 0 missing." in text
    good, bad = sorted(small_sweep.records(sweep_copy).values(), key=lambda record: record["status"], reverse=True)
    assert bad["status"] == "diverged"
    assert f"learning rate 1e+30, seed 0 ({bad['run']}): diverged after {bad['diverged_at_samples']:,} pairs" in text
    cells = cells_of(text)
    assert f"{100 * good['test']['accuracy']:.1f}" in cells and r"\toprule" in text
    mistakes = json.loads((sweep_copy / "runs" / good["run"] / "mistakes.json").read_text())
    about = f"Run {good['run']} (seed 0) on the 32 pairs of dev, with the chosen checkpoint."
    assert about in text and all(row["text_a"] in cells for row in mistakes["worst"])
    # The same folder gives the same page.
    assert report(sweep_copy) == text


@pytest.mark.slow
def test_page_of_an_unfinished_sweep_lists_missing_runs(sweep_copy):
    for run in small_sweep.records(sweep_copy):
        shutil.rmtree(sweep_copy / "runs" / run)
    text = report(sweep_copy)
    assert "2 runs planned, 0 finished, 0 diverged, 2 missing." in text
    assert re.search(r"<li>learning rate 0.01, seed 0 \(\w+-seed0\): no record</li>", text)
    assert "No run has ended yet" in text


@pytest.mark.slow
def test_page_of_a_tuning_shows_the_final_sweep(sweep_copy):
    shutil.copytree(sweep_copy, sweep_copy / "final")
    text = report(sweep_copy)
    assert text.count("<h1>") == text.count("<img ") == 2


def test_report_on_a_folder_without_a_sweep_is_an_error(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "no sweep was run in this folder" in capsys.readouterr().err


def test_page_shows_the_plan_and_counts_the_runs_that_halving_dropped(tmp_path):
    kept = shutil.copytree(RESULTS / "tuning" / "halved", tmp_path / "halved")
    notes = json.loads((kept / "sweep.json").read_text())
    (kept / "sweep.json").write_text(json.dumps({**notes, "plan": "sweep s: 18 runs <all>"}))
    text = report(kept)
    assert "sweep s: 18 runs &lt;all&gt;</pre>" in text
    assert "18 runs planned, 3 finished, 0 diverged, 15 dropped by successive halving, 0 missing." in text


@pytest.mark.parametrize("missing", ["jinja2", "markupsafe"])
def test_missing_report_extra_is_a_one_line_error_with_the_install_command(tmp_path, monkeypatch, capsys, missing):
    monkeypatch.delitem(sys.modules, "jaxmatch.reporting.report")
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["report", str(RESULTS / "sick"), "--output", str(tmp_path / "page.html")]) == 2
    errors = capsys.readouterr().err
    assert f"a report needs {missing}, which is not installed; pip install 'jaxmatch[report]'" in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


PAIR = {"text_a": "a <b>", "text_b": "c"}
WORST = {
    "classification": ({**PAIR, "label": "yes", "answer": "no", "probability": 0.98765}, ["yes", "no", "0.988"]),
    "regression": ({**PAIR, "label": 4.5, "answer": -1.25}, ["4.500", "-1.250"]),
    "ranking": ({**PAIR, "rank": 7, "candidates": 10, "preferred": "d"}, ["7", "10", "d"]),
}


def folder_with(path, worst):
    """Returns a sweep's folder with a run that has a file with these mistakes."""
    (path / "runs" / "run-1-0.001-2").mkdir(parents=True)
    (path / "runs" / "run-1-0.001-2" / "mistakes.json").write_text(json.dumps(worst))
    return SweepFolder(path, "s", LAYOUT, {}, {})


@pytest.mark.parametrize("task", WORST)
def test_mistakes_of_the_best_run_are_on_the_page(tmp_path, task):
    row, expected = WORST[task]
    worst = {"task": task, "split": "dev", "pairs": 1500, "worst": [row]}
    worst |= {"labels": ["yes", "no"], "confusion": [[700, 90], [10, 700]]} if task == "classification" else {}
    found = mistakes(folder_with(tmp_path, worst), {"run": "run-1-0.001-2", "seed": 2})
    assert found["about"].startswith("Run run-1-0.001-2 (seed 2) on the 1,500 pairs of dev, ")
    *matrix, (_, sheet) = found["tables"]
    assert [text.content for text in sheet.sections[0][0]] == ["a <b>", "c", *expected]
    assert [[text.content for text in line] for _, each in matrix for line in each.sections[0]] == (
        [["yes", "700", "90", "790"], ["no", "10", "700", "710"]] if matrix else []
    )
    assert bool(matrix) == (task == "classification")


@pytest.mark.parametrize("change", [{"worst": [3]}, {"task": "x"}, {"confusion": [1]}, {"pairs": None}, {"labels": 3}])
def test_damaged_mistakes_file_is_an_error_naming_the_file(tmp_path, change):
    worst = {"task": "classification", "split": "dev", "pairs": 2, "labels": ["a", "b"], "confusion": [[1, 1], [0, 0]]}
    folder = folder_with(tmp_path, worst | {"worst": []} | change)
    with pytest.raises(InputError, match=r"mistakes.json: the file is damaged \(.*; remove the run's folder"):
        mistakes(folder, {"run": "run-1-0.001-2", "seed": 2})


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# Clicks on headings of the first table. Reports the rows of the table after each click.
CLICKS = """
<script>
const table = document.querySelector("table"), seen = [];
const headings = [...table.querySelectorAll("thead tr:last-child th")];
for (const name of ["dev accuracy (%)", "dev accuracy (%)", "difference: dev accuracy (%)", "variant"]) {
  const heading = headings.find(each => each.textContent === name);
  heading.click();
  seen.push([heading.getAttribute("aria-sort"), [...table.tBodies[0].rows].map(row => row.cells[0].textContent)]);
}
document.body.textContent = "found " + JSON.stringify(seen);
</script>
"""


def printed_scores():
    """Returns row -> printed dev accuracy, in the order of the committed table."""
    lines = (RESULTS / "sick_ablation" / "table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    variant, accuracy = map(cells[0].index, ("variant", "dev accuracy (%)"))
    return {row[variant]: float(row[accuracy].split(" ")[0]) for row in cells[2:] if "±" in row[accuracy]}


@pytest.mark.slow
def test_a_narrow_screen_leaves_out_sizes_scores_chosen_on_test_and_what_all_rows_share():
    texts = [["RE2", "1", "16", "30,000", "3", "81.0", "82.0"], ["RE2", "2", "16", "60,000", "3", "81.0", "82.0"]]
    baselines = [["overlap", "", "", "9", "", "60.0", ""]]
    sections = tuple(tuple(tuple(map(Text, row)) for row in part) for part in (texts, baselines))
    chosen = "best on test (selected on test): accuracy (%)"
    headings = ("model", "blocks", "batch size", "parameters", "seeds", "dev accuracy (%)", chosen)
    numeric = (False, False, False, True, False, True, True)
    found = aside(Sheet("t", (), (), headings, numeric, sections))
    assert {headings[column] for column in found} == {"batch size", "parameters", "seeds", chosen}
    assert aside(Sheet("t", (), (), headings, numeric, (sections[0][:1],))) == {3, 6}


@pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
def test_a_click_on_a_heading_sorts_a_table(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(report(RESULTS / "sick_ablation").replace("</body>", f"{CLICKS}</body>"), encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=20000", "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r"found (\[.*\])", done.stdout)
    assert match, done.stderr[-2000:]
    shown = printed_scores()
    # Rows with equal printed scores keep the order that they had.
    rising = sorted(shown, key=shown.get)
    falling = sorted(rising, key=shown.get, reverse=True)
    (up, first), (down, second), (_, by_difference), (_, by_name) = json.loads(match[1])
    assert (up, first) == ("ascending", rising) and (down, second) == ("descending", falling)
    # The original has no difference: it comes last.
    assert by_difference == [*(name for name in rising if name != "original"), "original"]
    assert by_name == sorted(by_name)

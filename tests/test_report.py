"""The HTML report of a sweep agrees with its records, draws its charts, and loads no other file."""

import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import small_sweep
import vl_convert
from small_records import LAYOUT, record

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.reporting.formats import Sheet, Text
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import SweepFolder, read_sweep_folder
from jaxmatch.reporting.report import (
    grid,
    mistakes,
    of_each_setting,
    ranks,
    report,
    runs,
    settings,
    shared_settings,
    templates,
)

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


PAIR = {"text_a": "a <b>", "text_b": "c"}
WORST = {
    "classification": ({**PAIR, "label": "yes", "answer": "no", "probability": 0.98765}, ["yes", "no", "0.988"]),
    "regression": ({**PAIR, "label": 4.5, "answer": -1.25}, ["4.500", "-1.250"]),
    "ranking": ({**PAIR, "rank": 7, "candidates": 10, "preferred": "d"}, ["7", "10", "d"]),
}


def folder_with(path, worst):
    """Returns a sweep's folder with two runs of a setting. The better run has a file with these mistakes."""
    records = {each["run"]: each for each in (record(1, seed=1), record(1, seed=2))}
    (path / "runs" / "run-1-0.001-2").mkdir(parents=True)
    (path / "runs" / "run-1-0.001-2" / "mistakes.json").write_text(json.dumps(worst))
    return SweepFolder(path, "s", LAYOUT, dict.fromkeys(records, {}), records)


@pytest.mark.parametrize("task", WORST)
def test_mistakes_of_the_best_run_are_on_the_page(tmp_path, task):
    row, expected = WORST[task]
    worst = {"task": task, "split": "dev", "pairs": 1500, "worst": [row]}
    worst |= {"labels": ["yes", "no"], "confusion": [[700, 90], [10, 700]]} if task == "classification" else {}
    found = mistakes(folder_with(tmp_path, worst))
    assert found["about"].startswith("Run run-1-0.001-2 (seed 2) on the 1,500 pairs of dev, ")
    *matrix, (_, sheet) = found["tables"]
    assert [text.content for text in sheet.sections[0][0]] == ["a <b>", "c", *expected]
    assert [[text.content for text in line] for _, each in matrix for line in each.sections[0]] == (
        [["yes", "700", "90", "790"], ["no", "10", "700", "710"]] if matrix else []
    )
    assert bool(matrix) == (task == "classification")


@pytest.mark.parametrize(
    "change", [{"worst": [{}]}, {"task": "x"}, {"confusion": [1]}, {"pairs": None}, {"labels": 3}, {"split": None}]
)
def test_damaged_mistakes_file_is_an_error_naming_the_file(tmp_path, change):
    worst = {"task": "classification", "split": "dev", "pairs": 2, "labels": ["a", "b"], "confusion": [[1, 1], [0, 0]]}
    folder = folder_with(tmp_path, worst | {"worst": []} | change)
    with pytest.raises(InputError, match=r"mistakes.json: the file is damaged \(.*; remove the run's folder"):
        mistakes(folder)


def curve(*values):
    return [
        {"samples": 10 * place, "train_loss": 2.0, "dev": {"accuracy": value}} for place, value in enumerate(values, 1)
    ]


def marks(drawn, kind):
    """The SVG elements of a kind of mark."""
    svg = vl_convert.vegalite_to_svg(drawn.spec)
    return re.findall(f'<path aria-label="([^"]*)"[^>]*aria-roledescription="{kind}"([^>]*)', svg)


@pytest.fixture(scope="module")
def drawn():
    """The charts of a setting with a run that misses an evaluation, and one that diverged."""
    runs = [
        record(1, seed=1, curve=curve(0.5, 0.7, 0.9), selected_at_samples=30),
        record(1, seed=2, curve=curve(0.7, None, 0.5), selected_at_samples=10),
        record(1, seed=3, curve=curve(0.1, 0.1), selected_at_samples=20, status="diverged"),
    ]
    dev, loss = of_each_setting({"<s>": runs})["<s>"]
    assert (dev.caption, loss.caption) == ("dev accuracy (%): <s>", "training loss: <s>")
    return dev


def test_mean_and_band_exclude_diverged_runs_and_missing_evaluations(drawn):
    ((text, band),) = marks(drawn, "errorband")
    deviation = 100 * 0.02**0.5
    lower, upper = (float(re.search(rf"Mean {end} stdev [^:]*: ([\d.]+)", text)[1]) for end in ("-", r"\+"))
    assert (lower, upper) == (pytest.approx(60 - deviation), pytest.approx(60 + deviation))
    assert len(re.findall("[ML]", band)) == 4  # two evaluations: the other has a single run
    (mean,) = [(text, path) for text, path in marks(drawn, "line mark") if "Mean of" in text]
    assert mean[0].endswith(": 60") and len(re.findall("[ML]", mean[1])) == 2


def test_lines_break_at_missing_values_and_are_dashed_for_diverged_runs(drawn):
    runs = {text.split("run: ")[1][:6]: path for text, path in marks(drawn, "line mark") if "run: " in text}
    assert [len(re.findall("M", path)) for path in runs.values()] == [1, 2, 1]
    dashed = {name for name, path in runs.items() if 'stroke-dasharray="4,3"' in path}
    assert len(runs) == 3 and dashed == {"seed 3"}


def test_a_dot_marks_the_selected_checkpoint_of_each_finished_run(drawn):
    found = [
        re.search(r"pairs seen: (\d+); .*: (\d+); run: (seed \d)", text).groups() for text, _ in marks(drawn, "point")
    ]
    assert found == [("30", "90", "seed 1"), ("10", "70", "seed 2")]


def test_settings_share_scales_and_a_single_value_has_a_nonempty_scale():
    def domains(**settings):
        drawn = [dev.spec["layer"][1]["encoding"] for dev, _ in of_each_setting(settings).values()]
        return [tuple(encoding[axis]["scale"]["domain"] for axis in "xy") for encoding in drawn]

    one, other = domains(a=[record(1, curve=curve(0.5))], b=[record(2, curve=curve(0.9, 0.8))])
    assert one == other == ([0, 20], [pytest.approx(48), pytest.approx(92)])
    ((_, (low, high)),) = domains(a=[record(1, curve=curve(0.5))])
    assert low < 50 < high


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# Clicks on "dev accuracy" and "difference" of the first table. Reports the rows of the table after each click, the
# errors of the page, and its width.
PROBE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
</script>
"""
CLICKS = """
<script>
const look = () => {
  const drawn = [...document.querySelectorAll(".chart")].map(each => each.querySelectorAll("svg").length);
  if (drawn.includes(0) && performance.now() < 15000) return setTimeout(look, 100);
  const table = document.querySelector("table"), seen = [];
  const headings = [...table.querySelectorAll("thead tr:last-child th")];
  for (const name of ["dev accuracy (%)", "dev accuracy (%)", "difference: dev accuracy (%)", "variant"]) {
    const heading = headings.find(each => each.textContent === name);
    heading.click();
    seen.push([heading.getAttribute("aria-sort"), [...table.tBodies[0].rows].map(row => row.cells[0].textContent)]);
  }
  const width = document.documentElement.scrollWidth, marked = table.querySelectorAll("[aria-sort]").length;
  const found = {seen, errors, drawn, width, marked};
  document.body.innerHTML = "";
  document.title = "found " + JSON.stringify(found);
};
look();
</script>
"""


def printed_scores():
    """Returns row -> printed dev accuracy, in the order of the committed table."""
    lines = (RESULTS / "sick_ablation" / "table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    variant, accuracy = map(cells[0].index, ("variant", "dev accuracy (%)"))
    return {row[variant]: float(row[accuracy].split(" ")[0]) for row in cells[2:] if "±" in row[accuracy]}


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
def test_tables_sort_charts_are_drawn_and_nothing_is_wider_than_a_narrow_window(tmp_path):
    head, _, rest = report(RESULTS / "sick_ablation").partition("<body>")
    body, _, end = rest.rpartition("</body>")  # the last one, as Vega's code contains the tag, too
    page = f"{head}<body>{PROBE}{body}{CLICKS}</body>{end}"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    # A window is at least 500 pixels wide; a frame can be narrower.
    frame = """<iframe src="page.html" style="width: 390px; height: 2000px; border: 0"></iframe><script>
    const look = () => {
      const title = document.querySelector("iframe").contentDocument.title;
      if (title.startsWith("found")) document.body.textContent = title; else setTimeout(look, 100);
    };
    look();</script>"""
    (tmp_path / "frame.html").write_text(frame)
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command = [
        BROWSER,
        *options,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]
    done = subprocess.run([*command, f"file://{tmp_path}/frame.html"], capture_output=True, text=True, timeout=120)
    match = re.search(r"found (\{.*\})", done.stdout)
    assert match, done.stderr[-2000:]
    found = json.loads(match[1])
    shown = printed_scores()
    # Rows with equal printed scores keep the order that they had.
    rising = sorted(shown, key=shown.get)
    falling = sorted(rising, key=shown.get, reverse=True)
    (up, first), (down, second), (_, by_difference), (_, by_name) = found["seen"]
    assert (up, first) == ("ascending", rising) and (down, second) == ("descending", falling)
    # The original has no difference: it comes last.
    assert by_difference == [*(name for name in rising if name != "original"), "original"]
    assert by_name == sorted(by_name) and found["marked"] == 1
    assert found["drawn"] == [1] * 15 and found["errors"] == []
    assert found["width"] <= 390

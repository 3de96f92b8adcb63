"""The page about a sweep says what its records say, and needs nothing but itself."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import small_sweep
from hypothesis import given
from hypothesis import strategies as st

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.reporting.html import charts, markup, report, sections
from jaxmatch.reporting.sweep_folder import SweepFolder
from jaxmatch.reporting.tables import TableLayout
from jaxmatch.reporting.tables.formats import Sheet, Text

RESULTS = Path(__file__).resolve().parent.parent / "results"


def without_programs(text: str) -> str:
    """A page without its scripts, of which Vega's hold words that look like pieces of a page."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


# Pieces


def test_a_sheet_is_escaped_and_its_best_is_bold():
    content = Sheet(
        title="A & B",
        caption=("1 < 2.",),
        notes=("<script>",),
        headings=("x", "y"),
        numeric=(False, True),
        spans=(("", 1), ("over", 1)),
        sections=(((Text("a<b"), Text("1", bold=True)),), ((Text("c"), Text("")),)),
    )
    html = markup.sheet(content)
    assert "<b>A &amp; B.</b> 1 &lt; 2." in html and "<li>&lt;script&gt;</li>" in html
    assert '<td>a&lt;b</td><td class="number"><b>1</b></td>' in html
    assert html.count("<tbody>") == 2 and '<th colspan="1" class="over">over</th>' in html


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.71, 0.86, [0.75, 0.8, 0.85]),
        (0, 24000, [0, 5000, 10000, 15000, 20000]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round(low, high, found):
    assert charts.ticks(low, high) == found


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_between_the_ends_and_are_a_handful(low, width):
    found = charts.ticks(low, low + width)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in found)
    assert found == sorted(set(found))


def test_the_band_is_over_runs_that_still_train_and_did_not_diverge():
    one = charts.Curve("1", ((10, 0.5), (20, 0.7), (30, 0.9)), 30, False)
    two = charts.Curve("2", ((10, 0.7), (20, None), (30, 0.5)), 10, False)
    bad = charts.Curve("3", ((10, 9.0), (20, 9.0)), None, True)
    assert charts.band([one, two, bad]) == [
        (10, pytest.approx(0.6), pytest.approx(0.02**0.5)),
        (30, pytest.approx(0.7), pytest.approx(0.08**0.5)),
    ]


def test_a_chart_places_points_where_they_belong():
    curve = charts.Curve("<seed 1>", ((0, 0.0), (50, None), (100, 1.0)), 100, False)
    spans = charts.Range((0, 100), (0.0, 1.0))
    root = ElementTree.fromstring(charts.chart("a & b", [curve], spans))
    assert root.get("aria-label") == "a & b" and root.find(".//g/title").text == "<seed 1>"
    first, last = (line.get("points").split() for line in root.findall(".//g/polyline"))
    # Each stretch is one point: the corner at the bottom left, and that at the top right.
    assert first == [f"{52:.1f},{charts.HEIGHT - 34:.1f}"] * 2
    assert last == [f"{charts.WIDTH - 10:.1f},{10:.1f}"] * 2
    dot = root.find(".//circle")
    assert (float(dot.get("cx")), float(dot.get("cy"))) == (charts.WIDTH - 10, 10)


def test_nothing_finite_has_no_range_and_one_value_has_one():
    assert charts.range_of([charts.Curve("1", ((10, None),), None, True)]) is None
    spans = charts.range_of([charts.Curve("1", ((10, 0.5),), None, False)])
    assert spans.values[0] < 0.5 < spans.values[1] and spans.samples == (0, 10)


# The page


@pytest.fixture
def copy(finished_sweep, tmp_path):
    return shutil.copytree(finished_sweep[0], tmp_path / "copy")


class Page(HTMLParser):
    """Notes tags that are left open, and everything that a page would load."""

    EMPTY = ("meta", "br", "circle", "line", "polygon", "polyline")

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


@pytest.mark.slow
def test_a_page_holds_table_curves_failures_and_settings_and_loads_nothing(copy, capsys):
    assert main(["report", str(copy)]) == 0
    assert capsys.readouterr().out.strip() == str(copy / "report.html")
    whole = (copy / "report.html").read_text()
    text = without_programs(whole)
    assert "vegaEmbed" in whole and "<script src" not in whole
    page = Page(text)
    assert page.open == page.wrong == page.loaded == [] and "url(" not in text and "@import" not in text
    assert "2 runs planned, 1 finished, 1 diverged, 0 missing." in text
    good, bad = sorted(small_sweep.records(copy).values(), key=lambda record: record["status"], reverse=True)
    assert bad["status"] == "diverged"
    assert f"learning_rate=1e+30, seed 0 ({bad['run']}): diverged after {bad['diverged_at_samples']:,} pairs" in text
    printed = f"{100 * good['test']['accuracy']:.1f}"
    assert f'<td class="number">{printed}</td>' in text
    drawings = [ElementTree.fromstring(drawing) for drawing in re.findall(r"<svg.*?</svg>", text)]
    assert len(drawings) == 4  # dev accuracy and training loss of two settings
    assert sum("dev accuracy" in drawing.get("aria-label") for drawing in drawings) == 2
    assert (
        "<td>training.batch_size</td><td>16</td>" in text
        and "<td>optimizer.learning_rate</td><td>0.01; 1e+30</td>" in text
    )
    assert "<td>data: name</td><td>own</td>" in text
    assert "<td>done</td>" in text and r"\toprule" in text
    # The same folder gives the same page, but for what tells of its place.
    assert report(copy) == whole


@pytest.mark.slow
def test_a_page_of_an_unfinished_sweep_names_what_is_missing(copy):
    for run in small_sweep.records(copy):
        shutil.rmtree(copy / "runs" / run)
    text = report(copy)
    assert "2 runs planned, 0 finished, 0 diverged, 2 missing." in text
    assert re.search(r"<li>learning_rate=0.01, seed 0 \(\w+-seed0\): no record</li>", text)
    assert "No run has ended yet" in text


@pytest.mark.slow
def test_a_tuning_s_page_tells_the_choice_and_the_final_sweep(copy):
    shutil.copytree(copy, copy / "final")
    choice = {
        "variant": "",
        "overrides": {"optimizer.learning_rate": 0.01},
        "score": "dev.accuracy",
        "mean": 0.75,
        "candidates": 2,
    }
    write_json(copy / "choice.json", choice)
    text = without_programs(report(copy))
    assert "Chosen by dev.accuracy (0.7500) among 2: optimizer.learning_rate = 0.01." in text
    assert text.count("<h1>") == 2 and len(re.findall("<svg", text)) == 8
    (copy / "choice.json").write_text("[]")
    with pytest.raises(InputError, match="choice.json: the file is damaged"):
        report(copy)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [{"curve": None}, {"curve": [{}]}, {"status": "lost"}, {"dev": 3}])
def test_a_damaged_record_is_one_line(copy, capsys, damage):
    run, record = next(iter(small_sweep.records(copy).items()))
    (copy / "runs" / run / "record.json").write_text(json.dumps(record | damage))
    assert main(["report", str(copy)]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (copy / "report.html").exists()


def test_a_folder_without_a_sweep_has_no_page(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "no sweep was run in this folder" in capsys.readouterr().err


def test_what_runs_share_is_nothing_where_each_has_changes_of_its_own():
    def shared(*rates, variant=""):
        runs = {
            str(seed): {
                "variant": variant,
                "seed": seed,
                "overrides": {} if rate is None else {"optimizer.learning_rate": rate},
            }
            for seed, rate in enumerate(rates)
        }
        return sections.shared_settings(SweepFolder(Path("."), "s", TableLayout("t", ()), runs, {}), list(runs))

    assert shared(0.1, 0.2) == "–"
    assert shared(0.1, 0.1) == "learning_rate=0.1"
    assert shared(0.1, 0.2, variant="simple") == "simple"
    assert shared(None, None) == "as configured"


def test_kept_records_alone_tell_what_each_cohort_trained(tmp_path):
    text = report(RESULTS / "sick")
    plan = text.split("<h2>Plan</h2>")[1].split("<h2>Runs</h2>")[0]
    assert re.findall(r"<td>(blocks=.*?)</td>", plan) == [
        "blocks=1",
        "blocks=2",
        "blocks=3",
    ]  # not the learning rate: it has two


def test_a_page_tells_the_plan_and_what_halving_dropped(tmp_path, capsys):
    kept = shutil.copytree(Path(__file__).parent.parent / "results" / "tuning" / "halved", tmp_path / "halved")
    notes = json.loads((kept / "sweep.json").read_text())
    (kept / "sweep.json").write_text(json.dumps({**notes, "plan": "sweep s: 18 runs <all>"}))
    assert main(["report", str(kept)]) == 0
    text = without_programs((kept / "report.html").read_text())
    assert "<pre>sweep s: 18 runs &lt;all&gt;</pre>" in text
    halving = json.loads((kept / "halving.json").read_text())
    for decision in halving["decisions"]:
        cells = (decision["after_epochs"], decision["settings"], len(decision["go_on"]))
        assert "".join(f'<td class="number">{cell}</td>' for cell in cells) in text
    assert (
        "Of 15,390 steps of all runs 5,130 were made; training took 49 s, the whole grid would have taken 162 s, estimated."
        in text
    )
    asked, left = halving["decisions"][0]["settings"], len(halving["decisions"][-1]["go_on"])
    shown, folded = text.split("<summary>settings that successive halving dropped</summary>")
    assert (shown.count("<svg"), folded.split("</details>")[0].count("<svg")) == (2 * left, 2 * (asked - left))
    (kept / "halving.json").write_text(json.dumps({"decisions": [3], "saving": {}}))
    capsys.readouterr()
    assert main(["report", str(kept)]) == 2
    said = capsys.readouterr().err
    assert "halving.json: the file is damaged" in said and said.count("\n") == 1

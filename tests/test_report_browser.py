"""The report in a browser: tables sort, charts are drawn, and a narrow window shows all of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jaxmatch.reporting.report import report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
RESULTS = Path(__file__).resolve().parent.parent / "results"
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

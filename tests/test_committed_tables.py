"""Each committed table follows from its records: sweeps, timings, occlusion and attacks."""

import json
from pathlib import Path

import numpy as np
import pytest
from torture import report

from jaxmatch.analysis.occlusion import Occlusion, sheet
from jaxmatch.papers.timing import read_times, times
from jaxmatch.reporting.formats import markdown
from jaxmatch.reporting.records import read_record
from jaxmatch.reporting.table import folder_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
TABLES = sorted(RESULTS.rglob("table.md"))


def text_of(file):
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", TABLES, ids=lambda file: str(file.parent.relative_to(RESULTS)))
def test_a_committed_table_equals_the_one_made_from_its_records(file):
    timing = file.parent / "timing.json"
    made = times(read_times(timing), "markdown") if timing.exists() else folder_table(file.parent)
    assert made == text_of(file)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_first_table_of_a_page_is_that_of_the_quickstart(page):
    rows = [line for line in text_of(RESULTS / "quickstart" / "table.md").splitlines() if line.startswith("|")]
    shown = [line for line in text_of(ROOT / page).splitlines() if line.startswith("|")]
    assert shown[: len(rows)] == rows


def test_every_committed_record_has_a_committed_table():
    kept = {file.parent for name in ("sweep.json", "timing.json") for file in RESULTS.rglob(name)}
    assert kept == {file.parent for file in TABLES}


def test_the_committed_table_of_attacks_matches_its_record():
    record = json.loads(text_of(RESULTS / "torture" / "torture.json"))
    assert text_of(RESULTS / "torture" / "README.md").startswith(report.markdown(record))


def test_the_committed_occlusion_table_matches_its_file_and_records():
    kept = json.loads(text_of(RESULTS / "snli" / "occlusion" / "occlusion.json"))

    def array(name, of=kept):
        return np.array(of[name], np.float64)

    records = tuple(read_record(RESULTS / "snli" / "runs" / run / "record.json") for run in kept["runs"])
    values = map(array, ("accuracy", "change", "accuracy_deviation", "change_deviation"))
    found = Occlusion(tuple(kept["labels"]), np.array(kept["pairs"]), *values)
    made = markdown(sheet(found, kept["data"], records, kept["setting"]))
    assert made.strip() in text_of(RESULTS / "snli" / "README.md")
    for name in ("accuracy", "change"):
        single = np.stack([array(name, one) for one in kept["single"]])
        np.testing.assert_allclose(single.mean(axis=0), array(name))
        np.testing.assert_allclose(single.std(axis=0, ddof=1), array(f"{name}_deviation"))

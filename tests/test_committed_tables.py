"""Each committed table is what its records give: of sweeps, timings, the occlusion, the attacks and the benchmarks."""

import json
from pathlib import Path

import numpy as np
import pytest
from torture import report

from benchmarks import workers_page
from benchmarks.__main__ import tables_of
from benchmarks.accelerators import tables
from benchmarks.accelerators.__main__ import programs
from benchmarks.device import tables as device_tables
from jaxmatch.analysis.occlusion import Occlusion
from jaxmatch.analysis.occlusion_table import Occluded, occlusions
from jaxmatch.reporting.folder_table import table
from jaxmatch.reporting.records import read_record
from jaxmatch.reporting.tables.times import read_times, times

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
TABLES = sorted(RESULTS.rglob("table.md"))


def text_of(file):
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", TABLES, ids=lambda file: str(file.parent.relative_to(RESULTS)))
def test_a_committed_table_is_what_its_records_give(file):
    timing = file.parent / "timing.json"
    made = times(read_times(timing), "markdown") if timing.exists() else table(file.parent)
    assert made == text_of(file)
    assert made.strip() in text_of(RESULTS / "README.md")


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_first_table_of_a_page_is_that_of_the_quickstart(page):
    rows = [line for line in text_of(RESULTS / "quickstart" / "table.md").splitlines() if line.startswith("|")]
    shown = [line for line in text_of(ROOT / page).splitlines() if line.startswith("|")]
    assert shown[: len(rows)] == rows


def test_every_committed_record_has_a_committed_table():
    kept = {file.parent for name in ("sweep.json", "timing.json") for file in RESULTS.rglob(name)}
    assert kept == {file.parent for file in TABLES}


def test_the_committed_table_of_attacks_is_what_its_record_gives():
    told = json.loads(text_of(RESULTS / "torture" / "torture.json"))
    assert text_of(RESULTS / "torture" / "README.md").startswith(report.markdown(told))


def test_the_committed_table_of_an_occlusion_is_what_its_file_and_records_give():
    kept = json.loads(text_of(RESULTS / "snli" / "occlusion" / "occlusion.json"))

    def array(name, of=kept):
        return np.array(of[name], np.float64)

    records = tuple(read_record(RESULTS / "snli" / "runs" / run / "record.json") for run in kept["runs"])
    mean = Occlusion(tuple(kept["labels"]), np.array(kept["pairs"]), array("accuracy"), array("change"))
    deviations = array("accuracy_deviation"), array("change_deviation")
    made = occlusions([Occluded(mean, kept["data"], records, kept["setting"], *deviations)], "markdown")
    assert made.strip() in text_of(RESULTS / "README.md")
    for name in ("accuracy", "change"):
        single = np.stack([array(name, one) for one in kept["single"]])
        np.testing.assert_allclose(single.mean(axis=0), array(name))
        np.testing.assert_allclose(single.std(axis=0, ddof=1), array(f"{name}_deviation"))


def test_the_committed_tables_of_benchmarks_are_what_their_records_give():
    assert text_of(BENCHMARKS / "README.md") == tables_of(BENCHMARKS)


def test_the_committed_tables_of_accelerators_are_what_their_figures_give():
    file = BENCHMARKS / "accelerators" / "figures.json"
    figures = json.loads(text_of(file)).values()
    assert text_of(file.with_name("README.md")) == tables.markdown(figures, programs())
    # The tables of devices show the same figures beside what is measured.
    assert text_of(BENCHMARKS / "device" / "README.md") == device_tables.tables_of(BENCHMARKS / "device")


def test_the_page_on_clusters_shows_a_committed_result():
    page = text_of(workers_page.PAGE)
    shown = page.partition(workers_page.BEGIN)[2].partition(workers_page.END)[0].strip()
    made = [workers_page.for_page(json.loads(text_of(file))) for file in BENCHMARKS.glob("*/workers.json")]
    assert shown in made or (not made and "have not been measured yet" in shown)

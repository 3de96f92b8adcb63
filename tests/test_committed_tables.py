"""Each committed table follows from its records: sweeps, timings, occlusion, attacks and benchmarks."""

import json
from pathlib import Path

import numpy as np
import pytest
from torture import report

from benchmarks import workers_page
from benchmarks.__main__ import tables_of
from benchmarks.accelerators import __main__ as accelerators
from benchmarks.accelerators import before_and_after, tables
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
def test_a_committed_table_equals_the_one_made_from_its_records(file):
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


def test_the_committed_table_of_attacks_matches_its_record():
    record = json.loads(text_of(RESULTS / "torture" / "torture.json"))
    assert text_of(RESULTS / "torture" / "README.md").startswith(report.markdown(record))


def test_the_committed_occlusion_table_matches_its_file_and_records():
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


def test_the_committed_benchmark_tables_match_their_records():
    assert text_of(BENCHMARKS / "README.md") == tables_of(BENCHMARKS)


def test_the_committed_accelerator_tables_match_their_figures():
    file = BENCHMARKS / "accelerators" / "figures.json"
    figures = json.loads(text_of(file))
    assert text_of(file.with_name("README.md")) == accelerators.page(figures)
    before = json.loads(text_of(file.with_name("before.json")))
    assert text_of(file.with_name("before_and_after.md")) == before_and_after.markdown(before, figures)
    # The tables of devices show the same figures beside the measurements.
    assert text_of(BENCHMARKS / "device" / "README.md") == device_tables.tables_of(BENCHMARKS / "device")


def accelerator_rows():
    return json.loads(text_of(BENCHMARKS / "accelerators" / "figures.json")).values()


def test_no_compiled_program_has_collectives():
    assert not any(row.get("collectives") for row in accelerator_rows())
    assert {row["target"] for row in accelerator_rows() if "devices" in row} >= {"h100", "v5e"}


def test_the_page_on_benchmarks_counts_the_programs_that_do_not_fit_a_tpu():
    rows = [row for row in accelerator_rows() if row["target"] in ("v5e", "v6e", "v5p") and "devices" not in row]
    refused, beyond = [row for row in rows if "problem" in row], tables.beyond_memory(rows)
    hbm_gib = {name: tables.hbm_gib(row for row in rows if row["target"] == name) for name in ("v5e", "v6e", "v5p")}
    inside = [row for row in beyond if tables.needs(row) <= hbm_gib[row["target"]] * 2**30]

    def of(rows, **wanted):
        return sum(all(row[name] == value for name, value in wanted.items()) for row in rows)

    has = "{v5e:g} GiB on a v5e, {v6e:g} on a v6e, {v5p:g} on a v5p".format(**hbm_gib)
    refused_of = of(refused, replicas=32), of(refused, replicas=10, batch=512, model="csran")
    beyond_of = of(beyond, replicas=10, batch=512), of(beyond, replicas=32)
    assert (sum(refused_of), sum(beyond_of)) == (len(refused), len(beyond))
    titles = [
        f"{row['model'].upper()} {row['replicas']} x {row['batch']} in {row['precision']} on a {row['target']}"
        for row in sorted(inside, key=lambda row: (row["target"], row["model"]))
    ]
    page = " ".join(text_of(ROOT / "docs" / "benchmarks.md").split())
    for sentence in (
        f"Of {len(rows)} programs for three kinds of TPU, the compiler rejects {len(refused)}, because their "
        f"temporaries alone exceed the memory that XLA has ({has}): {refused_of[0]} for 32 runs, and {refused_of[1]} "
        "for ten runs of CSRAN at batch 512.",
        f"Another {len(beyond)} compile, but their temporaries and arguments exceed the published 16, 32 or 95 GB: "
        f"{beyond_of[0]} for ten runs at batch 512 and {beyond_of[1]} for 32 runs.",
        f"Three of these fit into the memory that XLA has: {', '.join(titles[:-1])}, and {titles[-1]}.",
    ):
        assert sentence in page


def test_the_page_on_clusters_shows_a_committed_result():
    page = text_of(workers_page.PAGE)
    shown = page.partition(workers_page.BEGIN)[2].partition(workers_page.END)[0].strip()
    made = [workers_page.for_page(json.loads(text_of(file))) for file in BENCHMARKS.glob("*/workers.json")]
    assert shown in made or (not made and "have not been measured yet" in shown)

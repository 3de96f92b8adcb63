"""Figures that pages print beside text equal those of the records."""

import itertools
import json
import re
from pathlib import Path

import pytest

from benchmarks.accelerators.targets import TARGETS

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benchmarks" / "results"
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def read(*path):
    return json.loads(RECORDS.joinpath(*path).read_text(encoding="utf-8"))


def table(page, head):
    """Yields the label and the numbers of each cell, for each row of the table whose head begins with `head`."""
    text = page.read_text(encoding="utf-8").partition(head)[2].partition("\n\n")[0]
    for line in text.splitlines()[2:]:
        label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        yield label, [NUMBER.findall(cell) for cell in cells]


def rounds_to(value, printed):
    decimals = len(printed.partition(".")[2])
    return abs(float(printed.replace(",", "")) - value) <= 0.5001 * 10**-decimals


def compiled(row):
    """Returns temporaries (GB), moved (GiB), kernels and the least time (ms), in the order of the pages."""
    target = TARGETS[row["target"]]
    least = target.least_seconds(row["precision"], row["moved"], row["operations"], row["kernels"])
    return row["temporaries"] / 1e9, row["moved"] / 2**30, row["kernels"], 1e3 * least


def measured(row):
    """Returns the same, and the time of a step (ms) and its multiple of the least time, which depends on the device."""
    least, seconds = row["least_seconds"], row["seconds"]
    return row["temporaries"] / 1e9, row["moved"] / 2**30, row["kernels"], 1e3 * least, 1e3 * seconds, seconds / least


@pytest.mark.parametrize("head, target, shown", [("H100", "h100", 16), ("TPU v5e", "v5e", 14)])
def test_the_page_shows_the_programs_before_and_now(head, target, shown):
    before, now = read("accelerators", "before.json"), read("accelerators", "figures.json")
    for label, cells in table(PAGE, f"| program, {head} |"):
        if found := re.fullmatch(r"(\w+), batch (\d+), (\w+): before", label):
            name = f"{target} {found[1].lower()} train {found[2]} 10 {found[3]}"
        if found or label == "now":
            row = (before if found else now)[name]
            if needs := re.search(r"temporaries \(([\d.]+)G\)", row.get("problem", "")):
                values = [float(needs[1]) * 2**30 / 1e9]
            elif target == "v5e":
                values = [row["temporaries"] / 1e9, row["moved"] / 1e9]
            else:
                values = compiled(row)
            for value, printed in zip(values, itertools.chain(*cells), strict=True):
                assert rounds_to(value, printed), (label, name, printed, value)
            shown -= 1
    assert not shown


def test_the_page_shows_the_steps_of_the_gpu():
    found = read("device", "1-x-nvidia-h200", "compiled.json")["found"]
    variants = {"before": "re2-triton-unaligned", "now": "re2", "kernels of our own (removed)": "re2-triton-kernels"}
    names = {}
    for label, cells in table(PAGE, "| RE2, ten runs |"):
        if size := re.fullmatch(r"batch (\d+), (\w+)(?: \(TF32 products\))?: before", label):
            label, program = "before", f"10 x {size[1]} {size[2]}"
        names[f"{variants[label]} {program}"] = cells
    for label, cells in table(PAGE, "\n| | temporaries | moved | kernels | least time | a step |"):
        model, precision = re.match(r"(\w+), (\w+)", label).groups()
        names[f"{model.lower()} 10 x 64 {precision}"] = cells
    for name, cells in names.items():
        for value, (printed,) in zip(measured(found[name]), cells, strict=True):
            assert rounds_to(value, printed), (name, printed, value)
    assert len(names) == 10 + 6


def test_the_readme_shows_the_programs_before_and_now():
    before, now = read("accelerators", "before.json"), read("accelerators", "figures.json")
    gpu = read("device", "1-x-nvidia-h200", "compiled.json")["found"]
    rows = dict(table(README, "| ten runs' training step |"))
    for label, precision in (("RE2, batch 512, H100 (compiled)", "float32"), ("in bfloat16", "bfloat16")):
        for figures, cell in zip((before, now), rows.pop(label)[:2], strict=True):
            temporaries, moved, *_ = compiled(figures[f"h100 re2 train 512 10 {precision}"])
            assert rounds_to(temporaries, cell[0]) and rounds_to(moved, cell[1]), (label, cell)
    for label, size in (("H200 (measured)", "512 float32"), ("H200, batch 64, bfloat16", "64 bfloat16")):
        for model, cell in zip(("re2-triton-unaligned", "re2"), rows.pop(label)[:2], strict=True):
            assert rounds_to(1e3 * gpu[f"{model} 10 x {size}"]["seconds"], cell[0])
    temporaries, moved, *_ = compiled(now["v5e re2 train 512 10 float32"])
    _, cell, *_ = rows.pop("TPU v5e (compiled)")
    assert rounds_to(temporaries, cell[0]) and rounds_to(moved, cell[1])
    for figures, cell in zip((before, now), rows.pop("CSRAN, batch 64, kernels")[:2], strict=True):
        assert rounds_to(figures["h100 csran train 64 10 float32"]["kernels"], cell[0])
    assert not rows


def test_the_results_page_shows_the_goals_of_wikiqa_seed_by_seed():
    def scores(folder):
        """Returns the four scores of the columns, seed by seed."""
        files = sorted((ROOT / "results" / folder / "runs").glob("*/record.json"))
        records = sorted((json.loads(file.read_text()) for file in files), key=lambda record: record["seed"])
        chosen_on = [(record["test"], record["best_on_test"]["scores"]) for record in records]
        return [[one[name] for one in both for name in ("map", "mrr")] for both in chosen_on]

    seeds, others = scores("wikiqa_tensorflow_mixed"), scores("wikiqa_tensorflow")
    expected = {f"seed {number}": values for number, values in enumerate(seeds)}
    expected["mean"] = [sum(values) / len(seeds) for values in zip(*seeds, strict=True)]
    expected["highest of five seeds in `wikiqa_tensorflow`"] = [max(values) for values in zip(*others, strict=True)]
    (goal, _), *rows = table(ROOT / "results" / "README.md", "| | test MAP | test MRR | best on test: MAP |")
    assert goal == "goal" and [label for label, _ in rows] == [*expected]
    for label, cells in rows:
        for value, (printed,) in zip(expected[label], cells, strict=True):
            assert rounds_to(value, printed), (label, printed, value)


def test_the_results_page_shows_what_halving_saved():
    parts = ("replica_steps", "train_seconds", "evaluate_seconds", "compile_seconds")
    sums = []
    for folder in ("whole", "halved"):
        records = [
            json.loads(path.read_text()) for path in (ROOT / "results/tuning" / folder).glob("runs/*/record.json")
        ]
        cohorts = {record["cohort"]: record["times"] for record in records}
        sums.append([sum(times[part] for times in cohorts.values()) for part in parts])
        sums[-1].append(sum(sums[-1][1:]))
    rows = list(table(ROOT / "results" / "README.md", "| whole grid | halving | of the whole |"))
    assert len(rows) == len(parts) + 1
    for whole, halved, (label, cells) in zip(*sums, rows, strict=True):
        for value, (printed,) in zip((whole, halved, 100 * halved / whole), cells, strict=True):
            assert rounds_to(value, printed), (label, printed, value)

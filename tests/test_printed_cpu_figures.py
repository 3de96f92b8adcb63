"""Figures of CPUs that docs/benchmarks.md prints beside text equal those of the records."""

import pytest
from test_printed_figures import NUMBER, PAGE, RECORDS, read, rounds_to

# Section -> the folder of its records, in the order of the columns of the goals.
MACHINES = {
    "AMD EPYC, AVX2": "1-x-cpu-amd-epyc-2-cores",
    "Intel Xeon, AVX-512": "1-x-cpu-intel-r-xeon-r-processor-2-cores",
    "AMD EPYC, AVX-512": "1-x-cpu-amd-epyc-avx-512-2-cores",
}
TRAINING = {512: "training one run, batch size 512, SNLI text", 64: "the same, batch size 64"}
PREDICTING = "predicting SNLI's test set, text to labels"
# Label -> the names of our time of a batch and of its ratio to the peer's.
TABLE_5 = {
    "RE2's Table 5, a batch of 8, one to three blocks": ("ours", "of_peer"),
    "the same, without the table of products": ("computed", "computed_of_peer"),
    "the same, without any optimization for a CPU": ("plain", "plain_of_peer"),
}
HOURS = "everything RE2's tables train, 520 runs on the full data sets, evaluation included"
MEMORY = "memory of a training step, 1 to 10 runs, 64 to 512 pairs, 24 to 96 tokens"
# Label of a goal -> the labels of the figures that it is compared with, which of the ratios it takes (None: all), and
# whether they may be at most as high.
GOALS = {
    "training, batch size 512 and 64, times the sorted peer": (TRAINING.values(), 0, False),
    "training, batch size 512 and 64, times the peer as released (former goal)": (TRAINING.values(), 1, False),
    "predicting, times the sorted peer at its best batch size": ([PREDICTING], 0, False),
    "predicting, times the peer as released (former goal)": ([PREDICTING], 1, False),
    "Table 5, relative to the peer's time, with products of words looked up": ([[*TABLE_5][0]], None, True),
    "the same without looking up": ([[*TABLE_5][1]], None, True),
    "the same without any optimization for a CPU": ([[*TABLE_5][2]], None, True),
}


def rows_of(machine, item):
    file = RECORDS / machine / f"{item}.json"
    return read(machine, file.name)["rows"] if file.exists() else []


def ends(values):
    return [min(values), max(values)]


def figures(machine):
    """Returns label -> the numbers of a row of the machine's table: ours, the peer's, and the ratios."""
    found = {}
    for row in [*rows_of(machine, "training"), *rows_of(machine, "matching")]:
        of = {name: value["median"] for name, value in row.items() if isinstance(value, dict)}
        ratios = of["sorted_ratio"], of["ratio"]
        found[TRAINING.get(row.get("batch"), PREDICTING)] = [of["ours"]], [of["sorted"], of["peer"]], ratios
    for label, names in TABLE_5.items():
        rows = [row for row in rows_of(machine, "inference") if names[0] in row]
        columns = [ends([row[name]["median"] for row in rows]) for name in (names[0], "peer", names[1]) if rows]
        found |= {label: columns} if rows else {}
    for row in rows_of(machine, "paper")[-1:]:
        found[HOURS] = [row["total"]], [row["sorted"], row["peer"]], [row["sorted_ratio"], row["ratio"]]
    alone = None
    for row in rows_of(machine, "replicas"):
        of = {name: value["median"] for name, value in row.items() if isinstance(value, dict)}
        if (row["batch"], row["replicas"]) == (64, 1):
            alone = of["milliseconds"]
        elif (row["batch"], row["replicas"]) == (64, 10):
            found["ten runs at once, batch size 64: one run"] = [of["milliseconds"] / 10], [alone], [of["ratio"]]
            found["the same"] = [of["pairs"]], [], [of["sorted"], of["peer"]]
    if rows := rows_of(machine, "memory"):
        found[MEMORY] = ends([row["measured"] for row in rows]), [], ends([row["ratio"] for row in rows])
    return found


def tables_below(heading):
    """Returns the cells of the tables of a section, row by row."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def check(values, cell):
    """Asserts that a cell prints the values. A cell may print one number for a range whose ends round to it."""
    printed = NUMBER.findall(cell.replace("RE2", ""))
    printed *= 2 if (len(printed), len(values)) == (1, 2) else 1
    assert len(printed) == len(values) and all(map(rounds_to, values, printed)), (values, cell)


@pytest.mark.parametrize("name", MACHINES)
def test_the_page_shows_the_records_of_a_cpu(name):
    shown = {label: cells for label, *cells in tables_below(name)}
    found = figures(MACHINES[name])
    with_records = {label for machine in MACHINES.values() for label in figures(machine)}
    assert with_records & shown.keys() == found.keys()  # no row without a record
    for label, expected in found.items():
        for values, cell in zip(expected, shown[label], strict=True):
            check(values, cell)


def test_the_page_compares_the_records_with_the_goals():
    (_, _, *machines), _, *rows = tables_below("Goals on a CPU")
    assert machines == [*MACHINES]
    shown = {label: (goal, cells) for label, goal, *cells in rows}
    for label, (compared, which, below) in GOALS.items():
        goals = [float(number) for number in NUMBER.findall(shown[label][0])]
        for machine, cell in zip(MACHINES.values(), shown[label][1], strict=True):
            ratios = [ratios for name, (_, _, ratios) in figures(machine).items() if name in compared]
            values = [one[which] for one in ratios] if which is not None else [each for one in ratios for each in one]
            check(values, cell)
            pairs = zip(values, goals * (len(values) // len(goals)), strict=True)
            met = all(value <= goal if below else value >= goal for value, goal in pairs)
            assert cell.partition(":")[0] == ("met" if met else "missed") if values else cell == "not measured"

"""Records like those of small sweeps and measurements, for the tests of tables, and the cells of a printed table."""

import re

from jaxmatch.reporting.layout import TableLayout

ACCURACY = {1: 0.81, 2: 0.84, 3: 0.86}


def record(blocks=1, rate=0.001, seed=1, status="finished", **changes):
    accuracy = ACCURACY[blocks] + seed / 1000 - (rate - 0.001)
    scores = {"accuracy": accuracy, "loss": 1 - accuracy, "mrr": accuracy / 2}
    made = {
        "format": 1,
        "run": f"run-{blocks}-{rate}-{seed}",
        "sweep": "sick",
        "cohort": "c",
        "seed": seed,
        "variant": "",
        "overrides": {"model.blocks": blocks, "optimizer.learning_rate": rate},
        "config": {"model": {"name": "re2", "blocks": blocks}, "optimizer": {"learning_rate": rate, "warmup": 0}},
        "status": status,
        "diverged_at_samples": 512 if status == "diverged" else None,
        "selected_on": "dev.accuracy",
        "selected_at_samples": 4500,
        "dev": scores,
        "test": {name: value - 0.01 for name, value in scores.items()},
        "best_on_test": {"scores": {"accuracy": accuracy + 0.05}, "at_samples": 9000},
        "curve": [],
        "times": {"train_seconds": 12.34},
        "versions": {"jax": "0.10.2"},
        "device": "cpu x86_64",
        "commit": "abc",
        "data": {
            "name": "sick",
            "fingerprint": "f",
            "train": 4500,
            "dev": 500,
            "test": 4927,
            "vectors": "minilm.300d.zip",
            "coverage": {"words_with_vector": 1.0, "tokens_with_vector": 0.987, "tokens_in_vocabulary": 0.99},
        },
        "parameters": 1_000_000 + blocks,
    }
    if status == "diverged":
        made |= {"dev": None, "test": None, "best_on_test": None}
    if status == "dropped":
        made |= {"dropped": {"after_epochs": 1, "at_samples": 4500}}
    return made | changes


def setting_record(overrides, seed, dev=None, status="finished", variant="", data="sick", **changes):
    """Returns a record with only the entries that group runs by setting and compare their scores.

    The data "sick-changed" has the name "sick" but other files.
    """
    return {
        "run": f"{variant}-{sorted(overrides.items())}-{data}-seed{seed}",
        "seed": seed,
        "status": status,
        "variant": variant,
        "overrides": overrides,
        "selected_on": "dev.accuracy",
        "dev": dev,
        "config": {},
        "data": {"name": data.partition("-")[0], "files": {"dev": data}},
    } | changes


def tried(rate, seed, dev, test=0.5, selected_on="dev.accuracy", **changes):
    """Returns the record of a run in a grid of learning rates from which tuning chooses."""
    name = selected_on.removeprefix("dev.")
    scores = None if dev is None else {name: dev}
    more = {"selected_on": selected_on, "test": {name: test}} | changes
    return setting_record({"optimizer.learning_rate": rate}, seed, scores, **more)


LAYOUT = TableLayout("RE2 on SICK", ("model.blocks", "optimizer.learning_rate"))


def cells(table):
    """Returns the cells of the Markdown table as stripped text, header first."""
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [rows[0], *rows[2:]]


SMALL_GRID = [record(b, r, s) for b in (1, 2) for r in (0.001, 0.002) for s in (1, 2, 3)] + [
    record(3, 0.001, 1, status="diverged"),
    record(3, 0.001, 2, device="gpu"),
]

# The entries above the results of measurements on a device.
ABOUT_A_DEVICE = {
    "device": "1 x NVIDIA H200",
    "driver": "NVIDIA driver 1",
    "versions": {"jax": "0"},
    "commit": "a" * 40,
    "command": "c",
    "quick": False,
}

TIMING = {
    "format": 1,
    "kind": "timing",
    "name": "t",
    "title": "Inference time",
    "command": "jaxmatch timing x.py",
    "device": "1 x cpu",
    "versions": {"jax": "0.10"},
    "commit": "",
    "load_before": 0.1,
    "batch_size": 8,
    "length": 20,
    "batches": 2,
    "rows": [
        {
            "model": "RE2 (1 block)",
            "settings": {},
            "parameters": 1234567,
            "batch_seconds": [0.001, 0.003],
            "split": {"data": "snli test", "pairs": 1000, "seconds": [0.5, 0.25]},
        },
        {
            "model": "ESAN",
            "settings": {},
            "parameters": 99,
            "batch_seconds": [0.5, 0.5],
            "split": None,
        },
    ],
    "published": [
        {"model": "BiMPM", "source": "Yang et al. (2019), Table 5", "parameters": None, "seconds": "0.05 ± 0.00"},
        {
            "model": "RE2 (1 block)",
            "source": "Yang et al. (2019), Table 5",
            "parameters": None,
            "seconds": "0.03 ± 0.00",
        },
    ],
    "notes": ["a note"],
}

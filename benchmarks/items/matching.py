"""The speed of matching a whole test set, compared with the public PyTorch RE2, which gets tokenized text."""

import contextlib
import functools
import time
from pathlib import Path
from typing import Any

import jax

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.peer import SORT_BY_LEN, Peer
from benchmarks.peer_data import write_peer_data
from benchmarks.peer_settings import peer_settings
from benchmarks.steps import SMALL
from jaxmatch.analysis.timing import random_model
from jaxmatch.data import catalog
from jaxmatch.inference.matcher import Matcher
from jaxmatch.sweep import files

# The minimum of our pairs per second, as a multiple of the sorted peer's.
GOAL = 3.0
# The peer's batch sizes, of which the fastest counts.
BATCHES = (32, 64, 512)
QUICK_PAIRS = 50


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns one row, for the test set with the released setting, and notes."""
    name, small = ("re2_embedded_inference", SMALL) if settings.quick else ("re2_snli", {})
    config = settings.config(name, **small)
    data = files.prepare(config)
    split = catalog.load(data.name, settings.data_directory if not settings.quick else "").splits["test"]
    pairs = list(zip(split.text_a, split.text_b, strict=True))[: QUICK_PAIRS if settings.quick else None]
    model = random_model(config.model.to_dict(), vectors=data.vectors, outputs=len(data.labels))
    matcher = Matcher(
        model,
        vocabulary=data.vocabulary,
        preprocessing=data.preprocessing,
        labels=data.labels,
        task=data.task,
        config={},
    )

    def ours() -> None:
        [prediction.label for prediction in matcher.predict(pairs)]

    def tokenising() -> None:
        matcher.encoded(pairs)

    candidates = {"ours": ours, "tokenising": tokenising}
    row: dict[str, Any] = {"what": f"{data.name} test, {len(pairs):,} pairs"}
    with contextlib.ExitStack() as stack:
        notes = [
            "Ours takes the raw text and tokenises it; the peer's text comes tokenised, by us, and is cut at spaces."
        ]
        if settings.peer:
            peer = stack.enter_context(Peer(settings.peer, settings.peer_python))
            folder = write_peer_data(data, settings.scratch / "matching")
            peer.build(peer_settings(config, data), str(folder))
            peers = {(key, batch): f"{key} {batch}" for key in SORT_BY_LEN for batch in BATCHES}
            for (key, batch), name in peers.items():
                candidates[name] = functools.partial(_peer_seconds, peer, folder / "test.txt", batch, SORT_BY_LEN[key])
            notes.append(f"Peer: {peer.name}; its own batches and padding, as released and sorted by length.")
        began = time.perf_counter()
        ours()
        notes.append(f"The first call, which compiles a program for each length: {time.perf_counter() - began:.1f} s.")
        seconds = stopwatch.in_turn(candidates, settings.rounds)
    row["ours"] = stopwatch.spread([len(pairs) / one for one in seconds["ours"]])
    row["tokenising"] = stopwatch.ratio(seconds["tokenising"], seconds["ours"])
    row["verdict"] = stopwatch.verdict(f"≥ {GOAL}", None)
    if settings.peer:
        for key, ratio in (("peer", "ratio"), ("sorted", "sorted_ratio")):
            speeds = {
                batch: stopwatch.spread([len(pairs) / one for one in seconds[peers[key, batch]]]) for batch in BATCHES
            }
            best = max(BATCHES, key=lambda batch: speeds[batch]["median"])
            row |= {key: speeds[best], f"{key}_batch": best}
            row[ratio] = stopwatch.ratio(seconds[peers[key, best]], seconds["ours"])
            by_batch = ", ".join(f"{speed['median']:,.0f} with batches of {batch}" for batch, speed in speeds.items())
            notes.append(f"Peer {'sorted' if SORT_BY_LEN[key] else 'as released'}, pairs/s: {by_batch}.")
        row["verdict"] = stopwatch.verdict(f"≥ {GOAL}", row["sorted_ratio"]["median"] >= GOAL)
    if jax.default_backend() != "cpu":
        row["verdict"] = ""
    return [row], notes


def _peer_seconds(peer: Peer, file: Path, batch_size: int, sort_by_len: bool) -> float:
    """Returns the seconds in which the peer predicts a file of pairs."""
    return peer.request("texts", file=str(file), batch_size=batch_size, sort_by_len=sort_by_len)["seconds"]


ITEM = Item(
    title="Matching a test set, raw text to labels, the released SNLI setting (3 blocks, hidden 150).",
    needs=("vectors",),
    columns=(
        Column("what", "data"),
        Column("ours", "ours, pairs/s", ",.0f"),
        Column("peer", "peer as released, pairs/s", ",.0f"),
        Column("peer_batch", "its best batch", "d"),
        Column("sorted", "peer sorted, pairs/s", ",.0f"),
        Column("sorted_batch", "its best batch", "d"),
        Column("ratio", "ours / as released", ".2f"),
        Column("sorted_ratio", "ours / sorted", ".2f"),
        Column("verdict", "goal of ours / sorted (CPU)"),
        Column("tokenising", "tokenising, of our time", ".1%"),
    ),
    run=run,
)

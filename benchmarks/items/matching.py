"""Matching a whole test set: pairs of texts in, labels out, against the public PyTorch RE2, which gets its text
tokenised.
"""

import contextlib
import time
from typing import Any

from benchmarks import timing
from benchmarks.peer import Peer
from benchmarks.peer_data import write_peer_data
from benchmarks.peer_settings import peer_settings
from benchmarks.random_model import random_model
from benchmarks.settings import Column, Item, Settings
from benchmarks.steps import SMALL
from jaxmatch.data import catalog
from jaxmatch.inference.matcher import Matcher
from jaxmatch.sweep import preparation

# Times the peer's pairs per second, at least.
GOAL = 5.0
# Matching a test set takes so long that the machine's noise counts little.
MOST_ROUNDS = 5
QUICK_PAIRS = 50


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """One row: the test set with the released setting."""
    name, small = ("re2_embedded_inference", SMALL) if settings.quick else ("re2_snli", {})
    config = settings.config(name, **small)
    data = preparation.prepare(config)
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
    row: dict[str, Any] = {"what": f"{data.name} test, {len(pairs):,} pairs", "goal": GOAL}
    with contextlib.ExitStack() as stack:
        notes = [
            "Ours takes the raw text and tokenises it; the peer's text comes tokenised, by us, and is cut at spaces."
        ]
        if settings.peer:
            peer = stack.enter_context(Peer(settings.peer, settings.peer_python))
            folder = write_peer_data(data, settings.scratch / "matching")
            peer.ask("build", folder=str(folder), settings=peer_settings(config, data))
            candidates["peer"] = lambda: peer.ask("texts", file=str(folder / "test.txt"))["seconds"]
            notes.append(
                f"Peer: the public PyTorch RE2, torch {peer.about['torch']}, {peer.about['device']}; its own batches and padding."
            )
        began = time.perf_counter()
        ours()
        notes.append(f"The first call, which compiles a program for each length: {time.perf_counter() - began:.1f} s.")
        seconds = timing.in_turn(candidates, min(settings.rounds, MOST_ROUNDS))
    row["ours"] = timing.spread([len(pairs) / one for one in seconds["ours"]])
    row["tokenising"] = timing.ratio(seconds["tokenising"], seconds["ours"])
    if settings.peer:
        row["peer"] = timing.spread([len(pairs) / one for one in seconds["peer"]])
        row["ratio"] = timing.ratio(seconds["peer"], seconds["ours"])
    return [row], notes


ITEM = Item(
    title="Matching a test set, raw text to labels, the released SNLI setting (3 blocks, hidden 150).",
    needs=("vectors",),
    columns=(
        Column("what", "data"),
        Column("ours", "ours, pairs/s", ",.0f"),
        Column("peer", "peer, pairs/s", ",.0f"),
        Column("ratio", "ours / peer", ".2f"),
        Column("goal", "goal (CPU), at least", ".1f"),
        Column("tokenising", "tokenising, of our time", ".1%"),
    ),
    run=run,
)

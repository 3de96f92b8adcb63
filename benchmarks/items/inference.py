"""Inference in the setting of RE2's Table 5, from word ids to probabilities, compared with the public PyTorch RE2."""

import contextlib
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.peer import Peer
from jaxmatch.inference import cpu
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import InferenceModel
from jaxmatch.papers.timing import random_model

# RE2, Table 5: 8 pairs of 20 tokens a sentence, 3 encoder layers.
BATCH, LENGTH, BLOCKS = 8, 20, (1, 2, 3)
MODEL = {"encoder_layers": 3, "hidden_size": 150, "alignment": "linear", "fusion": "full", "prediction": "full"}
WORDS, DIMENSIONS, CLASSES = 10_000, 300, 3
# The number of calls in one measurement. A single call is too short to be timed on a machine with other work.
CALLS = 20
# The maximum share of the peer's time, on a CPU.
PEER_GOAL = 0.35
# A candidate -> the column of its time relative to the peer's.
OF_PEER = {"ours": "of_peer", "computed": "computed_of_peer", "plain": "plain_of_peer"}


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for every number of blocks, and notes."""
    small = {"hidden_size": 8} if settings.quick else {}
    vectors = np.random.default_rng(0).normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
    sides = np.random.default_rng(1).integers(2, WORDS, (2, BATCH, LENGTH), dtype=np.int32)
    rows, notes = [], []
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(settings.peer, settings.peer_python)) if settings.peer else None
        for blocks in BLOCKS[: 1 if settings.quick else None]:
            model = random_model({**MODEL, **small, "blocks": blocks}, vectors=vectors, outputs=CLASSES)
            rows.append(_row(model, blocks, sides, settings.rounds, peer))
            notes += _product_table_note(model, blocks, sides)
        if peer:
            notes.append(f"Peer: {peer.name}. Sorting by length changes nothing here: one batch, all of one length.")
    notes += [
        f"{BATCH} pairs of {LENGTH} tokens a sentence, {MODEL['encoder_layers']} encoder layers, hidden "
        f"{MODEL['hidden_size']}; lists of ids in, probabilities out. A time is the mean of {CALLS} calls.",
        "Computed: with all optimizations for a CPU but the table of products, as if there were no memory for it.",
        "Plain: `optimize_for_cpu=False`, without any of these optimizations (docs/cpu_inference.md).",
    ]
    return rows, notes


def _product_table_note(model: InferenceModel, blocks: int, sides: np.ndarray) -> list[str]:
    """Returns a note on the cost of a first prediction besides compilation, if the model looks up products of words."""
    if jax.default_backend() != "cpu":
        return []
    fresh_model = InferenceModel(model.module, model.params, model.vectors)
    start = time.perf_counter()
    table = fresh_model.predictor.program(fresh_model.words, *fresh_model.inputs(*sides)).table
    if table is None:
        return []
    table.block_until_ready()
    return [
        f"Made once and looked up with {blocks} block{'s' * (blocks > 1)}: products of the {WORDS:,} words' vectors, "
        f"{table.nbytes / 1e6:.0f} MB in {time.perf_counter() - start:.2f} s."
    ]


def _row(model: InferenceModel, blocks: int, sides: np.ndarray, rounds: int, peer: Peer | None) -> dict[str, Any]:
    pairs = [side.tolist() for side in sides]
    computed = InferenceModel(model.module, model.params, model.vectors)
    plain = InferenceModel(model.module, model.params, model.vectors, optimize_for_cpu=False)

    def repeated_predictions(predicting: InferenceModel) -> Callable[[], None]:
        def work() -> None:
            for _ in range(CALLS):
                probabilities_of(predicting.logits(*(np.array(side, np.int32) for side in pairs)))

        work()
        return work

    candidates: dict[str, Callable] = {"ours": repeated_predictions(model), "plain": repeated_predictions(plain)}
    with mock.patch.object(cpu, "MAX_TABLE_BYTES", 0):  # it is read by the first call, which prepares the program
        candidates["computed"] = repeated_predictions(computed)
    if peer:
        peer_settings = {
            "blocks": blocks,
            "enc_layers": MODEL["encoder_layers"],
            "num_vocab": WORDS,
            "embedding_dim": DIMENSIONS,
        }
        peer.build({**peer_settings, "hidden_size": model.module.config.hidden_size})

        def peer_seconds() -> float:
            return sum(peer.request("ids", text1=pairs[0], text2=pairs[1], times=CALLS)["seconds"])

        candidates["peer"] = peer_seconds
    seconds = stopwatch.in_turn(candidates, rounds)
    row: dict[str, Any] = {"blocks": blocks}
    for name, own in seconds.items():
        row[name] = stopwatch.spread([1e3 * one / CALLS for one in own])
    if peer:
        row |= {share: stopwatch.ratio(seconds[name], seconds["peer"]) for name, share in OF_PEER.items()}
    row["goals"] = "; ".join(
        stopwatch.verdict(f"{name} ≤ {PEER_GOAL}", row[share]["median"] <= PEER_GOAL if peer else None)
        for name, share in OF_PEER.items()
        if jax.default_backend() == "cpu"
    )
    return row


ITEM = Item(
    title="Inference from ids to probabilities, the setting of RE2's Table 5.",
    needs=(),
    columns=(
        Column("blocks", "blocks", "d"),
        Column("ours", "ours, ms a batch", ".2f"),
        Column("peer", "peer, ms a batch", ".2f"),
        Column("computed", "computed, ms a batch", ".2f"),
        Column("plain", "plain, ms a batch", ".2f"),
        Column("of_peer", "ours / peer", ".2f"),
        Column("computed_of_peer", "computed / peer", ".2f"),
        Column("plain_of_peer", "plain / peer", ".2f"),
        Column("goals", "goals (CPU)"),
    ),
    run=run,
)

"""Requests to a loaded model: single pairs after `warmup`, and searches among many stored texts."""

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.items import starts
from benchmarks.items.inference import WORDS
from jaxmatch.inference.matcher import Matcher, load

REQUESTS, LONGEST = 1000, 64  # single pairs; tokens of both texts together, from 2 on
TEXTS, SEARCHES, TOKENS = 100_000, 50, (4, 20)  # stored texts; timed queries; tokens of each
PREFILTERS = ("vectors", "bm25")
# The number of searches before those that count. Candidates of other lengths need other programs.
_WARM = 20
# The maximum milliseconds of the slowest request, on two cores.
REQUEST_GOAL, SEARCH_GOAL = 50, 2000
T = TypeVar("T")


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for single pairs, a row for each prefilter, and notes."""
    draw = np.random.default_rng(0)
    requests, longest, texts = (20, 8, 500) if settings.quick else (REQUESTS, LONGEST, TEXTS)
    warm, searches = (1, 2) if settings.quick else (_WARM, SEARCHES)
    matcher = load(starts.write_run(settings.scratch / "requests", small=settings.quick))
    rows, notes = [_pairs(matcher, requests, longest, draw)], []
    stored = [_text(draw, draw.integers(*TOKENS, endpoint=True)) for _ in range(texts)]
    queries = [_text(draw, draw.integers(*TOKENS, endpoint=True)) for _ in range(warm + searches)]
    for prefilter in PREFILTERS:
        if prefilter == "bm25" and importlib.util.find_spec("bm25s") is None:
            notes.append("The prefilter bm25 was not measured: bm25s is not installed.")
            continue
        began = time.perf_counter()
        index = matcher.index(stored, prefilter)
        seconds = time.perf_counter() - began
        took = milliseconds(lambda query: index.search(query, label=starts.LABELS[0]), queries)
        rows.append(row(f"search of {texts:,} texts, {prefilter}", took[warm:], SEARCH_GOAL) | {"first": took[0]})
        notes.append(f"The index with {prefilter} was made in {seconds:.1f} s.")
    return rows, [
        f"RE2 with the paper's setting for {starts.DATA}, {WORDS:,} words. Pairs of 2 to {longest} tokens, one a call, "
        "after `matcher.warmup()`. Searches rank the 100 candidates of the prefilter; queries and texts have "
        f"{TOKENS[0]} to {TOKENS[1]} tokens, and the first {warm} searches, which compile, do not count. The goals are "
        "for the slowest on a quiet machine with two cores.",
        *notes,
    ]


def _pairs(matcher: Matcher, requests: int, longest: int, draw: np.random.Generator) -> dict[str, Any]:
    lengths = range(2, longest + 1)
    matcher.warmup(lengths)
    pairs = []
    for length in draw.choice(lengths, requests):
        cut = draw.integers(1, length)
        pairs.append((_text(draw, cut), _text(draw, length - cut)))
    took = milliseconds(lambda pair: matcher.predict([pair]), pairs)
    return row(f"predict 1 pair, {requests:,} times", took, REQUEST_GOAL) | {"first": took[0]}


def _text(draw: np.random.Generator, tokens: int) -> str:
    """Draws words of the model's vocabulary, and one word in ten that is not in it."""
    return " ".join(f"word{number}" for number in draw.integers(WORDS * 10 // 9, size=tokens))


def milliseconds(call: Callable[[T], Any], inputs: Sequence[T]) -> list[float]:
    """Measures the milliseconds of each call, one after another."""
    took = []
    for each in inputs:
        began = time.perf_counter()
        call(each)
        took.append(1e3 * (time.perf_counter() - began))
    return took


def row(what: str, took: Sequence[float], goal: float) -> dict[str, Any]:
    """Returns the median, the 99th percentile and the slowest of some times, and whether the slowest meets the goal."""
    slowest = float(np.max(took))
    return {
        "what": what,
        "median": stopwatch.spread(took),
        "late": float(np.quantile(took, 0.99)),
        "slowest": slowest,
        "goal": stopwatch.verdict(f"slowest ≤ {goal:,} ms", slowest <= goal),
    }


ITEM = Item(
    title="Requests to a loaded model: single pairs, and searches.",
    needs=(),
    columns=(
        Column("what", "request"),
        Column("first", "first, ms", ".1f"),
        Column("median", "median, ms", ".1f"),
        Column("late", "99th percentile, ms", ".1f"),
        Column("slowest", "slowest, ms", ".1f"),
        Column("goal", "goal"),
    ),
    run=run,
)

"""The host's time beside a fast device: for a training step, by the number of steps in one dispatch, and for scores."""

import time
from typing import Any

import jax

from benchmarks import steps, stopwatch, wikiqa_scores
from benchmarks.item import Column, Item, Settings
from jaxmatch.sweep import preparation
from jaxmatch.training.lockstep import Lockstep

# The maximum microseconds: 2% of a step of one millisecond.
GOAL = 20.0
STEPS_AT_ONCE = 64
COUNTS = (1, 4, 16, STEPS_AT_ONCE)


class Dispatches:
    """Training steps of some replicas, at most `steps_at_once` of them in one dispatch."""

    def __init__(self, config: Any, data: Any, steps_at_once: int, replicas: int = 1):
        self._lockstep = Lockstep(
            model=config.model.to_dict(),
            data=data,
            batch_size=config.training.batch_size,
            maximum_buckets=config.training.maximum_buckets,
            mix_lengths=config.training.mix_lengths,
            seeds=range(replicas),
            optimizer=[config.optimizer.to_dict()] * replicas,
            devices=(jax.devices()[0],),
            steps_at_once=steps_at_once,
        )
        self._state, self._epoch = self._lockstep.initial(), self._lockstep.epoch(0)
        self.lengths = self._lockstep.buckets

    def seconds(self, count: int, dispatches: int, first: int = 0) -> float:
        """Measures the seconds of a dispatch of the first `count` steps of an epoch: the mean of several dispatches,
        until the last one has ended. If a dispatch has only one step, the steps from `first` on are made.
        """
        jax.block_until_ready(self._state)
        start = time.perf_counter()
        for number in range(first, first + dispatches):
            index = 0 if self._lockstep.steps_at_once > 1 else number % STEPS_AT_ONCE
            self._state = self._lockstep.step(self._state, self._epoch, index, count)
        jax.block_until_ready(self._state)
        return (time.perf_counter() - start) / dispatches


def _verdict(goal: float, found: dict[str, float]) -> str:
    return stopwatch.verdict(f"≤ {goal:,.0f}", found["median"] <= goal)


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns rows and notes: a row for the program of one step, one for each number of steps that the program of
    several steps is given, and one for scores.
    """
    config = settings.config("re2_embedded_inference", **steps.SMALL)
    data = preparation.prepare(config)
    single, many = Dispatches(config, data, 1), Dispatches(config, data, STEPS_AT_ONCE)
    # The time of a dispatch without steps is the host's alone.
    candidates = {
        "single": lambda: single.seconds(1, STEPS_AT_ONCE),
        "none": lambda: many.seconds(0, STEPS_AT_ONCE),
        "many": lambda: many.seconds(STEPS_AT_ONCE, 1),
    }
    found = stopwatch.in_turn(candidates, settings.rounds)
    rounds = list(zip(found["single"], found["none"], found["many"], strict=True))
    own = stopwatch.spread([1e6 * (alone - (all_steps - none) / STEPS_AT_ONCE) for alone, none, all_steps in rounds])
    rows = [{"what": "a step, program of one", "count": 1, "host": own}]
    for count in COUNTS:
        shared = stopwatch.spread([1e6 * none / count for none in found["none"]])
        rows.append({"what": "a step, program of several", "count": count, "host": shared})
    for row in rows:
        row["share"] = row["host"]["median"] / 1e3
        row["goal"] = _verdict(GOAL, row["host"]) if row["count"] == STEPS_AT_ONCE else ""
    labels, questions, source = wikiqa_scores.dev_labels(settings.data_directory)
    scored = stopwatch.in_turn({"all": wikiqa_scores.scoring(labels, questions)}, settings.rounds)["all"]
    taken = stopwatch.spread([1e6 * seconds for seconds in scored])
    replicas, goal = wikiqa_scores.REPLICAS, _verdict(1e3 * wikiqa_scores.GOAL, taken)
    rows.append({"what": f"scores of {replicas} models", "count": "", "host": taken, "share": "", "goal": goal})
    step = stopwatch.spread([1e6 * (all_steps - none) / STEPS_AT_ONCE for _, none, all_steps in rounds])["median"]
    return rows, [
        f"RE2 at its smallest, batch {config.training.batch_size}, {len(many.lengths)} lengths; the device computes a "
        f"step in {step:,.0f} µs.",
        "Of several: a dispatch that makes no steps, shared by so many. Of one step: its time without the device's, "
        "which is what a step more takes in the program of several. Where the device is busy for longer, the host "
        "works meanwhile.",
        f"Scores: MAP, MRR, recall, accuracy and AUC of random outputs for WikiQA's dev set, {len(labels):,} pairs of "
        f"{len(set(questions.tolist())):,} questions, from {source}.",
    ]


ITEM = Item(
    title="The host's time for a training step, one or several steps a dispatch, and for scores.",
    needs=(),
    columns=(
        Column("what", "what"),
        Column("count", "steps a dispatch", "d"),
        Column("host", "host, µs", ",.1f"),
        Column("share", "of a step of 1 ms", ".1%"),
        Column("goal", "goal, µs"),
    ),
    run=run,
)

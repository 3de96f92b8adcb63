"""The models side by side: a training step, an answer, the memory of a run, and how long ten runs take to compile."""

from typing import Any

import jax
import numpy as np

from benchmarks import compilation, timing
from benchmarks.memory_worker import compiled_bytes, pairs_of
from benchmarks.random_model import random_model
from benchmarks.settings import Column, Item, Settings
from benchmarks.steps import SMALL, Steps
from jaxmatch.experiments import memory
from jaxmatch.matcher import probabilities_of

# (model, config, what is changed in it)
MODELS = (
    ("RE2, 3 blocks", "re2_snli", {}),
    ("ESAN, 2 layers", "esan_snli", {}),
    ("ESAN, 3 layers", "esan_snli", {"model__alignment_layers": 3}),
    ("CAFE", "cafe_snli", {}),
    ("CSRAN, 3 LSTM layers, 1 after", "csran_snli", {"model__aggregation_layers": 1}),
    ("CSRAN, 3 LSTM layers, 2 after", "csran_snli", {}),
)
SMALL_LSTM = {"model__hidden_size": 8, "training__batch_size": 16}
QUICK_MODELS = (
    ("RE2", "re2_embedded_inference", SMALL),
    ("CSRAN", "csran_embedded_inference", {**SMALL_LSTM, "model__stacked_layers": 1, "model__head_size": 8}),
)
# A training step: pairs and tokens of a pair. An answer: pairs and tokens of a sentence, as in RE2's Table 5 and ESAN's figure 2.
BATCH, LENGTH = 128, 24
ANSWERED, SENTENCE = 8, 20
WORDS, DIMENSIONS, CLASSES = 10_000, 300, 3
REPLICAS = 10
# Seconds to compile ten runs, at most, on two cores of a CPU.
COMPILE_GOAL = 60.0
# Calls that make one time.
CALLS = 5


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for every model; training steps of all are timed in turn, and then answers of all."""
    data = pairs_of(LENGTH, 2 * BATCH, WORDS, DIMENSIONS, CLASSES)
    rows, training, answering = [], {}, {}
    for name, config_name, changes in QUICK_MODELS if settings.quick else MODELS:
        config = settings.config(config_name, **{"training__batch_size": BATCH, **changes})
        steps = Steps(config, data, replicas=1, length=LENGTH)
        training[name], answering[name] = steps.seconds, _answering(config, data.vectors)
        module = steps.lockstep.programs.flat.module
        sizes = _compiled(module, config, data.task, steps.length)
        rows.append({"model": name, "parameters": steps.state.parameters.size, **sizes})
    steps, answers = (timing.in_turn(candidates, settings.rounds) for candidates in (training, answering))
    for row in rows:
        row["step"] = timing.spread([1e3 * one for one in steps[row["model"]]])
        row["answer"] = timing.spread([1e3 * one / CALLS for one in answers[row["model"]]])
        row["goal"] = COMPILE_GOAL if jax.default_backend() == "cpu" else ""
    return rows, [
        f"Settings of the configs for SNLI, {DIMENSIONS} dimensions of word vectors, no other features of a word. A step: {BATCH} "
        f"random pairs of {LENGTH} tokens.",
        f"An answer: {ANSWERED} pairs of {SENTENCE} tokens a sentence, lists of ids in, probabilities out; the mean of {CALLS} calls.",
        f"To compile: the training step of {REPLICAS} runs at once, from its trace on, with nothing taken from a cache. Memory: of "
        "one of them, what that program's own account says it holds at most, and the best parameters so far, without data and "
        "word vectors; planned: what a plan takes it for.",
    ]


def _answering(config: Any, vectors: np.ndarray) -> Any:
    """Answers `CALLS` times."""
    model = random_model(config.model.to_dict(), vectors=vectors, outputs=CLASSES)
    asked = [side.tolist() for side in np.random.default_rng(1).integers(2, WORDS, (2, ANSWERED, SENTENCE))]

    def work() -> None:
        for _ in range(CALLS):
            probabilities_of(model.logits(*(np.array(side, np.int32) for side in asked)))

    return work


def _compiled(module: Any, config: Any, task: str, length: int) -> dict[str, Any]:
    """What `REPLICAS` runs at once cost before they train: seconds to compile, MiB of one of them, as it is and as planned."""
    shape = {"batch": config.training.batch_size, "length": length}
    executable, seconds = compilation.compile_step(module, task, DIMENSIONS, **shape, replicas=REPLICAS)
    found = {"compile": seconds, "planned": memory.replica_bytes(module, task, DIMENSIONS, **shape) / 2**20}
    held = compiled_bytes(executable)
    if held is not None:
        best = 4 * memory.parameter_count(module, DIMENSIONS)  # which a cohort keeps beside
        found["memory"] = (held / REPLICAS + best) / 2**20
    return found


ITEM = Item(
    title="RE2, ESAN, CAFE and CSRAN side by side.",
    needs=(),
    columns=(
        Column("model", "model"),
        Column("parameters", "parameters", ",d"),
        Column("step", "a training step, ms", ",.0f"),
        Column("answer", "an answer, ms", ".1f"),
        Column("memory", "memory of a run, MiB", ",.0f"),
        Column("planned", "planned, MiB", ",.0f"),
        Column("compile", "10 runs to compile, s", ".0f"),
        Column("goal", "goal (2 cores), at most, s", ".0f"),
    ),
    run=run,
)

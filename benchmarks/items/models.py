"""The models side by side: the time of a training step and of a prediction."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.steps import SMALL, Steps
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.text import LONGEST_WORD, Preprocessing, Vocabulary
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.models import build

# Changes with which a model takes only the vector of each word.
WORD_VECTORS_ONLY = {"model__characters": "none", "model__tags": False, "model__exact_match": False}
# (model, config, changes to the config)
MODELS = (
    ("RE2, 3 blocks", "re2_snli", {}),
    ("ESAN, 2 layers", "esan_snli", WORD_VECTORS_ONLY),
    ("ESAN, 3 layers", "esan_snli", {**WORD_VECTORS_ONLY, "model__alignment_layers": 3}),
    ("ESAN, 2 layers, all of its inputs", "esan_snli", {}),
    ("CAFE", "cafe_snli", WORD_VECTORS_ONLY),
    ("CSRAN, 3 LSTM layers, 1 after", "csran_snli", {**WORD_VECTORS_ONLY, "model__aggregation_layers": 1}),
    ("CSRAN, 3 LSTM layers, 2 after", "csran_snli", WORD_VECTORS_ONLY),
    ("CSRAN, 3 LSTM layers, 2 after, characters", "csran_snli", {}),
)
SMALL_LSTM = {"model__hidden_size": 8, "training__batch_size": 16}
QUICK_MODELS = (
    ("RE2", "re2_embedded_inference", SMALL),
    ("CSRAN", "csran_embedded_inference", {**SMALL_LSTM, "model__stacked_layers": 1, "model__head_size": 8}),
    (
        "ESAN",
        "esan_embedded_paraphrase",
        {
            **SMALL_LSTM,
            "model__alignment_layers": 1,
            "model__characters": "cnn",
            "model__tags": True,
            "model__exact_match": True,
        },
    ),
)
# A training step: pairs, and tokens of a pair. A prediction: pairs, and tokens of a sentence, as in RE2's Table 5 and
# ESAN's Figure 2.
BATCH, LENGTH = 128, 24
PREDICTED_PAIRS, SENTENCE_LENGTH = 8, 20
WORDS, DIMENSIONS, CLASSES = 10_000, 300, 3
# The number of calls in one measurement.
CALLS = 5


def models_of(settings: Settings) -> tuple[tuple[str, str, dict[str, Any]], ...]:
    """Returns the models to measure: (model, config, changes to the config) of each."""
    return QUICK_MODELS if settings.quick else MODELS


def config_of(settings: Settings, name: str, changes: dict[str, Any]) -> ConfigDict:
    """Loads the config of one of the models."""
    return settings.config(name, **{"training__batch_size": BATCH, **changes})


def random_pairs(config: ConfigDict, length: int) -> EncodedData:
    """Returns twice as many random pairs as a batch has, with the features of a word that the config's model takes."""
    module = build(config.model.to_dict(), outputs=CLASSES)
    features = module.takes_characters or bool(module.token_features)
    return pairs_of(length, 2 * config.training.batch_size, WORDS, DIMENSIONS, CLASSES, features)


def pairs_of(length: int, pairs: int, words: int, dimensions: int, classes: int, features: bool = False) -> EncodedData:
    """Returns random pairs that all have `length` tokens, half of them in each sentence, with all features of words or
    with none.

    The words follow Zipf's law: the frequency of the n-th word is proportional to 1 / n.
    """
    random = np.random.default_rng(0)
    first = length // 2
    sides = [
        (_words(random, words, pairs * size), np.arange(pairs + 1, dtype=np.int64) * size)
        for size in (first, length - first)
    ]
    labels = random.integers(0, classes, pairs).astype(np.int32)
    # Further features of each token. Models that take none ignore them.
    features_of_tokens = {
        f"{name}_{side}": random.integers(0, many, len(tokens)).astype(np.uint8)
        for name, many in ((("tags", 40), ("exact_match", 2)) if features else ())
        for side, (tokens, _) in zip("ab", sides, strict=True)
    }
    split = EncodedSplit(*sides[0], *sides[1], labels, **features_of_tokens)
    return EncodedData(
        name="random",
        task="classification",
        labels=tuple(str(number) for number in range(classes)),
        splits={"train": split},
        vocabulary=Vocabulary(["<padding>", "<unknown>"] + [f"w{number}" for number in range(2, words)]),
        vectors=random.normal(size=(words, dimensions)).astype(np.float32),
        preprocessing=Preprocessing(),
        report={},
        fingerprint="random",
        characters=random.integers(1, 128, (words, LONGEST_WORD)).astype(np.uint16) if features else None,
    )


def _words(random: np.random.Generator, words: int, tokens: int) -> np.ndarray:
    """Draws <int32>[tokens], word ids from 2 to `words` - 1, whose logarithms are distributed evenly."""
    return (2 * (words / 2) ** random.random(tokens)).astype(np.int32)


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for every model, and notes. Training steps of all models are timed in turn, then predictions."""
    rows, training, answering = [], {}, {}
    for name, config_name, changes in models_of(settings):
        config = config_of(settings, config_name, changes)
        data = random_pairs(config, LENGTH)
        steps = Steps(config, data, replicas=1, length=LENGTH)
        training[name], answering[name] = steps.seconds, _prediction_function(steps, data)
        rows.append({"model": name, "parameters": steps.chunks.programs.flat.count})
    steps, answers = (stopwatch.in_turn(candidates, settings.rounds) for candidates in (training, answering))
    for row in rows:
        row["step"] = stopwatch.spread([1e3 * one for one in steps[row["model"]]])
        row["answer"] = stopwatch.spread([1e3 * one / CALLS for one in answers[row["model"]]])
    return rows, [
        f"Settings of the configs for SNLI, {DIMENSIONS} dimensions of word vectors, no other features of a word where "
        f"they are not named: ESAN's are characters, parts of speech and exact matches. A step: {BATCH} random pairs "
        f"of {LENGTH} tokens, words as frequent as Zipf's law says.",
        f"An answer: {PREDICTED_PAIRS} pairs of {SENTENCE_LENGTH} tokens a sentence, lists of ids in, probabilities "
        f"out; the mean of {CALLS} calls.",
    ]


def _prediction_function(steps: Steps, data: EncodedData) -> Callable[[], None]:
    """Returns a function that predicts `CALLS` times, with the parameters after the few steps that were made."""
    flat = steps.chunks.programs.flat
    model = InferenceModel(
        flat.module, flat.to_tree(steps.chunks.states()[1].parameters[0]), data.vectors, data.characters
    )
    random = np.random.default_rng(1)
    pairs = [side.tolist() for side in random.integers(2, WORDS, (2, PREDICTED_PAIRS, SENTENCE_LENGTH))]
    token_features = {
        name: tuple(random.integers(0, 2, (2, PREDICTED_PAIRS, SENTENCE_LENGTH))) for name in flat.module.token_features
    }

    def work() -> None:
        for _ in range(CALLS):
            probabilities_of(model.logits(*(np.array(side, np.int32) for side in pairs), token_features))

    return work


ITEM = Item(
    title="RE2, ESAN, CAFE and CSRAN side by side.",
    needs=(),
    columns=(
        Column("model", "model"),
        Column("parameters", "parameters", ",d"),
        Column("step", "a training step, ms", ",.0f"),
        Column("answer", "an answer, ms", ".1f"),
    ),
    run=run,
)

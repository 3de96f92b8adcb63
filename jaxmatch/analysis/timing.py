"""Times of a model's predictions: for a batch of words, as in Table 5 of RE2 and of ESAN, and for a split's texts."""

import collections
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data.text import UNKNOWN, Preprocessing, WordTable, build_vocabulary, character_table
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.inference.matcher import Matcher

# Predictions before the first that is timed. The first compiles and makes the lookup tables of words; the next may
# still find a cold cache.
_WARM = 3


def random_model(
    settings: Mapping[str, Any],
    *,
    vectors: np.ndarray,
    outputs: int,
    characters: np.ndarray | None = None,
    seed: int = 0,
) -> InferenceModel:
    """Builds an untrained model for timing; the values of its weights do not change a time.

    Arguments:
      settings: the settings that `jaxmatch.models.build` takes.
      vectors: <float32>[words, dimensions].
      outputs: the number of classes, or 1 for a regression.
      characters: the characters of the words as in an `InferenceModel`, for models that take characters.
      seed: the seed of the weights.

    Raises:
      InputError: the model does not have these settings.
    """
    module = models.build(settings, outputs=outputs)
    table = vectors if characters is None else WordTable(vectors, characters)
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    parameters = jax.jit(module.init)(jax.random.key(seed), side, side, table)["params"]
    return InferenceModel(module, parameters, vectors, characters)


def random_matcher(
    model: Mapping[str, Any],
    *,
    texts: Iterable[str],
    preprocessing: Preprocessing,
    labels: Sequence[str],
    task: str,
    dimensions: int,
    seed: int = 0,
) -> Matcher:
    """Builds a `Matcher` around a `random_model` with random word vectors.

    The number of words can change a time, because the table of their products may be too large to be used
    (inference/cpu.py).

    Arguments:
      model: the settings that `jaxmatch.models.build` takes.
      texts: the texts whose words are the vocabulary.
      preprocessing: the preprocessing that turns a text into tokens.
      labels, task: as in a `Matcher`.
      dimensions: the number of dimensions of the word vectors.
      seed: the seed of the weights.

    Raises:
      InputError: the model does not have these settings.
    """
    outputs = len(labels) or 1
    module = models.build(model, outputs=outputs)
    counts = collections.Counter(token for text in texts for token in preprocessing.tokens(text))
    words = build_vocabulary(counts, (), minimum_count=1)
    vectors = np.random.default_rng(0).normal(size=(len(words), dimensions)).astype(np.float32)
    vectors[: UNKNOWN + 1] = 0
    characters = character_table(words.words, module.config.known_characters) if module.takes_characters else None
    return Matcher(
        random_model(model, vectors=vectors, outputs=outputs, characters=characters, seed=seed),
        vocabulary=words,
        preprocessing=preprocessing,
        labels=labels,
        task=task,
        config={"model": dict(model)},
    )


def batch_seconds(model: InferenceModel, *, pairs: int, length: int, batches: int) -> np.ndarray:
    """Times batches of random words one by one, from word ids to probabilities, after a few batches that do not count.

    The times do not include reading text, as in the papers, nor computing parts of speech and exact matches for a model
    that takes them.

    Arguments:
      model: the model.
      pairs: the number of pairs in a batch.
      length: the number of tokens in a sentence.
      batches: the number of batches that are timed.

    Returns:
      <float64>[batches], seconds.
    """
    random, words = np.random.default_rng(0), model.vectors.shape[0]
    limits = {"tags": model.module.config.known_tags, "exact_match": 2}

    def side(low: int, high: int) -> np.ndarray:
        return random.integers(low, high, (pairs, length), dtype=np.int32)

    def random_prediction() -> Callable[[], Any]:
        ids = [side(min(UNKNOWN + 1, words - 1), words) for _ in range(2)]
        features = {name: (side(0, limits[name]), side(0, limits[name])) for name in model.module.token_features}
        return lambda: probabilities_of(model.logits(*ids, features))

    return _seconds((random_prediction() for _ in range(_WARM + batches)), warm=_WARM)


def split_seconds(matcher: Matcher, pairs: Sequence[tuple[str, str]], passes: int) -> np.ndarray:
    """Times the predictions of all pairs, from texts to labels, after a pass that does not count.

    Arguments:
      matcher: the model.
      pairs: pairs of texts.
      passes: the number of passes that are timed.

    Returns:
      <float64>[passes], seconds.
    """
    return _seconds((lambda: matcher.predict(pairs) for _ in range(1 + passes)), warm=1)


def _seconds(predictions: Iterable[Callable[[], Any]], warm: int) -> np.ndarray:
    """Times each prediction, and leaves out the first `warm` times."""
    found = []
    for predict in predictions:
        start = time.perf_counter()
        predict()  # returns numbers on the host, so no computation is still running
        found.append(time.perf_counter() - start)
    return np.array(found[warm:])

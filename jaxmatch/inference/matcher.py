"""Predicts labels, probabilities or scores for pairs of texts."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxmatch.data.text import (
    PADDING_WORD,
    UNKNOWN,
    UNKNOWN_WORD,
    Preprocessing,
    Vocabulary,
    WordTable,
    character_table,
    nltk_tagger,
)
from jaxmatch.data.vectors import HASHED, hashed_vectors
from jaxmatch.devices import available_devices, check_not_forked, keep_compiled_programs
from jaxmatch.errors import NotFinite
from jaxmatch.inference import model_folder
from jaxmatch.inference.calibration import Calibration, probabilities_of
from jaxmatch.inference.inference_model import (
    FEW_LENGTHS,
    MANY_LENGTHS,
    InferenceModel,
    batches,
    padded_batch_size,
    padded_size,
)
from jaxmatch.inference.pairs import Encoded, Features, token_features, word_ids
from jaxmatch.inference.search import Candidate, SearchIndex, ranked

# Up to so many pairs in a call, compiling another program costs more than the padding that it would save.
FEW_PAIRS = 4096


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction for one pair.

    Attributes:
      label: the most probable label, or the label by the threshold of a calibration; None for a regression.
      score: the predicted number; None unless the task is a regression.
      probabilities: label -> its probability, in the order of the model's labels; empty for a regression.
    """

    label: str | None
    score: float | None
    probabilities: Mapping[str, float]


class Matcher:
    """A model with the vocabulary, vectors, label names and preprocessing that it was trained with.

    Attributes:
      task: "classification", "ranking" or "regression".
      labels: label names in the order of the model's outputs; empty for a regression.
      config: the whole configuration of the run, as plain dicts.
      model: the model, which converts word ids to logits.
      vocabulary: the words that the model knows.
      preprocessing: how texts become tokens.
      calibration: how logits become probabilities and labels; None: by the softmax and the most probable label.
    """

    def __init__(
        self,
        model: InferenceModel,
        *,
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        labels: Sequence[str],
        task: str,
        config: Mapping[str, Any],
        calibration: Calibration | None = None,
    ):
        self.labels, self.task, self.config, self.calibration = tuple(labels), task, config, calibration
        self.model, self.vocabulary, self.preprocessing = model, vocabulary, preprocessing

    @property
    def outputs(self) -> int:
        """The number of logits of a pair: one for each label, or a single one for a regression."""
        return len(self.labels) or 1

    def logits(self, pairs: Iterable[tuple[str, str]], batch_size: int | None = None) -> np.ndarray:
        """Computes the logits of pairs.

        Pairs of similar length share a batch, which needs less padding.

        Arguments:
          pairs: pairs of texts.
          batch_size: the number of pairs in a batch; None: a size that suits the device. Batches of very long pairs may
            be smaller.

        Returns:
          The logits in the order of the pairs, <float32>[pairs, outputs].

        Raises:
          TypeError: an element is not a pair of two strings, or the batch size is not a whole number.
          ValueError: the batch size is below 1.
          InputError: a logit is not a finite number, or NLTK's tagger, which the model needs, is not installed.
          RuntimeError: this process was forked after JAX was used.
        """
        if batch_size is not None and operator.index(batch_size) < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        pairs = list(pairs)
        encoded = self.encoded(pairs)
        result = np.zeros((len(pairs), self.outputs), np.float32)
        lengths = FEW_LENGTHS if len(pairs) <= FEW_PAIRS else MANY_LENGTHS
        for rows in batches(*encoded.sides, batch_size or self.model.batch_size):
            result[rows] = self.model.logits(*encoded.batch(rows), encoded.words, lengths)
        wrong = np.flatnonzero(~np.isfinite(result).all(axis=1))
        if wrong.size:
            raise NotFinite(int(wrong[0]))
        return result

    def predict(self, pairs: Iterable[tuple[str, str]], batch_size: int | None = None) -> list[Prediction]:
        """Predicts the label of each pair, or its score in a regression.

        Arguments:
          pairs, batch_size: as in `logits`.

        Returns:
          The predictions in the order of the pairs. Probabilities are calibrated if the model is.

        Raises:
          TypeError, ValueError, InputError: as in `logits`.
        """
        logits = self.logits(pairs, batch_size)
        if self.task == "regression":
            return [Prediction(None, float(row[0]), {}) for row in logits]
        calibration = self.calibration or Calibration()
        indices = calibration.decisive(logits, self.labels).argmax(axis=1)
        return [
            Prediction(self.labels[index], None, dict(zip(self.labels, row.tolist(), strict=True)))
            for index, row in zip(indices, self.probabilities(logits), strict=True)
        ]

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Computes the probabilities of the labels, calibrated if the model is.

        <float32>[pairs, labels] -> <float64>[pairs, labels]. Each row sums to 1.
        """
        return probabilities_of(self.scaled(logits))

    def scaled(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits whose softmax is the probabilities: <float32>[pairs, labels] -> <float64>[pairs, labels]."""
        return (self.calibration or Calibration()).scaled(logits)

    def rank(
        self, query: str, candidates: Sequence[str], top_k: int | None = None, label: str | None = None
    ) -> list[Candidate]:
        """Ranks texts by how well they match a query.

        Arguments:
          query: the first text of each pair.
          candidates: the second texts.
          top_k: the maximum number of candidates to return; None: all.
          label: the label that means a match; None: the positive label of the calibration, or the second of two.

        Returns:
          The candidates. The best is first; equal candidates keep their order. The score is the probability of the
          label, from 0 to 1 and calibrated if the model is; in a regression it is the predicted number.

        Raises:
          TypeError: a text is not a string, or `top_k` is not a whole number.
          ValueError: `top_k` is below 1.
          InputError: as in `logits`; or the model has no such label; or no label is given and there is no default.
        """
        return ranked(self, query, candidates, top_k, label)

    def index(self, texts: Iterable[str], prefilter: str = "vectors") -> SearchIndex:
        """Builds an index for searching texts, with the prefilter "vectors" or "bm25".

        Raises:
          TypeError, InputError: as in `SearchIndex`.
        """
        return SearchIndex(self, texts, prefilter)

    def load_index(self, folder: str | os.PathLike) -> SearchIndex:
        """Reads an index that `SearchIndex.save` wrote.

        Raises:
          InputError: there is no index, or the index is damaged or does not fit this model (`SearchIndex.load`).
        """
        return SearchIndex.load(self, folder)

    def ids(self, text: str) -> list[int]:
        """Returns the word ids of a text."""
        return self.vocabulary.ids(self.preprocessing.tokens(text))

    def warmup(self, lengths: Iterable[int] = range(2, 65), batch_sizes: Iterable[int] = (1,)) -> None:
        """Compiles the programs for predictions of these sizes, so that the first prediction is as fast as later ones.

        A model that reads the spelling of words is prepared for up to 8 words per call that are not in its vocabulary.

        Arguments:
          lengths: the lengths of the pairs to expect, in tokens of both texts together.
          batch_sizes: the numbers of pairs to expect in one call. The pairs of a call are predicted in batches that
            suit the device. A batch is padded to 8, 16, 32, ... pairs.

        Raises:
          ValueError: a length is below 2, or a batch size is below 1.
        """
        lengths, batch_sizes = list(lengths), list(batch_sizes)
        if min(lengths, default=2) < 2 or min(batch_sizes, default=1) < 1:
            raise ValueError("a pair has 2 tokens or more, and a batch 1 pair or more")
        tables = [(self.model.words, UNKNOWN)]
        if self._takes_new_words:
            tables.append((self._words_with(["new"]), len(self.vocabulary)))
        most = self.model.batch_size
        sizes = {size for batch in batch_sizes for size in (min(batch, most), batch % most) if size}
        # Equal shapes have the same program, which is needed once.
        shapes = {(padded_batch_size(size, n), padded_size(n, FEW_LENGTHS)) for size in sizes for n in lengths}
        for (table, word), (batch, length) in itertools.product(tables, sorted(shapes)):
            ids_a, ids_b = np.full((batch, length - 1), word), np.full((batch, 1), word)
            features = {name: (0 * ids_a, 0 * ids_b) for name in self.model.module.token_features}
            self.model.logits(ids_a, ids_b, features, table, FEW_LENGTHS)

    def tokens(self, text: str) -> tuple[str, ...]:
        """Returns the tokens of a text, as the model sees them."""
        return tuple(self.preprocessing.tokens(text))

    def encoded(self, pairs: Sequence[tuple[str, str]]) -> Encoded:
        """Converts pairs of texts to word ids and features.

        Raises:
          TypeError: an element is not a pair of two strings.
          InputError: as in `features`.
          RuntimeError: this process was forked after JAX was used.
        """
        check_not_forked()
        new: dict[str, int] = {}
        sides = word_ids(pairs, self.vocabulary, self.preprocessing, new if self._takes_new_words else None)
        return Encoded(sides, self.features(pairs), self._words_with(list(new)) if new else self.model.words)

    @property
    def _takes_new_words(self) -> bool:
        """Whether the model reads the spelling of words outside the vocabulary.

        It does if training used the spelling too: of all words, or of those without a vector.
        """
        if self.hashed:
            return True
        return self.model.characters is not None and self.config.get("data", {}).get("minimum_count", 1) <= 1

    @property
    def hashed(self) -> bool:
        """Whether the word vectors are made from spelling and are not trained, so that new words have vectors, too."""
        data, model = self.config.get("data", {}), self.config.get("model", {})
        return data.get("vectors") == HASHED and model.get("words", "fixed") == "fixed"

    def _words_with(self, new: list[str]) -> jax.Array | WordTable:
        """Returns the model's words, followed by words that are not in the vocabulary."""
        model, characters = self.model, None
        vectors = hashed_vectors(new) if self.hashed else np.zeros((len(new), model.vectors.shape[1]), np.float32)
        if model.characters is not None:
            known = model.module.config.known_characters
            characters = character_table([PADDING_WORD, UNKNOWN_WORD, *new], known)[2:]
        return model.words_with(vectors, characters)

    def features(self, pairs: Sequence[tuple[str, str]]) -> Features:
        """Computes the features besides word ids that the model takes; see `pairs.token_features`."""
        return token_features(self.model.module.token_features, pairs, self.preprocessing)


def load(path: str | os.PathLike, *, optimize_for_cpu: bool = True) -> Matcher:
    """Reads a trained model. Nothing in its folder is executed, and the checksums of all files are verified.

    Arguments:
      path: a run's folder, or the model folder inside it.
      optimize_for_cpu: whether a CPU predicts faster and uses more memory (docs/cpu_inference.md).

    Raises:
      InputError: there is no model; the model is damaged or was written by a newer version; it takes parts of speech,
        and NLTK's tagger is not installed; or JAX finds no device.
    """
    available_devices()
    keep_compiled_programs()
    stored = model_folder.read(path)
    module = stored.module
    if "tags" in module.token_features:
        nltk_tagger()  # raises an error if its model is not installed
    characters = (
        character_table(stored.vocabulary.words, module.config.known_characters) if module.takes_characters else None
    )
    return Matcher(
        InferenceModel(module, stored.parameters, stored.vectors, characters, optimize_for_cpu),
        vocabulary=stored.vocabulary,
        preprocessing=stored.preprocessing,
        labels=stored.labels,
        task=stored.task,
        config=stored.config,
        calibration=stored.calibration,
    )

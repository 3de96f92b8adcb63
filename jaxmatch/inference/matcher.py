"""Predicts labels, probabilities or scores for pairs of texts."""

import dataclasses
import itertools
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxmatch.caches import keep_compiled_programs
from jaxmatch.data import tagging
from jaxmatch.data.characters import character_table
from jaxmatch.data.hashed_vectors import HASHED, hashed_vectors
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import PADDING_WORD, UNKNOWN, UNKNOWN_WORD, Vocabulary, WordTable
from jaxmatch.devices import devices_there_are
from jaxmatch.errors import NotFinite
from jaxmatch.inference import model_folder
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.candidates import Candidate, ranked
from jaxmatch.inference.encoded_pairs import Encoded, Features, token_features, word_ids
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.inference.padding import FEW_LENGTHS, MANY_LENGTHS, padded_batch_size, padded_size
from jaxmatch.inference.search_index import SearchIndex
from jaxmatch.inference.similar_lengths import batches

# Pairs in a call for which compiling a program costs more than the padding that it would save.
FEW = 4096


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction for one pair.

    Attributes:
      label: the most probable label, or what a calibration's threshold says; None for a regression.
      score: the predicted number; None unless the task is a regression.
      probabilities: label -> its probability, in the order of the model's labels; empty for a regression.
    """

    label: str | None
    score: float | None
    probabilities: Mapping[str, float]


class Matcher:
    """A model with the vocabulary, vectors, label names and preprocessing it was trained with.

    Attributes:
      task: "classification", "ranking" or "regression".
      labels: label names in the order of the model's outputs; empty for a regression.
      config: the whole configuration of the run, as plain dicts.
      model: turns word ids into logits.
      vocabulary: the words it knows.
      preprocessing: how texts become tokens.
      calibration: how logits become probabilities and labels; None: by the softmax, and the most probable one.
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
        """The number of logits of a pair: one for each label, or one for a regression."""
        return len(self.labels) or 1

    def logits(self, pairs: Iterable[tuple[str, str]], batch_size: int | None = None) -> np.ndarray:
        """The logits, in the order of the pairs.

        Pairs of similar length are put in one batch, which needs less padding.

        Arguments:
          pairs: of texts.
          batch_size: None: as suits the device. Batches of very long pairs may be smaller.

        Returns:
          <float32>[pairs, outputs]

        Raises:
          TypeError: an element is not a pair of two strings, or the batch size no whole number.
          ValueError: the batch size is below 1.
          InputError: a logit is not a finite number, or NLTK's tagger, which the model needs, is not installed.
        """
        if batch_size is not None and operator.index(batch_size) < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        pairs = list(pairs)
        encoded = self.encoded(pairs)
        result = np.zeros((len(pairs), self.outputs), np.float32)
        lengths = FEW_LENGTHS if len(pairs) <= FEW else MANY_LENGTHS
        for rows in batches(*encoded.sides, batch_size or self.model.batch_size):
            result[rows] = self.model.logits(*encoded.batch(rows), encoded.words, lengths)
        wrong = np.flatnonzero(~np.isfinite(result).all(axis=1))
        if wrong.size:
            raise NotFinite(int(wrong[0]))
        return result

    def predict(self, pairs: Iterable[tuple[str, str]], batch_size: int | None = None) -> list[Prediction]:
        """Predictions in the order of the pairs.

        Arguments:
          pairs, batch_size: as in `logits`.

        Returns:
          The label of each pair and the probabilities of all, calibrated if the model is; in a regression its score.

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
        """The probabilities of the labels, calibrated if the model is.

        <float32>[pairs, labels] -> <float64>[pairs, labels], of which each row sums to 1.
        """
        return probabilities_of(self.scaled(logits))

    def scaled(self, logits: np.ndarray) -> np.ndarray:
        """Logits whose softmax are the probabilities: <float32>[pairs, labels] -> <float64>[pairs, labels]."""
        return (self.calibration or Calibration()).scaled(logits)

    def rank(
        self, query: str, candidates: Sequence[str], top_k: int | None = None, label: str | None = None
    ) -> list[Candidate]:
        """Orders texts by how well they match a query.

        Arguments:
          query: the first text of each pair.
          candidates: the second texts.
          top_k: how many to return; None: all.
          label: the label that means a match; None: the positive label of the calibration, or the second of two.

        Returns:
          The best first, equal ones in the order given. The score is the probability of the label, from 0 to 1 and
          calibrated if the model is; in a regression it is the predicted number.

        Raises:
          TypeError: a text is not a string, or `top_k` not a whole number.
          ValueError: `top_k` is below 1.
          InputError: as in `logits`; there is no such label, or there are more than two and none is given.
        """
        return ranked(self, query, candidates, top_k, label)

    def index(self, texts: Iterable[str], prefilter: str = "vectors") -> SearchIndex:
        """Stores texts to be searched, with the prefilter "vectors" or "bm25".

        Raises:
          TypeError, InputError: as of `SearchIndex`.
        """
        return SearchIndex(self, texts, prefilter)

    def load_index(self, folder: str | os.PathLike) -> SearchIndex:
        """Reads an index that `SearchIndex.save` wrote.

        Raises:
          InputError: there is no index, it is damaged, or it was made with another vocabulary.
        """
        return SearchIndex.load(self, folder)

    def ids(self, text: str) -> list[int]:
        """The word ids of a text."""
        return self.vocabulary.ids(self.preprocessing.tokens(text))

    def warmup(self, lengths: Iterable[int] = range(2, 65), batch_sizes: Iterable[int] = (1,)) -> None:
        """Compiles what predictions of these sizes need, so that the first of them is as fast as all others.

        Arguments:
          lengths: of the pairs that will come, in tokens of both texts together.
          batch_sizes: how many pairs will be asked at once, which is computed in batches that suit the device. A batch
            is padded to 8, 16, 32, ... pairs. A model that reads the spelling of words is prepared for up to 8 words in
            a call that are not in its vocabulary.

        Raises:
          ValueError: a length is below 2, or a batch size below 1.
        """
        lengths, batch_sizes = list(lengths), list(batch_sizes)
        if min(lengths, default=2) < 2 or min(batch_sizes, default=1) < 1:
            raise ValueError("a pair has 2 tokens or more, and a batch 1 pair or more")
        tables = [(self.model.words, UNKNOWN)]
        if self._takes_new_words:
            tables.append((self._words_with(["new"]), len(self.vocabulary)))
        most = self.model.batch_size
        sizes = {size for asked in batch_sizes for size in (min(asked, most), asked % most) if size}
        # Equal shapes are one program, which is looked for once.
        shapes = {(padded_batch_size(size, n), padded_size(n, FEW_LENGTHS)) for size in sizes for n in lengths}
        for (table, word), (batch, length) in itertools.product(tables, sorted(shapes)):
            ids_a, ids_b = np.full((batch, length - 1), word), np.full((batch, 1), word)
            features = {name: (0 * ids_a, 0 * ids_b) for name in self.model.module.token_features}
            self.model.logits(ids_a, ids_b, features, table, FEW_LENGTHS)

    def tokens(self, text: str) -> tuple[str, ...]:
        """The tokens of a text, as the model sees it."""
        return tuple(self.preprocessing.tokens(text))

    def encoded(self, pairs: Sequence[tuple[str, str]]) -> Encoded:
        """Pairs of texts as word ids and features.

        Raises:
          TypeError: an element is not a pair of two strings.
          InputError: as `features`.
        """
        new: dict[str, int] = {}
        sides = word_ids(pairs, self.vocabulary, self.preprocessing, new if self._takes_new_words else None)
        return Encoded(sides, self.features(pairs), self._words_with(list(new)) if new else self.model.words)

    @property
    def _takes_new_words(self) -> bool:
        """Whether the model reads the spelling of words outside the vocabulary.

        In training it did so for all words, or for those without a vector.
        """
        if self.hashed:
            return True
        return self.model.characters is not None and self.config.get("data", {}).get("minimum_count", 1) <= 1

    @property
    def hashed(self) -> bool:
        """Whether the word vectors are made from the spelling, and were not trained since: new words have them, too."""
        data, model = self.config.get("data", {}), self.config.get("model", {})
        return data.get("vectors") == HASHED and model.get("words", "fixed") == "fixed"

    def _words_with(self, new: list[str]) -> jax.Array | WordTable:
        """The model's words, and behind them words that are not in the vocabulary."""
        model, characters = self.model, None
        vectors = hashed_vectors(new) if self.hashed else np.zeros((len(new), model.vectors.shape[1]), np.float32)
        if model.characters is not None:
            known = model.module.config.known_characters
            characters = character_table([PADDING_WORD, UNKNOWN_WORD, *new], known)[2:]
        return model.words_with(vectors, characters)

    def features(self, pairs: Sequence[tuple[str, str]]) -> Features:
        """The features besides word ids that the model takes of these pairs; see `encoded_pairs.token_features`."""
        return token_features(self.model.module.token_features, pairs, self.preprocessing)


def probabilities_of(logits: np.ndarray) -> np.ndarray:
    """<float32>[pairs, classes] -> <float64>[pairs, classes], of which each row sums to 1 (softmax)."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=1, keepdims=True)


def load(path: str | os.PathLike, *, optimize_for_cpu: bool = True) -> Matcher:
    """Reads a trained model. Nothing in its folder is executed, and the checksums of all files are verified.

    Arguments:
      path: a run's folder, or the model folder inside it.
      optimize_for_cpu: on a CPU, predict faster with more memory (docs/cpu_inference.md).

    Raises:
      InputError: there is no model, it is damaged or was written by a newer version; it takes parts of speech, and
        NLTK's tagger is not installed; or JAX finds no device.
    """
    devices_there_are()
    keep_compiled_programs()
    stored = model_folder.read(path)
    module = stored.module
    if "tags" in module.token_features:
        tagging.check_installed()
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

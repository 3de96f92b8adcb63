"""Predicts labels, probabilities or scores for pairs of texts."""

import dataclasses
import functools
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
from jaxmatch.data.matches import exact_matches_of
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import PADDING, PADDING_WORD, UNKNOWN, UNKNOWN_WORD, Vocabulary, WordTable
from jaxmatch.devices import devices_there_are
from jaxmatch.errors import InputError
from jaxmatch.inference import model_folder
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.candidates import Candidate, ranked
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


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Pairs of texts as word ids.

    Attributes:
      sides: the word ids of the first and of the second texts.
      features: name -> another feature of each token, for the first and the second texts.
      words: the table that the ids point into.
    """

    sides: tuple[list[list[int]], list[list[int]]]
    features: Mapping[str, tuple[list[list[int]], list[list[int]]]]
    words: jax.Array | WordTable

    def batch(
        self, rows: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """The padded ids and features of some of the pairs, as `InferenceModel.logits` takes them."""
        ids_a, ids_b = (padded([side[row] for row in rows]) for side in self.sides)
        features = {
            name: (padded([a[row] for row in rows]), padded([b[row] for row in rows]))
            for name, (a, b) in self.features.items()
        }
        return ids_a, ids_b, features


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
          InputError: a logit is not a finite number.
        """
        if batch_size is not None and operator.index(batch_size) < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        pairs = list(pairs)
        encoded = self.encoded(pairs)
        result = np.zeros((len(pairs), self.outputs), np.float32)
        lengths = FEW_LENGTHS if len(pairs) <= FEW else MANY_LENGTHS
        for rows in batches(*encoded.sides, batch_size):
            result[rows] = self.model.logits(*encoded.batch(rows), encoded.words, lengths)
        wrong = np.flatnonzero(~np.isfinite(result).all(axis=1))
        if wrong.size:
            raise InputError(
                f"the model's answer to pair {wrong[0]} is no finite number",
                remedy="its weights are too large; train it again",
            )
        return result

    def predict(self, pairs: Iterable[tuple[str, str]], batch_size: int | None = None) -> list[Prediction]:
        """Predictions in the order of the pairs; arguments as in `logits`.

        Raises:
          TypeError: an element is not a pair of two strings.
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
        """The probabilities of the labels, calibrated if the model is: <float32>[pairs, labels] -> <float64> alike."""
        return probabilities_of((self.calibration or Calibration()).scaled(logits))

    def rank(
        self, query: str, candidates: Sequence[str], top_k: int | None = None, label: str | None = None
    ) -> list[Candidate]:
        """Orders texts by how well they match a query; see `jaxmatch.inference.candidates.ranked`."""
        return ranked(self, query, candidates, top_k, label)

    def index(self, texts: Iterable[str], prefilter: str = "vectors") -> SearchIndex:
        """Stores texts to search, with a prefilter: "vectors", or "bm25" which needs bm25s."""
        return SearchIndex(self, texts, prefilter)

    def load_index(self, folder: str | os.PathLike) -> SearchIndex:
        """Reads an index that `SearchIndex.save` wrote."""
        return SearchIndex.load(self, folder)

    def ids(self, text: str) -> list[int]:
        """The word ids of a text."""
        return self.vocabulary.ids(self.preprocessing.tokens(text))

    def warmup(self, lengths: Iterable[int] = range(2, 65), batch_sizes: Iterable[int] = (1,)) -> None:
        """Compiles what predictions of these sizes need, so that the first of them is as fast as all others.

        Arguments:
          lengths: of the pairs that will come, in tokens of both texts together.
          batch_sizes: how many pairs will be asked at once. A batch is padded to 8, 16, 32, ... pairs.
            A model that reads characters is prepared for up to 8 words in a call that are not in its vocabulary.

        Raises:
          ValueError: a length is below 2, or a batch size below 1.
        """
        lengths, batch_sizes = list(lengths), list(batch_sizes)
        if min(lengths, default=2) < 2 or min(batch_sizes, default=1) < 1:
            raise ValueError("a pair has 2 tokens or more, and a batch 1 pair or more")
        tables = [(self.model.words, UNKNOWN)]
        if self._takes_new_words:
            characters = character_table([PADDING_WORD, UNKNOWN_WORD], self.model.module.config.known_characters)
            tables.append((self.model.words_with(characters[:1]), len(self.vocabulary)))
        # Equal shapes are one program, which is looked for once.
        shapes = {(padded_batch_size(b, n), padded_size(n, FEW_LENGTHS)) for b in batch_sizes for n in lengths}
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
        sides = self._ids(pairs, new if self._takes_new_words else None)
        words = self.model.words
        if new:
            words = self.model.words_with(
                character_table([PADDING_WORD, UNKNOWN_WORD, *new], self.model.module.config.known_characters)[2:]
            )
        return Encoded(sides, self.features(pairs), words)

    @property
    def _takes_new_words(self) -> bool:
        """Whether the model reads the characters of words outside the vocabulary.

        In training it did so for words without a vector.
        """
        return self.model.characters is not None and self.config.get("data", {}).get("minimum_count", 1) <= 1

    def _ids(
        self, pairs: Sequence[tuple[str, str]], new: dict[str, int] | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The word ids of the first and of the second texts.

        Words outside the vocabulary get ids behind it, which are added to `new`; if that is None, they are unknown
        words.
        """
        known: dict[str, list[int]] = {}  # the same question may be in many pairs: each text is tokenized once

        def ids_of(text: str) -> list[int]:
            if text not in known:
                tokens = self.preprocessing.tokens(text)
                known[text] = self.vocabulary.ids(tokens)
                if new is not None:
                    known[text] = [
                        self._number(token, number, new) for token, number in zip(tokens, known[text], strict=True)
                    ]
            return known[text]

        sides_a, sides_b = [], []
        for number, pair in enumerate(pairs):
            listed = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str)
            if not listed or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise TypeError(f"element {number} is {pair!r}, not a pair of two strings")
            sides_a.append(ids_of(pair[0]))
            sides_b.append(ids_of(pair[1]))
        return sides_a, sides_b

    def _number(self, token: str, number: int, new: dict[str, int]) -> int:
        """The id of a token: `number`, or for an unknown word one behind the vocabulary."""
        if number != UNKNOWN or token in (PADDING_WORD, UNKNOWN_WORD):
            return number
        return new.setdefault(token, len(self.vocabulary) + len(new))

    def features(self, pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[list[list[int]], list[list[int]]]]:
        """The features besides word ids that the model takes, of most models none.

        Returns:
          name -> two lists of lists: a number for each token of the first and of the second texts.

        Raises:
          InputError: the model takes parts of speech, and the tagger's model is not installed.
        """
        names, found = self.model.module.token_features, {}
        if "tags" in names:
            tags_of = functools.cache(lambda text: tagging.tags(text, self.preprocessing))
            found["tags"] = tuple([tags_of(pair[side]) for pair in pairs] for side in (0, 1))
        if "exact_match" in names:
            tokens_of = functools.cache(self.tokens)
            marks = [exact_matches_of(tokens_of(text_a), tokens_of(text_b)) for text_a, text_b in pairs]
            found["exact_match"] = tuple([mark[side] for mark in marks] for side in (0, 1))
        return found


def probabilities_of(logits: np.ndarray) -> np.ndarray:
    """<float32>[pairs, classes] -> <float64>[pairs, classes], of which each row sums to 1 (softmax)."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=1, keepdims=True)


def padded(rows: list[list[int]]) -> np.ndarray:
    """<int32>[batch, length of the longest row], padded at the end."""
    result = np.full((len(rows), max(map(len, rows))), PADDING, np.int32)
    for number, row in enumerate(rows):
        result[number, : len(row)] = row
    return result


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

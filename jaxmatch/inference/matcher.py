"""Trained models: from word ids to logits (`InferenceModel`), and from texts to labels or scores (`Matcher`)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.encoding import pair_rows
from jaxmatch.data.own import columns_of
from jaxmatch.data.pairs import read_records, require_columns
from jaxmatch.data.text import (
    PADDING,
    PADDING_WORD,
    UNKNOWN,
    UNKNOWN_WORD,
    Preprocessing,
    Vocabulary,
    WordTable,
    character_table,
    exact_matches,
    nltk_tagger,
    tags,
)
from jaxmatch.data.vectors import HASHED, hashed_vectors
from jaxmatch.devices import available_devices, check_not_forked, compiler_options, keep_compiled_programs
from jaxmatch.errors import InputError, NotFinite
from jaxmatch.inference import model_folder
from jaxmatch.inference.calibration import Calibration, probabilities_of
from jaxmatch.layers import core
from jaxmatch.reporting.records import best_run, is_sweep

if TYPE_CHECKING:
    import pandas

    from jaxmatch.inference.search import SearchIndex

# The number of steps of the padded length from one power of two to the next. More steps would need less padding, but
# more programs: a program takes seconds to compile, and a third of a second to load in the next process.
_STEPS = 2
# Batches of rows this long are not padded: eight rows instead of one would take eight times the memory.
_LONG = 1024
# The maximum number of attention weights of a batch. Such an array takes 256 MiB, and a model holds several of them.
_MOST_ATTENTION_WEIGHTS = 2**26

# The words of a model, as its module takes them: the vectors, or the vectors and the characters.
Words = jax.Array | WordTable
# Pairs of texts in memory, or the path of a file with such pairs.
Pairs: TypeAlias = "Iterable[tuple[str, str]] | pandas.DataFrame | str | os.PathLike"
# Name -> the feature of each token of the first texts, and of the second texts: <integer>[batch, length].
Features = Mapping[str, tuple[np.ndarray, ...]]
# The ids, or another feature, of the tokens of the first and of the second texts.
Sides = tuple[list[list[int]], list[list[int]]]


def padded_size(size: int, steps: int = 1) -> int:
    """Returns the smallest allowed size >= `size`: 8, or one of `steps` equal steps from a power of two to the next."""
    power = 1 << max(0, size - 1).bit_length()
    step = max(4, power // (2 * steps))
    return max(8, -(-size // step) * step)


def batches(sides_a: Sequence[Sequence[int]], sides_b: Sequence[Sequence[int]], most: int) -> Iterator[np.ndarray]:
    """Yields batches of at most `most` pairs of similar length, the shortest first; fewer if the pairs are very long.

    A batch is the indices of its pairs, <int64>[pairs]. `sides_a` and `sides_b` hold the tokens of the texts.
    """
    tokens = np.array([len(a) + len(b) for a, b in zip(sides_a, sides_b, strict=True)], np.int64)
    order, start = np.argsort(tokens, kind="stable"), 0
    while start < len(order):
        size = min(most, len(order) - start)
        # Attention has a weight for every two tokens of a row.
        while size > 1 and size * tokens[order[start + size - 1]] ** 2 > _MOST_ATTENTION_WEIGHTS:
            size -= 1
        yield order[start : start + size]
        start += size


def _ids(values: Any, below: int) -> np.ndarray:
    """Returns ids as <int32>[batch, length]; those outside the table, which JAX would replace, are an InputError."""
    ids = np.asarray(values).astype(np.int32, casting="same_kind")
    if ids.size and not 0 <= ids.min() <= ids.max() < below:
        raise InputError(f"the ids are from {ids.min()} to {ids.max()}", remedy=f"give ids from 0 to {below - 1}")
    return ids


def _is_on_cpu(array: jax.Array) -> bool:
    return all(device.platform == "cpu" for device in array.devices())


@functools.cache
def _match(module: nn.Module, platform: str) -> Callable[..., jax.Array]:
    """Returns `match` of a model, jitted for a platform: (params, words, tokens, sentences) -> logits."""

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> Any:
        with core.traced_for(platform):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    return jax.jit(match, compiler_options=compiler_options(platform) or None)


# Threads that share a model also share its predictor.
_predictor_lock = threading.Lock()


@dataclasses.dataclass(eq=False)
class InferenceModel:
    """A trained model, which converts word ids to logits.

    Attributes:
      module: the model (jaxmatch/models).
      params: the parameters of the model, from one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids index.
      characters: <uint16 or uint32>[words, 16], the characters of the same words, for a model that takes characters.
      optimize_for_cpu: whether a model on a CPU uses the optimizations of jaxmatch/inference/cpu.py, which need memory.
    """

    module: nn.Module
    params: Any
    vectors: Any  # arrays of NumPy or JAX, which are moved to the device
    characters: Any = None
    optimize_for_cpu: bool = True

    def __post_init__(self):
        # Arrays are moved to the device once, not with every batch.
        self.params = jax.device_put(self.params)
        self.vectors = jnp.asarray(self.vectors, jnp.float32)
        self.characters = None if self.characters is None else jnp.asarray(self.characters)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the fields, so that compiled programs are neither pickled nor copied."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def batch_size(self) -> int:
        """The number of pairs in a batch: few on a CPU, where arrays stay in caches; else enough to fill the device."""
        return 32 if _is_on_cpu(self.vectors) else 256

    @property
    def words(self) -> Words:
        """The words of the model, as the module takes them."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    @functools.cached_property
    def folded(self) -> tuple[nn.Module, Any]:
        """The module and its parameters with weight normalization folded into the kernels."""
        if self.module.config.weight_normalization == "none":
            return self.module, self.params
        config = dataclasses.replace(self.module.config, weight_normalization="none")
        return self.module.clone(config=config), jax.jit(core.fold_weight_norm)(self.params)

    def logits(
        self, ids_a: np.ndarray, ids_b: np.ndarray, features: Features | None = None, words: Words | None = None
    ) -> np.ndarray:
        """Computes the logits of pairs of sentences, <float32>[batch, outputs].

        Arguments:
          ids_a, ids_b: <int32>[batch, length_a] and [batch, length_b], word ids of the sentences; 0 is padding.
          features: the other features of the tokens that the module takes (`module.token_features`).
          words: a table of the model's own words followed by new words; None: the model's own words.

        Raises:
          InputError: an id is outside the table.
          RuntimeError: this process was forked after JAX was used.
        """
        check_not_forked()
        tokens, sentences = self.inputs(ids_a, ids_b, features, words)
        if words is None or tokens["ids"].max(initial=0) < len(self.vectors):
            words = self.words  # this batch has no new words
        return np.asarray(self.predictor(words, tokens, sentences))[: len(ids_a)]

    def inputs(
        self, ids_a: np.ndarray, ids_b: np.ndarray, features: Features | None = None, words: Words | None = None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Puts the tokens of both sentences of a pair in one row, as the module's `match` takes them; see `logits`.

        Rows are padded to a few lengths and their number to a power of two, so that few programs are compiled.

        Returns:
          tokens: 'ids' and the features, each <int32>[padded batch, padded length].
          sentences: <int8>[padded batch, padded length], the sentence of a token, 1 or 2; 0 is padding.
        """
        table = self.words if words is None else words
        below = len(table.vectors if isinstance(table, WordTable) else table)
        sides = _ids(ids_a, below), _ids(ids_b, below)
        # The number of tokens of each sentence before its end padding, and a mask of these tokens.
        positions = [np.arange(1, side.shape[1] + 1) for side in sides]
        counts = [np.where(side > 0, place, 0).max(axis=1, initial=0) for side, place in zip(sides, positions)]
        kept = [place <= count[:, None] for place, count in zip(positions, counts)]
        length = padded_size(int(sum(counts).max(initial=1)), _STEPS)
        more = padded_size(len(sides[0])) - len(sides[0]) if length < _LONG else 0

        def rows(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
            found = pair_rows(first[kept[0]], counts[0], second[kept[1]], counts[1], length)
            return [np.pad(values, ((0, more), (0, 0))) for values in found]

        ids, sentences = rows(*sides)
        sentences[ids == PADDING] = 0  # there may be padding inside a sentence, too
        tokens = {"ids": ids}
        for name, values in (features or {}).items():
            tokens[name], _ = rows(*(np.asarray(one, np.int32) for one in values))
        return tokens, sentences

    @property
    def predictor(self) -> Callable[[Any, Any, Any], jax.Array]:
        """The function (words, tokens, sentences) -> logits <float32>[batch, outputs]."""
        with _predictor_lock:  # from Python 3.12 on, `cached_property` has no lock of its own
            return self._predictor

    @functools.cached_property
    def _predictor(self) -> Callable[[Any, Any, Any], jax.Array]:
        if self.optimize_for_cpu and _is_on_cpu(self.vectors):
            from jaxmatch.inference.cpu import Predictor  # other devices do not need it

            return Predictor(*self.folded, self.vectors)
        (device, *_) = self.vectors.devices()
        module, params = self.folded
        return functools.partial(_match(module, device.platform), params)


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Pairs of texts as word ids: the ids and the other features of the first and of the second texts, and the table
    that the ids index.
    """

    sides: Sides
    features: Mapping[str, Sides]
    words: Words

    def batch(self, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray, Features]:
        """Returns the padded ids and features of the pairs `rows`, as `InferenceModel.logits` takes them."""

        def padded(side: list[list[int]]) -> np.ndarray:
            chosen = [side[row] for row in rows]
            result = np.full((len(chosen), max(map(len, chosen))), PADDING, np.int32)
            for number, values in enumerate(chosen):
                result[number, : len(values)] = values
            return result

        ids_a, ids_b = map(padded, self.sides)
        return ids_a, ids_b, {name: tuple(map(padded, sides)) for name, sides in self.features.items()}


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction for one pair: the label (by the threshold, if the model is calibrated) and the probability of each
    label in the order of the model's; or, in a regression, a score and no probabilities. `unknown_words` is the share
    of the words of both texts of which the model knows neither a vector nor the spelling.
    """

    label: str | None
    score: float | None
    probabilities: Mapping[str, float]
    unknown_words: float = 0.0


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A text that was ranked: its position among the given texts, and its score.

    The score is the probability of the label that means a match; in a regression, the predicted number.
    """

    index: int
    text: str
    score: float


@dataclasses.dataclass(eq=False, repr=False)
class Matcher:
    """A model with the vocabulary, vectors, label names and preprocessing that it was trained with.

    Attributes:
      task: "classification", "ranking" or "regression".
      labels: label names in the order of the model's outputs; empty for a regression.
      config: the whole configuration of the run, as plain dicts.
      model, vocabulary, preprocessing: what converts word ids to logits, words to ids, and texts to words.
      calibration: how logits become probabilities and labels; None: by the softmax and the most probable label.
      run, dev_score: the folder of the run, and its score on dev in words, if it is known.
    """

    model: InferenceModel
    _: dataclasses.KW_ONLY
    vocabulary: Vocabulary
    preprocessing: Preprocessing
    labels: Sequence[str]
    task: str
    config: Mapping[str, Any]
    calibration: Calibration | None = None
    run: Path | None = None
    dev_score: str = ""

    def __post_init__(self):
        self.labels = tuple(self.labels)

    def __repr__(self) -> str:
        name = self.config.get("model", {}).get("name", "model")
        labels = f"labels {', '.join(self.labels)}" if self.labels else "a score"
        parts = [name, *([str(self.run)] if self.run else []), labels, f"{len(self.vocabulary):,} words"]
        return f"Matcher({'; '.join([*parts, *filter(None, [self.dev_score])])})"

    @property
    def outputs(self) -> int:
        """The number of logits of a pair: one for each label, or a single one for a regression."""
        return len(self.labels) or 1

    def logits(self, pairs: Pairs, batch_size: int | None = None, *, columns: str = "") -> np.ndarray:
        """Computes the logits of pairs of texts in their order, <float32>[pairs, outputs].

        Arguments:
          pairs: pairs of texts, a data frame (pandas, polars, pyarrow), or the path of a file as of training data.
          batch_size: the number of pairs of similar length in a batch; None: a number that suits the device.
          columns: the columns of a data frame or file, like "text_a=question1,text_b=question2"; "": as in training.

        Raises:
          TypeError: an element is not a pair of two strings, or the batch size is not a whole number.
          ValueError: the batch size is below 1.
          InputError: a file or a column cannot be used, a logit is not a finite number, or NLTK's tagger, which the
            model needs, is not installed.
          RuntimeError: this process was forked after JAX was used.
        """
        return self._logits(self.encoded(self.pairs_of(pairs, columns)), batch_size)

    def pairs_of(self, source: Any, columns: str = "") -> list[tuple[str, str]]:
        """Returns the pairs of texts in memory, in a data frame or in a file; the arguments are those of `logits`."""
        is_file = isinstance(source, str | os.PathLike)
        if not is_file and not hasattr(source, "columns"):
            return list(source)
        names, numbered, quoted = self.text_columns(columns)
        text_a, text_b = names
        if is_file:
            records = read_records(Path(source), names, quoted=quoted, numbered=numbered)
            return [(fields[text_a], fields[text_b]) for _, fields in records]
        source = source.to_pandas() if hasattr(source, "to_pandas") else source  # of pyarrow or polars
        require_columns(list(source.columns), names, "the data frame")
        return list(zip(source[text_a], source[text_b], strict=True))

    def text_columns(self, columns: str = "") -> tuple[list[str], dict[int, str], bool]:
        """Returns the columns of both texts, number -> name of the columns of a file without a header, and whether TSV
        has quotation marks; all as in training, unless `columns` are given.
        """
        data = self.config.get("data", {})
        named, numbered = columns_of(columns or data.get("columns", ""))
        names = [named.get(name, name) for name in ("text_a", "text_b")]
        return names, numbered, bool(data.get("quoted", False))

    def _logits(self, encoded: Encoded, batch_size: int | None = None) -> np.ndarray:
        if batch_size is not None and operator.index(batch_size) < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        result = np.zeros((len(encoded.sides[0]), self.outputs), np.float32)
        for rows in batches(*encoded.sides, batch_size or self.model.batch_size):
            result[rows] = self.model.logits(*encoded.batch(rows), encoded.words)
        wrong = np.flatnonzero(~np.isfinite(result).all(axis=1))
        if wrong.size:
            raise NotFinite(int(wrong[0]))
        return result

    def predict(self, pairs: Pairs, batch_size: int | None = None, *, columns: str = "") -> list[Prediction]:
        """Predicts the label of each pair, or its score in a regression. Arguments and errors are those of `logits`.

        Probabilities are calibrated if the model is.
        """
        encoded = self.encoded(self.pairs_of(pairs, columns))
        logits = self._logits(encoded, batch_size)
        sides = zip(*encoded.sides, strict=True)
        unknown = [(a.count(UNKNOWN) + b.count(UNKNOWN)) / max(len(a) + len(b), 1) for a, b in sides]
        if self.task == "regression":
            return [Prediction(None, float(row[0]), {}, share) for row, share in zip(logits, unknown, strict=True)]
        calibration = self.calibration or Calibration()
        indices = calibration.decisive(logits, self.labels).argmax(axis=1)
        return [
            Prediction(str(self.labels[index]), None, dict(zip(self.labels, row.tolist(), strict=True)), share)
            for index, row, share in zip(indices, self.probabilities(logits), unknown, strict=True)
        ]

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Computes probabilities, calibrated if the model is: <float32>[pairs, labels] -> <float64>[pairs, labels]."""
        return probabilities_of((self.calibration or Calibration()).scaled(logits))

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
          label, calibrated if the model is; in a regression it is the predicted number.

        Raises:
          TypeError: `candidates` is a single text, a text is not a string, or `top_k` is not a whole number.
          ValueError: `top_k` is below 1.
          InputError: as in `logits`; or the model has no such label, or no default and none is given.
        """
        if top_k is not None and operator.index(top_k) < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1")
        label, candidates = self.matched_label(label), listed_texts(candidates)
        logits = self.logits([(query, text) for text in candidates])
        if label is None:
            merits = scores = logits[:, 0]
        else:  # ordered by the log odds, which do not saturate as the probability does at 0 and 1
            column, scaled = self.labels.index(label), (self.calibration or Calibration()).scaled(logits)
            merits = scaled[:, column] - np.logaddexp.reduce(np.delete(scaled, column, axis=1), axis=1)
            scores = self.probabilities(logits)[:, column]
        best = np.argsort(-merits, kind="stable")[:top_k]
        return [Candidate(int(index), candidates[index], float(scores[index])) for index in best]

    def matched_label(self, label: str | None = None) -> str | None:
        """Returns the label whose probability ranks candidates, as in `rank`; None for a regression."""
        if label is None and self.calibration is not None:
            label = self.calibration.positive
        if label is None and len(self.labels) == 2:
            label = self.labels[1]
        if label is None and self.labels:
            remedy = "name the one that means a match: --label, or label= in Python"
            raise InputError(f"the model has {len(self.labels)} labels ({', '.join(self.labels)})", remedy=remedy)
        if label is not None and label not in self.labels:
            raise InputError(f"{label!r} is not one of the model's labels ({', '.join(self.labels)})")
        return label

    def index(self, texts: Iterable[str], prefilter: str = "vectors", mix: float | None = None) -> SearchIndex:
        """Builds an index for searching texts, with the prefilter "vectors" or "bm25"; see `SearchIndex`."""
        from jaxmatch.inference.search import SearchIndex

        return SearchIndex(self, texts, prefilter, mix=mix)

    def load_index(self, folder: str | os.PathLike) -> SearchIndex:
        """Reads an index that `SearchIndex.save` wrote; see `SearchIndex.load`."""
        from jaxmatch.inference.search import SearchIndex

        return SearchIndex.load(self, folder)

    def warmup(self, lengths: Iterable[int] = range(2, 65), batch_sizes: Iterable[int] = (1,)) -> None:
        """Compiles the programs for predictions of these sizes, so that the first prediction is as fast as later ones.

        A model that reads the spelling of words is prepared for up to 8 words per call that are not in its vocabulary.
        `lengths` are in tokens of both texts together, `batch_sizes` in pairs of one call.
        """
        tables, most = [(self.model.words, UNKNOWN)], self.model.batch_size
        if self._takes_new_words:
            tables.append((self._words_with(["new"]), len(self.vocabulary)))
        sizes = {size for batch in batch_sizes for size in (min(batch, most), batch % most) if size}
        for (table, word), size, length in itertools.product(tables, sizes, lengths):
            ids_a, ids_b = np.full((size, length - 1), word), np.full((size, 1), word)
            features = {name: (0 * ids_a, 0 * ids_b) for name in self.model.module.token_features}
            self.model.logits(ids_a, ids_b, features, table)

    def tokens(self, text: str) -> tuple[str, ...]:
        """Returns the tokens of a text, as the model sees them."""
        return tuple(self.preprocessing.tokens(text))

    def encoded(self, pairs: Sequence[tuple[str, str]], features: bool = True) -> Encoded:
        """Converts pairs of texts to word ids and, if `features`, to the other features of tokens that the model takes.

        If the model reads the spelling of words, ids of new words follow those of the vocabulary. Errors: `logits`.
        """
        check_not_forked()
        for number, pair in enumerate(pairs):
            listed = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str)
            if not listed or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise TypeError(f"element {number} is {pair!r}, not a pair of two strings")
        new: dict[str, int] = {}

        @functools.cache  # a text may be in many pairs, but is tokenized once
        def ids_of(text: str) -> list[int]:
            tokens = self.preprocessing.tokens(text)
            ids = self.vocabulary.ids(tokens)
            for place, token in enumerate(tokens if self._takes_new_words else ()):
                if ids[place] == UNKNOWN and token not in (PADDING_WORD, UNKNOWN_WORD):
                    ids[place] = new.setdefault(token, len(self.vocabulary) + len(new))
            return ids

        sides = [ids_of(a) for a, _ in pairs], [ids_of(b) for _, b in pairs]
        words = self._words_with(list(new)) if new else self.model.words
        return Encoded(sides, self._features(pairs) if features else {}, words)

    @property
    def _takes_new_words(self) -> bool:
        """Whether the model reads the spelling of words outside the vocabulary, as training did: of all words, or of
        those without a vector.
        """
        rare_are_kept = self.config.get("data", {}).get("minimum_count", 1) <= 1
        return self.hashed or (self.model.characters is not None and rare_are_kept)

    @property
    def hashed(self) -> bool:
        """Whether the word vectors are made from spelling and are not trained, so that new words have vectors, too."""
        data, model = self.config.get("data", {}), self.config.get("model", {})
        return data.get("vectors") == HASHED and model.get("words", "fixed") == "fixed"

    def _words_with(self, new: Sequence[str]) -> Words:
        """Returns the words of the model, then new words, padded to few numbers so that few programs are compiled."""
        model, padding = self.model, padded_size(len(new)) - len(new)

        def extended(table: jax.Array, rows: np.ndarray) -> jax.Array:
            return jnp.concatenate([table, jnp.asarray(np.pad(rows, ((0, padding), (0, 0))), table.dtype)])

        vectors = hashed_vectors(new) if self.hashed else np.zeros((len(new), model.vectors.shape[1]), np.float32)
        table = extended(model.vectors, vectors)
        if model.characters is None:
            return table
        characters = character_table([PADDING_WORD, UNKNOWN_WORD, *new], model.module.config.known_characters)[2:]
        return WordTable(table, extended(model.characters, characters))

    def _features(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Sides]:
        """Computes the features besides word ids that the model takes. Most models take none."""
        found, names = {}, self.model.module.token_features
        if "tags" in names:
            tags_of = functools.cache(lambda text: tags(text, self.preprocessing))
            found["tags"] = tuple([tags_of(pair[side]) for pair in pairs] for side in (0, 1))
        if "exact_match" in names:
            words_of = functools.cache(lambda text: [token.casefold() for token in self.preprocessing.tokens(text)])
            marks = [exact_matches(words_of(text_a), words_of(text_b)) for text_a, text_b in pairs]
            found["exact_match"] = tuple([mark[side] for mark in marks] for side in (0, 1))
        return found


def listed_texts(texts: Iterable[str]) -> list[str]:
    """Returns texts as a list; a single text, whose letters are texts, too, is a TypeError."""
    if isinstance(texts, str):
        raise TypeError(f"the texts are the single text {texts!r}: give a list")
    return list(texts)


def load(path: str | os.PathLike, *, optimize_for_cpu: bool = True) -> Matcher:
    """Reads a trained model. Nothing in its folder is executed, and the checksums of all files are verified.

    Arguments:
      path: a run's folder, or the model folder inside it; or the folder of a sweep, of which the run with the best dev
        score is loaded and named on standard error.
      optimize_for_cpu: whether a CPU predicts faster and uses more memory (docs/cpu_inference.md).

    Raises:
      InputError: there is no model; the model is damaged or was written by a newer version; it takes parts of speech,
        and NLTK's tagger is not installed; JAX finds no device; or the runs of a sweep cannot be compared.
    """
    path = Path(path)
    if is_sweep(path):
        path, line = best_run(path)
        print(line, file=sys.stderr)
    available_devices()
    keep_compiled_programs()
    module, parameters, vectors, about = model_folder.read(path)
    characters = None
    if "tags" in module.token_features:
        nltk_tagger()  # raises an error if its model is not installed
    if module.takes_characters:
        characters = character_table(about["vocabulary"].words, module.config.known_characters)
    return Matcher(InferenceModel(module, parameters, vectors, characters, optimize_for_cpu), **about)

"""The floors. Each is fitted on train and then computes outputs as a model does: a number for each class of a pair.

Floors that compute a few features of a pair turn them into outputs by a logistic regression, or by a linear regression
in a regression task (fitting.py). In a ranking, the output for the class of right candidates orders the candidates.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from scipy import sparse

from jaxmatch.baselines import tfidf
from jaxmatch.baselines.bags import bags, dot, present
from jaxmatch.baselines.fitting import fitted
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.errors import InputError, nearest

# Constants of BM25, as in Robertson and Zaragoza (2009) and in Lucene: how slowly repetitions of a word saturate, and
# how strongly a word counts less in a long text.
_K1, _B = 1.2, 0.75
_ROWS_AT_ONCE = 65_536


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A floor that was fitted on train.

    Attributes:
      parameters: the number of fitted weights.
      outputs: a function from a split to its outputs, <float64>[pairs, classes]; [pairs, 1] in a regression.
    """

    parameters: int
    outputs: Callable[[EncodedSplit], np.ndarray]


def majority(data: EncodedData) -> Fitted:
    """Predicts the most common class of train for every pair; in a regression, the mean of train."""
    labels = np.asarray(data.splits["train"].labels)
    if data.task == "regression":
        answer = np.array([labels.mean(dtype=np.float64)])
    else:
        answer = np.bincount(labels, minlength=data.outputs) / len(labels)
    return Fitted(0, lambda split: np.tile(answer, (split.pairs, 1)))


def overlap(data: EncodedData) -> Fitted:
    """Fits a regression on the shares of each sentence's distinct words that the other sentence also contains."""

    def shares(split: EncodedSplit) -> np.ndarray:
        first, second = map(present, bags(data, split))
        common = dot(first, second)
        return np.column_stack([common / np.maximum(side.sum(axis=1), 1) for side in (first, second)])

    return _of_features(data, shares)


def cosine(data: EncodedData) -> Fitted:
    """Fits a regression on the cosine of both mean word vectors, which is 0 if a sentence has no word with a vector."""
    vectors = np.asarray(data.vectors, np.float64)

    def cosines(split: EncodedSplit) -> np.ndarray:
        first, second = bags(data, split)
        found = np.empty(split.pairs)
        for start in range(0, split.pairs, _ROWS_AT_ONCE):  # the means of a large split would take gigabytes
            rows = slice(start, start + _ROWS_AT_ONCE)
            a, b = first[rows] @ vectors, second[rows] @ vectors  # a sum has the direction of the mean
            lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
            found[rows] = np.vecdot(a, b) / np.where(lengths > 0, lengths, 1)
        return found[:, None]

    return _of_features(data, cosines)


def bm25(data: EncodedData) -> Fitted:
    """Fits a regression on the BM25 score of the second sentence for the words of the first.

    The document frequencies and the mean length are those of train's second sentences (Robertson and Zaragoza 2009).
    The logarithm is that of Lucene, which is never negative.

        sum over words w of a:  ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) * f_w (k1 + 1) / (f_w + k1 (1 - b + b |B| / mean))
    """
    _, documents = bags(data, data.splits["train"])
    containing = present(documents).sum(axis=0)
    weights = np.log1p((documents.shape[0] - containing + 0.5) / (containing + 0.5))
    mean_length = max(documents.sum() / documents.shape[0], 1e-9)

    def scores(split: EncodedSplit) -> np.ndarray:
        questions, candidates = bags(data, split)
        long = _K1 * (1 - _B + _B * candidates.sum(axis=1) / mean_length)
        saturated = candidates.copy()
        saturated.data = saturated.data * (_K1 + 1) / (saturated.data + np.repeat(long, np.diff(saturated.indptr)))
        return dot(questions, saturated @ sparse.diags_array(weights))[:, None]

    return _of_features(data, scores)


def tfidf_regression(data: EncodedData) -> Fitted:
    """Fits a logistic regression on the TF-IDF vectors of both sentences, their absolute difference and their product.

    In a regression task, it fits a ridge regression. Both regressions are those of scikit-learn, with its defaults
    except for a larger limit on the iterations.
    """
    return Fitted(*tfidf.fitted(data))


def _of_features(data: EncodedData, features: Callable[[EncodedSplit], np.ndarray]) -> Fitted:
    train = data.splits["train"]
    parameters, outputs = fitted(features(train), train.labels, data.task, data.outputs)
    return Fitted(parameters, lambda split: outputs(features(split)))


@dataclasses.dataclass(frozen=True)
class Floor:
    """A floor that can be requested by name.

    Attributes:
      title: the title of its row in a table.
      fit: the function that fits the floor.
      tasks: the tasks for which the floor is defined.
      regression_title: the title in a regression task; empty: the same title.
    """

    title: str
    fit: Callable[[EncodedData], Fitted]
    tasks: tuple[str, ...] = ("classification", "regression", "ranking")
    regression_title: str = ""

    def title_of(self, task: str) -> str:
        """Returns the title of the floor in a task."""
        return (task == "regression" and self.regression_title) or self.title


FLOORS: Mapping[str, Floor] = {
    "majority": Floor("majority class", majority, regression_title="mean of the training scores"),
    "overlap": Floor("word overlap", overlap),
    "cosine": Floor("cosine of mean vectors", cosine),
    "tfidf": Floor(
        "TF-IDF with logistic regression", tfidf_regression, regression_title="TF-IDF with ridge regression"
    ),
    "bm25": Floor("BM25", bm25, tasks=("ranking",)),
}

# The floors that need no extra package.
WITHOUT_EXTRAS = tuple(name for name in FLOORS if name != "tfidf")


def named_floors(text: str) -> tuple[str, ...]:
    """Returns the names of the requested floors.

    Arguments:
      text: the text from the command line: names separated by commas, "all" or "none".

    Raises:
      InputError: a floor with such a name does not exist.
    """
    if text in ("all", "none"):
        return tuple(FLOORS) if text == "all" else ()
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in FLOORS:
            raise InputError(f'there is no floor "{name}"', remedy=nearest(name, list(FLOORS)))
    return names

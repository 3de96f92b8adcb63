"""Simple baselines for the models of a table to beat. They use the same tokens, vectors and splits, and no seeds.

Each is fitted on train and then computes outputs as a model does: a number for each class of a pair. A few features of
a pair become outputs by a logistic regression, or by a linear regression in a regression task.
"""

import dataclasses
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.text import UNKNOWN
from jaxmatch.errors import InputError, NotInstalled, nearest, without_nan
from jaxmatch.training.scores import score

# Constants of BM25, as in Robertson and Zaragoza (2009) and in Lucene: how slowly repetitions of a word saturate, and
# how strongly a word counts less in a long text.
_K1, _B = 1.2, 0.75
_ROWS_AT_ONCE = 65_536


class Fitted(NamedTuple):
    """A baseline that was fitted on train: the number of fitted weights, and a function from a split to its outputs,
    <float64>[pairs, classes]; [pairs, 1] in a regression.
    """

    parameters: int
    outputs: Callable[[EncodedSplit], np.ndarray]


def bags(data: EncodedData, split: EncodedSplit) -> list[sparse.csr_array]:
    """Counts the words in the first and in the second sentences of a split: two matrices <float64>[pairs, words].

    Unknown words are left out, because two of them are not necessarily the same word.
    """
    found = []
    for tokens, offsets in ((split.tokens_a, split.offsets_a), (split.tokens_b, split.offsets_b)):
        known = (tokens > UNKNOWN).astype(np.float64)
        # The arrays are copied, because the counts are summed in place.
        bag = sparse.csr_array((known, tokens, offsets), shape=(split.pairs, len(data.vocabulary)), copy=True)
        bag.sum_duplicates()
        bag.eliminate_zeros()
        found.append(bag)
    return found


def _dot(first: sparse.csr_array, second: sparse.csr_array) -> np.ndarray:
    """Returns the inner products of the corresponding rows of two matrices: <float64>[pairs]."""
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


def _logistic_regression(inputs: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Fits a multinomial logistic regression by L-BFGS: <float64>[features + 1, classes], with the biases in the last
    row, from <float64>[pairs, features + 1], with 1 in the last column.

    Half of the squared weights is added to the summed loss, so that they stay finite if the classes can be separated.
    """
    from scipy import optimize, special  # imported here because the import takes half a second

    right = np.arange(classes) == np.asarray(labels)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(inputs.shape[1], classes)
        log_probabilities = special.log_softmax(inputs @ weights, axis=1)
        gradient = inputs.T @ (np.exp(log_probabilities) - right)
        gradient[:-1] += weights[:-1]
        return 0.5 * np.square(weights[:-1]).sum() - log_probabilities[right].sum(), gradient.ravel()

    start = np.zeros(inputs.shape[1] * classes)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-12})
    return found.x.reshape(-1, classes)


def _regression(data: EncodedData, features: Callable[[EncodedSplit], np.ndarray]) -> Fitted:
    """Fits a regression from features <float64>[pairs, features] of train, scaled to unit variance, to its labels."""
    train = data.splits["train"]
    of_train = features(train)
    mean, scale = of_train.mean(axis=0), of_train.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def inputs(features: np.ndarray) -> np.ndarray:
        return np.column_stack([(features - mean) / scale, np.ones(len(features))])

    if data.task == "regression":
        weights = np.linalg.lstsq(inputs(of_train), np.asarray(train.labels, np.float64))[0][:, None]
    else:
        weights = _logistic_regression(inputs(of_train), train.labels, data.outputs)
    return Fitted(weights.size, lambda split: inputs(features(split)) @ weights)


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
        first, second = (bag.sign() for bag in bags(data, split))
        common = _dot(first, second)
        return np.column_stack([common / np.maximum(side.sum(axis=1), 1) for side in (first, second)])

    return _regression(data, shares)


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

    return _regression(data, cosines)


def bm25(data: EncodedData) -> Fitted:
    """Fits a regression on the BM25 score of the second sentence for the words of the first.

        sum over words w of a:  ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) * f_w (k1 + 1) / (f_w + k1 (1 - b + b |B| / mean))

    Document frequencies and mean length are those of train's second sentences (Robertson and Zaragoza, 2009). The
    logarithm is that of Lucene, which is never negative.
    """
    _, documents = bags(data, data.splits["train"])
    containing = documents.sign().sum(axis=0)
    weights = np.log1p((documents.shape[0] - containing + 0.5) / (containing + 0.5))
    mean_length = max(documents.sum() / documents.shape[0], 1e-9)

    def scores(split: EncodedSplit) -> np.ndarray:
        questions, candidates = bags(data, split)
        long = _K1 * (1 - _B + _B * candidates.sum(axis=1) / mean_length)
        counts = candidates.data
        candidates.data = counts * (_K1 + 1) / (counts + np.repeat(long, np.diff(candidates.indptr)))
        return _dot(questions, candidates @ sparse.diags_array(weights))[:, None]

    return _regression(data, scores)


def tfidf(data: EncodedData) -> Fitted:
    """Fits a logistic regression on the TF-IDF vectors of both sentences, their absolute difference and their product;
    in a regression task, a ridge regression. Both are those of scikit-learn, with its defaults.
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression, Ridge

    train = data.splits["train"]
    weighting = TfidfTransformer().fit(sparse.vstack(bags(data, train)))

    def features(split: EncodedSplit) -> sparse.csr_array:
        first, second = map(weighting.transform, bags(data, split))
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)], format="csr")

    if data.task == "regression":
        model = Ridge().fit(features(train), train.labels)
        return Fitted(model.coef_.size + 1, lambda split: model.predict(features(split))[:, None])
    classes = np.unique(train.labels)
    if len(classes) < 2:  # scikit-learn raises an error for a single class
        return majority(data)
    model = LogisticRegression(max_iter=1000).fit(features(train), train.labels)

    def outputs(split: EncodedSplit) -> np.ndarray:
        found = model.decision_function(features(split))
        if found.ndim == 1:  # with two classes, the output is that of the second class
            found = np.column_stack([np.zeros(len(found)), found])
        # A class that does not occur in train is never predicted.
        every = np.tile(found.min(axis=1, keepdims=True) - 1, (1, data.outputs))
        every[:, classes] = found
        return every

    return Fitted(model.coef_.size + model.intercept_.size, outputs)


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A baseline that has a name: the title of its row in a table, and the tasks for which it is defined."""

    title: str
    fit: Callable[[EncodedData], Fitted]
    tasks: tuple[str, ...] = ("classification", "regression", "ranking")
    regression_title: str = ""  # the title in a regression task, if it is another


BASELINES: dict[str, Baseline] = {
    "majority": Baseline("majority class", majority, regression_title="mean of the training scores"),
    "overlap": Baseline("word overlap", overlap),
    "cosine": Baseline("cosine of mean vectors", cosine),
    "tfidf": Baseline("TF-IDF with logistic regression", tfidf, regression_title="TF-IDF with ridge regression"),
    "bm25": Baseline("BM25", bm25, tasks=("ranking",)),
}

WITHOUT_EXTRAS = tuple(name for name in BASELINES if name != "tfidf")  # those that need no extra package


def is_installed(name: str) -> bool:
    """Returns whether the package that a baseline needs, scikit-learn, is installed."""
    return name in WITHOUT_EXTRAS or importlib.util.find_spec("sklearn") is not None


def named_baselines(text: str) -> tuple[str, ...]:
    """Returns the names of baselines in a text of the command line: separated by commas, "all" or "none".

    A baseline that is named must be installed. With "all", those that are not are left out later, with a message.
    """
    if text in ("all", "none"):
        return tuple(BASELINES) if text == "all" else ()
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in BASELINES:
            raise InputError(f'there is no baseline "{name}"', remedy=nearest(name, BASELINES))
        if not is_installed(name):
            raise NotInstalled(BASELINES[name].title, "scikit-learn", "baselines", "or leave it out of --baselines")
    return names


def measured(data: EncodedData, names: Sequence[str]) -> list[dict[str, Any]]:
    """Fits the baselines that are defined for the task on train, and scores them on dev and test.

    Returns:
      For each baseline {"name", "title", "parameters", "dev", "test", "times"}. "dev" and "test" hold the scores that a
      model has, with None for an undefined score; "test" is None without test pairs.
    """
    import scipy.optimize  # noqa: F401, before the times begin

    if "tfidf" in names:
        import sklearn.linear_model  # noqa: F401
    rows = []
    for name in (name for name in names if data.task in BASELINES[name].tasks):
        start, baseline = time.perf_counter(), BASELINES[name]
        parameters, outputs = baseline.fit(data)
        train_seconds = time.perf_counter() - start
        title = (data.task == "regression" and baseline.regression_title) or baseline.title
        row = {"name": name, "title": title, "parameters": parameters, "dev": None, "test": None}
        seconds, pairs = 0.0, 0
        for part in ("dev", "test"):
            split = data.splits.get(part)
            if split is None or not split.pairs:
                continue
            start = time.perf_counter()
            answers = outputs(split)
            seconds, pairs = seconds + time.perf_counter() - start, pairs + split.pairs
            about = dict(groups=split.groups, documents=split.documents, filtered=data.filtered)
            row[part] = without_nan(score(data.task, split.labels, answers, label_names=data.labels, **about))
        microseconds = round(1e6 * seconds / pairs, 3) if pairs else None
        times = {"train_seconds_a_run": round(train_seconds, 3), "inference_microseconds_a_pair": microseconds}
        rows.append({**row, "times": times})
    return rows

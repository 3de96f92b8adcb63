"""TF-IDF with logistic regression, the only floor that needs scikit-learn, an extra of this package."""

import importlib.util
from collections.abc import Callable

import numpy as np
from scipy import sparse

from jaxmatch.baselines.bags import bags
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.errors import NotInstalled

_MOST_ITERATIONS = 1000


def check_installed() -> None:
    """Checks that scikit-learn is installed.

    Raises:
      InputError: scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        purpose = "TF-IDF with logistic regression"
        raise NotInstalled(purpose, "scikit-learn", "floors", "or leave tfidf out of --floors")


def fitted(data: EncodedData) -> tuple[int, Callable[[EncodedSplit], np.ndarray]]:
    """Fits the document frequencies and the regression on train.

    Returns:
      The number of weights of the regression, and a function that computes the outputs of a split.

    Raises:
      InputError: scikit-learn is not installed.
    """
    check_installed()
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression, Ridge

    train = data.splits["train"]
    weighting = TfidfTransformer().fit(sparse.vstack(bags(data, train)))

    def features(split: EncodedSplit) -> sparse.csr_array:
        first, second = map(weighting.transform, bags(data, split))
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)], format="csr")

    if data.task == "regression":
        model = Ridge().fit(features(train), train.labels)
        return model.coef_.size + 1, lambda split: model.predict(features(split))[:, None]
    classes = np.unique(train.labels)
    if len(classes) < 2:  # scikit-learn raises an error for a single class
        answer = np.eye(data.outputs)[classes]
        return 0, lambda split: np.repeat(answer, split.pairs, axis=0)
    model = LogisticRegression(max_iter=_MOST_ITERATIONS).fit(features(train), train.labels)

    def outputs(split: EncodedSplit) -> np.ndarray:
        found = model.decision_function(features(split))
        if found.ndim == 1:  # with two classes, the output is that of the second class
            found = np.column_stack([np.zeros(len(found)), found])
        # A class that does not occur in train is never predicted.
        every = np.tile(found.min(axis=1, keepdims=True) - 1, (1, data.outputs))
        every[:, classes] = found
        return every

    return model.coef_.size + model.intercept_.size, outputs

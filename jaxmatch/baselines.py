"""Floors: baselines for the models of a table to beat. They use the same tokens, vectors and splits, and no seeds.

Each floor is fitted on train and then computes outputs as a model does: a number for each class of a pair. Floors that
compute a few features of a pair turn them into outputs by a logistic regression, or by a linear regression in a
regression task. In a ranking, the output for the class of right candidates orders the candidates.
"""

import dataclasses
import hashlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.pairs import DataSet, Split
from jaxmatch.data.text import UNKNOWN
from jaxmatch.errors import InputError, NotInstalled, nearest, without_nan
from jaxmatch.files import hash_file
from jaxmatch.training.scores import score


def bags(data: EncodedData, split: EncodedSplit) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Counts how often each word of the vocabulary occurs in each sentence of a split.

    Unknown words are left out, because two unknown words are not necessarily the same word.

    Returns:
      Two matrices <float64>[pairs, words], of the first and of the second sentences.
    """
    return tuple(
        _bag(tokens, offsets, len(data.vocabulary))
        for tokens, offsets in ((split.tokens_a, split.offsets_a), (split.tokens_b, split.offsets_b))
    )


def _bag(tokens: np.ndarray, offsets: np.ndarray, words: int) -> sparse.csr_array:
    known = (np.asarray(tokens) > UNKNOWN).astype(np.float64)
    # The arrays are copied, because the counts are summed in place and the tokens belong to the cache.
    found = sparse.csr_array((known, np.array(tokens), np.array(offsets)), shape=(len(offsets) - 1, words))
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def present(bag: sparse.csr_array) -> sparse.csr_array:
    """Returns a matrix with 1 for each word that occurs in a text, in place of its count."""
    found = bag.copy()
    found.data[:] = 1
    return found


def dot(first: sparse.csr_array, second: sparse.csr_array) -> np.ndarray:
    """Returns the inner products of the corresponding rows of two matrices: <float64>[pairs]."""
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


# Half of the squared weights times this factor is added to the summed loss, so that the weights stay finite if the
# classes can be separated without an error.
_PENALTY = 1.0


def logistic_regression(features: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Fits a multinomial logistic regression with an L2 penalty on the weights, by L-BFGS.

    Arguments:
      features: <float64>[pairs, features].
      labels: <int32>[pairs].
      classes: the number of classes.

    Returns:
      <float64>[features + 1, classes]: the weights, and in the last row the biases.
    """
    from scipy import optimize, special  # imported here because the import takes half a second

    inputs = _with_bias_column(features)
    right = np.arange(classes) == np.asarray(labels)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(inputs.shape[1], classes)
        log_probabilities = special.log_softmax(inputs @ weights, axis=1)
        gradient = inputs.T @ (np.exp(log_probabilities) - right)
        gradient[:-1] += _PENALTY * weights[:-1]
        penalty = 0.5 * _PENALTY * np.square(weights[:-1]).sum()
        return penalty - log_probabilities[right].sum(), gradient.ravel()

    start = np.zeros(inputs.shape[1] * classes)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-12})
    return found.x.reshape(-1, classes)


def fitted(
    features: np.ndarray, labels: np.ndarray, task: str, classes: int
) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    """Fits a regression from the features of train to its labels.

    Arguments:
      features: <float64>[pairs, features].
      labels: the labels of train, as in an `EncodedSplit`.
      task: "classification", "regression" or "ranking".
      classes: the number of classes.

    Returns:
      The number of fitted weights, and a function that turns the features of other pairs into outputs:
      <float64>[pairs, classes], or [pairs, 1] in a regression.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def scaled(features: np.ndarray) -> np.ndarray:
        return (features - mean) / scale

    if task == "regression":
        weights = np.linalg.lstsq(_with_bias_column(scaled(features)), np.asarray(labels, np.float64))[0][:, None]
    else:
        weights = logistic_regression(scaled(features), labels, classes)
    return weights.size, lambda features: _with_bias_column(scaled(features)) @ weights


def _with_bias_column(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])


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
        answer = np.eye(data.outputs)[classes]
        return Fitted(0, lambda split: np.repeat(answer, split.pairs, axis=0))
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


CROSS_ENCODER = "cross_encoder"  # the name of its line in a comparison
_PAIRS_AT_ONCE = 32
_CONFIG, _WEIGHTS = "config.json", "*.safetensors"
_SAVED_MODEL = "give a folder that a sequence classifier and its tokenizer of transformers were saved to"


def check_cross_encoder(folder: str | Path) -> None:
    """Checks, before a model is trained, that the packages are installed and that a folder holds a cross-encoder.

    Raises:
      InputError: transformers or torch is not installed, or the folder does not exist or holds no model.
    """
    for package in ("transformers", "torch"):
        if importlib.util.find_spec(package) is None:
            raise NotInstalled("a cross-encoder", package, "transformers", "or leave out --cross-encoder")
    if not (Path(folder) / _CONFIG).is_file() or not list(Path(folder).glob(_WEIGHTS)):
        raise InputError(f"the folder has no {_CONFIG} or no {_WEIGHTS}", path=folder, remedy=_SAVED_MODEL)


def cross_encoder_fingerprint(folder: str | Path) -> str:
    """Returns a hash of the names and contents of the files in the folder of a cross-encoder."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    return hashlib.sha256("\n".join(f"{path.name} {hash_file(path)}" for path in files).encode()).hexdigest()[:12]


class CrossEncoder:
    """A pretrained cross-encoder, one row of a comparison, from a local folder that transformers saved.

    It reads both texts of a pair at once with its own tokenizer, and is not trained here. Its labels are matched with
    those of the data by name, regardless of case. It never predicts a label that the data does not have. If it has one
    output, that is the prediction of a regression, or the logit of the second of two labels. Loading runs no code from
    the folder and reads no pickle.

    Arguments:
      folder: the folder with the files of the cross-encoder.
      task: "classification", "regression" or "ranking".
      labels: the labels of the data, in the order that the outputs will have.

    Attributes:
      parameters: the number of parameters of the cross-encoder.

    Raises:
      InputError: the cross-encoder cannot be loaded, lacks weights, or has outputs that do not fit the labels.
    """

    def __init__(self, folder: str | Path, task: str, labels: Sequence[str]):
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        options: dict[str, Any] = {"local_files_only": True}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self._model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **options
            )
        except Exception as error:  # a damaged folder can make transformers raise any exception
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"transformers cannot load it ({reason})", path=folder, remedy=_SAVED_MODEL) from error
        if missing := sorted(loading["missing_keys"]):
            raise InputError(f"it has no weights for {missing[0]}", path=folder, remedy=_SAVED_MODEL)
        self._model.eval()
        self.parameters = self._model.num_parameters()
        self._regression = task == "regression"
        self._columns = _columns(self._model.config.id2label, task, labels, Path(folder) / _CONFIG)
        longest = getattr(self._model.config, "max_position_embeddings", None) or self._tokenizer.model_max_length
        self._longest = min(longest, self._tokenizer.model_max_length)

    def outputs(self, split: Split) -> np.ndarray:
        """Returns the outputs for a split, <float64>[pairs, labels]; [pairs, 1] in a regression. Cuts long texts."""
        import torch

        texts = list(zip(split.text_a, split.text_b, strict=True))
        order = sorted(range(len(texts)), key=lambda pair: sum(map(len, texts[pair])))  # needs little padding
        found = np.zeros((len(texts), self._model.config.num_labels))
        for start in range(0, len(order), _PAIRS_AT_ONCE):
            rows = order[start : start + _PAIRS_AT_ONCE]
            sides = ([texts[row][side] for row in rows] for side in (0, 1))
            tokens = self._tokenizer(
                *sides, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
            )
            with torch.inference_mode():
                found[rows] = self._model(**tokens).logits.double().numpy()
        if self._columns is not None:
            return found[:, self._columns]
        return found if self._regression else np.column_stack([np.zeros(len(found)), found])


def _columns(names: dict[int, str], task: str, labels: Sequence[str], file: Path) -> list[int] | None:
    """Returns the index of the output for each label; None for a single output (regression, or the second label).

    Raises:
      InputError: the outputs do not fit the labels.
    """
    if len(names) == 1 and (task == "regression" or len(labels) == 2):
        return None
    if task == "regression":
        raise InputError(
            f"it has {len(names)} outputs, and a regression has one",
            path=file,
            remedy="give a cross-encoder with one output",
        )
    known = {str(name).lower(): int(number) for number, name in names.items()}
    if missing := [label for label in labels if label.lower() not in known]:
        raise InputError(
            f"its labels are {', '.join(names.values())}, and the data has {missing[0]}",
            path=file,
            remedy=f"give its labels in id2label the names {', '.join(labels)}",
        )
    return [known[label.lower()] for label in labels]


def check_installed(names: Sequence[str]) -> None:
    """Checks, before a model is trained, that the packages that some floors need are installed.

    Raises:
      InputError: a floor needs scikit-learn, which is not installed.
    """
    if "tfidf" in names and importlib.util.find_spec("sklearn") is None:
        purpose = "TF-IDF with logistic regression"
        raise NotInstalled(purpose, "scikit-learn", "floors", "or leave tfidf out of --floors")


def measured(data: EncodedData, names: Sequence[str]) -> list[dict[str, Any]]:
    """Fits floors on train and scores them on dev and test.

    Arguments:
      data: the data set that the models are trained on.
      names: keys of `FLOORS`; floors that are not defined for the task are left out.

    Returns:
      For each floor {"name", "title", "parameters", "dev", "test", "times"}. "dev" and "test" hold the scores that a
      model has, with None for an undefined score; "test" is None without test pairs. "times" holds the time to fit the
      floor and the time to predict a pair of dev and test.
    """
    import scipy.optimize  # noqa: F401, before the times begin

    if "tfidf" in names:
        import sklearn.linear_model  # noqa: F401
    return [_measured(data, name) for name in names if data.task in FLOORS[name].tasks]


def _measured(data: EncodedData, name: str) -> dict[str, Any]:
    start = time.perf_counter()
    floor = FLOORS[name].fit(data)
    train_seconds = round(time.perf_counter() - start, 3)
    row = _scored(data, lambda part: floor.outputs(data.splits[part]), train_seconds)
    return {"name": name, "title": FLOORS[name].title_of(data.task), "parameters": floor.parameters, **row}


def cross_encoder_measured(folder: str, data: EncodedData, texts: DataSet) -> dict[str, Any]:
    """Scores a pretrained cross-encoder on dev and test.

    Arguments:
      folder: the folder with the files of the cross-encoder.
      data: the data set that the models are trained on.
      texts: the same data set as text.

    Returns:
      A dict like those that `measured` returns, with "pretrained" in addition.

    Raises:
      InputError: the cross-encoder cannot be loaded, or its outputs do not fit the labels.
    """
    check_cross_encoder(folder)
    model = CrossEncoder(folder, data.task, data.labels)
    row = _scored(data, lambda part: model.outputs(texts.splits[part]), None)
    title = f"cross-encoder {Path(folder).resolve().name}"
    return {
        "name": CROSS_ENCODER,
        "title": title,
        "pretrained": True,
        "parameters": model.parameters,
        **row,
    }


def _scored(data: EncodedData, outputs: Callable[[str], np.ndarray], train_seconds: float | None) -> dict[str, Any]:
    """Scores and times a function that computes the outputs for the pairs of "dev" and "test"."""
    scores: dict[str, Any] = {"dev": None, "test": None}
    seconds, pairs = 0.0, 0
    for part in scores:
        split = data.splits.get(part)
        if split is None or not split.pairs:
            continue
        start = time.perf_counter()
        answers = outputs(part)
        seconds, pairs = seconds + time.perf_counter() - start, pairs + split.pairs
        found = score(
            data.task,
            split.labels,
            answers,
            label_names=data.labels,
            groups=split.groups,
            documents=split.documents,
            filtered=data.filtered,
        )
        scores[part] = without_nan(found)
    return {
        **scores,
        "times": {
            "train_seconds_a_run": train_seconds,
            "inference_microseconds_a_pair": round(1e6 * seconds / pairs, 3) if pairs else None,
        },
    }

"""Logistic and linear regression, fitted on train, from a few features of a pair to outputs like those of a model."""

from collections.abc import Callable

import numpy as np

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


def linear_regression(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Fits a linear regression by least squares.

    Arguments:
      features: <float64>[pairs, features].
      labels: <float32>[pairs].

    Returns:
      <float64>[features + 1, 1]: the weights, and in the last row the bias.
    """
    return np.linalg.lstsq(_with_bias_column(features), np.asarray(labels, np.float64))[0][:, None]


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
        weights = linear_regression(scaled(features), labels)
    else:
        weights = logistic_regression(scaled(features), labels, classes)
    return weights.size, lambda features: _with_bias_column(scaled(features)) @ weights


def _with_bias_column(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])

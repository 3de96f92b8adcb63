"""Models with the weights they start from: what a weight is does not change a time."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.inference.inference_model import InferenceModel


def random_model(settings: Mapping[str, Any], *, vectors: np.ndarray, outputs: int) -> InferenceModel:
    """A model that answers, untrained.

    Arguments:
      settings: what `jaxmatch.models.build` takes.
      vectors: <float32>[words, dimensions].
      outputs: number of classes.
    """
    module = models.build(settings, outputs=outputs)
    side = {"ids": np.ones((1, 1), np.int32)}
    parameters = jax.jit(module.init)(jax.random.key(0), side, side, vectors)["params"]
    return InferenceModel(module, parameters, vectors)

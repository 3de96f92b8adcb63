"""The models, by the name that a config gives them.

A model is a Flax linen module: `init` creates its parameters and `apply` is a pure function of them. It takes the table
of word vectors as an argument and never stores it, so that a thousand runs share one table.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

from jaxmatch.config.settings import model_config
from jaxmatch.models.bimpm import BiMPM
from jaxmatch.models.cafe import CAFE
from jaxmatch.models.csran import CSRAN
from jaxmatch.models.decatt import DecAtt
from jaxmatch.models.diin import DIIN
from jaxmatch.models.esan import ESAN
from jaxmatch.models.esim import ESIM
from jaxmatch.models.re2 import RE2
from jaxmatch.models.siamese import Siamese
from jaxmatch.models.transformer import Transformer

MODELS = {
    "re2": RE2,
    "esan": ESAN,
    "csran": CSRAN,
    "cafe": CAFE,
    "bimpm": BiMPM,
    "diin": DIIN,
    "decatt": DecAtt,
    "esim": ESIM,
    "siamese": Siamese,
    "transformer": Transformer,
}


def build(settings: Mapping[str, Any], *, outputs: int) -> nn.Module:
    """Builds the model that the `model` part of a config describes, without parameters.

    Arguments:
      settings: `name`, a key of `MODELS`, and any of that model's fields (jaxmatch/config/models.py).
      outputs: the number of classes, or 1 in regression.

    Raises:
      InputError: the settings have an unknown name, field or value.
    """
    config = model_config(settings)
    return MODELS[config.name](config, outputs)


def count_parameters(params: Any) -> int:
    """Returns the number of trained parameters of one run, not of a cohort's stack."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
